"""Limits over nights: by hand, by the integral that they are, and under the null."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from evalkit.statistics.sequences import PRIOR, follow_nights

DELTAS, ERRORS, USERS = [0.02, -0.01, 0.03], [0.01, 0.02, 0.015], [100, 200, 400]


def mixture(total, variance, prior):
    """The likelihood ratio of a drift over none, a normal prior over the drift."""

    def density(drift):
        return math.exp(drift * total - drift * drift * variance / 2) * stats.norm.pdf(
            drift, 0, prior**-0.5
        )

    reach = 40 / math.sqrt(variance + prior)
    middle = total / (variance + prior)
    return integrate.quad(density, middle - reach, middle + reach, epsabs=0, epsrel=1e-11)[0]


@pytest.mark.parametrize("disjoint", [True, False])
def test_p_is_one_over_the_mixture_and_limits_are_where_it_is_one_over_alpha(disjoint):
    found = follow_nights(DELTAS, ERRORS, USERS, level=0.9, disjoint=disjoint)

    own = [n * error for n, error in zip(USERS, ERRORS, strict=True)]
    prior, smallest = PRIOR * own[0] ** 2, 1.0
    for n, state in enumerate(found, start=1):
        total = sum(a * b for a, b in zip(USERS[:n], DELTAS[:n], strict=True))
        variance = sum(e**2 for e in own[:n]) if disjoint else sum(own[:n]) ** 2
        smallest = min(smallest, 1 / mixture(total, variance, prior))
        assert state.mean == pytest.approx(total / sum(USERS[:n]), rel=1e-12)
        assert state.p_value == pytest.approx(smallest, rel=1e-8)
        edge = (state.high - state.mean) * sum(USERS[:n])
        assert mixture(edge, variance, prior) == pytest.approx(10, rel=1e-8)
        assert state.mean - state.low == pytest.approx(state.high - state.mean, rel=1e-12)


@pytest.mark.parametrize("disjoint", [True, False])
def test_limits_leave_nothing_just_where_p_says_so(disjoint):
    rng = np.random.default_rng(5)
    for _ in range(200):
        level = float(rng.uniform(0.6, 0.99))
        deltas = rng.normal(0.015, 0.01, 12).tolist()
        found = follow_nights(deltas, [0.01] * 12, [50] * 12, level=level, disjoint=disjoint)

        left = [not each.low <= 0 <= each.high for each in found]
        assert [each.p_value <= 1 - level for each in found] == [
            any(left[: n + 1]) for n in range(12)
        ]


def test_one_night_twice_is_one_night_where_users_may_be_shared():
    once = follow_nights([0.5], [0.1], [100], level=0.95, disjoint=False)
    twice = follow_nights([0.5] * 2, [0.1] * 2, [100] * 2, level=0.95, disjoint=False)

    errors = [100 * 0.1, 200 * 0.1]  # of sums: as of one user counted twice
    assert [each.mean for each in (once[0], *twice)] == [0.5] * 3
    for error, limits, n in zip(errors, twice, (100, 200), strict=True):
        prior = PRIOR * errors[0] ** 2
        spread = error**2 + prior
        half = math.sqrt(spread * (math.log(spread / prior) - 2 * math.log(0.05))) / n
        assert limits.high == pytest.approx(0.5 + half, rel=1e-12)


@pytest.mark.parametrize("disjoint", [True, False])
def test_nights_on_which_nobody_differs(disjoint):
    assert follow_nights([], [], [], level=0.95, disjoint=disjoint) == []
    nights = [0.0, 0.0, 0.2], [0.0, 0.0, 0.01], [10, 10, 10]

    found = follow_nights(*nights, level=0.95, disjoint=disjoint)

    assert [(each.low, each.p_value) for each in found[:2]] == [(None, 1.0)] * 2
    assert found[2].mean == pytest.approx(0.2 / 3)
    assert found[2].p_value < 0.05


@pytest.mark.parametrize(
    ("again", "disjoint"), [(0.0, True), (0.0, False), (0.5, False), (0.9, False), (1.0, False)]
)
def test_looking_every_night_keeps_the_level(again, disjoint):
    """`again`: the correlation of nights' means, as of users who come back."""
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(800):
        means = math.sqrt(again) * rng.normal() + math.sqrt(1 - again) * rng.normal(size=40)
        nights = (0.01 * means).tolist(), [0.01] * 40, [1000] * 40
        found += follow_nights(*nights, level=0.95, disjoint=disjoint)[-1].p_value <= 0.05

    assert found <= 0.05 * 800
