"""yaap, worked by hand."""

from math import log

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "yaap", [1, 1], [1, 1], None, {}, log(3 / 1)),
    ("worst", "yaap", [0, 0], [1], None, {}, log(1 / 2)),
    ("one swap", "yaap", [0, 1], [1], None, {}, log((1 + 1 / 2) / (2 - 1 / 2))),
    ("short ranking", "yaap", [1], [1, 1], None, {}, log(2 / 2)),
    ("empty ranking", "yaap", [], [1, 1], None, {}, log(1 / 3)),
    ("no relevant item", "yaap", [0], [], None, {}, 0),
    ("cutoff above depth", "yaap", [0, 1], [1], 9, {}, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_yaap_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
