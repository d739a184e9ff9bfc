"""Discounted cumulated gain, worked by hand."""

from math import e, inf, log, log2

import pytest
from measure import measure

SECOND = 1 / log2(3)  # the discount at rank 2; at rank 3 it is 1/2
LONG = [1, 1, 1, 1, *[0] * 11, 1]

EXP2 = {"gain": "exp2"}
BINARY = {"gain": "binary"}
NATURAL = {"log_base": e}
BASE_4 = {"log_base": 4.0}
JARVELIN = {"discount": "jarvelin"}
JARVELIN_4 = {"discount": "jarvelin", "log_base": 4.0}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",                [3, 1],       [3, 1],    2,    {}, 3 + 1 * SECOND),
    ("worst",                  [0, 0],       [1],       2,    {}, 0),
    ("one swap",               [1, 3],       [3, 1],    2,    {}, 1 + 3 * SECOND),
    ("short ranking",          [3],          [3, 1],    4,    {}, 3),
    ("empty ranking",          [],           [1],       5,    {}, 0),
    ("no relevant item",       [0, 0],       [],        2,    {}, 0),
    ("cutoff above depth",     [0, 2, 1],    [2, 1],    9,    {}, 2 * SECOND + 1 / 2),
    ("no cutoff",              [0, 0, 2],    [2, 1],    None, {}, 2 / 2),
    ("gain exp2",              [0, 0, 3],    [3],       3,    EXP2, (2**3 - 1) / 2),
    ("gain binary",            [0, 0, 3],    [3],       3,    BINARY, 1 / 2),
    ("natural logarithm",      [0, 0, 3],    [3],       3,    NATURAL, 3 / log(4)),
    ("base 4",                 [0, 0, 3],    [3],       3,    BASE_4, 3 / 1),
    ("jarvelin: 1, 2 weigh 1", [3, 2, 0, 1], [3, 2, 1], 4,    JARVELIN, 3 + 2 + 1 / 2),
    ("jarvelin, base 4",       LONG,         [1] * 5,   16,   JARVELIN_4, 4 + 1 / 2),
    ("negative gain",          [3, 0, -1],   [3],       3,    {}, 3 - 1 / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_dcg_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("DCG", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case


def test_exponential_gain_beyond_float64_is_infinite():
    assert measure("DCG", [[1024.0]], [[1024.0]], [1], gain="exp2")[0] == [inf]
