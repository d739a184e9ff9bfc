"""Hit, whose mean is the hit rate, worked by hand."""

import pytest
from measure import measure

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",              [1, 1],       [1, 1],    2,    {}, 1),
    ("worst",                [0, 0],       [1],       2,    {}, 0),
    ("one swap",             [0, 1],       [1],       1,    {}, 0),
    ("short ranking",        [1],          [1, 1],    5,    {}, 1),
    ("empty ranking",        [],           [1],       5,    {}, 0),
    ("no relevant item",     [0, 0],       [],        2,    {}, 0),
    ("cutoff above depth",   [0, 0, 1],    [1],       9,    {}, 1),
    ("no cutoff",            [0, 0, 0, 1], [1],       None, {}, 1),
    ("several hits are one", [1, 1, 1],    [1, 1, 1], 3,    {}, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_hit_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("hit", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
