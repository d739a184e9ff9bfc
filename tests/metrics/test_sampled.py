"""Metrics on sampled candidates, worked by hand, and what the estimate is worth."""

from math import log2, nan

import numpy as np
import pytest
from measure import measure

GOLDENS = [
    # case, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect",               [1, 0, 0],    [1],    2,    {}, 1),
    ("worst",                 [0, 0, 1],    [1],    2,    {}, 0),
    ("one swap",              [0, 1, 0],    [1],    2,    {"of": "nDCG"}, 1 / log2(3)),
    ("short ranking",         [0, 1],       [1],    5,    {"of": "RR"}, 1 / 2),
    ("empty ranking",         [],           [1],    5,    {}, 0),
    ("no relevant item",      [0, 0],       [],     2,    {}, nan),
    ("cutoff above depth",    [0, 1],       [1],    9,    {}, 1),
    ("two relevant items",    [1, 1],       [1, 1], 2,    {}, nan),
    ("no cutoff",             [0, 0, 1],    [1],    None, {"of": "RR"}, 1 / 3),
    # rank 2 of 1 + 4, catalogue of 101: 1 + 1 * 100 / 4 = 26
    ("scaled, too deep",      [0, 1, 0, 0, 0], [1], 10,   {"catalogue": 101}, 0),
    ("scaled",                [0, 1, 0, 0, 0], [1], 26,   {"catalogue": 101, "of": "RR"}, 1 / 26),
    ("the first stays first", [1, 0, 0, 0, 0], [1], 1,    {"catalogue": 101}, 1),
    # only the top 2 of 1 + 4 was kept
    ("sample given",          [0, 1],       [1],    26,   {"catalogue": 101, "sample": 4}, 1),
    ("sample too small",      [0, 0, 0],    [1],    2,    {"sample": 2}, nan),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_sampled_by_hand(case, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure("sampled", [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case


def test_the_estimate_is_nearer_to_the_whole_catalogue_than_the_plain_value():
    rng = np.random.default_rng(8)
    catalogue, others, n_users = 2000, 100, 4000
    ranks = 1 + np.minimum(rng.geometric(0.004, n_users), catalogue - 1)
    above = rng.binomial(others, (ranks - 1) / (catalogue - 1))
    ranked = [[float(place == each) for place in range(others + 1)] for each in above]
    relevant = [[1.0]] * n_users

    true = float(np.mean(ranks <= 50))
    plain = float(np.mean(measure("sampled", ranked, relevant, [50])))
    estimate = float(np.mean(measure("sampled", ranked, relevant, [50], catalogue=catalogue)))

    assert plain > 0.95  # nearly everybody is in the top 50 of 101
    assert abs(estimate - true) < 0.1 < abs(plain - true)
