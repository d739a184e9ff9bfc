"""AUC of a ranked list, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",             [1, 1, 0],    [1, 1],    3,    {}, 1),
    ("worst",               [0, 0, 1],    [1],       3,    {}, 0),
    ("one swap",            [1, 0, 1],    [1, 1],    3,    {}, 1 / 2),
    ("short ranking",       [1, 0],       [1, 1],    5,    {}, 1),
    ("empty ranking",       [],           [1],       5,    {}, nan),
    ("no relevant item",    [0, 0],       [],        2,    {}, nan),
    ("cutoff above depth",  [0, 1, 0],    [1],       9,    {}, 1 / 2),
    ("no cutoff",           [0, 1, 0, 1], [1, 1],    None, {}, 1 / 4),
    ("the cutoff cuts",     [0, 1, 0, 1], [1, 1],    3,    {}, 1 / 2),
    ("hits alone",          [1, 1],       [1, 1],    2,    {}, nan),
    ("hits alone, 0",       [1, 1],       [1, 1],    2,    {"one_kind": "zero"}, 0),
    ("hits alone, 1",       [1, 1],       [1, 1],    2,    {"one_kind": "zero_or_one"}, 1),
    ("misses alone, 0",     [0, 0],       [1],       2,    {"one_kind": "zero_or_one"}, 0),
    # of 6 candidates 2 are relevant; rank 2 has 3 others below, the unlisted one ties with 2 of 4
    ("candidates",          [0, 1, 0],    [1, 1],    None, {"candidates": 6}, (3 + 1) / 8),
    ("candidates, no hit",  [0, 0],       [1],       None, {"candidates": 4}, (1 / 2) / 3),
    ("candidates, no list", [],           [1],       None, {"candidates": 5}, 1 / 2),
    ("candidates, all",     [0, 1],       [1],       None, {"candidates": 2}, 0),
    ("one more",            [0, 1, 0],    [1],       None, {"others": "one_more"}, 2 / 3),
    ("one more, worst",     [0, 0, 1],    [1],       None, {"others": "one_more"}, 1 / 3),
    ("one more, cut",       [0, 1, 0, 1], [1, 1],    3,    {"others": "one_more"}, 2 / 6),
    ("too few candidates",  [0, 0, 1],    [1],       None, {"candidates": 2}, nan),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_auc_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("AUC", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
