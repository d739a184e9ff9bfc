"""Partial AUC of a ranked list, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, ranked gains, relevant gains, misses, parameters, by hand
    ("perfect",            [1, 1, 0, 0], [1, 1],    2,    {}, 1),
    ("worst",              [0, 0, 1],    [1],       2,    {}, 0),
    ("one swap",           [1, 0, 1],    [1, 1],    2,    {}, (2 + 1) / 4),
    ("short ranking",      [1],          [1, 1],    5,    {}, 5 / 10),
    ("empty ranking",      [],           [1],       5,    {}, 0),
    ("no relevant item",   [0, 0],       [],        2,    {}, nan),
    ("cutoff above depth", [0, 1],       [1],       9,    {}, 8 / 9),
    ("no cutoff",          [0, 1, 0],    [1],       None, {}, 1 / 2),
    ("no cutoff, no miss", [1],          [1],       None, {}, nan),
    ("first hits alone",   [0, 1, 1],    [1, 1, 1], 2,    {"positives": "min_k"}, (1 + 1) / 4),
    ("one miss",           [1, 0, 1],    [1, 1],    1,    {"positives": "min_k"}, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_partial_auc_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("partial-AUC", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
