"""Table, Markdown, CSV, Parquet, HTML: what a person sees, and what a name cannot do to them."""

import csv
import errno
import math
import re
from io import BytesIO, StringIO
from typing import get_args, get_type_hints

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.cli.options import Format
from evalkit.cli.report import report as report_command
from evalkit.config import OutputSection
from evalkit.config.form_names import FILES, FORMATS, TEXTS
from evalkit.errors import MachineError, RequestError
from evalkit.report import (
    Comparison,
    Finding,
    StatisticsUsed,
    Warning_,
    render,
    write_metrics_parquet,
)
from evalkit.report.comparisons import comparison_lines, finding_lines
from evalkit.report.frames import spell_numbers
from evalkit.report.parquet import OF_RUN
from evalkit.report.screen import render_screen
from evalkit.report.text import display_width, show_level

HOSTILE = [
    "\x1b[31mred\x1b]0;title\x07",
    "two\nlines\r\tand tab",
    "a|b`c*d_e_[f](http://x.y)<script>alert(1)</script>&amp;@me #1",
    "=HYPERLINK(1)",
    "+1",
    "-1",
    "@sum",
    "\u202eright to left",
    "\x9b31mC1",
    "undecodable\udc80",
    "模型" * 40,
    "e\u0301" * 60,
    "x" * 300,
    "",
]


@pytest.fixture
def hostile(make_report, make_estimate):
    metrics = ["nDCG@10", "precision(over='length', and_more='than a line can ever hold')@5", "RR"]
    estimates = [
        make_estimate(name, metric, number / 7)
        for number, name in enumerate(HOSTILE)
        for metric in metrics
    ]
    warnings = tuple(Warning_("odd" * 40, f"{name} is odd " * 9, name) for name in HOSTILE)
    return make_report(estimates, warnings=warnings, name=HOSTILE[2])


def test_table_shows_numbers_marks_and_counts(report):
    assert render(report, "table") == (
        "nightly (profile evalkit)\n"
        "\n"
        "model       users   nDCG@10   recall@20   first_hit_rank\n"
        "als            90  0.250000*   0.500000           3.5000*\n"
        "popularity     90  0.125000           -           7.2500\n"
        "* best\n"
        "first_hit_rank stands on fewer users: 60 of als, 50 of popularity\n"
        "\n"
        "truth: 1,000 rows; 990 used; dropped: 10 null ids; 100 users; 900 pairs;\n"
        "  10 users without relevant items\n"
        "als: 5,000 rows; 4,900 used; dropped: 100 null ids; 100 users; depth 50;\n"
        "  3 users without ranking; 2 duplicates among relevant items;\n"
        "  1 user with gaps or repeats of ranks\n"
        "popularity: 5,000 rows; 4,900 used; dropped: 100 null ids; 100 users; depth 50;\n"
        "  3 users without ranking; 2 duplicates among relevant items;\n"
        "  1 user with gaps or repeats of ranks\n"
        "warning[cutoff-beyond-depth]: recall@20 needs 20 ranks (als)\n"
    )


def test_a_screen_heads_every_table_where_users_differ(make_report, make_estimate):
    estimates = [
        make_estimate(model, metric, 0.5, n_users=100 if metric == "coverage" else 90)
        for model in ("a", "b")
        for metric in ("RR", "AP", "hit@1", "coverage")
    ]
    used = {"level": 0.975, "method": "normal", "test": "t", "correction": "holm", "n_tests": 0}
    used |= {"family": "all", "power": 0.8}
    used |= dict.fromkeys(("baseline", "margin", "replicates", "seed"))
    report = make_report(estimates, statistics=StatisticsUsed(**used))
    screen = render_screen(report, width=80, color=False)
    assert "90 users; 97.5% intervals" in screen
    assert re.search(r"^model +users +AP +hit@1 +coverage$", screen, re.MULTILINE)
    assert screen.count("on fewer users") == 1
    assert "AP, hit@1 stand on fewer users: 90 of a, 90 of b" in screen


@pytest.mark.parametrize(
    ("level", "shown"),
    [(0.95, "95%"), (0.975, "97.5%"), (1 - 0.05 / 3, "98.33%"), (1 - 0.05 / 1000, "99.995%")],
)
def test_a_level_is_not_rounded_away(level, shown):
    assert show_level(level) == shown


def test_users_are_said_once_when_every_number_stands_on_the_same(make_report, make_estimate):
    report = make_report([make_estimate("a", "RR", 0.5), make_estimate("b", "RR", 0.25)])

    table = render(report, "table")

    assert table.count("90 users") == 1
    assert "users  " not in table


@pytest.mark.parametrize("width", [1, 40, 63, 80, 200])
@pytest.mark.parametrize("color", [False, True])
def test_no_line_of_the_table_is_wider_than_asked(hostile, width, color):
    table = re.sub(r"\x1b\[(1|33|0)m", "", render(hostile, "table", width=width, color=color))

    assert max(display_width(line) for line in table.splitlines()) <= max(width, 40)


def test_wide_report_splits_into_blocks_that_fit_80_columns(make_report, make_estimate):
    metrics = [f"nDCG@{cutoff}" for cutoff in range(1, 31)]
    table = render(make_report([make_estimate("als", each, 0.5) for each in metrics]), "table")

    lines = table.splitlines()

    assert max(map(len, lines)) <= 80
    assert [each for line in lines for each in re.findall(r"nDCG@\d+", line)] == metrics


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_names_cannot_command_a_terminal(hostile, format):
    text = render(hostile, format)

    assert not [each for each in text if each != "\n" and not each.isprintable()]
    text.encode()


def test_color_is_bold_for_the_best_value_and_off_unless_asked(report):
    assert "\x1b[1m0.250000*\x1b[0m" in render(report, "table", color=True)
    assert "\x1b" not in render(report, "table")


def test_smaller_is_best_where_the_metric_says_so(make_report, make_estimate):
    report = make_report(
        [make_estimate("a", "first_hit_rank", 2.0), make_estimate("b", "first_hit_rank", 1.0)]
    )

    assert "1.0000*" in render(report, "table")
    assert "2.0000*" not in render(report, "table")


@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5), (math.nan, 0.5), (math.nan, math.nan)])
def test_nothing_is_best_where_there_is_no_choice(make_report, make_estimate, values):
    models = "abc"
    report = make_report(
        [make_estimate(model, "RR", value) for model, value in zip(models, values, strict=False)]
    )

    assert "*" not in render(report, "table")


def test_all_models_with_the_best_value_are_marked(make_report, make_estimate):
    report = make_report([make_estimate(m, "RR", v) for m, v in zip("abc", (1, 1, 0), strict=True)])

    assert render(report, "table").count("1.000000*") == 2


def test_direction_that_nobody_knows_is_not_guessed(make_report, make_estimate):
    report = make_report(
        [make_estimate(m, "own", v, higher_is_better=None) for m, v in [("a", 0.5), ("b", 1.0)]]
    )

    assert "*" not in render(report, "table")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.176493, "0.176493"),
        (1.0, "1.000000"),
        (-0.0, "0.000000"),
        (12.3456789, "12.3457"),
        (123456.789, "123456.79"),
        (0.0000123456, "1.2346e-05"),
        (1e300, "1.0000e+300"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_values_show_what_can_be_read(make_report, make_estimate, value, shown):
    table = render(make_report([make_estimate("a", "CG@5", value)]), "table")

    assert re.search(rf"^a +{re.escape(shown)}$", table, re.MULTILINE)


def test_long_names_stay_apart_when_they_are_cut(make_report, make_estimate):
    names = [f"{'model' * 20}{number}{'x' * 60}" for number in range(3)]
    table = render(make_report([make_estimate(name, "RR", 0.5) for name in names]), "table")

    rows = [line.split()[0] for line in table.splitlines() if line.endswith("0.500000")]

    assert len(set(rows)) == 3


def test_segments_have_tables_of_their_own(make_report, make_estimate):
    report = make_report(
        [
            make_estimate("a", "RR", 0.5),
            make_estimate("a", "RR", 0.25, segmentation="age", segment="new", n_users=7),
        ]
    )

    assert "age = new: 7 users" in render(report, "table")
    assert "## age = new" in render(report, "markdown")


def test_markdown_rows_keep_their_cells_whatever_the_names(hostile):
    text = render(hostile, "markdown")

    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}

    assert cells == {5, 3}  # the numbers; the counts
    assert "<" not in text
    assert "http://" not in text


def test_markdown_marks_the_best_and_lists_warnings(report):
    text = render(report, "markdown")

    assert "| model | nDCG@10 | recall@20 | first_hit_rank | users |" in text
    assert "| als | **0.250000** | 0.500000 | **3.5000** | 90 |" in text
    assert "- **cutoff-beyond-depth**: recall@20 needs 20 ranks (als)" in text


def test_markdown_begins_with_the_verdict_then_the_models_with_their_intervals(
    make_report, make_estimate
):
    found = [
        make_estimate("worse", "RR", 0.25, low=0.2, high=0.3),
        make_estimate("best", "RR", 0.5, low=0.45, high=0.55),
        make_estimate("best", "RR", 0.75, segmentation="age", segment="new"),
    ]
    lines = [each for each in render(make_report(found), "markdown").splitlines() if each]

    assert lines[1].startswith("**By RR, best is highest, 0.500")
    assert lines[5:7] == [
        "| best | **0.500** (0.450 … 0.550) |",
        "| worse | 0.250 (0.200 … 0.300) |",
    ]
    assert lines.index("## age = new") > lines.index(lines[6])


def test_csv_cells_are_no_formulas(hostile):
    rows = list(csv.DictReader(StringIO(render(hostile, "csv"), newline="")))

    assert len(rows) == len(HOSTILE) * 3
    for row in rows:
        texts = (row[name] for name in ("model", "metric", "name", "parameters"))
        assert not any(text.startswith(("=", "+", "-", "@", "\t", "\r")) for text in texts)
    assert {"'=HYPERLINK(1)", "'+1", "'-1", "'@sum"} <= {row["model"] for row in rows}


def test_csv_holds_what_parquet_holds(report):
    text = StringIO(render(report, "csv"))

    read = pl.read_csv(text, schema=report.metrics.schema)

    assert read.equals(report.metrics)


def test_negative_number_is_no_formula(make_report, make_estimate):
    report = make_report([make_estimate("a", "DCG@5", -0.5)])

    assert ",-0.5," in render(report, "csv")


def test_parquet_is_the_metrics_frame_and_the_same_bytes_each_time(hostile, tmp_path):
    first, second = BytesIO(), BytesIO()
    write_metrics_parquet(hostile, first)
    write_metrics_parquet(hostile, second)
    write_metrics_parquet(hostile, tmp_path / "metrics.parquet")

    assert first.getvalue() == second.getvalue()
    read = pl.read_parquet(tmp_path / "metrics.parquet")
    assert read.drop(*OF_RUN, "caveats").equals(hostile.metrics)
    assert read["caveats"].null_count() == read.height  # it has none
    assert read["run_id"].unique().to_list() == [hostile.run_id]
    assert f"{read['started'][0]:%Y-%m-%dT%H:%M:%S}" == hostile.meta.started[:19]


def test_notebook_table_escapes_every_name(hostile):
    html = hostile._repr_html_()

    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html


@pytest.mark.parametrize("format", TEXTS)
def test_report_without_numbers_renders(make_report, format):
    assert render(make_report([]), format).endswith("\n")


@pytest.mark.parametrize("format", TEXTS)
def test_rendering_twice_gives_the_same_text(hostile, format):
    assert render(hostile, format) == render(hostile, format)


def test_unknown_format_names_the_nearest(report):
    with pytest.raises(RequestError, match="'markdwon'") as caught:
        render(report, "markdwon")

    assert caught.value.code == "unknown-format"
    assert "'markdown'" in caught.value.hint


def test_text_of_a_report_is_its_table(report):
    assert f"{report}\n" == render(report, "screen")
    assert len(repr(report)) < 200


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_names_are_cut_in_a_table_of_differences_and_numbers_are_not(make_report, width, power):
    names = ("a", "a model with a name that is longer than any that one should give it")
    metrics = ("nDCG@20", "precision(over='length', gain='exp2')@20")
    rows = [
        Comparison(
            baseline="base", candidate=name, metric=metric, delta=-0.02051, std_error=0.001,
            low=-0.0253, high=-0.01572, relative=-0.1, relative_low=-0.2, relative_high=-0.05,
            p_value=0.0004, p_adjusted=0.0008, effect_size=-0.1, test="t", n_users=2000, wins=1,
            ties=2, losses=3, margin=0.01, verdict="not inferior", smallest_difference=0.00685,
            users_needed=123_456,
        )
        for name in names
        for metric in metrics
    ]  # fmt: skip

    lines = comparison_lines(make_report([], comparisons=tuple(rows)), width=width, power=power)

    numbers = {"-0.02051", "-0.02530", "-0.01572", "<0.001"}
    numbers |= {"0.00685", "123,456"} if power else set()
    assert max(map(display_width, lines)) <= width
    assert len(lines) == 3 + len(rows)
    for line in lines[3:]:
        found = set(line[line.index("-0.02051") :].removesuffix("not inferior").split())
        assert found <= numbers
        assert width < 120 or found == numbers


def test_names_of_segments_found_are_cut_and_numbers_are_not(make_report):
    found = Finding(
        "a", "b", "nDCG@20", "country & activity", "Germany & more than ten items a week", "loss",
        -0.1234, -0.2, -0.01, 0.001, 0.002, 1_234_567, 9,
    )  # fmt: skip

    lines = finding_lines(make_report([], findings=(found,)), width=60)

    assert max(map(display_width, lines[2:])) <= 60
    assert lines[-1].split()[-4:] == ["-0.1234", "-0.2000", "-0.0100", "1,234,567"]


def test_one_table_names_the_forms_of_a_report():
    """A config and options write them out, for editors and for types."""
    of_config = get_args(get_type_hints(OutputSection)["formats"])[0]
    of_options = get_args(get_args(Format)[0])[0]
    of_report = get_type_hints(report_command)["format"]

    assert set(get_args(of_config)) == set(FILES)
    assert set(get_args(of_options)) == set(TEXTS)
    assert set(get_args(of_report)) == set(FORMATS)


def test_the_screen_tells_two_warnings_of_a_code_and_how_many_more(make_report, make_estimate):
    models = [f"m{each}" for each in range(5)]
    warnings = tuple(Warning_("odd", f"the lists of {name!r} are odd", name) for name in models)
    report = make_report([make_estimate("m0", "RR", 0.5)], warnings=warnings)

    screen = render_screen(report, width=80, color=False)
    assert screen.count("warning[odd]") == 2
    assert "'m1' are odd; and 3 more such warnings" in screen
    assert render(report, "table").count("warning[odd]") == 5


def test_models_with_the_same_numbers_are_told_so():
    truth = {user: [user % 3, user % 7] for user in range(30)}
    lists = {user: [user % 3, 9, 10 + user % 5] for user in range(30)}
    models = {"a": {user: [9, user % 7] for user in range(30)}, "b": lists, "c": dict(lists)}

    report = evalkit.compare(truth, models, metrics=["nDCG@3", "RR"])

    for form in ("table", "markdown", "html", "latex"):
        assert "c: the same numbers as b" in render(report, form)


def test_many_numbers_are_spelled_as_each_is():
    rng = np.random.default_rng(1)
    ends = [m * 10.0**e for e in range(-20, 23) for m in (1.0, 0.9999999999999999, 1.5)]
    twos = [2.0**each for each in range(-1074, 1024)]
    drawn = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64).tolist()
    usual = (10.0 ** rng.uniform(-12.0, 18.0, 20_000)).tolist()
    numbers = [*ends, *twos, *drawn, *usual, 0.0, -0.0, math.nan, math.inf, -math.inf]
    numbers += [-each for each in numbers]

    assert spell_numbers([*numbers, None], repr) == [*map(repr, [*numbers, None])]
    assert spell_numbers([None] * 300, repr) == ["None"] * 300


def test_limits_that_nobody_knows_are_no_numbers(tmp_path):
    one = {"u": ["a"]}
    lists = {"m": {"u": ["a", "b"]}, "n": {"u": ["b", "a"]}}
    asked = {"metrics": ["nDCG@2", "first_hit_rank@1"], "statistics": {"baseline": "m"}}
    report = evalkit.evaluate(one, lists, **asked)

    report.save(tmp_path / "report.json")
    again = evalkit.load(tmp_path / "report.json")

    assert report.to_markdown() == again.to_markdown()
    assert str(report) == str(again)
    assert "nan" not in (report.to_markdown() + str(report)).lower()


@pytest.mark.parametrize(("name", "cell"), [("*best*", "{*}best*"), ("[1] als", "{[}1] als")])
def test_a_name_is_no_option_of_the_row_before_it_in_latex(name, cell):
    report = evalkit.evaluate({"u": ["a"]}, {name: {"u": ["a"]}}, metrics=["RR"])

    assert f"\n{cell} & " in report.to_latex()  # \\* and \\[ are commands of their own


@pytest.mark.parametrize("ending", ["html", "md", "json", "parquet", "svg"])
def test_what_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch, ending):
    report = evalkit.evaluate({"u": ["a"]}, {"m": {"u": ["a"]}}, metrics=["RR"])
    saved = report.plot() if ending == "svg" else report
    file = tmp_path / f"report.{ending}"
    file.write_bytes(b"what was there")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", refuse)
        with pytest.raises(MachineError, match="no space"):
            saved.save(file)

    assert [*tmp_path.iterdir()] == [file]
    assert file.read_bytes() == b"what was there"
    saved.save(file)
    assert len(file.read_bytes()) > 100
    with pytest.raises(RequestError, match="no file can be written there") as refused:
        saved.save(tmp_path / "none" / file.name)
    assert refused.value.hint == "name a file in a folder that exists"
