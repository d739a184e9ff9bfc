"""An item twice in a list, beside metrics of lists: refused or dropped, relevant or not."""

import polars as pl
import pytest

from evalkit import evaluate
from evalkit.errors import EvalkitError
from evalkit.kinds.rankings import measure as run

TRUTH = pl.DataFrame({"user": [1, 2, 3], "item": [10, 10, 10]})
NOT_RELEVANT = [(1, 5, 1), (1, 5, 2), (1, 10, 3), (1, 7, 4), (2, 10, 1), (3, 10, 1)]
RELEVANT = [(1, 5, 1), (1, 10, 2), (1, 10, 3), (1, 7, 4), (2, 10, 1), (3, 10, 1)]


def frame(rows, form):
    ranked = pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")
    if form == "rank":
        return ranked
    if form == "text":
        return ranked.with_columns(pl.col("user", "item").cast(pl.String))
    if form == "score":
        return ranked.select("user", "item", score=10.0 - pl.col("rank"))
    return ranked.sort("user", "rank").select("user", "item")


def measured(rows, form, **policies):
    truth = TRUTH.cast(pl.String) if form == "text" else TRUTH
    metrics = ["list_length@3", "hit@3"]
    return evaluate(truth, {"a": frame(rows, form)}, metrics=metrics, policies=policies)


@pytest.mark.parametrize("form", ["rank", "text", "score", "place"])
@pytest.mark.parametrize(
    ("rows", "code"), [(NOT_RELEVANT, "duplicate-in-list"), (RELEVANT, "duplicate-item")]
)
def test_a_copy_that_metrics_of_lists_look_at_is_refused(rows, code, form):
    with pytest.raises(EvalkitError) as caught:
        measured(rows, form)

    assert caught.value.code == code
    assert "1 rows list" in caught.value.message
    assert caught.value.at.endswith("user 1")


def test_a_copy_beyond_all_cutoffs_moves_no_number():
    rows = [(1, 5, 1), (1, 10, 2), (1, 7, 3), (1, 5, 4)]

    assert measured(rows, "rank").value("list_length@3") == 3.0


@pytest.mark.parametrize("form", ["rank", "text", "score", "place"])
@pytest.mark.parametrize("rows", [NOT_RELEVANT[:3], RELEVANT[:3]])
@pytest.mark.parametrize(("duplicates", "length"), [("best", 2.0), ("first", 2.0), ("count", 3.0)])
def test_copies_are_dropped_from_lists_or_stand_in_them(rows, duplicates, length, form):
    report = measured(rows, form, duplicates=duplicates)

    assert report.value("list_length@3") == length
    if length == 2.0:
        assert report.counts.models["a"].duplicates == 1


@pytest.mark.parametrize(
    "rows",
    [
        NOT_RELEVANT,
        [(1, 5, 1), (1, 5, 1), (2, 5, 1), (2, 5, 2), (3, 1, 1)],  # and a rank twice
        [*RELEVANT[:4], (2, 5, 1), (2, 5, 2), (3, 1, 1)],  # and a relevant copy
    ],
)
def test_passes_refuse_what_the_whole_refuses(rows, monkeypatch):
    told = []
    for n_passes in (1, 2, 3):
        monkeypatch.setattr(run, "count_shares", lambda *_, n=n_passes: n)
        with pytest.raises(EvalkitError) as caught:
            measured(rows, "rank")
        told.append(str(caught.value))

    assert len(set(told)) == 1


def test_each_table_is_told_of_its_own_copies():
    models = {"a": frame(RELEVANT, "rank"), "b": frame(NOT_RELEVANT, "rank")}

    with pytest.raises(EvalkitError) as caught:
        evaluate(TRUTH, models, metrics=["list_length@3", "hit@3"])

    assert [each.code for each in caught.value.errors] == ["duplicate-item", "duplicate-in-list"]


@pytest.mark.parametrize("ties", ["mean-rank", "last-rank"])
@pytest.mark.parametrize("as_text", [False, True])
def test_lists_of_equal_scores_stand_by_item_where_ranks_are_shared(ties, as_text):
    rows = [(user, item, float(item % 2)) for user in (1, 2, 3) for item in (7, 4, 5, 10, 9)]
    items = pl.DataFrame({"item": [4, 5, 7, 9, 10], "published": [1, 2, 4, 8, 16]})

    def ages(rows, ties):
        ids = pl.col("item").cast(pl.String).str.zfill(3) if as_text else pl.col("item")
        shown = pl.DataFrame(rows, schema=["user", "item", "score"], orient="row").with_columns(ids)
        report = evaluate(
            *(TRUTH.with_columns(ids), shown),
            metrics=["age@1", "age@4"],
            items={"path": items.with_columns(ids), "now": 20},
            policies={"ties": ties},
        )
        return [each.value for each in report.estimates]

    assert ages(rows, ties) == ages(rows[::-1], ties) == ages(rows, "item")
