"""Intervals hold the truth as often as they say, tests find nothing as rarely as they say.

`bench/simulate.py` prints the tables that docs/statistics.md quotes; these are its short form.
"""

import math

import numpy as np
import pytest
from campaigns import examples
from logs import JIT_OFF
from scipy import stats

from evalkit.statistics.bootstrap import KINDS, Resamples
from evalkit.statistics.intervals import mean_interval, wilson_interval
from evalkit.statistics.paired import non_inferiority_test, p_of_t_tests
from evalkit.statistics.permutation import SignFlips
from evalkit.statistics.wilcoxon import wilcoxon_test

RANKS = np.arange(1, 21)
SIZES = {
    "hit": np.ones(20),
    "nDCG": 1 / np.log2(1 + RANKS),
    "RR": 1 / RANKS,
    "precision": np.repeat([0.1, 0.2, 0.3, 0.4], [12, 5, 2, 1]),
}
LIMITS = (0.2, 0.05, 0.01)
compiled = pytest.mark.skipif(JIT_OFF, reason="too many draws for plain Python")


def draw(rng, shape, name, share):
    """Values of users: one of SIZES for a share of them, 0 for all others."""
    return (rng.random(shape) < share) * rng.choice(SIZES[name], shape)


def keys_of(n_users):
    return np.random.default_rng(n_users).integers(0, 2**64, n_users, dtype=np.uint64)


@pytest.mark.some_cases(4)
@pytest.mark.parametrize("share", [0.05, 0.1, 0.4])
@pytest.mark.parametrize("name", sorted(SIZES))
def test_intervals_of_values_hold_the_truth(name, share):
    rng = np.random.default_rng([3, round(100 * share)])
    n, draws, held = 1000, 4000, 0
    truth = share * SIZES[name].mean()
    for _ in range(4):
        values = draw(rng, (draws // 4, n), name, share)
        means, errors = values.mean(axis=1), stats.sem(values, axis=1)
        skewness = stats.skew(values, axis=1)
        for mean, error, skew in zip(means, errors, skewness, strict=True):
            if name == "hit":
                interval = wilson_interval(round(mean * n), n, level=0.95)
            else:
                interval = mean_interval(mean, error, n, level=0.95, skewness=skew)
            held += interval.holds(truth)

    assert 0.94 <= held / draws <= 0.96


@pytest.mark.parametrize("better", [0.5, 0.65])
def test_intervals_of_differences_hold_the_truth(better):
    rng = np.random.default_rng(8)
    n, draws, held = 1000, 4000, 0
    truth = 0.05 * SIZES["nDCG"].mean() * (2 * better - 1)
    for _ in range(4):
        signs = rng.choice([1, -1], (draws // 4, n), p=[better, 1 - better])
        values = draw(rng, (draws // 4, n), "nDCG", 0.05) * signs
        for mean, error in zip(values.mean(axis=1), stats.sem(values, axis=1), strict=True):
            held += mean_interval(mean, error, n, level=0.95).holds(truth)

    assert 0.94 <= held / draws <= 0.96


def p_values(differences, seed):
    """p of every test of one draw of differences."""
    column = differences.reshape(-1, 1)
    keys = keys_of(differences.size)
    plain, studentised = (
        Resamples.empty([8.0], replicates=400, seed=seed, squares=squares)
        for squares in (False, True)
    )
    flips = SignFlips.empty([8.0], replicates=400, seed=seed)
    for drawn in (plain, studentised, flips):
        drawn.add(keys, column)
    n, mean, error = differences.size, float(differences.mean()), float(stats.sem(differences))
    return {
        "t": p_of_t_tests([mean], [error], [n], [math.nan], [n - 1])[0],
        "Wilcoxon": wilcoxon_test(differences).p_value,
        "permutation": flips.test(0).p_value,
        "bootstrap": plain.test(0).p_value,
        "bootstrap, studentised": studentised.test(0).p_value,
    }


def simulate(draws, differences):
    found = {}
    for number in range(draws):
        for name, p in p_values(differences(), number).items():
            found.setdefault(name, []).append(p)
    return {name: np.array(each) for name, each in found.items()}


@compiled
@pytest.mark.parametrize("n_users", [60, 400])
def test_under_the_null_little_is_found(n_users):
    rng = np.random.default_rng(n_users)
    draws = examples(1600)

    def differences():
        return draw(rng, n_users, "nDCG", 0.3) * rng.choice([1, -1], n_users)

    for name, found in simulate(draws, differences).items():
        for limit in LIMITS:
            error = math.sqrt(limit * (1 - limit) / draws)
            assert np.mean(found <= limit) <= limit + 3 * error, (name, limit)


@compiled
def test_of_continuous_differences_p_is_uniform():
    rng = np.random.default_rng(41)
    found = simulate(600, lambda: np.clip(rng.normal(0, 1, 200), -8, 8))

    for name, p in found.items():
        assert stats.kstest(p, "uniform").pvalue > 1e-3, name


def test_margins_are_kept_where_the_difference_is_the_margin():
    rng = np.random.default_rng(5)
    draws, n, margin = 1500, 500, 0.02
    worse = 0
    for _ in range(draws):
        noise = draw(rng, n, "nDCG", 0.3) * rng.choice([1, -1], n)
        mean, error = float(noise.mean()), float(stats.sem(noise))
        worse += non_inferiority_test(mean - margin, error, n, margin=margin).p_value <= 0.05

    assert worse / draws <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)


@pytest.mark.some_cases(3)
@compiled
@pytest.mark.parametrize("name", ["nDCG", "RR"])
@pytest.mark.parametrize("kind", KINDS)
def test_resampled_intervals_hold_the_truth(name, kind):
    rng = np.random.default_rng(15)
    n, draws, held = 2000, examples(800), 0
    truth = 0.1 * SIZES[name].mean()
    for number in range(draws):
        drawn = Resamples.empty([1.0], replicates=500, seed=number, squares=kind == "studentised")
        drawn.add(keys_of(n), draw(rng, (n, 1), name, 0.1))
        held += drawn.interval(0, level=0.95, kind=kind).holds(truth)

    assert abs(held / draws - 0.95) <= 3 * math.sqrt(0.95 * 0.05 / draws)
