"""Recall, worked by hand."""

from math import nan

import pytest
from measure import measure

MIN_K = {"over": "min_k"}

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",                 [1, 1],    [1, 1],       2,    {}, 2 / 2),
    ("worst",                   [0, 0],    [1],          2,    {}, 0),
    ("one swap",                [1, 0, 1], [1, 1],       2,    {}, 1 / 2),
    ("short ranking",           [1],       [1, 1],       4,    {}, 1 / 2),
    ("empty ranking",           [],        [1],          5,    {}, 0),
    ("no relevant item",        [0, 0],    [],           2,    {}, nan),
    ("cutoff above depth",      [0, 1, 1], [1, 1, 1],    6,    {}, 2 / 3),
    ("no cutoff",               [0, 1, 1], [1, 1, 1, 1], None, {}, 2 / 4),
    ("more relevant than k",    [1, 1],    [1, 1, 1, 1], 2,    {}, 2 / 4),
    ("over min_k, k smaller",   [1, 1],    [1, 1, 1, 1], 2,    MIN_K, 2 / 2),
    ("over min_k, k larger",    [1, 0, 0], [1, 1],       3,    MIN_K, 1 / 2),
    ("over min_k, no cutoff",   [1, 1],    [1, 1, 1, 1], None, MIN_K, 2 / 4),
    ("over min_k, no relevant", [0],       [],           1,    MIN_K, nan),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_recall_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("recall", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
