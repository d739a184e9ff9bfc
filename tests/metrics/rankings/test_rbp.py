"""Rank-biased precision, worked by hand."""

import pytest
from measure import measure

HALF = {"patience": 0.5}
PLAIN = {"gain": "relevance"}
GRADED = {"gain": "linear"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",             [1, 1],       [1, 1],    2,    {}, 0.2 * (1 + 0.8)),
    ("worst",               [0, 0],       [1],       2,    {}, 0),
    ("one swap",            [1, 0, 1],    [1, 1],    3,    {}, 0.2 * (1 + 0.8**2)),
    ("short ranking",       [0, 1],       [1, 1, 1], 4,    {}, 0.2 * 0.8),
    ("empty ranking",       [],           [1],       5,    {}, 0),
    ("no relevant item",    [0, 0],       [],        2,    {}, 0),
    ("cutoff above depth",  [0, 0, 1],    [1],       9,    {}, 0.2 * 0.8**2),
    ("no cutoff",           [0, 0, 0, 1], [1],       None, {}, 0.2 * 0.8**3),
    ("cutoff before a hit", [1, 0, 1],    [1, 1],    2,    {}, 0.2 * 1),
    ("patience 0.5",        [0, 1, 1],    [1, 1],    3,    HALF, 0.5 * (0.5 + 0.25)),
    ("grades count once",   [3],          [3],       1,    {}, 0.2 * 1),
    ("grades",              [2, 0, 4],    [4, 2],    3,    GRADED, 0.2 * (2 / 4 + 0.8**2)),
    ("best was missed",     [1],          [4, 1],    1,    GRADED, 0.2 * 1 / 4),
    ("equal grades are 1",  [3, 3],       [3, 3],    2,    GRADED, 0.2 * (1 + 0.8)),
    ("graded, none shown",  [0],          [3],       1,    GRADED, 0),
    ("grades as they are",  [2, 0, 4],    [4, 2],    3,    PLAIN, 0.2 * (2 + 4 * 0.8**2)),
    ("graded, none to find",[0],          [],        1,    GRADED, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_rbp_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("RBP", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
