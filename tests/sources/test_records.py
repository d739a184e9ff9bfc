"""Lists of records of items and scores, as Spark's ALS writes them, are read at every entry."""

import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError

TRUTH = pl.DataFrame({"user": [1, 2], "item": [10, 20]})


def recommended(item="item", score="rating", sign=1.0):
    """User 1 has item 10 first, user 2 has item 20 second."""
    pairs = {1: [(10, 0.5), (30, 0.4), (40, 0.3)], 2: [(30, 0.9), (20, 0.4)], 3: []}
    rows = [[{item: i, score: sign * s} for i, s in each] for each in pairs.values()]
    record = pl.Struct({item: pl.Int64, score: pl.Float32})
    return pl.DataFrame({"user": list(pairs)}).with_columns(
        recommendations=pl.Series(rows, dtype=pl.List(record))
    )


def value(ranked, **more):
    return evalkit.evaluate(TRUTH, {"m": ranked}, metrics=["RR"], **more).estimates[0].value


@pytest.mark.parametrize(
    ("item", "score"),
    [("item", "rating"), ("movieId", "rating"), ("item_id", "score"), ("_1", "_2"), ("a", "b")],
)
def test_records_are_lists_of_items_and_of_scores(tmp_path, item, score):
    ranked = recommended(item, score)
    ranked.write_parquet(tmp_path / "als.parquet")

    report = evalkit.evaluate(TRUTH, {"m": ranked}, metrics=["RR"])

    assert report.estimates[0].value == 0.75
    assert value(tmp_path / "als.parquet") == 0.75
    assert [each.ranked_by for each in report.inputs if each.role == "rankings"] == ["score"]


def test_scores_of_records_rank_not_their_places():
    turned = recommended(sign=-1.0)  # the last of a list has the largest score

    assert value(turned) == pytest.approx((1 / 3 + 1) / 2)


def test_records_alone_are_lists_in_order():
    ranked = recommended().with_columns(
        pl.col("recommendations").list.eval(pl.struct(pl.element().struct.field("item")))
    )

    assert value(ranked) == 0.75


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"a": 1, "b": 2}, "which of them is the item"),
        ({"item": 1, "rank": 2}, "whether rank ranks them"),
        ({"item": 1, "x": 0.5, "y": 0.5}, "which of them is the score"),
    ],
)
def test_records_that_mean_two_things_are_refused(fields, why):
    ranked = pl.DataFrame({"user": [1], "item": [[fields]]})

    with pytest.raises(DataError, match=why) as caught:
        value(ranked)

    assert caught.value.code == "ambiguous-column"
