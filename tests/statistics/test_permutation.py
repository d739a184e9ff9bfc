"""The sign-flip test: exact for few users, without an order for many."""

import math
from itertools import product

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import JIT_OFF
from scipy import stats

from evalkit.errors import RequestError
from evalkit.statistics.corrections import adjust
from evalkit.statistics.permutation import MOST_EXACT, SignFlips, estimate_bytes

laws = settings(deadline=None, max_examples=examples(30))
compiled = pytest.mark.skipif(JIT_OFF, reason="too many draws for plain Python")


def keys_of(n_users):
    return np.random.default_rng(n_users).integers(0, 2**64, n_users, dtype=np.uint64)


def permutation_test(differences, keys, *, replicates, seed):
    flips = SignFlips.empty(
        [float(np.nanmax(np.abs(differences), initial=0.0))], replicates=replicates, seed=seed
    )
    flips.add(keys, differences.reshape(-1, 1))
    return flips.test(0)


def flip(differences, segments=None, *, keys=None, parts=1, n_segments=1, order=None):
    keys = keys_of(len(differences)) if keys is None else keys
    made = []
    for part in np.array_split(np.arange(keys.size) if order is None else order, parts):
        found = SignFlips.empty(
            [1.0] * differences.shape[1], replicates=100, seed=3, n_segments=n_segments
        )
        found.add(keys[part], differences[part], None if segments is None else segments[part])
        made.append(found)
    for other in made[1:]:
        made[0].merge(other)
    return made[0]


def test_every_sign_is_tried_by_hand():
    # 3, 1, 1: of eight sums 5, 3, 3, 1 and their negatives, two are as far as 5
    found = permutation_test(np.array([3.0, 1.0, 1.0]), keys_of(3), replicates=100, seed=1)

    assert found.p_value == 2 / 8
    assert found.statistic == 5.0
    assert found.n == 3


@laws
@given(differences=st.lists(st.sampled_from([0.0, 0.1, -0.1, 0.2, 0.3, -0.3, 1.0]), max_size=9))
def test_few_users_have_the_exact_p(differences):
    found = permutation_test(
        np.array(differences, dtype=np.float64), keys_of(len(differences)), replicates=100, seed=1
    )

    tenths = [round(10 * each) for each in differences if each]
    sums = [
        abs(sum(s * d for s, d in zip(signs, tenths, strict=True)))
        for signs in product((1, -1), repeat=len(tenths))
    ]
    assert found.p_value == sum(each >= abs(sum(tenths)) for each in sums) / len(sums)


def test_few_users_agree_with_scipy():
    differences = np.random.default_rng(8).normal(0.2, 0.4, 12)
    peer = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
    )

    found = permutation_test(differences, keys_of(12), replicates=100, seed=1)
    assert found.p_value == pytest.approx(peer.pvalue, rel=1e-12)


@compiled
def test_many_users_agree_with_the_t_test():
    differences = np.random.default_rng(4).normal(0.02, 0.5, 3000)

    found = permutation_test(differences, keys_of(3000), replicates=20_000, seed=1)
    assert found.p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.012)


@laws
@given(parts=st.integers(1, 6), seed=st.integers(0, 9), n_users=st.sampled_from([5, 20, 70]))
def test_any_split_and_any_order_give_the_same_test(parts, seed, n_users):
    rng = np.random.default_rng(seed)
    differences = np.where(rng.random((n_users, 2)) < 0.5, rng.uniform(-1, 1, (n_users, 2)), 0.0)
    differences[rng.random((n_users, 2)) < 0.1] = np.nan
    segments = rng.integers(-1, 3, n_users, dtype=np.int32)
    whole = flip(differences, segments, n_segments=3)
    split = flip(differences, segments, n_segments=3, parts=parts, order=rng.permutation(n_users))

    assert split.sums.tolist() == whole.sums.tolist()
    for some in ([0, 1, 2], [0], [1], [2]):
        for column in (0, 1):
            found = whole.over(np.array(some)).test(column)
            assert split.over(np.array(some)).test(column) == found


def test_users_without_difference_change_nothing():
    differences = np.random.default_rng(1).uniform(-1, 1, 30)
    padded = np.concatenate([differences, np.zeros(50), np.full(9, np.nan)])
    keys = keys_of(89)

    assert permutation_test(padded, keys, replicates=200, seed=5) == permutation_test(
        differences, keys[:30], replicates=200, seed=5
    )


@pytest.mark.parametrize("differences", [[], [0.0, 0.0], [math.nan]])
def test_no_difference_is_no_evidence(differences):
    found = permutation_test(
        np.array(differences), keys_of(len(differences)), replicates=100, seed=1
    )

    assert found.p_value == 1.0
    assert found.n == 0


@compiled
def test_signs_are_fair_and_independent():
    n_users, replicates = 2000, 640
    signs = np.empty((n_users, replicates))
    for key in range(n_users):
        found = SignFlips.empty([1.0], replicates=replicates, seed=1)
        found.add(np.array([key], dtype=np.uint64), np.ones((1, 1)))
        signs[key] = found.sums[0, 0] / 2.0**36

    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 5 / math.sqrt(signs.size)
    between_users = signs @ signs.T / math.sqrt(replicates)
    off = between_users[np.triu_indices(n_users, 1)]
    assert off.std() == pytest.approx(1.0, abs=0.02)
    assert np.abs(off).max() < 7.0


def test_p_is_never_below_that_of_the_rarest_signs():
    found = permutation_test(
        np.ones(MOST_EXACT + 1), keys_of(MOST_EXACT + 1), replicates=100, seed=1
    )

    assert found.p_value >= 2.0**-MOST_EXACT
    assert found.p_value < 1 / 101
    assert found.is_tail


@compiled
def test_beyond_the_draws_p_is_that_of_many_more_draws():
    differences = np.random.default_rng(4).normal(0.04, 0.5, 3000)
    t = stats.ttest_1samp(differences, 0).pvalue

    found = permutation_test(differences, keys_of(3000), replicates=1000, seed=1)
    assert t < 1e-4
    assert 0.2 < math.log(found.p_value) / math.log(t) < 1.2


@compiled
def test_holm_finds_what_is_far_among_many_tests():
    rng = np.random.default_rng(19)
    differences = rng.normal(np.linspace(0.05, 0.6, 60), 0.5, (800, 60))
    flips = SignFlips.empty([4.0] * 60, replicates=1000, seed=1)
    flips.add(keys_of(800), differences)

    found = [flips.test(column).p_value for column in range(60)]
    assert sum(p <= 0.05 for p in adjust(found, "holm").p_adjusted) >= 50


def test_too_few_replicates_are_refused():
    with pytest.raises(RequestError) as caught:
        permutation_test(np.ones(3), keys_of(3), replicates=10, seed=1)

    assert caught.value.code == "too-few-replicates"


def test_memory_is_within_the_estimate():
    found = flip(np.ones((30, 2)))

    held = found.sums.nbytes + found.totals.nbytes + found.counts.nbytes
    assert held <= estimate_bytes(2, replicates=100)
