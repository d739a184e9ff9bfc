"""SetAP, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "SetAP", [1, 1], [1, 1], None, {}, 1),
    ("worst", "SetAP", [0, 0], [1], None, {}, 0),
    ("one swap", "SetAP", [1, 0, 1], [1, 1], 2, {}, 1 / 2 * 1 / 2),
    ("short ranking", "SetAP", [1], [1, 1], 5, {}, 1 / 2),
    ("empty ranking", "SetAP", [], [1], None, {}, 0),
    ("no relevant item", "SetAP", [0], [], None, {}, nan),
    ("cutoff above depth", "SetAP", [0, 1], [1], 9, {}, 1 / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_set_ap_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
