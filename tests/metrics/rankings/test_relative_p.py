"""Relative precision, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "relative_P", [1, 0], [1], 2, {}, 1),
    ("worst", "relative_P", [0, 0], [1], 2, {}, 0),
    ("one swap", "relative_P", [1, 0, 1], [1, 1], 2, {}, 1 / 2),
    ("short ranking", "relative_P", [1], [1, 1], 5, {}, 1 / 2),
    ("empty ranking", "relative_P", [], [1], 5, {}, 0),
    ("no relevant item", "relative_P", [0], [], 5, {}, nan),
    ("cutoff above depth", "relative_P", [0, 1], [1], 9, {}, 1),
    ("no cutoff", "relative_P", [1, 0], [1, 1, 1], None, {}, 1 / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_relative_p_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
