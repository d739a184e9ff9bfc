"""Cumulated gain, worked by hand."""

import pytest
from measure import measure

EXP2 = {"gain": "exp2"}
BINARY = {"gain": "binary"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",            [3, 1],       [3, 1],   2,    {}, 3 + 1),
    ("worst",              [0, 0],       [1],      2,    {}, 0),
    ("one swap",           [1, 0, 3],    [3, 1],   2,    {}, 1),
    ("short ranking",      [3],          [3, 1],   4,    {}, 3),
    ("empty ranking",      [],           [1],      5,    {}, 0),
    ("no relevant item",   [0, 0],       [],       2,    {}, 0),
    ("cutoff above depth", [0, 2, 1],    [2, 1],   9,    {}, 2 + 1),
    ("no cutoff",          [0, 2, 0, 1], [2, 1],   None, {}, 2 + 1),
    ("gain exp2",          [3, 0, 1],    [3, 1],   3,    EXP2, (2**3 - 1) + (2**1 - 1)),
    ("gain binary",        [3, 0, 0.5],  [3, 0.5], 3,    BINARY, 1 + 1),
    ("negative gain",      [3, -1],      [3],      2,    {}, 3 - 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_cg_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("CG", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
