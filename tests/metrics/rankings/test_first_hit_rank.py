"""First-hit rank, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",                   [1, 0],          [1],       2,    {}, 1),
    ("worst",                     [0, 0],          [1],       2,    {}, nan),
    ("one swap",                  [0, 1],          [1],       2,    {}, 2),
    ("short ranking",             [0, 1],          [1, 1, 1], 4,    {}, 2),
    ("empty ranking",             [],              [1],       5,    {}, nan),
    ("no relevant item",          [0, 0],          [],        2,    {}, nan),
    ("cutoff above depth",        [0, 0, 1],       [1],       9,    {}, 3),
    ("no cutoff",                 [0, 0, 0, 1, 1], [1, 1],    None, {}, 4),
    ("first hit past the cutoff", [0, 0, 1],       [1],       2,    {}, nan),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_first_hit_rank_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("first_hit_rank", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
