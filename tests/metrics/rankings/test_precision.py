"""Precision, worked by hand."""

import pytest
from measure import measure

LENGTH = {"over": "length"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",                [1, 1],    [1, 1], 2,    {}, 2 / 2),
    ("worst",                  [0, 0],    [1],    2,    {}, 0),
    ("one swap",               [1, 0, 1], [1, 1], 2,    {}, 1 / 2),
    ("short ranking",          [1],       [1, 1], 4,    {}, 1 / 4),
    ("empty ranking",          [],        [1],    5,    {}, 0),
    ("no relevant item",       [0, 0],    [],     2,    {}, 0),
    ("cutoff above depth",     [0, 1, 1], [1, 1], 6,    {}, 2 / 6),
    ("no cutoff",              [0, 1, 1], [1, 1], None, {}, 2 / 3),
    ("over length, cut",       [1, 0, 1], [1, 1], 2,    LENGTH, 1 / 2),
    ("over length, short",     [1, 0, 1], [1, 1], 6,    LENGTH, 2 / 3),
    ("over length, empty",     [],        [1],    6,    LENGTH, 0),
    ("over length, no cutoff", [1, 0, 1], [1, 1], None, LENGTH, 2 / 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_precision_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("precision", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
