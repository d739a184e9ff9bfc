"""Mean recall, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "mean_recall", [1, 0], [1], 2, {}, 1),
    ("worst", "mean_recall", [0, 0], [1], 2, {}, 0),
    ("one swap", "mean_recall", [0, 1], [1, 1], 2, {}, (0 + 1 / 2) / 2),
    ("short ranking", "mean_recall", [1], [1, 1], 4, {}, 1 / 2),
    ("empty ranking", "mean_recall", [], [1], 3, {}, 0),
    ("no relevant item", "mean_recall", [0], [], 3, {}, nan),
    ("cutoff above depth", "mean_recall", [0, 1], [1], 4, {}, 3 / 4),
    ("no cutoff", "mean_recall", [0, 1, 0], [1], None, {}, 2 / 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_mar_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
