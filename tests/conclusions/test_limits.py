"""Limits of a difference follow from what its error stands on."""

import math

import pytest

from evalkit.conclusions.spread import Spread, counts_differing
from evalkit.conclusions.summed import listed, none_if_nan
from evalkit.statistics.proportions import FEWEST_DIFFERING, paired_interval

NAN = math.nan


def test_few_users_who_differ_are_a_table_and_many_are_none():
    assert counts_differing(10, 3, 1, 50) == (10, 3, 1, 36)
    assert counts_differing(10, FEWEST_DIFFERING - 1, 0, 50) is not None
    assert counts_differing(10, FEWEST_DIFFERING, 0, 50) is None
    assert counts_differing(1, 0, 0, 1) is None


def test_a_table_says_all_but_of_clusters_and_weights():
    table = (10, 3, 1, 36)
    spread = Spread(50, 49.0, NAN, 1.0, table)
    exact = paired_interval(*table, level=0.95)

    assert spread.limits(0.04, 0.5, level=0.95) == exact
    for other in (spread._replace(is_clustered=True), spread._replace(is_weighted=True)):
        assert not other.is_exact
    clustered = spread._replace(is_clustered=True).limits(0.04, 0.001, level=0.95)
    assert clustered.low <= exact.low < exact.high <= clustered.high  # no surer than its users


def test_limits_are_those_of_t_and_end_where_a_difference_must():
    wide = Spread(10, 9.0, 0.0).limits(0.5, 0.25, level=0.95)
    bounded = Spread(10, 9.0, 0.0, widest=1.0).limits(0.5, 0.25, level=0.95)

    assert wide.low == pytest.approx(0.5 - 2.262157 * 0.25, abs=1e-6)
    assert wide.high == pytest.approx(0.5 + 2.262157 * 0.25, abs=1e-6)
    assert (bounded.low, bounded.high) == (wide.low, 1.0)


@pytest.mark.parametrize(("n", "is_known"), [(3, False), (5, False), (6, True), (40, True)])
def test_users_who_differ_alike_say_something_of_others_from_six_on(n, is_known):
    limits = Spread(n, n - 1.0, NAN, widest=1.0).limits(0.25, 0.0, level=0.95)

    assert (limits.low, limits.high) == ((0.25, 0.25) if is_known else (-1.0, 1.0))


def test_skewness_mends_the_difference_of_clusters_and_the_margin_of_all():
    users = Spread(40, 39.0, 0.5)
    clusters = users._replace(is_clustered=True)

    assert math.isnan(users.plain_skewness)
    assert users.margin_skewness == clusters.plain_skewness == 0.5
    assert math.isnan(clusters._replace(is_mended=False).plain_skewness)


def test_numbers_that_do_not_exist_are_one_object_or_none():
    import numpy as np

    numbers = np.array([[1.0, NAN], [NAN, 2.0]])

    first, second = (each for each in listed(numbers) if each != each)
    assert first is second
    assert none_if_nan(numbers) == [1.0, None, None, 2.0]
