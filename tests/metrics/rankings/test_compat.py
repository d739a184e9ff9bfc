"""Compatibility, worked by hand."""

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "compat", [2, 1], [2, 1], None, {}, 1),
    ("perfect, tied", "compat", [1, 1], [1, 1], None, {}, 1),
    ("worst", "compat", [0, 0], [1], None, {}, 0),
    ("one swap", "compat", [1, 2], [2, 1], None, {"patience": 0.5}, (0 + 0.5) / (1 + 0.5)),
    ("short ranking", "compat", [1], [1, 1], None, {"patience": 0.5}, (1 + 0.25) / (1 + 0.5)),
    ("empty ranking", "compat", [], [1], None, {}, 0),
    ("no relevant item", "compat", [0], [], None, {}, 0),
    ("cutoff above depth", "compat", [0, 1], [1], 9, {"patience": 0.5}, (0.5 / 2) / (1 + 0.5 / 2)),
    ("no norm", "compat", [0, 1], [1], None, {"patience": 0.5, "normalize": "none"}, 0.25 / 1.5),
    ("the larger one was missed", "compat", [1], [2, 1], None, {"patience": 0.5}, 0.25 / 1.5),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_compat_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
