"""NCRR, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "NCRR", [1, 1, 0], [1, 1], 3, {}, 1),
    ("worst", "NCRR", [0, 0], [1], 2, {}, 0),
    ("one swap", "NCRR", [1, 0, 1], [1, 1], 3, {}, (1 + 1 / 3) / (1 + 1 / 2)),
    ("short ranking", "NCRR", [1], [1, 1], 5, {}, 1),
    ("empty ranking", "NCRR", [], [1], 5, {}, 0),
    ("no relevant item", "NCRR", [0], [], 5, {}, nan),
    ("cutoff above depth", "NCRR", [0, 1], [1, 1], 9, {}, (1 / 2) / (1 + 1 / 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_ncrr_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
