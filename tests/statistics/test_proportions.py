"""Shares of the same users: exact where few differ."""

import itertools
import math

import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.statistics.intervals import wilson_interval
from evalkit.statistics.proportions import margin_p_values, mcnemar_p, paired_interval


@pytest.mark.parametrize(("gained", "lost"), [(4, 0), (0, 6), (7, 3), (12, 17), (0, 0)])
def test_p_is_that_of_the_binomial_test(gained, lost):
    n = gained + lost
    expected = stats.binomtest(gained, n).pvalue if n else 1.0

    assert mcnemar_p(gained, lost) == pytest.approx(expected, rel=1e-12)


def test_limits_are_those_that_newcombe_gives():
    found = paired_interval(36, 12, 2, 0, level=0.95)  # table III, method 10

    assert (found.low, found.high) == pytest.approx((0.0569, 0.3404), abs=6e-5)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.9998])
def test_limits_and_p_say_the_same_within_the_bounds(level):
    for gained, lost, same in itertools.product((0, 1, 5, 16, 29), (0, 2, 6, 13), (0, 9, 900)):
        if gained + lost + same < 2:
            continue
        for both in (0, same // 2, same):
            found = paired_interval(both, gained, lost, same - both, level=level)
            turned = paired_interval(both, lost, gained, same - both, level=level)
            assert -1.0 <= found.low <= found.high <= 1.0
            assert found.holds(0.0) == (mcnemar_p(gained, lost) > 1.0 - level)
            assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_p_of_a_margin_is_where_a_limit_is_the_margin():
    table = (300, 3, 5, 192)
    above, below = margin_p_values(*table, margin=0.02)

    assert paired_interval(*table, level=1 - 2 * above).low == pytest.approx(-0.02)
    assert paired_interval(*table, level=1 - 2 * below).high == pytest.approx(0.02)


def test_four_users_who_gain_are_no_proof():
    n = 40
    truth = pl.DataFrame({"user": range(n), "item": [1] * n})
    rankings = {
        name: pl.DataFrame({"user": range(n), "item": [1 if u in hits else 2 for u in range(n)]})
        .with_columns(rank=1)
        for name, hits in {"old": range(4, 8), "new": range(8)}.items()
    }  # fmt: skip

    report = evalkit.evaluate(
        truth, rankings, metrics=["hit@1"], statistics={"baseline": "old", "margin": 0.5}
    )

    (found,) = report.comparisons
    assert (found.test, found.p_value) == ("mcnemar", 0.125)
    assert found.low <= 0.0 < found.high
    assert not math.isclose(found.low, found.high)


def test_shares_of_nobody_differing_have_wilsons_width():
    found = paired_interval(10, 0, 0, 20, level=0.95)
    wilson = wilson_interval(10, 30, level=0.95)

    assert found.low < 0.0 < found.high
    assert found.high < wilson.high - wilson.low
