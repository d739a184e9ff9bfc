"""R-precision, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",            [1, 1, 0], [1, 1],    None, {}, 2 / 2),
    ("worst",              [0, 0, 1], [1, 1],    None, {}, 0),
    ("one swap",           [1, 0, 1], [1, 1],    None, {}, 1 / 2),
    ("short ranking",      [1],       [1, 1, 1], None, {}, 1 / 3),
    ("empty ranking",      [],        [1],       None, {}, 0),
    ("no relevant item",   [0, 0],    [],        None, {}, nan),
    ("cutoff above depth", [0, 1, 1], [1, 1, 1], 9,    {}, 2 / 3),
    ("cutoff below |R|",   [1, 1, 1], [1, 1, 1], 2,    {}, 2 / 3),
    ("cutoff above |R|",   [1, 0, 1], [1, 1],    3,    {}, 1 / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_r_precision_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("R-precision", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
