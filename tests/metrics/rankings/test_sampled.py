"""Metrics on sampled candidates, worked by hand, and what the estimate is worth."""

from math import log2, nan

import numpy as np
import polars as pl
import pytest
from logs import JIT_OFF
from measure import measure

import evalkit
from evalkit.errors import DataError, RequestError

BV = {"estimate": "bias-variance"}
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
    # of two items one other is drawn: it is the other one, and nothing is lost
    ("corrected, rank 1",     [1, 0],       [1],    1,    {"catalogue": 2, **BV}, 1),
    ("corrected, rank 2",     [0, 1],       [1],    1,    {"catalogue": 2, **BV}, 0),
    ("corrected, RR",         [0, 1],       [1],    2,    {"catalogue": 2, "of": "RR", **BV}, 0.5),
    # half of the ranks are up to 2 of 4, and no other was drawn
    ("corrected, no sample",  [1],          [1],    2,    {"catalogue": 4, **BV}, 0.5),
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


def sampled_logs(true_ranks, catalogue, others, rng):
    """Truth, and rankings of each user's one item among others that are drawn again each time."""
    n_users = true_ranks.size
    above = rng.binomial(others, (true_ranks - 1) / (catalogue - 1))
    ranks = np.tile(np.arange(others + 1), (n_users, 1))
    rankings = pl.DataFrame(
        {
            "user": np.repeat(np.arange(n_users), others + 1),
            "item": np.where(ranks == above[:, None], 0, ranks + 1).ravel(),
            "rank": ranks.ravel() + 1,
        }
    )
    return pl.DataFrame({"user": np.arange(n_users), "item": 0}), rankings


POPULATIONS = {
    "few hits": lambda rng, n: np.minimum(rng.geometric(0.004, n), 2000),
    "many hits": lambda rng, n: np.ceil(rng.beta(0.3, 1.5, n) * 2000).clip(1).astype(int),
    "no skill": lambda rng, n: rng.integers(1, 2001, n),
}


@pytest.mark.skipif(JIT_OFF, reason="too many users for plain Python")
@pytest.mark.parametrize("of", ["recall", "nDCG"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_corrections_recover_the_whole_catalogue(population, of):
    rng = np.random.default_rng(5)
    true_ranks = POPULATIONS[population](rng, 3000)
    gains = np.where(true_ranks <= 20, 1.0 if of == "recall" else 1 / np.log2(1 + true_ranks), 0.0)
    truth, rankings = sampled_logs(true_ranks, 2000, 100, rng)
    ways = ("rank", "bias-variance", "likelihood")
    names = [f"sampled(of='{of}', catalogue=2000, sample=100, estimate='{w}')@20" for w in ways]

    report = evalkit.evaluate(truth, rankings, metrics=[f"sampled(of='{of}')@20", *names])

    plain, rank, corrected, likely = (abs(e.value - gains.mean()) for e in report.estimates)
    assert max(corrected, likely) < 0.35 * plain
    assert likely < max(0.7 * rank, 0.012)


@pytest.mark.parametrize("gamma", [0.5, 0.01, 0.001])
@pytest.mark.parametrize(("catalogue", "others"), [(30, 3), (500, 20), (12, 40)])
def test_the_correction_minimises_bias_and_variance(catalogue, others, gamma):
    stats = pytest.importorskip("scipy.stats")
    ranks = np.arange(1, catalogue + 1)
    chances = stats.binom.pmf(
        np.arange(others + 1), others, ((ranks - 1) / (catalogue - 1))[:, None]
    )
    wanted = np.where(ranks <= 5, 1 / np.log2(1 + ranks), 0.0)
    system = (1 - gamma) * chances.T @ chances + gamma * np.diag(chances.sum(axis=0))
    expected = np.linalg.solve(system, chances.T @ wanted)

    ranked = [[float(place == each) for place in range(others + 1)] for each in range(others + 1)]
    values = measure(
        "sampled", ranked, [[1.0]] * (others + 1), [5],
        catalogue=catalogue, of="nDCG", gamma=gamma, **BV,
    )  # fmt: skip

    np.testing.assert_allclose(values[:, 0], expected, rtol=1e-8, atol=1e-10)


def test_each_user_is_corrected_by_the_size_of_the_own_sample():
    lists = [[0, 1, 0], [0, 1, 0, 0]]
    together = measure("sampled", lists, [[1], [1]], [3], catalogue=9, **BV)

    alone = [measure("sampled", [each], [[1]], [3], catalogue=9, **BV)[0, 0] for each in lists]

    assert together[:, 0].tolist() == alone
    assert alone[0] != alone[1]


def test_other_cutoffs_change_no_bit_of_a_correction():
    lists, relevant = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], [[1]] * 3
    together = measure("sampled", lists, relevant, [1, 3, None], catalogue=9, of="nDCG", **BV)

    for column, cutoff in enumerate([1, 3, None]):
        alone = measure("sampled", lists, relevant, [cutoff], catalogue=9, of="nDCG", **BV)
        np.testing.assert_array_equal(alone[:, 0], together[:, column])


def test_the_likeliest_distribution_where_nothing_is_lost():
    # of two items one other is drawn: ranks in the sample are the ranks; two of three come first
    truth = pl.DataFrame({"user": [1, 2, 3], "item": 0})
    rankings = pl.DataFrame(
        {"user": [1, 1, 2, 2, 3, 3], "item": [0, 1, 0, 1, 1, 0], "rank": [1, 2] * 3}
    )
    name = "sampled(of='RR', catalogue=2, sample=1, estimate='likelihood')@2"

    (found,) = evalkit.evaluate(truth, rankings, metrics=[name]).estimates

    assert found.value == pytest.approx((1 + 1 + 1 / 2) / 3, abs=1e-15)
    assert (found.n_users, found.std_error, found.low) == (3, None, None)


def test_corrections_are_the_same_for_any_order_and_threads():
    rng = np.random.default_rng(2)
    truth, rankings = sampled_logs(rng.integers(1, 200, 500), 300, 10, rng)
    names = [
        f"sampled(of='nDCG', catalogue=300, sample=10, estimate='{way}')@5"
        for way in ("bias-variance", "likelihood")
    ]

    reports = [
        evalkit.evaluate(truth, rankings, metrics=names, threads=1),
        evalkit.evaluate(truth.reverse(), rankings.reverse(), metrics=names, threads=2),
    ]

    assert len({tuple(e.value.hex() for e in report.estimates) for report in reports}) == 1


FAULTS = [
    ("sampled(estimate='bias-variance')@3", RequestError, "bad-sample"),
    ("sampled(catalogue=9, estimate='likelihood')@3", RequestError, "bad-sample"),
    ("sampled(catalogue=9, sample=4000, estimate='bias-variance')@3", RequestError, "bad-sample"),
    ("sampled(catalogue=9, sample=4, estimate='likelihood')@3", DataError, "sampled-rank-unknown"),
    ("sampled(catalogue=9, estimate='bias-variance')@3", DataError, "sampled-rank-unknown"),
]


@pytest.mark.parametrize(("name", "error", "code"), FAULTS)
def test_what_a_correction_lacks_is_refused(name, error, code):
    truth = pl.DataFrame({"user": [1, 2], "item": [0, 0]})
    rankings = pl.DataFrame({"user": [1, 1, 2, 2], "item": [0, 1, 1, 2], "rank": [1, 2, 1, 2]})
    if error is RequestError:
        rankings = rankings.filter(pl.col("user") == 1)

    with pytest.raises(error) as caught:
        evalkit.evaluate(truth, rankings, metrics=[name])

    assert caught.value.code == code
    assert caught.value.hint
