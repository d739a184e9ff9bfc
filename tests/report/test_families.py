"""Every verdict says what it was corrected with, on screen, page, LaTeX and Markdown."""

import polars as pl
import pytest

import evalkit
from evalkit.report.comparisons import how_corrected


@pytest.fixture(scope="module")
def report():
    n = 400
    truth = pl.DataFrame({"user": range(n), "item": range(n), "half": ["a", "b"] * (n // 2)})
    rankings = {
        name: pl.DataFrame(
            [
                (user, user if place == 1 + (user * factor) % 4 else -place, place)
                for user in range(n)
                for place in range(1, 4)
            ],
            schema=["user", "item", "rank"],
            orient="row",
        )
        for name, factor in (("old", 1), ("new", 2), ("other", 5))
    }
    return evalkit.evaluate(
        truth,
        rankings,
        metrics=["nDCG@3", "RR", "hit@1"],
        primary=["nDCG@3"],
        segments={"half": {"by": "half"}},
        statistics={"baseline": "old"},
    )


def test_primary_metrics_others_and_segments_are_families_apart(report):
    sizes = {each.family: each.family_size for each in report.comparisons}

    assert sizes == {"primary": 2, "exploratory": 4, "by half": 12}


def test_what_is_said_beside_comparisons_is_their_own_family(report):
    used, pairs = report.statistics, report.comparisons
    overall = [each for each in pairs if each.segment is None]

    assert how_corrected(used, overall[:1]) == "Holm over 2 tests"
    assert how_corrected(used, overall) == "Holm over 2 tests (primary); 4 tests (exploratory)"
    segments = [each for each in pairs if each.segment is not None]
    assert how_corrected(used, segments) == "Holm over 12 tests"


def test_every_form_says_the_families(report):
    latex, markdown, page = report.to_latex(), report.to_markdown(), report.to_html()

    assert latex.count("% primary: nDCG@3") == 1  # over all users alone
    assert "Holm over 12 tests" in latex
    assert "Holm over 2 tests (primary); 4 tests (exploratory)" in markdown.replace("\\", "")
    assert "primary, 2" in markdown
    assert "Holm over 2 tests (primary); 4 tests (exploratory)" in page
    assert "by half" in page
    assert "12 tests (by half)" in page
