"""Tukey's test over users and models, from pairs alone; letters for models that are alike."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.anova import AnovaRM

from evalkit.statistics.intervals import mean_interval
from evalkit.statistics.paired import p_of_t_tests
from evalkit.statistics.tukey import group_letters, tukey_test


def pairs_of(values):
    return {
        (i, j): float(stats.sem(values[:, j] - values[:, i]))
        for i, j in itertools.combinations(range(values.shape[1]), 2)
    }


def layout(n_users, n_models, seed=0):
    rng = np.random.default_rng(seed)
    users, models = rng.normal(0.3, 0.2, (n_users, 1)), rng.normal(0, 0.02, (1, n_models))
    return users + models + rng.normal(0, 0.1, (n_users, n_models))


@pytest.mark.parametrize(("n_users", "n_models"), [(2, 2), (5, 3), (40, 4), (300, 7)])
def test_pairs_give_the_residuals_of_the_layout(n_users, n_models):
    values = layout(n_users, n_models)
    residuals = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    df = (n_users - 1) * (n_models - 1)

    found = tukey_test(values.mean(axis=0).tolist(), pairs_of(values), n_users, level=0.95)
    assert found.df == df
    assert found.mean_square == pytest.approx(np.sum(residuals**2) / df, rel=1e-11)


def test_f_is_that_of_repeated_measures_in_statsmodels():
    values = layout(30, 4)
    long = pd.DataFrame(values).stack().reset_index()
    long.columns = ["user", "model", "value"]
    table = AnovaRM(long, "value", "user", within=["model"]).fit().anova_table

    found = tukey_test(values.mean(axis=0).tolist(), pairs_of(values), 30, level=0.95)
    assert found.f == pytest.approx(table["F Value"].iloc[0], rel=1e-9)
    assert found.f_p_value == pytest.approx(table["Pr > F"].iloc[0], rel=1e-9)


def test_p_values_and_limits_are_those_of_the_studentised_range():
    values = layout(25, 5, seed=2)
    means = values.mean(axis=0)
    found = tukey_test(means.tolist(), pairs_of(values), 25, level=0.9)
    error = math.sqrt(found.mean_square / 25)
    reach = stats.studentized_range.ppf(0.9, 5, found.df) * error

    for pair in found.pairs:
        delta = means[pair.candidate] - means[pair.baseline]
        q = abs(delta) / error
        assert pair.delta == pytest.approx(delta, abs=1e-15)
        assert pair.p_value == pytest.approx(
            stats.studentized_range.sf(q, 5, found.df), rel=1e-8, abs=1e-12
        )
        assert (pair.interval.low, pair.interval.high) == pytest.approx(
            (delta - reach, delta + reach), rel=1e-6
        )
        assert pair.interval.holds(0.0) == (pair.p_value > 0.1)


def test_of_two_models_it_is_the_paired_t_test():
    values = layout(50, 2)
    errors = pairs_of(values)
    (pair,) = tukey_test(values.mean(axis=0).tolist(), errors, 50, level=0.95).pairs

    (expected,) = p_of_t_tests([pair.delta], [errors[0, 1]], [50], [math.nan], [49])
    limits = mean_interval(pair.delta, errors[0, 1], 50, level=0.95)
    assert pair.p_value == pytest.approx(expected, rel=1e-11)
    assert (pair.interval.low, pair.interval.high) == pytest.approx((limits.low, limits.high))


def test_the_family_error_is_kept_under_the_null():
    rng = np.random.default_rng(9)
    draws, false = 250, 0
    for _ in range(draws):
        values = rng.normal(size=(40, 1)) + rng.normal(size=(40, 4))
        found = tukey_test(values.mean(axis=0).tolist(), pairs_of(values), 40, level=0.9)
        false += min(pair.p_value for pair in found.pairs) <= 0.1

    assert abs(false / draws - 0.1) < 3 * math.sqrt(0.1 * 0.9 / draws)


def test_one_user_has_no_test():
    found = tukey_test([0.1, 0.2, 0.3], {(0, 1): None, (0, 2): None, (1, 2): None}, 1, level=0.95)

    assert len(found.pairs) == 3
    assert all(math.isnan(pair.p_value) and not pair.interval.exists for pair in found.pairs)


def test_without_variance_any_difference_is_one():
    errors = {(0, 1): 0.0, (0, 2): 0.0, (1, 2): 0.0}
    found = tukey_test([0.1, 0.1, 0.3], errors, 20, level=0.95)

    flipped = 3 * 2.0**-19  # signs of 20 users, by Bonferroni over the pairs
    assert [pair.p_value for pair in found.pairs] == [1.0, flipped, flipped]
    few = tukey_test([0.1, 0.1, 0.3], errors, 3, level=0.95)
    assert [pair.p_value for pair in few.pairs] == [1.0, 0.75, 0.75]
    assert not any(pair.interval.exists for pair in few.pairs)


LETTERS = [
    # pairs that differ                  by hand
    (3, [],                              ["a", "a", "a"]),
    (3, [(0, 1), (0, 2), (1, 2)],        ["a", "b", "c"]),
    (3, [(0, 2)],                        ["a", "ab", "b"]),
    (4, [(0, 2), (0, 3), (1, 3)],        ["a", "ab", "bc", "c"]),
    (4, [(0, 1)],                        ["a", "b", "ab", "ab"]),  # no chain of intervals
    (1, [],                              ["a"]),
    (0, [],                              []),
]  # fmt: skip


def alike(n, different):
    return [[(min(i, j), max(i, j)) not in different for j in range(n)] for i in range(n)]


@pytest.mark.parametrize(("n", "different", "expected"), LETTERS)
def test_letters_by_hand(n, different, expected):
    assert group_letters(alike(n, different)) == expected


@settings(deadline=None, max_examples=examples(200))
@given(n=st.integers(1, 8), data=st.data())
def test_models_share_a_letter_where_they_are_alike(n, data):
    pairs = list(itertools.combinations(range(n), 2))
    different = set(data.draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else set()
    letters = group_letters(alike(n, different))

    assert all(letters)
    for i, j in pairs:
        assert bool(set(letters[i]) & set(letters[j])) == ((i, j) not in different)
