"""A control chart: limits as SciPy has them, signals by hand, false alarms and shifts drawn."""

import math

import numpy as np
import pytest
from scipy import stats

from evalkit.statistics.control import expect_nights

LEVEL = [0.50, 0.52, 0.48, 0.51, 0.51, 0.50, 0.53, 0.47, 0.50, 0.49]


def signals(values, errors=None):
    return [each.signals for each in expect_nights(values, errors or [0.02] * len(values))]


def test_limits_are_those_of_a_next_value():
    rng = np.random.default_rng(1)
    values = rng.normal(0.5, 0.1, 12)  # spread far beyond the errors

    found = expect_nights(values.tolist(), [0.01] * 12)

    for n in range(2, 12):
        earlier = values[:n]
        reach = stats.t.ppf(stats.norm.cdf(3), n - 1) * earlier.std(ddof=1) * math.sqrt(1 + 1 / n)
        assert found[n].level == pytest.approx(earlier.mean(), rel=1e-12)
        assert found[n].low == pytest.approx(earlier.mean() - reach, rel=1e-9)
        assert found[n].high == pytest.approx(earlier.mean() + reach, rel=1e-9)


def test_unequal_errors_weigh_as_in_least_squares():
    rng = np.random.default_rng(2)
    errors = rng.uniform(0.01, 0.05, 10)
    values = rng.normal(0.5, 3 * errors)

    last = expect_nights(values.tolist(), errors.tolist())[-1]

    weights = 1 / errors[:-1] ** 2
    level = np.average(values[:-1], weights=weights)
    spread = np.sum(weights * (values[:-1] - level) ** 2) / 8
    assert spread > 1
    reach = stats.t.ppf(stats.norm.cdf(3), 8) * math.sqrt(
        spread * (errors[-1] ** 2 + 1 / weights.sum())
    )
    assert (last.low, last.high) == pytest.approx((level - reach, level + reach), rel=1e-9)


def test_nights_that_are_too_alike_are_expected_by_their_errors():
    last = expect_nights([0.5] * 5, [0.1] * 5)[-1]

    reach = stats.t.ppf(stats.norm.cdf(3), 3) * 0.1 * math.sqrt(1 + 1 / 4)
    assert last.high == pytest.approx(0.5 + reach, rel=1e-9)


def test_one_night_outside_is_told_and_left_out_of_the_level():
    found = expect_nights([*LEVEL, 0.2, 0.5], [0.02] * 12)

    assert [each.signals for each in found[:-2]] == [()] * 10
    assert (found[10].signals, found[11].signals) == (("outside",), ())
    assert found[11].level == pytest.approx(np.mean(LEVEL))


def test_nine_nights_on_one_side_are_a_shift():
    found = expect_nights([*LEVEL, *[0.55, 0.54] * 5], [0.02] * 20)

    assert [n for n, each in enumerate(found) if "shift" in each.signals] == [18]
    assert found[18].shifted == 10
    assert found[19].level == pytest.approx(np.mean([0.55, 0.54] * 4 + [0.55]))


def test_a_large_shift_is_outside_and_then_the_level():
    found = expect_nights([*LEVEL, *[0.8, 0.82] * 5], [0.02] * 20)

    assert all("outside" in each.signals for each in found[10:19])
    assert found[18].shifted == 10
    assert found[19].signals == ()


def test_two_of_three_and_a_trend():
    assert "two of three" in signals([*LEVEL, *LEVEL, 0.555, 0.5, 0.56])[-1]
    assert signals([*LEVEL, 0.49, 0.5, 0.505, 0.51, 0.515, 0.52])[-1] == ("trend",)
    assert signals([*LEVEL, 0.49, 0.5, 0.505, 0.505, 0.515, 0.52])[-1] == ()


@pytest.mark.parametrize("errors", [[], [0.1], [None] * 30, [0.0] * 30, [math.nan] * 30])
def test_without_errors_nothing_is_expected(errors):
    found = expect_nights([0.1 * n for n in range(len(errors))], errors)

    assert all(each.low is None and each.signals == () for each in found)


def test_a_night_without_error_is_passed_over():
    errors = [0.02] * 10
    with_gap = expect_nights([*LEVEL[:5], 9.0, *LEVEL[5:]], [*errors[:5], None, *errors[5:]])

    assert [*with_gap[:5], *with_gap[6:]] == expect_nights(LEVEL, errors)


def test_same_nights_and_huge_distances_are_finite():
    assert signals([0.5] * 40) == [()] * 40
    assert signals([0.5] * 10 + [1e300])[-1] == ("outside",)


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_false_alarms_are_rare(spread):
    rng = np.random.default_rng(4)
    found = [
        each.signals
        for _ in range(300)
        for each in expect_nights(rng.normal(0.3, 0.01 * spread, 40).tolist(), [0.01] * 40)
    ]

    for signal in ("outside", "two of three", "shift", "trend"):
        assert sum(signal in each for each in found) < 0.006 * len(found)
