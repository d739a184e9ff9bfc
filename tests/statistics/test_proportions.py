"""Shares of the same users: exact where few differ."""

import itertools
import math

import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.statistics import proportions
from evalkit.statistics.intervals import wilson_interval
from evalkit.statistics.proportions import margin_p_values, mcnemar_p, paired_interval


@pytest.mark.parametrize("gained", [0, 4, 7, 29, 30, 31, 58, 600, 40_000])
@pytest.mark.parametrize("lost", [0, 3, 29, 31, 500, 39_000])
def test_p_is_half_of_what_was_seen_and_all_that_is_rarer(gained, lost):
    n, fewer = gained + lost, min(gained, lost)
    of_coins = stats.binom(n, 0.5)
    expected = 2 * of_coins.cdf(fewer - 1) + of_coins.pmf(fewer) if gained != lost else 1.0

    assert mcnemar_p(gained, lost) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_many_p_are_those_of_each_to_the_last_bit():
    counts = [(n % 53 * 3, n * 2) for n in range(300)]
    each = [mcnemar_p(*both) for both in counts]
    proportions._mcnemar_p._known.clear()

    proportions.find_mcnemar_ps(counts)

    assert [mcnemar_p(*both) for both in counts] == each


def test_limits_are_tangos_stretched_by_little():
    found = paired_interval(36, 12, 2, 0, level=0.95)  # Tango 1998, table III: 0.0611 to 0.3442

    assert (found.low, found.high) == pytest.approx((0.0611, 0.3442), abs=5e-4)


def test_p_and_limits_change_little_where_one_user_more_differs():
    for n, lost in ((100, 9), (1000, 9), (1000, 60)):
        tables = [(lost + more, lost, n) for more in range(60 - lost // 2)]
        ps = [mcnemar_p(*each[:2]) for each in tables]
        limits = [paired_interval(0, *each[:2], n - sum(each[:2]), level=0.95) for each in tables]
        for ends in ([each.low for each in limits], [each.high for each in limits]):
            steps = [n * (after - before) for before, after in itertools.pairwise(ends)]
            assert all(0.4 < step < 1.6 for step in steps)  # of one user, without a jump
        assert all(before > after for before, after in itertools.pairwise(ps))


@pytest.mark.parametrize(("n", "share"), [(30, 0.3), (100, 0.1), (100, 0.3), (400, 0.05)])
def test_where_nothing_differs_the_test_errs_as_seldom_as_it_says(n, share):
    size = 0.0
    for m, chance in enumerate(stats.binom.pmf(range(n + 1), n, share)):
        if chance > 1e-9:
            found = [gained for gained in range(m + 1) if mcnemar_p(gained, m - gained) <= 0.05]
            size += chance * stats.binom.pmf(found, m, 0.5).sum()

    assert 0.02 < size <= 0.0505


@pytest.mark.parametrize("level", [0.9, 0.95, 0.9998])
def test_limits_and_p_say_the_same_within_the_bounds(level):
    for gained, lost, same in itertools.product((0, 1, 16), (0, 2, 13), (0, 9, 900)):
        if gained + lost + same < 2:
            continue
        for both in {0, same // 2, same}:
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
    assert (found.test, found.p_value) == ("mcnemar", 0.0625)
    assert found.low <= 0.0 < found.high
    assert not math.isclose(found.low, found.high)


def test_shares_of_nobody_differing_have_wilsons_width():
    found = paired_interval(10, 0, 0, 20, level=0.95)
    wilson = wilson_interval(10, 30, level=0.95)

    assert found.low < 0.0 < found.high
    assert found.high < wilson.high - wilson.low
