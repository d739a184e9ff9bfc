"""What the page says of metrics of lists; the table in docs/lists.md is of the declarations."""

import runpy
from pathlib import Path

import polars as pl
import pytest

from evalkit import evaluate
from evalkit.report.html._scale import Scale

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_is_up_to_date():
    page = (DOCS / "lists.md").read_text(encoding="utf-8")
    made = runpy.run_path(str(DOCS / "make_lists.py"))["written"](page)

    assert made == page, "python docs/make_lists.py writes it anew"


def test_a_trade_says_where_lower_is_better():
    truth = pl.DataFrame({"user": [1, 2, 3], "item": [1, 2, 3]})
    models = {
        name: pl.DataFrame({"user": [1, 2, 3], "item": shown, "rank": [1, 1, 1]})
        for name, shown in {"a": [1, 2, 9], "b": [1, 1, 1], "c": [4, 5, 6]}.items()
    }
    items = pl.DataFrame({"item": range(1, 10)})
    page = evaluate(
        truth, models, metrics=["nDCG@1", "gini@1", "item_coverage@1"], items=items
    ).to_html()

    assert "gini@1 (lower is better) by nDCG@1" in page
    assert "item_coverage@1 by nDCG@1" in page


@pytest.mark.parametrize("low", [0.061, 0.0, -3.2, 99.1])
@pytest.mark.parametrize("span", [0.0812, 0.0101, 1.9, 880.0])
def test_an_axis_has_two_numbers_at_least(low, span):
    ticks = Scale(low, low + span, 0.0, 100.0).ticks(3)

    assert 2 <= len(ticks) <= 7
    assert low <= ticks[0] < ticks[-1] <= low + span
