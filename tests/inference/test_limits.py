"""Limits of a difference follow from what its error stands on."""

import math

import numpy as np
import pytest

import evalkit
from evalkit.inference.spread import DifferenceSpread
from evalkit.inference.summed import listed, none_if_nan
from evalkit.statistics.proportions import paired_interval

NAN = math.nan


def test_a_table_says_all_but_of_clusters_and_weights():
    table = (10, 3, 1, 36)
    spread = DifferenceSpread(50, 49.0, NAN, 1.0, table)
    exact = paired_interval(*table, level=0.95)

    assert spread.limits(0.04, 0.5, level=0.95) == exact
    for other in (spread._replace(is_clustered=True), spread._replace(is_weighted=True)):
        assert not other.is_exact
    clustered = spread._replace(is_clustered=True).limits(0.04, 0.001, level=0.95)
    assert clustered.low <= exact.low < exact.high <= clustered.high  # no surer than its users


def test_plain_limits_are_those_of_t():
    found = DifferenceSpread(10, 9.0, 0.0, is_plain=True).limits(0.5, 0.25, level=0.95)

    assert (found.low, found.high) == pytest.approx((0.5 - 0.565539, 0.5 + 0.565539), abs=1e-6)


@pytest.mark.parametrize("delta", [-0.9, 0.0, 0.5, 0.95])
def test_limits_hold_the_difference_and_end_where_a_difference_must(delta):
    found = DifferenceSpread(10, 9.0, 0.0, widest=1.0).limits(delta, 0.25, level=0.95)

    assert -1.0 <= found.low <= delta <= found.high <= 1.0


def test_users_who_differ_alike_say_less_of_others_the_fewer_they_are():
    few, many = (
        DifferenceSpread(n, n - 1.0, NAN, widest=1.0).limits(0.25, 0.0, level=0.95)
        for n in (3, 4000)
    )

    assert (few.low, few.high) == (-1.0, 1.0)
    assert 0.0 < many.low <= 0.25 <= many.high < 0.5


def test_skewness_mends_the_difference_of_clusters_and_the_margin_of_all():
    users = DifferenceSpread(40, 39.0, 0.5, is_plain=True)
    clusters = users._replace(is_clustered=True)

    assert math.isnan(users.plain_skewness)
    assert users.margin_skewness == clusters.plain_skewness == 0.5
    assert math.isnan(clusters._replace(is_mended=False).plain_skewness)


def test_numbers_that_do_not_exist_are_one_object_or_none():
    numbers = np.array([[1.0, NAN], [NAN, 2.0]])

    first, second = (number for number in listed(numbers) if number != number)
    assert first is second
    assert none_if_nan(numbers) == [1.0, None, None, 2.0]


def test_ranks_against_the_mean_tell_nothing() -> None:
    """70 users gain a little, 10 lose much: the mean falls, and Wilcoxon's ranks rise."""
    rest = [f"x{place}" for place in range(20)]
    truth = {user: ["a"] for user in range(80)}
    base = {user: [*rest[:12], "a"] if user < 70 else ["a", *rest] for user in truth}
    candidate = {user: [*rest[:11], "a"] if user < 70 else [*rest, "a"] for user in truth}
    report = evalkit.evaluate(
        truth, {"base": base, "candidate": candidate}, metrics=["RR"],
        statistics={"test": "wilcoxon", "baseline": "base"},
    )  # fmt: skip
    (found,) = report.comparisons

    assert found.delta < 0.0
    assert found.p_value < 1e-4
    assert found.verdict == "cannot tell"
