"""Figures by name: SVG that stands alone, its data, files by their endings, axes of matplotlib."""

import re
from dataclasses import replace

import polars as pl
import pytest
from pages import page_report

from evalkit.errors import RequestError
from evalkit.report import PerUser, Standing
from evalkit.report.differences import user_differences


@pytest.fixture(scope="module")
def figures():
    return page_report(3, 4).figures


def test_every_picture_of_the_page_has_a_name_and_the_data_it_draws(figures):
    page = page_report(3, 4).to_html()
    drawn = re.findall(r'<svg viewBox[^>]*role="img"', page)

    assert len(figures) == len(drawn) > 3
    assert all(each.frame.height > 0 and each.startswith("<svg") for each in figures.values())


def test_a_forest_holds_the_limits_that_verdicts_go_with():
    report = page_report(3, 4)
    pair = next(each for each in report.comparisons if each.segment is None)
    title = next(each for each in report.figures if each.endswith(f"difference to {pair.baseline}"))

    rows = report.figures[title].frame.filter(name=pair.candidate).to_dicts()

    assert rows[0]["model"] == pair.candidate
    assert (rows[0]["low"], rows[0]["high"]) == pair.judged_limits


def test_files_have_fixed_colours_and_a_named_font(figures, tmp_path):
    plot = next(iter(figures.values()))

    text = plot.save(tmp_path / "x.svg").read_text()

    assert "var(--" not in text and "@media" not in text  # noqa: PT018
    assert "DejaVu Sans" in text and "stroke:#" in text  # noqa: PT018
    assert "prefers-color-scheme" in plot  # in a notebook, as the reader has it


@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [("x.pdf", "missing-extra", "figures"), ("x.jpg", "unknown-format", ".svg, .pdf or .png")],
)
def test_no_file_holds_what_its_ending_does_not_say(
    figures, tmp_path, monkeypatch, name, code, hint
):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)

    with pytest.raises(RequestError) as caught:
        next(iter(figures.values())).save(tmp_path / name)

    assert caught.value.code == code
    assert hint in caught.value.hint
    assert not (tmp_path / name).exists()


def test_a_name_that_is_none_is_refused_with_the_nearest(figures):
    name = next(iter(figures))

    with pytest.raises(RequestError, match="has no figure") as caught:
        figures[name[:-1]]

    assert repr(name) in caught.value.hint


def test_all_are_drawn_on_a_given_axis(figures):
    figure = pytest.importorskip("matplotlib.figure").Figure()

    for name, plot in figures.items():
        axis = plot.draw(figure.add_subplot())
        assert name.startswith(axis.get_title())
        assert axis.has_data()


def test_a_table_for_a_paper_has_caption_label_digits_metrics_and_order():
    report = page_report(3, 4)
    metrics, models = report.labels[1::-1], report.models[::-1]

    text = report.to_latex(
        metrics=metrics, order=models, digits=3, caption=r"Ranks of \emph{all}", label="tab:all"
    )

    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("model &"))
    rows = [line for line in lines if line.partition(" & ")[0] in models]
    assert head.removesuffix(r" \\").split(" & ") == ["model", *metrics]
    assert [row.partition(" & ")[0] for row in rows] == list(models)
    assert set(re.findall(r"0\.(\d+)", "".join(rows))) == set(re.findall(r"0\.(\d{3})\b", text))
    assert lines[:4] == [
        *(r"\begin{table}", r"\centering", r"\caption{Ranks of \emph{all}}", r"\label{tab:all}")
    ]
    assert lines[-1] == r"\end{table}"
    assert text.count(r"\begin{tabular}") == 1
    with pytest.raises(RequestError):
        report.to_latex(order=["nobody"])


@pytest.mark.parametrize("digits", [-1, 2.5, True, 99])
def test_a_table_for_a_paper_takes_one_name_and_decimals_that_there_are(digits):
    report = page_report(2, 2)

    one = report.to_latex(metrics=report.labels[0], order=report.models[1], digits=2)
    with pytest.raises(RequestError) as error:
        report.to_latex(digits=digits)

    assert one == report.to_latex(metrics=report.labels[:1], order=report.models[1:], digits=2)
    assert error.value.code == "out-of-range"


def test_letters_of_all_pairs_stand_in_latex():
    report = page_report(3, 4)
    names = report.models
    standing = Standing("nDCG@5", tuple(zip(names, (3.0, 2.0, 1.0), ("a", "ab", "b"), strict=True)))

    text = replace(report, standings=(standing,)).to_latex(metrics=["nDCG@5"])

    assert [*re.findall(r"mathrm\{(\w+)\}", text)] == ["a", "ab", "b"]
    assert "% letters: models that share one cannot be told apart" in text


def test_the_frame_has_a_row_for_each_number_and_its_difference_to_the_baseline():
    report = page_report(3, 4)
    pair = next(each for each in report.comparisons if each.segment is None)

    frame = report.frame

    assert frame.height == len(report.estimates)
    place = {"model": pair.candidate, "label": pair.metric}
    (row,) = frame.filter(pl.col("segment").is_null(), **place).to_dicts()
    assert (row["baseline"], row["delta"], row["verdict"]) == (
        *(pair.baseline, pair.delta, pair.verdict),
    )
    assert frame.filter(model=pair.baseline)["delta"].null_count() == len(
        [each for each in report.estimates if each.model == pair.baseline]
    )


def with_users(values, **more):
    """A report of two models with values of users, by model."""
    report = page_report(2, 4)
    frames = {
        model: pl.DataFrame({"user": range(len(each)), "nDCG@5": each})
        for model, each in zip(report.models, values, strict=True)
    }
    estimates = tuple(replace(each, **more) for each in report.estimates)
    return replace(
        report,
        estimates=estimates,
        per_user_values=PerUser(("user",), ("nDCG@5",), frames),
    )


@pytest.mark.parametrize(
    ("higher", "gain", "lose", "first"), [(True, 0.5, 0.25, 0.4), (False, 0.25, 0.5, -0.3)]
)
def test_differences_of_users_are_sorted_and_say_who_gains(higher, gain, lose, first):
    one, other = [0.1, 0.5, 0.2, 0.3, float("nan")], [0.5, 0.2, 0.2, 0.4, 0.1]
    report = with_users([one, other], higher_is_better=higher)
    baseline, candidate = report.models

    found = user_differences(report, "nDCG@5", baseline, candidate, lower_is_better=not higher)

    assert (found.n_users, found.gain, found.same, found.lose) == (4, gain, 0.25, lose)
    assert [at for at, _ in found.points] == [0.125, 0.375, 0.625, 0.875]
    assert found.points[0][1] == pytest.approx(first)
    title = f"nDCG@5 user by user: {candidate} less {baseline}"
    assert report.figures[title].frame.height == 4
    assert f"{gain:.1%} gain, 25.0% the same, {lose:.1%} lose, of 4 users" in report.to_html()


def test_a_heat_map_has_a_cell_for_each_segment_and_model():
    report = page_report(3, 5)
    (name,) = [each for each in report.figures if "by activity and model" in each]

    cells = report.figures[name].frame.to_dicts()

    wanted = {
        (each.segment, each.model): each.value
        for each in report.estimates
        if each.segmentation == "activity" and each.metric == report.leading[0]
    }
    assert {(each["name"], each["model"]): each["value"] for each in cells} == wanted


def test_a_picture_is_asked_of_what_has_pictures(tmp_path):
    with pytest.raises(RequestError) as caught:
        page_report(2, 0, 2).save(tmp_path / "x.pdf")

    assert caught.value.code == "unknown-format"
    assert "report.plot().save(" in caught.value.hint
