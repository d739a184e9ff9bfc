"""Confidence limits: by hand, against SciPy and statsmodels, and where there are none."""

import math

import numpy as np
import pytest
from campaigns import examples
from fieller import relative_interval
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from evalkit.errors import RequestError
from evalkit.statistics.intervals import (
    Interval,
    difference_interval,
    mean_interval,
    normal_interval,
    wilson_interval,
)

laws = settings(deadline=None, max_examples=examples(200))


def test_t_interval_by_hand():
    # 1, 2, 3: mean 2, s = 1, s / sqrt(3), t(0.975, 2) = 4.302653
    low, high = 2 - 4.30265272991 / math.sqrt(3), 2 + 4.30265272991 / math.sqrt(3)
    found = mean_interval(2.0, 1 / math.sqrt(3), 3, level=0.95)

    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-10)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("n", [2, 3, 30, 1000, 1_000_000])
def test_t_interval_is_that_of_scipy(n, level):
    found = mean_interval(0.3, 0.01, n, level=level)

    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(level, n - 1, loc=0.3, scale=0.01), rel=1e-11
    )


@pytest.mark.parametrize("skewness", [-5.0, -0.3, 0.3, 2.0, 9.0])
@pytest.mark.parametrize("n", [30, 1000])
def test_skewed_limits_are_halfway_to_those_of_halls_cubic_or_further_away(skewness, n):
    found = mean_interval(0.3, 0.01, n, level=0.95, skewness=skewness)
    plain = mean_interval(0.3, 0.01, n, level=0.95)
    t = stats.t.ppf(0.975, n - 1)

    for limit, student, sign in [(found.low, plain.low, 1), (found.high, plain.high, -1)]:
        k = skewness / math.sqrt(n)
        away = -sign * k  # above 0 where skewness moves this limit away from the mean
        made = 0.5 if away <= 0.3 else min(0.5 + 6 * (away - 0.3), 1.5)
        deviation = (0.3 - (student + (limit - student) / made)) / 0.01
        # the cubic of a t at that limit is Student's quantile
        turned = deviation + k * deviation**2 / 3 + k**2 * deviation**3 / 27 + k / 6
        assert turned == pytest.approx(sign * t, rel=1e-9)


def test_limits_that_are_only_wider_are_halls_or_students():
    plain, halfway, wider = (
        mean_interval(0.3, 0.01, 100, level=0.95, skewness=skewness, only_wider=only_wider)
        for skewness, only_wider in ((math.nan, False), (2.0, False), (2.0, True))
    )

    assert wider.low == plain.low
    assert wider.high - plain.high == pytest.approx(2 * (halfway.high - plain.high), rel=1e-9)


@laws
@given(skewness=st.floats(-1, 1), n=st.integers(3, 10_000), level=st.floats(0.5, 0.999))
def test_skewed_limits_hold_the_mean_and_mirror(skewness, n, level):
    skewness *= (n - 2) / math.sqrt(n - 1)  # the largest there is among n values
    found = mean_interval(0.3, 0.01, n, level=level, skewness=skewness)
    mirrored = mean_interval(-0.3, 0.01, n, level=level, skewness=-skewness)

    assert found.low < 0.3 < found.high
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-12)


@pytest.mark.parametrize("skewness", [math.nan, 0.0, 1e-12])
def test_without_skewness_the_interval_is_students(skewness):
    plain = mean_interval(0.3, 0.01, 50, level=0.95)

    assert mean_interval(0.3, 0.01, 50, level=0.95, skewness=skewness) == plain
    assert mean_interval(0.3, 0.0, 50, level=0.95, skewness=2.0) == Interval(0.3, 0.3)
    assert not mean_interval(0.3, None, 1, level=0.95, skewness=2.0).exists


def test_normal_interval_is_that_of_scipy():
    found = normal_interval(0.3, 0.01, level=0.9)

    assert (found.low, found.high) == pytest.approx(
        stats.norm.interval(0.9, loc=0.3, scale=0.01), rel=1e-12
    )


@pytest.mark.parametrize("n", [2, 7, 100, 656, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_of_shares_are_those_of_statsmodels(n, share, level):
    successes = round(share * n)
    found = wilson_interval(successes, n, level=level)

    assert (found.low, found.high) == pytest.approx(
        proportion_confint(successes, n, alpha=1 - level, method="wilson"), rel=1e-9, abs=1e-13
    )


@laws
@given(n=st.integers(2, 10_000), data=st.data(), level=st.floats(0.01, 0.999))
def test_intervals_of_shares_hold_the_share(n, data, level):
    successes = data.draw(st.integers(0, n))
    found = wilson_interval(successes, n, level=level)

    assert 0.0 <= found.low < found.high <= 1.0
    assert found.holds(successes / n)


@pytest.mark.parametrize(
    ("one", "n", "other", "m"), [(3, 10, 8, 12), (0, 15, 14, 20), (40, 300, 55, 280)]
)
def test_a_difference_of_shares_has_the_limits_of_statsmodels(one, n, other, m):
    found = difference_interval(
        one / n,
        wilson_interval(one, n, level=0.95),
        other / m,
        wilson_interval(other, m, level=0.95),
    )

    expected = confint_proportions_2indep(one, n, other, m, method="newcomb", compare="diff")
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9)


def test_relative_interval_of_a_certain_baseline_divides_by_it():
    # without variance in the baseline the candidate's error is that of the difference
    found = relative_interval(0.5, 0.0, 0.05, 0.01, 0.01, 1000, level=0.95)
    plain = mean_interval(0.05, 0.01, 1000, level=0.95)

    assert (found.low, found.high) == pytest.approx((plain.low / 0.5, plain.high / 0.5), rel=1e-12)


@pytest.mark.parametrize(("baseline_mean", "shift"), [(0.4, 0.02), (0.4, -0.1), (-0.3, 0.05)])
def test_relative_limits_are_where_the_t_test_turns(baseline_mean, shift):
    rng = np.random.default_rng(5)
    baseline = rng.normal(baseline_mean, 0.3, 400)
    candidate = baseline + rng.normal(shift, 0.2, 400)
    error = [stats.sem(each) for each in (baseline, candidate - baseline, candidate)]
    delta = float(np.mean(candidate - baseline))
    found = relative_interval(
        float(baseline.mean()), error[0], delta, error[1], error[2], 400, level=0.95
    )

    assert found.holds(delta / baseline.mean())
    for ratio in (found.low, found.high):
        outcome = stats.ttest_1samp(candidate - baseline - ratio * baseline, 0.0)
        assert outcome.pvalue == pytest.approx(0.05, abs=1e-9)


def test_no_relative_limits_where_the_baseline_may_be_zero():
    assert not relative_interval(0.01, 0.01, 0.05, 0.01, 0.02, 50, level=0.95).exists
    assert not relative_interval(0.0, 0.0, 0.0, 0.0, 0.0, 50, level=0.95).exists


@pytest.mark.parametrize(
    "found",
    [
        mean_interval(0.5, None, 1, level=0.95),
        mean_interval(math.nan, None, 0, level=0.95),
        normal_interval(0.5, None, level=0.95),
        wilson_interval(1, 1, level=0.95),
        relative_interval(0.5, None, 0.1, None, None, 1, level=0.95),
    ],
)
def test_below_two_users_there_are_no_limits(found):
    assert not found.exists


def test_without_variance_both_limits_are_the_mean():
    assert mean_interval(0.25, 0.0, 10, level=0.95) == Interval(0.25, 0.25)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, math.nan])
@pytest.mark.parametrize(
    "interval",
    [
        lambda level: mean_interval(0.5, 0.1, 10, level=level),
        lambda level: normal_interval(0.5, 0.1, level=level),
        lambda level: wilson_interval(5, 10, level=level),
    ],
)
def test_a_level_that_is_none_is_refused(interval, level):
    with pytest.raises(RequestError) as caught:
        interval(level)

    assert caught.value.code == "level-out-of-range"
