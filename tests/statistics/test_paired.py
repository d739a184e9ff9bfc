"""Paired t tests of every direction: by hand, against SciPy and statsmodels."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from evalkit.errors import RequestError
from evalkit.statistics.intervals import mean_interval
from evalkit.statistics.paired import (
    effect_size,
    equivalence_test,
    non_inferiority_test,
    p_of_t_tests,
)

RNG = np.random.default_rng(11)
SAMPLES = [
    RNG.normal(0.02, 0.3, 7),
    RNG.normal(-0.01, 0.05, 300),
    np.where(RNG.random(2000) < 0.1, RNG.random(2000), 0.0) - 0.03,
]


def sums_of(differences):
    return float(differences.mean()), float(stats.sem(differences)), differences.size


def p_of_t_test(delta, std_error, n, skewness=math.nan):
    return p_of_t_tests([delta], [std_error], [n], [skewness], [n - 1])[0]


def test_t_by_hand():
    # 1, 2, 3: t = 2 / (1 / sqrt(3)) = 3.4641, p with 2 degrees of freedom 0.0741799
    found = p_of_t_test(2.0, 1 / math.sqrt(3), 3)

    assert found == pytest.approx(0.07417990022744853, rel=1e-12)


@pytest.mark.parametrize("differences", SAMPLES)
def test_t_is_that_of_scipy(differences):
    expected = stats.ttest_1samp(differences, 0.0)

    assert p_of_t_test(*sums_of(differences)) == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("differences", SAMPLES)
@pytest.mark.parametrize("margin", [0.001, 0.02, 0.4])
def test_margins_are_those_of_statsmodels(differences, margin):
    peer = DescrStatsW(differences)
    sums = sums_of(differences)

    assert equivalence_test(*sums, margin=margin).p_value == pytest.approx(
        peer.ttost_mean(-margin, margin)[0], rel=1e-9
    )
    assert non_inferiority_test(*sums, margin=margin).p_value == pytest.approx(
        peer.ttest_mean(-margin, alternative="larger")[1], rel=1e-9
    )


@pytest.mark.parametrize("differences", SAMPLES)
def test_where_lower_is_better_the_sides_change(differences):
    delta, std_error, n = sums_of(differences)

    turned = non_inferiority_test(delta, std_error, n, margin=0.01, higher_is_better=False)
    assert turned == non_inferiority_test(-delta, std_error, n, margin=0.01)


@pytest.mark.parametrize("skewness", [math.nan, 1e-7, 1e-3, -0.4, 1.5])
@pytest.mark.parametrize("differences", SAMPLES)
def test_tests_and_intervals_say_the_same(differences, skewness):
    sums = sums_of(differences)
    p_value = p_of_t_test(*sums, skewness=skewness)
    at_p = mean_interval(*sums, level=1 - p_value, skewness=skewness, only_wider=True)
    margin = abs(sums[0]) + 1.3 * sums[1]
    less = non_inferiority_test(
        *sums, margin=margin, higher_is_better=sums[0] < 0, skewness=skewness
    ).p_value
    of_margin = mean_interval(*sums, level=1 - 2 * less, skewness=skewness, only_wider=True)

    assert min(abs(at_p.low), abs(at_p.high)) == pytest.approx(0.0, abs=1e-9)
    limit = of_margin.low if sums[0] < 0 else of_margin.high
    assert abs(limit) == pytest.approx(margin, rel=1e-9)


def test_effect_size_is_the_mean_over_the_deviation():
    differences = SAMPLES[1]

    assert effect_size(*sums_of(differences)) == pytest.approx(
        differences.mean() / differences.std(ddof=1), rel=1e-12
    )


def test_one_user_has_no_test():
    assert math.isnan(p_of_t_test(0.5, None, 1))
    assert math.isnan(non_inferiority_test(0.5, None, 1, margin=0.1).p_value)
    assert math.isnan(effect_size(0.5, None, 1))


@pytest.mark.parametrize("n", [2, 3, 8, 50])
def test_without_variance_p_is_that_of_flipping_signs(n):
    both, one = 2.0 ** (1 - n), 2.0**-n

    assert p_of_t_test(0.0, 0.0, n) == 1.0
    assert p_of_t_test(0.1, 0.0, n) == both
    if n < 12:
        flipped = stats.permutation_test(
            (np.full(n, 0.1),), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert flipped.pvalue == pytest.approx(both)
    assert equivalence_test(0.0, 0.0, n, margin=0.01).p_value == one
    assert non_inferiority_test(-0.1, 0.0, n, margin=0.01).p_value == 1.0
    assert math.isnan(effect_size(0.1, 0.0, n))


@pytest.mark.parametrize("margin", [-0.002, 0.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("test", [non_inferiority_test, equivalence_test])
def test_a_margin_that_is_no_size_is_refused(test, margin):
    with pytest.raises(RequestError) as caught:
        test(0.1, 0.01, 50, margin=margin)

    assert caught.value.code == "bad-margin"


def test_a_negative_margin_is_shown_turned():
    with pytest.raises(RequestError) as caught:
        non_inferiority_test(0.1, 0.01, 50, margin=-0.002)

    assert "margin = 0.002" in caught.value.hint
