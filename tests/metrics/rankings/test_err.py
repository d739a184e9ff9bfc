"""ERR and nERR, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "ERR", [4], [4], 1, {}, 15 / 16),
    ("perfect", "nERR", [4, 1], [4, 1], 2, {}, 1),
    ("worst", "ERR", [0, 0], [4], 2, {}, 0),
    ("one swap", "ERR", [1, 4], [4, 1], 2, {}, 1 / 16 + 15 / 16 * 15 / 16 / 2),
    ("one swap", "nERR", [0, 4], [4], 2, {}, 1 / 2),
    ("short ranking", "ERR", [2], [2, 2], 5, {}, 3 / 16),
    ("empty ranking", "ERR", [], [4], 5, {}, 0),
    ("empty ranking", "nERR", [], [4], 5, {}, 0),
    ("no relevant item", "ERR", [0], [], 5, {}, 0),
    ("no relevant item", "nERR", [0], [], 5, {}, nan),
    ("cutoff above depth", "ERR", [0, 0, 1], [1], 9, {}, 1 / 16 / 3),
    ("scale to 1", "ERR", [1, 1], [1, 1], 2, {"max_relevance": 1}, 1 / 2 + 1 / 2 * 1 / 2 / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_err_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
