"""F, with P for precision and R for recall, worked by hand."""

from math import nan

import pytest
from measure import measure

BETA_2 = {"beta": 2.0}
HALF = {"beta": 0.5}
P_LENGTH = {"precision_over": "length"}
R_MIN_K = {"recall_over": "min_k"}
R_RELEVANT = {"recall_over": "relevant"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",                 [1, 1],    [1, 1],    2,    {}, 1),
    ("worst",                   [0, 0],    [1],       2,    {}, 0),
    ("one swap: P 1/2, R 1/2",  [1, 0, 1], [1, 1],    2,    {}, 1 / 2),
    ("short ranking",           [1],       [1, 1],    4,    {}, 2 * (1 / 8) / (3 / 4)),
    ("empty ranking",           [],        [1],       5,    {}, 0),
    ("no relevant item",        [0, 0],    [],        2,    {}, nan),
    ("cutoff above depth",      [0, 1, 1], [1, 1],    6,    {}, 2 * (1 / 3) / (4 / 3)),
    ("no cutoff: P 1/3, R 1/2", [0, 1, 0], [1, 1],    None, {}, 2 * (1 / 6) / (5 / 6)),
    ("beta 2: P 1/4",           [1],       [1, 1],    4,    BETA_2, 5 * (1 / 8) / (4 / 4 + 1 / 2)),
    ("beta half: P 1/4",       [1],       [1, 1],    4,    HALF, 1.25 * (1 / 8) / (1 / 16 + 1 / 2)),
    ("P length: P 1, R 1/2",    [1],       [1, 1],    4,    P_LENGTH, 2 * (1 / 2) / (3 / 2)),
    ("R min_k: P 1/2, R 1/2",   [1, 0],    [1, 1, 1], 2,    R_MIN_K, 1 / 2),
    ("R relevant: P 1/2 R 1/3", [1, 0],    [1, 1, 1], 2,    R_RELEVANT, 2 * (1 / 6) / (5 / 6)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_f_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("F", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
