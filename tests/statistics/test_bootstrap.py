"""The Poisson bootstrap: draws that never change, sums without an order, limits that hold."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import JIT_OFF
from scipy import stats

from evalkit.errors import DataError, RequestError
from evalkit.statistics import _draws
from evalkit.statistics.bootstrap import (
    KINDS,
    Resamples,
    acceleration,
    bca_interval,
    estimate_bytes,
    percentile_interval,
    studentised_interval,
)

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
laws = settings(deadline=None, max_examples=examples(30))
compiled = pytest.mark.skipif(JIT_OFF, reason="too many draws for plain Python")


def mix(bits):
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def naive_weight(seed, key, replicate):
    """The weight from the documentation's words, with Poisson's probabilities in floats."""
    start = mix((mix(key ^ mix((seed + GOLDEN) & MASK)) + GOLDEN) & MASK)
    bits = mix((start + (replicate // 2 + 1) * GOLDEN) & MASK)
    draw = (bits >> 32 if replicate % 2 else bits & 0xFFFFFFFF) / 2**32
    below, weight = 0.0, 0
    for k in range(13):
        below += math.exp(-1) / math.factorial(k)
        weight += draw >= math.floor(below * 2**32) / 2**32
    return weight


def logs(n_users, n_columns=2, *, n_segments=1, undefined=0.0, seed=0):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n_users, n_columns)) < 0.4, rng.random((n_users, n_columns)), 0.0)
    values[rng.random(values.shape) < undefined] = np.nan
    keys = rng.integers(0, 2**64, n_users, dtype=np.uint64)
    segments = rng.integers(-1 if n_segments > 1 else 0, n_segments, n_users, dtype=np.int32)
    return keys, values, segments


def resample(keys, values, segments=None, *, parts=1, n_segments=1, squares=False, **given):
    given = {"replicates": 100, "seed": 7, **given}
    made = []
    for part in np.array_split(np.arange(keys.size), parts):
        found = Resamples.empty(
            [1.0] * values.shape[1], n_segments=n_segments, squares=squares, **given
        )
        found.add(keys[part], values[part], None if segments is None else segments[part])
        made.append(found)
    first = made[0]
    for other in made[1:]:
        first.merge(other)
    return first


def state(resamples):
    return [each.tolist() for each in (resamples.sums, resamples.totals, resamples.moments)] + [
        resamples.missing.tolist()
    ]


@pytest.mark.parametrize("replicate", [0, 1, 2, 63, 64, 65, 99])
def test_weights_are_those_of_the_documentation(replicate):
    for seed, key in [(0, 0), (1, 0), (7, 1), (7, 2**64 - 1), (-3 & MASK, 12345678901234567890)]:
        found = resample(np.array([key], dtype=np.uint64), np.ones((1, 1)), seed=seed)
        assert found.totals[0, replicate] == naive_weight(seed, key, replicate)


def test_weights_never_change():
    found = resample(np.array([42], dtype=np.uint64), np.ones((1, 1)), seed=1)

    assert found.totals[0, :20].tolist() == FROZEN


FROZEN = [2, 1, 1, 1, 0, 0, 0, 1, 2, 0, 4, 1, 1, 1, 0, 2, 0, 1, 1, 0]


def test_thresholds_are_the_poisson_probabilities():
    below = stats.poisson.cdf(np.arange(13), 1.0)

    found = (np.array(_draws.THRESHOLDS.plain) + 2.0**31) / 2.0**32
    assert np.all(found <= below)
    np.testing.assert_allclose(found, below, atol=2.0**-32, rtol=0)


@pytest.mark.parametrize("undefined", [0.0, 0.2])
def test_replicates_are_the_weighted_means(undefined):
    keys, values, _ = logs(23, undefined=undefined)
    found = resample(keys, values)

    for replicate in (0, 1, 17, 99):
        weights = np.array([naive_weight(7, int(key), replicate) for key in keys])
        for column in range(2):
            defined = ~np.isnan(values[:, column])
            expected = np.average(values[defined, column], weights=weights[defined])
            assert found.replicate_means(column)[replicate] == pytest.approx(expected, abs=1e-10)


@laws
@given(parts=st.integers(1, 7), seed=st.integers(0, 5), undefined=st.sampled_from([0.0, 0.3]))
def test_any_split_and_any_order_give_the_same_sums(parts, seed, undefined):
    keys, values, segments = logs(31, n_segments=3, undefined=undefined, seed=seed)
    order = np.random.default_rng(seed).permutation(keys.size)
    whole = resample(keys, values, segments, n_segments=3)
    split = resample(keys[order], values[order], segments[order], n_segments=3, parts=parts)

    assert state(split) == state(whole)


@compiled
def test_threads_change_no_bit():
    keys, values, segments = logs(20_000, 3, n_segments=4, undefined=0.01)
    whole = resample(keys, values, segments, n_segments=4, squares=True)
    parts = np.array_split(np.arange(keys.size), 16)

    def work(part):
        return resample(keys[part], values[part], segments[part], n_segments=4, squares=True)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(work, parts))
    total = reduce(lambda one, two: one.merge(two) or one, made)

    assert state(total) == state(whole)
    for kind in ("percentile", "bca", "studentised"):
        assert total.interval(0, level=0.9, kind=kind) == whole.interval(0, level=0.9, kind=kind)


def test_segments_are_as_if_they_were_alone_and_add_up():
    keys, values, segments = logs(60, n_segments=3)
    together = resample(keys, values, segments, n_segments=3)

    for code in range(3):
        alone = resample(keys[segments == code], values[segments == code])
        np.testing.assert_array_equal(
            together.over(np.array([code])).replicate_means(1), alone.replicate_means(1)
        )
    kept = resample(keys[segments >= 0], values[segments >= 0])
    np.testing.assert_array_equal(together.replicate_means(0), kept.replicate_means(0))


def test_a_user_weighs_the_same_beside_others():
    keys, values, _ = logs(10)
    one, two = resample(keys[:1], values[:1]), resample(keys[1:], values[1:])

    np.testing.assert_array_equal(one.totals + two.totals, resample(keys, values).totals)


def test_users_of_one_key_share_their_weights():
    keys = np.array([5, 5, 5], dtype=np.uint64)
    found = resample(keys, np.array([[0.0], [0.5], [1.0]]))

    means = found.replicate_means(0)
    assert set(means[~np.isnan(means)]) == {0.5}


def test_read_only_and_strided_arrays_are_taken():
    keys, values, _ = logs(40)
    values = np.asfortranarray(values)
    values.flags.writeable = keys.flags.writeable = False

    assert state(resample(keys, values)) == state(resample(keys.copy(), values.copy(order="C")))


def test_state_survives_pickling():
    keys, values, segments = logs(20, n_segments=2)
    found = resample(keys, values, segments, n_segments=2)

    assert state(pickle.loads(pickle.dumps(found))) == state(found)


@compiled
def test_weights_are_poisson_and_independent():
    n_users, replicates = 2000, 640
    weights = np.stack(
        [
            resample(
                np.array([key], dtype=np.uint64), np.ones((1, 1)), replicates=replicates
            ).totals[0]
            for key in range(n_users)  # neighbouring keys: the hash has to do all the work
        ]
    )
    observed = np.bincount(weights.ravel(), minlength=8)[:8]
    observed[7] = weights.size - observed[:7].sum()
    expected = np.append(stats.poisson.pmf(np.arange(7), 1), stats.poisson.sf(6, 1)) * weights.size

    assert stats.chisquare(observed, expected, sum_check=False).pvalue > 1e-3
    centred = weights - 1.0
    between_users = centred @ centred.T / math.sqrt(replicates)
    between_replicates = centred.T @ centred / math.sqrt(n_users)
    for scaled in (between_users, between_replicates):
        off = scaled[np.triu_indices_from(scaled, 1)]
        assert abs(off.mean()) < 5 / math.sqrt(off.size)
        assert off.std() == pytest.approx(1.0, abs=0.02)
        assert np.abs(off).max() < 7.0


@compiled
def test_limits_agree_with_those_of_the_mean_and_of_scipy():
    keys, values, _ = logs(4000, 1, seed=3)
    column = values[:, 0]
    found = resample(keys, values, replicates=4000, squares=True)
    error = stats.sem(column)
    normal = stats.norm.interval(0.95, column.mean(), error)
    peer = stats.bootstrap(
        (column,), np.mean, n_resamples=4000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval

    for kind, expected in [("percentile", normal), ("bca", peer), ("studentised", normal)]:
        limits = found.interval(0, level=0.95, kind=kind)
        assert (limits.low, limits.high) == pytest.approx(expected, abs=0.12 * error)


def test_acceleration_is_that_of_the_jackknife():
    keys, values, _ = logs(200, 1)
    column = values[:, 0]
    left_out = (column.sum() - column) / (column.size - 1)
    away = left_out.mean() - left_out
    expected = np.sum(away**3) / (6 * np.sum(away**2) ** 1.5)

    found = acceleration(resample(keys, values).moments[0, 0])
    assert found == pytest.approx(expected, rel=1e-6)


def test_moments_of_many_users_do_not_wrap():
    found = Resamples.empty([1024.0], replicates=100, seed=1)
    values = np.tile(np.array([[-1024.0], [1024.0], [1024.0]]), (100, 1))
    found.add(np.arange(300, dtype=np.uint64), values)
    moments = found.moments[0, 0] * 100_000  # as of thirty million users

    expected = stats.skew([-1.0, 1.0, 1.0]) / 6 / math.sqrt(3e7)
    assert acceleration(moments) == pytest.approx(expected, rel=1e-9)


def test_bca_by_hand():
    # replicates 1 .. 99 around an estimate of 60.5: 60 of 99 are below
    replicates = np.arange(1.0, 100.0)
    bias = stats.norm.ppf(60 / 99)
    tails = [
        stats.norm.cdf(bias + (bias + z) / (1 - 0.01 * (bias + z)))
        for z in stats.norm.ppf([0.05, 0.95])
    ]

    found = bca_interval(replicates, 60.5, 0.01, level=0.9)
    assert (found.low, found.high) == pytest.approx([100 * tail for tail in tails], rel=1e-9)


@pytest.fixture(scope="module")
def drawn():
    """Values of two thousand users, and a thousand resamples of them."""
    values = np.random.default_rng(3).normal(0.1, 0.2, (2_000, 1)).clip(-1.0, 1.0)
    found = Resamples.empty([1.0], replicates=1000, seed=5, squares=True)
    found.add(np.arange(2_000, dtype=np.uint64), values)
    return values, found


@compiled
@pytest.mark.parametrize("kind", KINDS)
def test_limits_beyond_the_draws_are_those_of_a_tail(drawn, kind):
    values, found = drawn
    mean, error = float(values.mean()), float(stats.sem(values[:, 0]))

    level = 1.0 - 0.05 / 300  # of one of 300 tests, by Bonferroni
    for limit, expected in zip(
        (
            found.interval(0, level=level, kind=kind).low,
            found.interval(0, level=level, kind=kind).high,
        ),
        stats.t.interval(level, 1_999, loc=mean, scale=error),
        strict=True,
    ):
        assert (limit - mean) / (expected - mean) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_limits_never_draw_nearer_as_the_level_rises(kind):
    values = np.random.default_rng(4).exponential(0.1, (50, 1)).clip(0.0, 1.0)
    found = Resamples.empty([1.0], replicates=200, seed=5, squares=True)
    found.add(np.arange(50, dtype=np.uint64), values)

    limits = [
        found.interval(0, level=level, kind=kind) for level in (0.9, 0.95, 0.99, 0.999, 0.99999)
    ]

    assert [each.low for each in limits] == sorted((each.low for each in limits), reverse=True)
    assert [each.high for each in limits] == sorted(each.high for each in limits)


def test_percentiles_by_hand():
    found = percentile_interval(np.append(np.arange(99.0, 0.0, -1.0), np.nan), level=0.9)

    assert (found.low, found.high) == pytest.approx((5.0, 95.0))


def test_studentised_by_hand():
    # t statistics -49 .. 49; their 5 % and 95 % quantiles are -45 and 45
    replicates = np.arange(-49.0, 50.0) * 0.1 + 3.0
    found = studentised_interval(replicates, np.full(99, 0.1), 3.0, 0.01, level=0.9)

    assert (found.low, found.high) == pytest.approx((3.0 - 0.45, 3.0 + 0.45))


def test_without_bias_and_skewness_bca_is_the_percentile():
    replicates = np.random.default_rng(2).normal(size=999)
    estimate = float(np.median(replicates))

    assert bca_interval(replicates, estimate, 0.0, level=0.9).low == pytest.approx(
        percentile_interval(replicates, level=0.9).low, rel=1e-9
    )


@pytest.mark.parametrize("kind", ["percentile", "bca", "studentised"])
def test_one_value_for_all_has_limits_of_no_width(kind):
    keys, _, _ = logs(30)
    found = resample(keys, np.full((30, 1), 0.3), squares=True)

    limits = found.interval(0, level=0.95, kind=kind, estimate=0.3)
    assert (limits.low, limits.high) == (0.3, 0.3)


@pytest.mark.parametrize("kind", ["percentile", "bca", "studentised"])
@pytest.mark.parametrize("n_users", [0, 1])
def test_below_two_users_there_are_no_limits(kind, n_users):
    keys, values, _ = logs(n_users)
    found = resample(keys, values, squares=True)

    assert not found.interval(0, level=0.95, kind=kind).exists
    assert math.isnan(found.test(0).p_value)


def test_all_users_undefined_have_no_limits():
    keys, _, _ = logs(5)
    found = resample(keys, np.full((5, 1), np.nan))

    assert not found.interval(0, level=0.95).exists
    assert math.isnan(found.estimate(0))


@pytest.mark.parametrize("squares", [False, True])
def test_p_is_small_of_a_clear_difference_and_one_of_none(squares):
    keys, values, _ = logs(200, 1)
    shifted = resample(keys, values, squares=squares)
    nothing = resample(keys, np.zeros((200, 1)), squares=squares)

    assert 0.0 < shifted.test(0).p_value < 1e-9
    assert shifted.test(0).is_tail
    assert nothing.test(0).p_value == 1.0


def test_columns_of_any_size_are_resampled_alike():
    keys, values, _ = logs(50, 1)
    small = resample(keys, values)
    large = Resamples.empty([1024.0], replicates=100, seed=7)
    large.add(keys, values * 1024.0)

    np.testing.assert_array_equal(large.replicate_means(0), small.replicate_means(0) * 1024.0)


@pytest.mark.parametrize("value", [1.5, -2.0, math.inf])
def test_a_value_beyond_its_bound_is_refused(value):
    keys, values, _ = logs(10)
    values[3, 1] = value

    with pytest.raises(DataError) as caught:
        resample(keys, values)
    assert caught.value.code == "value-beyond-bound"


def test_a_segment_that_does_not_exist_is_refused():
    keys, values, _ = logs(4)

    with pytest.raises(IndexError):
        resample(keys, values, np.array([0, 0, 0, 2], dtype=np.int32), n_segments=2)


def test_more_users_than_the_sums_hold_are_refused(monkeypatch):
    monkeypatch.setattr("evalkit.statistics._draws.MOST_USERS", 10)
    keys, values, _ = logs(11)

    with pytest.raises(DataError) as caught:
        resample(keys, values, parts=2)
    assert caught.value.code == "too-many-users"


def test_too_few_replicates_are_refused():
    with pytest.raises(RequestError) as caught:
        Resamples.empty([1.0], replicates=99, seed=1)

    assert caught.value.code == "too-few-replicates"


@pytest.mark.parametrize("squares", [False, True])
def test_memory_is_what_the_estimate_says(squares):
    keys, values, segments = logs(50, 4, n_segments=6, undefined=0.1)
    found = resample(keys, values, segments, n_segments=6, squares=squares, replicates=200)
    held = sum(each.nbytes for each in (found.sums, found.totals, found.missing, found.moments))

    assert held == estimate_bytes(4, replicates=200, n_segments=6, squares=squares)
