"""nDCG, worked by hand."""

from math import log2, nan

import numpy as np
import pytest
from measure import measure, ragged_rows

from evalkit.metrics import registry

SECOND = 1 / log2(3)  # the discount at rank 2; at rank 3 it is 1/2

EXP2 = {"gain": "exp2"}
BINARY = {"gain": "binary"}
BASE_3 = {"log_base": 3.0}
JARVELIN = {"discount": "jarvelin"}
SHOWN = {"idcg": "shown"}
SHOWN_UNCUT = {"idcg": "shown", "idcg_cut": "none"}
FULL_K = {"idcg": "full_k"}
UNCUT = {"idcg_cut": "none"}
LAST = {"idcg_negative": "last"}
DIVIDE = {"idcg_negative": "divide"}
UNLESS_SUM = {"idcg_negative": "divide_unless_sum"}
OR_UNDEFINED = {"idcg_negative": "divide_or_undefined"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",               [3, 1],       [3, 1],    2,    {}, 1),
    ("worst",                 [0, 0],       [1],       2,    {}, 0),
    ("one swap",              [1, 3],       [3, 1],    2,    {}, (1 + 3 * SECOND) / (3 + SECOND)),
    ("short ranking",         [1],          [1, 1],    2,    {}, 1 / (1 + SECOND)),
    ("empty ranking",         [],           [1],       5,    {}, 0),
    ("no relevant item",      [0, 0],       [],        2,    {}, nan),
    ("cutoff above depth",    [0, 1],       [1],       9,    {}, SECOND),
    ("no cutoff",             [0, 0, 2],    [2, 1],    None, {}, (2 / 2) / (2 + SECOND)),
    ("ideal cut at k",        [0, 2],       [2, 2, 2], 2,    {}, 2 * SECOND / (2 + 2 * SECOND)),
    ("gain exp2",             [1, 3],       [3, 1],    2,    EXP2, (1 + 7 * SECOND) / (7 + SECOND)),
    ("gain binary",           [1, 0, 3],    [3, 1],    3,    BINARY, (1 + 1 / 2) / (1 + SECOND)),
    ("the base cancels",      [0, 1],       [1],       2,    BASE_3, SECOND),
    ("jarvelin",              [0, 0, 0, 1], [1, 1],    4,    JARVELIN, (1 / 2) / (1 + 1)),
    ("shown: only listed",    [1, 3],       [3, 3, 1], 2,   SHOWN, (1 + 3 * SECOND) / (3 + SECOND)),
    ("shown, past k",         [1, 3],       [3, 1],    1,    SHOWN, 1 / 3),
    ("shown, not cut",        [1, 3],       [3, 1],    1,    SHOWN_UNCUT, 1 / (3 + SECOND)),
    ("shown, no hit",         [0, 0],       [1],       2,    SHOWN, 0),
    ("shown, no relevant",    [0, 0],       [],        2,    SHOWN, nan),
    ("full_k: k ones",        [1, 0, 0],    [1],       3,    FULL_K, 1 / (1 + SECOND + 1 / 2)),
    ("full_k above depth",    [1],          [1],       3,    FULL_K, 1 / (1 + SECOND + 1 / 2)),
    ("full_k, no cutoff",     [1, 0],       [1],       None, FULL_K, 1 / (1 + SECOND)),
    ("full_k, empty, whole",  [],           [1],       None, FULL_K, 0),
    ("full_k, no relevant",   [0],          [],        1,    FULL_K, nan),
    ("ideal not cut",         [1],          [1, 1, 1], 1,    UNCUT, 1 / (1 + SECOND + 1 / 2)),
    ("negative gain",         [3, 0, -1],   [3],       3,    {}, (3 - 1 / 2) / 3),
    ("negative gain, shown",  [3, 0, -1],   [3],       3,    SHOWN, (3 - 1 / 2) / 3),
    ("ideal above 0, last",   [-1, 3],      [3, -1],   2,    LAST, (3 * SECOND - 1) / (3 - SECOND)),
    ("ideal above 0, divide", [-1, 3], [3, -1], 2, DIVIDE, (3 * SECOND - 1) / (3 - SECOND)),
    ("ideal below 0",         [-4, 1],      [1, -4],   2,    LAST, 0),
    ("ideal below 0, divide", [-4, 1], [1, -4], 2, DIVIDE, (SECOND - 4) / (1 - 4 * SECOND)),
    ("below 0, the sum is not", [-4, 1], [1, -4], 2, UNLESS_SUM, (SECOND - 4) / (1 - 4 * SECOND)),
    ("the sum is 0",          [-1, 1],      [1, -1],   2,    UNLESS_SUM, 0),
    ("the sum is 0, divide",  [-1, 1], [1, -1], 2, DIVIDE, (SECOND - 1) / (1 - SECOND)),
    ("nothing above 0",       [-1, 0],      [0, -2],   2,    LAST, nan),
    ("nothing above 0, divide", [-1, 0],    [0, -2],   2,    DIVIDE, 1 / (2 * SECOND)),
    ("nothing shown, divide", [0, 0],       [0, -2],   2,    DIVIDE, 0),
    ("ideal of 0",            [-2, 0, 1],   [1, 0, -2], 3,   DIVIDE, 0),
    ("ideal of 0, undefined", [-2, 0, 1],   [1, 0, -2], 3,   OR_UNDEFINED, nan),
    ("cut before that",       [-2, 0, 1],   [1, 0, -2], 2,   OR_UNDEFINED, -2),
    ("nothing to find",       [0, 0],       [],        2,    DIVIDE, nan),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_ndcg_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("nDCG", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case


def test_what_was_never_written_is_not_computed_with():
    # memory behind the last user's rows can hold anything: even numbers that trap
    hits, relevant, lengths = ragged_rows([[1, 3], [2]], [[3, 1], [2]])
    trap = np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)
    longer = hits._replace(
        gains=np.concatenate([hits.gains, trap]), ideal=np.concatenate([hits.ideal, trap])
    )
    wanted = relevant._replace(gains=np.concatenate([relevant.gains, trap]))
    request = registry()["nDCG"].request(gain="exp2_shifted")
    cutoffs = np.array([2], dtype=np.int64)
    plain, found = np.empty((2, 1)), np.empty((2, 1))

    request.measure(hits, relevant, lengths, cutoffs, plain, threshold=2.0)
    with np.errstate(all="raise"):
        request.measure(longer, wanted, lengths, cutoffs, found, threshold=2.0)

    assert found.tolist() == plain.tolist()
