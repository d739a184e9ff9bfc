"""Average precision, worked by hand."""

from math import fsum, log, nan

import pytest
from measure import measure

MIN_K = {"over": "min_k"}
RELEVANT = {"over": "relevant"}
MIN_LENGTH = {"over": "min_length"}
HITS = {"over": "hits"}
K = {"over": "k"}
EVERY = {"over": "k", "terms": "every_rank"}
EVERY_R = {"over": "relevant", "terms": "every_rank"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",              [1, 1],       [1, 1],       2,    {}, (1 / 1 + 2 / 2) / 2),
    ("worst",                [0, 0],       [1],          2,    {}, 0),
    ("one swap",             [1, 0, 1],    [1, 1],       3,    {}, (1 / 1 + 2 / 3) / 2),
    ("short ranking",        [0, 1],       [1, 1, 1],    4,    {}, (1 / 2) / 3),
    ("empty ranking",        [],           [1],          5,    {}, 0),
    ("no relevant item",     [0, 0],       [],           2,    {}, nan),
    ("cutoff above depth",   [0, 1, 1],    [1, 1],       9,    {}, (1 / 2 + 2 / 3) / 2),
    ("no cutoff",            [0, 1, 1],    [1, 1, 1, 1], None, {}, (1 / 2 + 2 / 3) / 4),
    ("over min_k",           [1, 0],       [1, 1, 1],    2,    MIN_K, (1 / 1) / 2),
    ("over relevant",        [1, 0],       [1, 1, 1],    2,    RELEVANT, (1 / 1) / 3),
    ("over min_length",      [1],          [1, 1, 1],    2,    MIN_LENGTH, (1 / 1) / 1),
    ("min_length, empty",    [],           [1, 1, 1],    2,    MIN_LENGTH, 0),
    ("over hits",            [0, 1, 0, 1], [1, 1, 1],    4,    HITS, (1 / 2 + 2 / 4) / 2),
    ("over hits, none",      [0, 0],       [1],          2,    HITS, 0),
    ("over k",               [1, 0],       [1],          5,    K, (1 / 1) / 5),
    ("over k, no cutoff",    [1, 0],       [1],          None, K, (1 / 1) / 2),
    ("over k, empty, whole", [],           [1],          None, K, 0),
    ("every rank",           [1, 0, 1],    [1, 1],       3,    EVERY, (1 / 1 + 1 / 2 + 2 / 3) / 3),
    ("every, short list",    [0, 1],       [1],          4,    EVERY, (1 / 2 + 1 / 3 + 1 / 4) / 4),
    ("every, no cutoff",     [0, 1, 0],    [1],          None, EVERY, (0 + 1 / 2 + 1 / 3) / 3),
    ("every, over relevant", [0, 1],       [1, 1],       2,    EVERY_R, (0 + 1 / 2) / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_ap_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("AP", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case


def test_every_rank_far_beyond_the_list_is_the_harmonic_sum():
    # one hit at rank 1: precision 1/r at every rank r, so the sum is H(k)
    values = measure("AP", [[1]], [[1]], [100_000, 10**9], over="k", terms="every_rank")[0]

    assert values[0] * 1e5 == pytest.approx(fsum(1 / rank for rank in range(1, 100_001)), rel=1e-14)
    assert values[1] * 1e9 == pytest.approx(log(1e9) + 0.5772156649015329 + 0.5e-9, rel=1e-14)
