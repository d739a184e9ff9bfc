"""Utility, worked by hand."""

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "utility", [1], [1], None, {}, 1),
    ("worst", "utility", [0, 0], [1], None, {}, -2),
    ("one swap", "utility", [1, 0, 1], [1, 1], 2, {}, 1 - 1),
    ("short ranking", "utility", [1], [1, 1], 5, {"c": -0.5}, 1 - 0.5),
    ("empty ranking", "utility", [], [1], None, {"c": -0.5}, -0.5),
    ("no relevant item", "utility", [0], [], None, {}, -1),
    ("cutoff above depth", "utility", [0, 1], [1], 9, {"a": 2}, 2 - 1),
    ("the rest", "utility", [0, 1], [1], None, {"d": 0.5, "candidates": 10}, 1 - 1 + 8 * 0.5),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_utility_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
