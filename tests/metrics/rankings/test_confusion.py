"""Fallout, accuracy and MCC, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "fallout", [1, 0], [1], 1, {}, 0),
    ("perfect", "accuracy", [1, 0], [1], 1, {}, 1),
    ("perfect", "MCC", [1, 0], [1], 1, {}, 1),
    ("worst", "fallout", [0, 1], [1], 1, {}, 1),
    ("worst", "accuracy", [0, 1], [1], 1, {}, 0),
    ("worst", "MCC", [0, 1], [1], 1, {}, -1),
    ("one swap", "fallout", [1, 0, 1], [1, 1], 2, {"candidates": 10}, 1 / 8),
    ("one swap", "accuracy", [1, 0, 1], [1, 1], 2, {"candidates": 10}, 8 / 10),
    ("one swap", "MCC", [1, 0, 1], [1, 1], 2, {"candidates": 10}, (7 - 1) / (4 * 64) ** 0.5),
    ("short ranking", "fallout", [0], [1], 5, {"candidates": 5}, 1 / 4),
    ("empty ranking", "fallout", [], [1], 5, {"candidates": 5}, 0),
    ("empty ranking", "MCC", [], [1], 5, {"candidates": 5}, nan),
    ("no relevant item", "fallout", [0, 0], [], 1, {}, 1 / 2),
    ("cutoff above depth", "accuracy", [0, 1], [1, 1], 9, {"candidates": 4}, 2 / 4),
    ("all are relevant", "fallout", [1], [1], 1, {}, nan),
    ("longer than there are", "accuracy", [0, 0, 0], [1], 3, {"candidates": 2}, nan),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_confusion_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
