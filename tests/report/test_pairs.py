"""Who is compared with whom: every rendering names both models, whichever came first."""

import re
from dataclasses import replace

import polars as pl
import pytest
from pages import page_report

import evalkit
from evalkit.config.form_names import TEXTS
from evalkit.errors import DataError
from evalkit.report import Comparison, Finding, Report, render
from evalkit.report.comparisons import name_tests
from evalkit.report.turning import against, turned

PAIR = Comparison(
    baseline="base", candidate="new", metric="RR", delta=0.02, std_error=0.004, low=0.012,
    high=0.028, relative=0.1, relative_low=0.05, relative_high=0.16, p_value=0.001,
    p_adjusted=0.002, effect_size=0.3, test="t", n_users=900, wins=50, ties=800, losses=40,
    margin=0.01, verdict="better", smallest_difference=0.01, users_needed=123,
)  # fmt: skip


def test_a_turned_pair_says_the_same_of_the_other_model():
    found = turned(PAIR)

    assert (found.baseline, found.candidate, found.verdict) == ("new", "base", "worse")
    assert (found.delta, found.low, found.high) == (-0.02, -0.028, -0.012)
    assert (found.wins, found.ties, found.losses) == (40, 800, 50)
    assert found.relative == pytest.approx(-0.02 / 0.22)  # of the candidate's mean, 0.2 + 0.02
    assert found.relative_low == pytest.approx(1 / 1.16 - 1)
    assert found.relative_high == pytest.approx(1 / 1.05 - 1)
    assert (found.effect_size, found.p_value, found.n_users) == (-0.3, 0.001, 900)


@pytest.mark.parametrize(
    ("verdict", "other"),
    [
        *(("better", "worse"), ("worse", "better"), ("not inferior", "cannot tell")),
        *((each, each) for each in ("equivalent", "different", "cannot tell", "not tested")),
    ],
)
def test_verdicts_are_turned(verdict, other):
    assert turned(replace(PAIR, verdict=verdict)).verdict == other


def test_what_does_not_exist_stays_away():
    pair = replace(
        PAIR, low=None, high=None, relative=-1.0, relative_low=-1.2, relative_high=-0.5, wins=None
    )

    found = turned(pair)

    assert (found.low, found.high, found.relative, found.losses) == (None, None, None, None)
    assert (found.relative_low, found.relative_high) == (None, None)
    assert str(turned(replace(PAIR, delta=0.0)).delta) == "0.0"


@pytest.mark.parametrize("format", ["screen", "table", "markdown", "html"])
def test_limits_beside_a_verdict_are_those_that_it_goes_with(format):
    report = page_report(2, 2)
    pair = replace(
        report.comparisons[0],
        delta=0.0305,
        low=0.0105,
        high=0.0505,
        low_adjusted=-0.0172,
        high_adjusted=0.0783,
        p_adjusted=0.21,
        verdict="cannot tell",
        family="primary",
        p_equivalent=0.77,
        p_not_inferior=0.031,
        low_margin=0.0123,
        high_margin=0.0482,
    )
    used = replace(report.statistics, correction="holm", n_tests=5, baseline=pair.baseline)

    found = replace(report, comparisons=(pair,), statistics=used, gates=(), primary=("nDCG@5",))
    shown = render(found, format, width=200).replace("\u2212", "-")

    told = re.sub(r"\s+", " ", shown)
    sentence = r"shows no clear difference from popularity, by \+0\.03\d+ \(-0\.017"
    wanted = {
        "screen": (sentence, "Holm over 5 tests"),
        "html": (sentence, "Holm over 5 tests", "p equivalent", "primary"),
    }
    for each in wanted.get(format, ("p equivalent", "p not inferior", "primary")):
        assert re.search(each, told), each
    assert re.search(r"-0\.017\d* … \+0\.078", told)
    if format != "screen":
        assert re.search(r"\+0\.012\d* … \+0\.048", told)
        assert {"0.770", "0.031"} <= set(re.findall(r"0\.770|0\.031", told))


def test_without_a_baseline_models_are_held_against_the_best():
    report = replace(page_report(4, 2), gates=(), primary=("nDCG@10",))
    named = report.statistics
    picked = replace(report, statistics=replace(named, baseline=None, n_tests=6))
    untested = replace(picked, comparisons=())
    best = max((e for e in report.estimates if e.metric == "nDCG@10"), key=lambda e: e.value).model

    said = " ".join(render(picked, "screen").split())
    assert f"by nDCG@10, {best} is highest of 4; " in said
    assert f"worse than {best}" in said
    assert f"paired differences to {best}, the best of all" in said
    assert " over 6 tests" in said
    assert '<p class="verdict pass">' in render(picked, "html")
    said = " ".join(render(untested, "screen").split())
    assert "was not tested" in said
    assert f"differences to {best} are not tested: --set statistics.pairs=all" in said
    assert "reference" not in said


def test_pairs_with_a_baseline_are_those_it_is_in():
    pairs = [PAIR, replace(PAIR, baseline="a", candidate="base"), replace(PAIR, baseline="a")]

    found = against(pairs, "base")

    assert [(each.baseline, each.candidate) for each in found] == [("base", "new"), ("base", "a")]


def with_baseline(place: int) -> Report:
    """A report of four models whose pairs are kept as they stood in the config."""
    report = page_report(4, 2, 4)
    used = replace(report.statistics, baseline=report.models[place])
    return replace(report, statistics=used)


@pytest.mark.parametrize("place", range(4))
def test_the_page_compares_every_model_with_the_baseline(place):
    report = with_baseline(place)
    others = [each for each in report.models if each != report.models[place]]

    page = render(report, "html")

    changes = page[page.index('id="changes"') : page.index('id="models"')]
    rows = re.findall(r'<tr><th[^>]*>([^<]+)</th><td class="text">([^<]+)</td>', changes)
    assert {candidate for candidate, _ in rows} == set(others)
    assert {baseline for _, baseline in rows} == {report.models[place]}


@pytest.mark.parametrize("place", range(4))
def test_daggers_stand_on_both_sides_of_the_baseline(place):
    report = with_baseline(place)
    sure = against(report.comparisons, report.models[place])
    sure = [each for each in sure if each.verdict in ("better", "worse")]

    latex = render(report, "latex")

    assert latex.partition("\\bottomrule")[0].count("dagger") == len(sure) > 0
    assert f"differs from {report.models[place]}, {name_tests(report.comparisons)}," in latex
    assert "auto test" not in latex


def logs() -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    users = list(range(400))
    truth = pl.DataFrame({"user": users, "item": [0] * 400})
    ranked = {}
    for number, model in enumerate(("first", "second", "third")):
        ranks = [1 + (user % (number + 2) == 0) for user in users]
        ranked[model] = pl.DataFrame({"user": users, "item": [0] * 400, "rank": ranks})
    return truth, ranked


@pytest.mark.parametrize("baseline", ["first", "second", "third"])
def test_the_baseline_of_all_pairs_is_the_baseline_of_its_own(baseline):
    truth, ranked = logs()
    asked = {"policies": {"bad_ranks": "keep"}, "metrics": ["RR"]}
    of_one = evalkit.evaluate(truth, ranked, statistics={"baseline": baseline}, **asked)
    statistics = {"baseline": baseline, "pairs": "all", "correction": "none", "margin": 0.2}

    of_all = evalkit.evaluate(truth, ranked, statistics=statistics, **asked)

    assert len(of_all.comparisons) == 3
    found = against(of_all.comparisons, baseline)
    assert found == [each for each in of_all.comparisons if each.baseline == baseline]
    for one, other in zip(of_one.comparisons, found, strict=True):
        assert (one.candidate, one.delta, one.low) == (other.candidate, other.delta, other.low)
        assert other.verdict in ("equivalent", "not inferior", "better", "worse")


def test_a_baseline_of_all_pairs_is_one_of_the_models_that_a_column_names():
    truth, ranked = logs()
    table = pl.concat(
        each.with_columns(pl.lit(name).alias("model")) for name, each in ranked.items()
    )

    with pytest.raises(DataError) as caught:
        evalkit.evaluate(
            *(truth, table),
            metrics=["RR"],
            policies={"bad_ranks": "keep"},
            statistics={"baseline": "frist", "pairs": "all"},
        )

    assert (caught.value.code, caught.value.hint) == ("unknown-model", "did you mean 'first'?")


# What a search found.


def finding(candidate: str, kind: str, number: int = 0, **more: object) -> Finding:
    delta = -0.1 + number / 1e4 if kind == "loss" else 0.1
    found = Finding(
        "base & co", candidate, "nDCG@10", "country", f"c{number}", kind,
        delta, delta - 0.01, delta + 0.01, 0.001, 0.002, 1234, 99,
    )  # fmt: skip
    return replace(found, **more)


FOUND = (finding("als", "loss"), finding("als", "gain", 1), finding("<ease>", "loss", 2))


@pytest.mark.parametrize("format", [each for each in TEXTS if each != "csv"])
def test_findings_name_both_models_in_every_form(make_report, make_estimate, format):
    report = make_report([make_estimate("als", "nDCG@10", 0.2)], findings=FOUND)

    text = render(report, format)

    for model in ("als", "ease", "base"):
        assert model in text
    for finding in FOUND:
        assert finding.segment in text
        assert f"{finding.delta:+.4f}" in text or repr(finding.delta) in text


def test_a_notebook_shows_findings(make_report, make_estimate):
    report = make_report([make_estimate("als", "nDCG@10", 0.2)], findings=FOUND)

    shown = report._repr_html_()

    assert "als against base &amp; co" in shown
    assert "&lt;ease&gt; against base &amp; co" in shown
    assert "<td>-0.0998</td>" in shown


@pytest.mark.parametrize("format", ["markdown", "html", "latex"])
def test_many_findings_are_cut_and_it_is_said_where_the_others_are(make_report, format):
    losses = [finding("als", "loss", number) for number in range(90)]
    gains = [finding("als", "gain", 100 + number) for number in range(3)]
    report = make_report([], findings=tuple(losses + gains))

    text = render(report, format)

    assert "83 more are in report.json" in text
    assert all(f"c{100 + number}" in text for number in range(3))


@pytest.mark.parametrize("format", ["table", "markdown", "html"])
def test_a_search_without_findings_says_so(make_report, format):
    report = make_report([], config={"statistics": {"search": True}})

    assert "o segment surely loses or gains" in render(report, format)
    assert "surely" not in render(replace(report, config=None), format)


def test_limits_that_do_not_exist_are_dashes(make_report):
    report = make_report([], findings=(finding("als", "loss", low=None, high=None),))

    assert "nan" not in render(report, "table")


@pytest.mark.parametrize("format", ["screen", "table", "markdown", "html"])
def test_models_that_are_alike_for_every_user_are_named_identical(format):
    report = page_report(2, 2)
    same = {"delta": 0.0, "wins": 0, "losses": 0, "ties": 900, "verdict": "cannot tell"}
    pair = replace(report.comparisons[0], metric="nDCG@5", **same)

    shown = render(replace(report, comparisons=(pair,), gates=(), primary=("nDCG@5",)), format)

    assert "identical" in shown
    assert replace(pair, wins=1, losses=1).shown_verdict == "cannot tell"


def test_forests_of_all_pairs_are_drawn_against_the_best():
    report = page_report(3, 1)
    names = (("m0", "m1"), ("m0", "m2"), ("m1", "m2"))
    pairs = [replace(PAIR, baseline=one, candidate=other) for one, other in names]
    first = replace(report.estimates[0], metric="RR", segmentation=None, segment=None)
    values = [
        replace(first, model=f"m{place}", value=value)
        for place, value in enumerate((0.1, 0.2, 0.3))
    ]
    counted = dict(zip(("m0", "m1", "m2"), report.counts.models.values(), strict=True))
    report = replace(report, counts=replace(report.counts, models=counted))
    used = replace(report.statistics, baseline=None)
    report = replace(report, estimates=tuple(values), comparisons=tuple(pairs), statistics=used)

    page = render(replace(report, gates=(), primary=("RR",)), "html")

    assert "RR: difference to m2" in page
    assert "RR: difference to m0" not in page
    assert "m2 is the best of all by RR." in page
