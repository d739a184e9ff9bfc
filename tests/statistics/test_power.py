"""Power of the paired t test: against statsmodels, against itself, and by simulation."""

import math

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from evalkit.errors import RequestError
from evalkit.statistics._root import root_of, roots_of
from evalkit.statistics.power import (
    power_of,
    smallest_difference,
    smallest_share_differences,
    users_needed,
    users_needed_of_shares,
)
from evalkit.statistics.proportions import mcnemar_p

PEER = TTestPower()


@pytest.mark.parametrize("n", [2, 3, 10, 100, 5000])
@pytest.mark.parametrize("effect", [0.0, 0.01, 0.2, 0.8, 3.0])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_power_is_that_of_statsmodels(n, effect, level):
    expected = PEER.power(effect, n, 1 - level, alternative="two-sided")
    found = power_of(effect * 0.3, 0.3, n, level=level)

    if math.isnan(expected):  # SciPy's noncentral t has none where it is all but 1
        assert found > 0.99
    else:
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [5, 30, 656, 1_000_000])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.99])
def test_smallest_difference_has_that_power(n, power):
    found = smallest_difference(0.25, n, level=0.95, power=power)

    assert power_of(found, 0.25, n, level=0.95) == pytest.approx(power, abs=1e-12)
    if n <= 1000:
        expected = PEER.solve_power(nobs=n, alpha=0.05, power=power, alternative="two-sided")
        assert found == pytest.approx(0.25 * expected, rel=1e-5)


def test_many_users_see_what_the_normal_formula_says():
    found = smallest_difference(0.3, 1_000_000, level=0.95)

    expected = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * 0.3 / 1000
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("effect", [2.0, 0.7, 0.2, 0.03])
def test_users_needed_are_those_of_statsmodels(effect):
    expected = PEER.solve_power(effect, alpha=0.05, power=0.8, alternative="two-sided")

    assert users_needed(effect, 1.0, level=0.95) == math.ceil(expected)


@settings(deadline=None, max_examples=examples(40))
@given(effect=st.floats(0.001, 20), power=st.floats(0.2, 0.99), level=st.sampled_from([0.9, 0.99]))
def test_one_user_fewer_is_not_enough(effect, power, level):
    n = users_needed(effect, 1.0, level=level, power=power)

    assert n is not None
    assert power_of(effect, 1.0, n, level=level) >= power
    assert n == 2 or power_of(effect, 1.0, n - 1, level=level) < power


def test_power_is_what_simulation_finds():
    rng = np.random.default_rng(6)
    draws = rng.normal(smallest_difference(1.0, 20, level=0.95), 1.0, (4000, 20))
    found = np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue <= 0.05)

    assert found == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 4000))


def test_what_nobody_can_see_needs_no_users():
    assert users_needed(0.0, 0.3, level=0.95) is None
    assert users_needed(1e-12, 0.3, level=0.95) is None
    assert users_needed(1e-300, 0.3, level=0.95) is None
    assert users_needed(0.1, math.nan, level=0.95) is None
    assert users_needed(0.1, 0.0, level=0.95) == 2
    assert math.isnan(smallest_difference(0.3, 1, level=0.95))
    assert math.isnan(power_of(0.1, math.nan, 10, level=0.95))
    assert smallest_difference(0.0, 50, level=0.95) == 0.0


@pytest.mark.parametrize("power", [0.0, 0.05, 1.0, math.nan])
def test_a_power_that_is_none_is_refused(power):
    with pytest.raises(RequestError) as caught:
        smallest_difference(0.3, 100, level=0.95, power=power)

    assert caught.value.code == "power-out-of-range"


def test_roots_are_those_of_each_to_the_last_bit():
    wanted = [2.0**place / 3.0 for place in range(-30, 30)]
    each = [root_of(lambda x, w=w: x * x - w, 0.0, 1e5) for w in wanted]
    ends = np.zeros(len(wanted)), np.full(len(wanted), 1e5)

    found = roots_of(lambda places, x: x * x - np.array(wanted)[places], *ends)

    assert found.tolist() == each


@pytest.mark.some_cases(4)
@pytest.mark.parametrize("level", [0.95, 0.995])
@pytest.mark.parametrize(("n", "share"), [(100, 0.02), (300, 0.01), (300, 0.1), (1000, 0.02)])
def test_rare_hits_show_the_smallest_difference_as_often_as_is_promised(n, share, level):
    delta = float(smallest_share_differences(np.array([share]), np.array([n]), level=level)[0])
    differing = share + delta
    found = 0.0
    for m, chance in enumerate(stats.binom.pmf(range(n + 1), n, differing)):
        if chance > 1e-8:
            shown = [g for g in range(m + 1) if mcnemar_p(g, m - g) <= 1 - level]
            found += chance * stats.binom.pmf(shown, m, (share / 2 + delta) / differing).sum()

    assert 0.795 <= found <= 0.9
    assert users_needed_of_shares(delta, share, level=level) in (n, n + 1)
