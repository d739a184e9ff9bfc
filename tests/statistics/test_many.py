"""Limits of very many numbers at a time are, digit for digit, those of one."""

import math

import numpy as np
import pytest
from fieller import relative_interval

from evalkit.aggregate.accumulators.parts import UNIT_BITS, _spell_words, spell_sum
from evalkit.statistics.distributions import find_t_quantiles, normal_quantile, t_quantile
from evalkit.statistics.exact import ExactSums, summarize
from evalkit.statistics.intervals import Interval, mean_interval, wilson_interval
from evalkit.statistics.many import mean_limits, relative_limits, t_quantiles, wilson_limits, within

N, LEVEL = 3000, 0.95


def none_if_nan(numbers):
    return [None if math.isnan(each) else each for each in numbers.tolist()]


def assert_same(limits, intervals):
    np.testing.assert_array_equal(limits[0], [each.low for each in intervals])
    np.testing.assert_array_equal(limits[1], [each.high for each in intervals])


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def ns(rng):
    found = rng.integers(0, 400, N)
    found[::3] *= 1000
    return found


def errors_of(rng, ns):
    errors = rng.random(N) * 10.0 ** rng.integers(-8, 1, N)
    errors[::11], errors[::13] = np.nan, 0.0
    errors[ns < 2] = np.nan
    return errors


def test_limits_of_many_means_are_those_of_each(rng, ns):
    means, errors = rng.normal(size=N), errors_of(rng, ns)
    skewnesses = rng.normal(size=N) * 10.0 ** rng.integers(-3, 2, N)
    skewnesses[::5] = np.nan
    expected = [
        mean_interval(mean, error, n, level=LEVEL, skewness=skewness)
        for mean, error, n, skewness in zip(
            means.tolist(), none_if_nan(errors), ns.tolist(), skewnesses.tolist(), strict=True
        )
    ]
    found = mean_limits(means, errors, ns, skewnesses, level=LEVEL)
    assert_same(found, expected)
    inside = [each.within((-0.5, 1.0)) for each in expected]
    assert_same(within(found, np.full(N, -0.5), np.ones(N)), inside)


def test_limits_of_many_shares_are_those_of_each(rng, ns):
    successes = (rng.random(N) * (ns + 1)).astype(np.int64)
    successes[::4], successes[::9] = 0, ns[::9]
    expected = [
        wilson_interval(*each, level=LEVEL)
        for each in zip(successes.tolist(), ns.tolist(), strict=True)
    ]
    assert_same(wilson_limits(successes, ns, level=LEVEL), expected)


def test_limits_of_many_ratios_are_those_of_each(rng, ns):
    baseline, delta = rng.normal(size=N), rng.normal(size=N) * 0.3
    baseline[::17], delta[::19] = 0.0, 0.0
    errors = [errors_of(rng, ns) for _ in range(3)]
    low, high = delta - rng.random(N) * 0.1, delta + rng.random(N) * 0.1
    low[::5] = 0.0
    expected = [
        relative_interval(
            one, its, other, others, candidate, n, level=LEVEL, limits=Interval(*limits)
        )
        for one, its, other, others, candidate, n, *limits in zip(
            baseline.tolist(), none_if_nan(errors[0]), delta.tolist(), none_if_nan(errors[1]),
            none_if_nan(errors[2]), ns.tolist(), low.tolist(), high.tolist(), strict=True,
        )
    ]  # fmt: skip
    ts = -t_quantiles(0.5 * (1.0 - LEVEL), ns - 1)
    found = relative_limits((baseline, errors[0]), (delta, errors[1]), errors[2], ts, (low, high))
    assert_same(found, expected)


def test_many_normal_quantiles_start_the_same_search(rng):
    ps = (rng.random(600) * 10.0 ** -rng.integers(0, 300, 600)).tolist()
    find_t_quantiles((p, math.inf) for p in ps)
    assert [t_quantile(p, math.inf) for p in ps] == [normal_quantile(p) for p in ps]


KINDS = {
    "shares": lambda values: (values < 0.3) * 1.0,
    "differences": lambda values: values - 0.5,
    "signs": lambda values: -1.0 * (values < 0.4) + (values > 0.8),
    "tiny": lambda values: np.where(values < 0.2, values * 1e-300, 0.0),
    "huge": lambda values: values * 1e150,
    "alike": lambda values: np.full_like(values, 0.1),
    "few": lambda values: np.where(values < 0.9, np.nan, values),
    "discounts": lambda values: 1.0 / np.log2(2.0 + np.floor(values * 9.0)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 900])
def test_summaries_are_what_exact_sums_give(kind, n, rng):
    sums = [ExactSums(3) for _ in range(4)]
    for each in sums:
        each.add(np.ascontiguousarray(KINDS[kind](rng.random((n, 3)))))
    found = summarize(sums, 3)
    for row, sums_of_row in enumerate(sums):
        for column in range(3):
            exact, place = sums_of_row.sum_of(column), (row, column)
            assert found.counts[place] == exact.count
            error = math.nan if exact.std_error is None else exact.std_error
            expected = exact.mean, error, sums_of_row.skewness_of(column)
            own = found.means[place], found.errors[place], found.skewnesses[place]
            np.testing.assert_array_equal(own, expected)
            bounds = np.array([(0.0, 1.0)] * 3)
            assert found.are_shares(bounds)[place] == exact.is_own_square
            assert not found.are_whole[place] or found.wholes[place] == exact.whole


def test_sums_of_words_are_spelled_as_integers_are(rng):
    words = [
        np.where(rng.random(N) < 0.4, 0, rng.integers(-(1 << bits), 1 << bits, N))
        for bits in (40, 44, 44, 44)
    ]
    words[0][::2] %= 1 << 20
    expected = [
        spell_sum((((((one << 32) + two) << 32) + three) << 32) + four, UNIT_BITS)
        for one, two, three, four in zip(*(word.tolist() for word in words), strict=True)
    ]
    assert list(_spell_words(words)) == expected
