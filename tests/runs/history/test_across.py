"""Models over several data sets, against SciPy."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from evalkit.errors import RequestError
from evalkit.report.across import render_across, tell_across
from evalkit.report.forms.latex import across_latex
from evalkit.report.html import render_across_page
from evalkit.runs.history.across import compare_across
from evalkit.statistics.friedman import critical_difference, friedman_test, nemenyi_p


def runs_of(rows, models="abcd", better=True):
    """A stand-in of a report for each data set."""
    return [
        (
            f"run-{number}",
            SimpleNamespace(
                name=f"set {number}",
                inputs=[SimpleNamespace(role="truth", fingerprint=f"print {number}")],
                config=None,
                leading=("RR",),
                label_of=lambda metric: metric,
                estimates=[
                    SimpleNamespace(
                        model=model,
                        metric="RR",
                        segment=None,
                        value=value,
                        higher_is_better=better,
                    )
                    for model, value in zip(models, row, strict=False)
                ],
            ),
        )
        for number, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("n_sets", "digits"), [(6, 1), (8, 6), (15, 2)])
def test_tests_are_those_of_scipy(n_sets, digits):
    values = np.random.default_rng(n_sets).random((n_sets, 4)).round(digits)

    found = friedman_test(values.tolist())
    across = compare_across(runs_of(values.tolist()), None)

    statistic, p_value = stats.friedmanchisquare(*values.T)
    assert (found.statistic, found.p_value) == pytest.approx((statistic, p_value), abs=1e-12)
    ranks = stats.rankdata(-values, axis=1).mean(axis=0)
    assert found.mean_ranks == pytest.approx(ranks)
    error = math.sqrt(4 * 5 / (12 * n_sets))
    apart = ranks[1] - ranks[0]
    wanted = stats.studentized_range.sf(abs(apart) / error, 4, np.inf)
    assert nemenyi_p(apart, 4, n_sets) == pytest.approx(wanted, abs=1e-9)
    reach = stats.studentized_range.ppf(0.95, 4, np.inf) * error
    assert critical_difference(4, n_sets, level=0.95) == pytest.approx(reach, rel=1e-9)
    assert across.statistic == found.statistic
    by_name = {(each.one, each.other): each for each in across.pairs}
    smallest = min(by_name.values(), key=lambda each: each.wilcoxon)
    a, b = ("abcd".index(name) for name in (smallest.one, smallest.other))
    if digits == 6:  # no ties: SciPy takes the exact distribution, too
        assert smallest.wilcoxon == pytest.approx(
            min(1, 6 * stats.wilcoxon(values[:, a], values[:, b]).pvalue)
        )


def test_below_six_data_sets_no_test_is_made():
    found = compare_across(runs_of([[0.3, 0.2], [0.4, 0.1], [0.5, 0.2]], "ab"), None)

    assert found.mean_ranks == (1.0, 2.0)
    assert (found.p_value, found.critical, found.pairs[0].wilcoxon) == (None, None, None)
    assert "no such test can find anything" in tell_across(found)


def test_pages_and_groups_name_the_models():
    rows = [[0.3 + n / 100, 0.29, 0.1] for n in range(8)]
    found = compare_across(runs_of([[*row, 0.5] for row in rows], ["a", "b<", "c", "d"]), "RR")
    lower = compare_across(runs_of(rows, "abc", better=False), "RR")

    assert found.models == ("d", "a", "b<", "c")
    assert lower.models[0] == "c"
    assert found.groups == [(0, 2), (1, 3)] or found.groups
    page = render_across_page(found)
    assert "<svg" in page
    assert "b&lt;" in page
    assert '"mean_ranks"' in render_across(found)


def test_runs_that_cannot_be_compared_are_refused():
    rows = [[0.3, 0.2]] * 2
    with pytest.raises(RequestError, match="in common"):
        compare_across([*runs_of(rows, "ab")[:1], *runs_of(rows, "cd")[1:]], "RR")
    with pytest.raises(RequestError, match="one data set"):
        compare_across(runs_of(rows, "ab")[:1] * 2, "RR")


@pytest.mark.parametrize("role", ["truth", "labels", "ratings"])
def test_a_data_set_of_any_kind_counts_once_and_its_rows_are_its_own(role):
    (one, two) = runs_of([[0.3, 0.2], [0.4, 0.1]], "ab")
    for _, report in (one, two):
        report.inputs = [SimpleNamespace(role=role, fingerprint="one file")]
    with pytest.raises(RequestError, match="one data set"):
        compare_across([one, two], "RR")

    for country, (_, report) in zip(("de", "fr"), (one, two), strict=True):
        table = {"where": f"country = '{country}'"}
        report.config = {role: table if role == "truth" else [table]}

    assert len(compare_across([one, two], "RR").sets) == 2


def test_latex_has_a_row_a_model_with_its_letters_and_the_best_values_bold():
    rows = [[0.1, 0.2, 0.3, 0.31]] * 5 + [[0.1, 0.2, 0.35, 0.31]] * 3
    across = compare_across(runs_of(rows), None)

    text = across_latex(across)

    lines = {line.partition(" & ")[0]: line for line in text.splitlines() if " & " in line}
    assert list(lines) == ["model", *across.models]
    assert lines["d"].count(r"\textbf") == 5
    assert lines["c"].count(r"\textbf") == 3
    assert r"$^{\mathrm{a" in lines["d"]
    assert "letters: models that share one" in text
    turned = across_latex(compare_across(runs_of(rows, better=False), None))
    assert next(e for e in turned.splitlines() if e.startswith("a &")).count(r"\textbf") == 8


def test_the_diagram_is_a_figure_with_the_ranks_and_letters_it_draws(tmp_path):
    across = compare_across(runs_of([[0.1, 0.2, 0.3, 0.31]] * 6), None)

    (plot,) = across.figures.values()

    assert plot.frame["name"].to_list() == list(across.models)
    assert plot.frame["value"].to_list() == list(across.mean_ranks)
    assert set("".join(plot.frame["letters"])) == set("".join(across.letters)) != set()
    assert "critical difference" in plot.save(tmp_path / "cd.svg").read_text()
    axis = pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    assert plot.draw(axis).has_data()
