"""Scores of any type of numbers are put in order, and looked at, as the numbers that they are."""

import polars as pl
import pytest

import evalkit

TYPES = [pl.UInt8, pl.Int64, pl.UInt64, pl.Int128, pl.Decimal(10, 2)]
POLICIES = [
    {},
    {"score_type": "float32"},
    {"score_type": "float32", "ties": "expected"},
    {"score_type": "float32", "duplicates": "best"},
    {"nonpositive_scores": "miss"},
    {"ties": "numba"},
    {"ties": "mean-rank"},
]
TRUTH = {1: ["c", "a"], 2: ["b"]}


def values(scores, policies, *, as_lists):
    ranked = pl.DataFrame({"user": [1] * 4 + [2] * 3, "item": list("abcdabc"), "score": scores})
    ranked = ranked.group_by("user").all() if as_lists else ranked
    report = evalkit.evaluate(TRUTH, ranked, metrics=["nDCG@4", "recall@2"], policies=policies)
    return [each.value for each in report.estimates]


@pytest.mark.parametrize("as_lists", [False, True])
@pytest.mark.parametrize("policies", POLICIES, ids=str)
def test_scores_of_any_type_give_the_numbers_of_floats(policies, as_lists):
    scores = pl.Series([0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0])
    wanted = values(scores, policies, as_lists=as_lists)

    found = [values(scores.cast(dtype), policies, as_lists=as_lists) for dtype in TYPES]
    assert found == [wanted] * len(TYPES)


def test_unsigned_scores_are_told_apart_where_floats_are_not():
    scores = pl.Series([2**64 - 2, 2**64 - 1, *range(5)], dtype=pl.UInt64)

    assert values(scores, {}, as_lists=False)[1] == pytest.approx(0.75)
