"""Signed ranks: by hand, by trying all signs, and as SciPy does."""

import math
from itertools import product

import numpy as np
import pytest
from campaigns import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.statistics.wilcoxon import Outcomes, count_outcomes, wilcoxon_test

laws = settings(deadline=None, max_examples=examples(150))
TIED = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9)
FEW = st.lists(st.floats(-1, 1), min_size=2, max_size=45, unique_by=abs)
MANY = st.lists(st.integers(-30, 30).map(lambda each: each / 8), min_size=51, max_size=120)


def all_signs(differences, *, pratt):
    """p by enumeration, from the words of the definition."""
    kept = differences if pratt else differences[differences != 0]
    ranks = stats.rankdata(np.abs(kept))[kept != 0]
    signs = np.sign(kept[kept != 0])
    observed = min(ranks[signs > 0].sum(), ranks[signs < 0].sum())
    sums = [
        float(sum(rank for rank, keep in zip(ranks, each, strict=True) if keep))
        for each in product((0, 1), repeat=ranks.size)
    ]
    return min(1.0, 2 * sum(each <= observed for each in sums) / len(sums))


def test_ranks_by_hand():
    # 0.5, -0.1, 0.3: ranks 3, 1, 2; negative sum 1; of 8 choices two have at most 1
    found = wilcoxon_test(np.array([0.5, -0.1, 0.3]))

    assert (found.statistic, found.p_value, found.n) == (1.0, 2 * 2 / 8, 3)


@laws
@given(differences=FEW)
def test_few_users_are_exact_as_in_scipy(differences):
    differences = np.array(differences)
    assume(np.count_nonzero(differences) == differences.size)
    found, expected = wilcoxon_test(differences), stats.wilcoxon(differences, method="exact")

    assert found.statistic == expected.statistic
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-12)


@laws
@given(differences=TIED)
@pytest.mark.parametrize("zeros", ["wilcox", "pratt"])
def test_few_users_with_ties_are_exact(differences, zeros):
    differences = np.array(differences)
    assume(np.any(differences))

    assert wilcoxon_test(differences, zeros=zeros).p_value == pytest.approx(
        all_signs(differences, pratt=zeros == "pratt"), rel=1e-12
    )


@pytest.mark.some_cases(2)
@laws
@given(differences=MANY)
@pytest.mark.parametrize("zeros", ["wilcox", "pratt"])
@pytest.mark.parametrize("continuity", [False, True])
def test_many_users_are_normal_as_in_scipy(differences, zeros, continuity):
    differences = np.array(differences)
    assume(np.count_nonzero(differences) > 1)
    found = wilcoxon_test(differences, zeros=zeros, method="normal", continuity=continuity)
    expected = stats.wilcoxon(
        differences, zero_method=zeros, correction=continuity, method="asymptotic"
    )

    assert found.statistic == expected.statistic
    assert found.p_value == pytest.approx(min(1.0, expected.pvalue), rel=1e-10)


def test_defaults_are_those_of_scipy_for_many_users():
    rng = np.random.default_rng(3)
    differences = np.where(rng.random(5000) < 0.4, rng.normal(0.02, 0.3, 5000), 0.0)
    expected = stats.wilcoxon(differences)

    found = wilcoxon_test(differences)
    assert (found.statistic, found.p_value) == pytest.approx(
        (expected.statistic, expected.pvalue), rel=1e-10
    )
    assert found.n == np.count_nonzero(differences)


def test_order_changes_nothing():
    rng = np.random.default_rng(5)
    differences = rng.integers(-9, 9, 300) / 10

    assert wilcoxon_test(rng.permutation(differences)) == wilcoxon_test(differences)


def test_undefined_differences_are_left_out():
    differences = np.array([0.5, math.nan, -0.1, 0.3])

    assert wilcoxon_test(differences) == wilcoxon_test(np.array([0.5, -0.1, 0.3]))


def test_no_difference_is_no_evidence_and_no_user_no_test():
    assert wilcoxon_test(np.zeros(4)).p_value == 1.0
    assert wilcoxon_test(np.array([0.7])).p_value == 1.0
    assert math.isnan(wilcoxon_test(np.array([math.nan])).p_value)
    assert math.isnan(wilcoxon_test(np.array([])).p_value)


def test_wins_ties_and_losses_are_counted_and_merge():
    differences = np.array([0.5, 0.0, -0.25, 0.5, math.nan, -0.0])

    whole = count_outcomes(differences)
    assert whole == Outcomes(wins=2, ties=2, losses=1, left_out=1)
    assert count_outcomes(differences[:2]).merge(count_outcomes(differences[2:])) == whole
    assert count_outcomes(differences, higher_is_better=False) == Outcomes(1, 2, 2, 1)
