"""Users who were not seen count: margins, limits, and families of skewed differences."""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.inference.drafts import Draft, limits_of
from evalkit.inference.spread import DifferenceSpread
from evalkit.statistics.unseen import (
    Seen,
    p_few,
    p_unseen,
    reach_few,
    reach_unseen,
    size_against,
)


def report_of(old, new, *, metric="nDCG@4", weights=None, **statistics):
    """Users with one relevant item, by its rank in each list; 0: it is not there."""
    n = len(old)
    truth = pl.DataFrame({"user": range(n), "item": range(n), "weight": weights or [1.0] * n})
    rankings = {
        name: pl.DataFrame(
            [
                (user, user if place == rank else -place, place)
                for user, rank in enumerate(ranks)
                for place in range(1, 5)
            ],
            schema=["user", "item", "rank"],
            orient="row",
        )
        for name, ranks in (("old", old), ("new", new))
    }
    chosen = {"baseline": "old", **statistics}
    return evalkit.evaluate(truth, rankings, metrics=[metric], statistics=chosen)


@pytest.mark.parametrize("metric", ["nDCG@4", "hit@4"])
@pytest.mark.parametrize("more", [{}, {"weight": {"by": "weight"}}, {"test": "t"}], ids=str)
def test_identical_lists_are_equivalent_only_where_users_not_seen_could_not_matter(metric, more):
    for n, verdict in ((20, "cannot tell"), (140, "cannot tell"), (160, "equivalent")):
        ranks = [1 + user % 3 for user in range(n)]
        (found,) = report_of(ranks, ranks, metric=metric, margin=0.02, **more).comparisons

        assert found.verdict == verdict
        assert found.p_equivalent >= p_unseen(0.02, 1.0, n) * (1 - 1e-12)
        assert (
            (found.low_margin > -0.02) == (found.high_margin < 0.02) == (verdict != "cannot tell")
        )


@pytest.mark.parametrize("n", [20, 100, 300])
@pytest.mark.parametrize("n_lost", [1, 2])
def test_models_worse_by_more_than_the_margin_do_not_pass(n, n_lost):
    rng = np.random.default_rng(n)
    passed, margin = 0, n_lost * 0.5 / n / 1.8
    for _ in range(1000):
        lost = int(np.count_nonzero(rng.random(n) < n_lost / n))
        delta = -0.5 * lost / n
        error = np.std([-0.5] * lost + [0.0] * (n - lost), ddof=1) / math.sqrt(n)
        spread = DifferenceSpread(n, n - 1.0, math.nan, widest=1.0, n_below=lost, n_above=0)
        low = spread.limits(delta, float(error), level=0.9, of_margin=True).low
        passed += low > -margin

    assert passed == 0


def test_p_is_where_a_limit_is_the_null():
    rng = np.random.default_rng(4)
    for _ in range(300):
        n, delta = int(rng.integers(5, 3000)), float(rng.random()) * 0.1
        shape = {
            "n_against": int(rng.integers(0, 20)),
            "squares": float(rng.random() * 9),
            "size": float(rng.choice([0.0, rng.random()])),
        }
        seen = Seen(1.0, n, **shape)
        p = seen.p_at_least(delta)
        assert seen.reach_at_least(p * (1 - 1e-9)) >= delta * (1 - 1e-6)
        assert seen.reach_at_least(p * (1 + 1e-9)) <= delta * (1 + 1e-6)
        assert reach_unseen(p_unseen(delta, 1.0, n), 1.0, n) == pytest.approx(delta)


def test_few_against_come_as_seldom_as_a_poisson_count():
    for n_against in (5, 10, 20, 60):
        for expected in (1.2 * n_against, 1.6 * n_against, 2.0 * n_against):
            found = p_few(expected - n_against, 1.0, 1.0, n_against)
            mid = np.mean(stats.poisson.cdf([n_against - 1, n_against], expected))
            assert found == pytest.approx(mid, rel=0.1)
            assert reach_few(found, 1.0, 1.0, n_against) == pytest.approx(expected - n_against)


@pytest.mark.parametrize(("n_against", "n_for"), [(4, 40), (20, 0), (3, 3)])
def test_sizes_of_two_points_are_found(n_against, n_for):
    values = np.array([-0.6] * n_against + [0.05] * n_for)
    found = size_against(values.sum(), (values**2).sum(), n_against, n_for)
    assert found == pytest.approx(0.6)
    assert size_against(-found, found, 0, 9) == 0.0  # nobody differs against it


def test_gains_of_many_sizes_do_not_hide_that_few_lose():
    old = [4, 3, 4, 3] * 60 + [1] * 12 + [2] * 348
    new = [3, 2, 2, 1] * 60 + [4] * 12 + [2] * 348
    values = [1.0 / np.log2(1.0 + np.array(each)) for each in (old, new)]
    deltas = values[1] - values[0]
    (found,) = report_of(old, new).comparisons

    size = size_against(deltas.sum(), (deltas**2).sum(), 12, 240)
    assert found.p_value == pytest.approx(2 * p_few(deltas.mean(), size, 600, 12), rel=1e-9)
    assert found.p_value > 2 * stats.ttest_rel(*values).pvalue
    few = deltas.mean() - reach_few(0.025, size, 600, 12)
    assert found.low <= few < deltas.mean()  # too few lose for limits at 0.05, as well


def drawn_spreads(rng, n_drafts):
    for _ in range(n_drafts):
        n = int(rng.integers(2, 2000))
        error = float(rng.random()) * 10.0 ** -rng.integers(1, 5)
        is_share = rng.random() < 0.3
        gained, lost = (int(rng.integers(0, n // 2 + 1) * rng.random()) for _ in range(2))
        table = (0, gained, lost, n - gained - lost) if is_share else None
        skewness = float(rng.normal()) * 5 if rng.random() < 0.8 else math.nan
        below, above = (int(rng.integers(0, 25)) for _ in range(2))
        widest = 1.0 if rng.random() < 0.8 else math.inf
        delta = (gained - lost) / n if is_share else float(rng.normal()) * 2 * error
        error = 0.0 if rng.random() < 0.1 else error
        more = {"n_below": below, "n_above": above, "is_plain": rng.random() < 0.3}
        yield DifferenceSpread(n, n - 1.0, skewness, widest, table, **more), delta, error


def test_limits_of_many_differences_are_those_of_each():
    rng = np.random.default_rng(2)
    drawn = list(drawn_spreads(rng, 600))
    levels = [1.0 - 0.05 / int(rng.integers(1, 60)) for _ in drawn]
    drafts = [
        Draft("a", "b", "m", None, None, spread, delta, error, *[math.nan] * 6, 9, 0, 0, 0, None)
        for spread, delta, error in drawn
    ]

    low, high = limits_of(drafts, levels)

    for place, ((spread, delta, error), level) in enumerate(zip(drawn, levels, strict=True)):
        expected = spread.limits(delta, error, level=level)
        np.testing.assert_array_equal([low[place], high[place]], [expected.low, expected.high])


@pytest.mark.parametrize(("n_lost", "is_unseen"), [(0, True), (4, True), (12, False)])
def test_a_verdict_counts_who_was_not_seen_until_enough_differ_against_it(n_lost, is_unseen):
    n = 60
    old = [2] * 20 + [1] * n_lost + [3] * (n - 20 - n_lost)
    new = [1] * 20 + [2] * n_lost + [3] * (n - 20 - n_lost)
    (found,) = report_of(old, new).comparisons
    (student,) = report_of(old, new, test="t").comparisons

    assert found.test == ("hall, unseen" if is_unseen else "hall")
    assert found.p_value >= student.p_value
    assert (found.low > 0.0) == (found.p_value < 0.05)
    if is_unseen:
        assert found.p_value == pytest.approx(2 * p_unseen(found.delta, 1.0, n))


@pytest.mark.parametrize("statistics", [{}, {"test": "t"}, {"cluster": "user"}], ids=str)
@pytest.mark.parametrize("metric", ["nDCG@4", "hit@1"])
def test_relative_limits_hold_0_where_those_of_the_difference_do(metric, statistics):
    base = [1 + user % 3 for user in range(300)]
    for n_gained in (1, 4, 5, 12, 40):
        gained = [1 if user % 3 == 1 and user < 3 * n_gained else 0 for user in range(300)]
        new = [one if one else rank for one, rank in zip(gained, base, strict=True)]
        (found,) = report_of(base, new, metric=metric, **statistics).comparisons

        assert (found.relative_low > 0.0) == (found.low > 0.0)
        assert found.relative_low <= found.relative <= found.relative_high


def test_relative_limits_of_a_difference_that_all_share_are_as_wide_as_its_own():
    (found,) = report_of([1] * 5, [4] * 5).comparisons

    assert found.relative_low == pytest.approx(found.low)  # the baseline is 1 of everyone
    assert found.relative_high == pytest.approx(found.high)
    assert found.low < found.delta < found.high


def test_the_effect_size_is_that_of_users_whatever_weights_they_have():
    rng = np.random.default_rng(3)
    n = 60
    old, new = rng.integers(1, 5, n), rng.integers(1, 5, n)
    for most in (1.0, 3.0, 30.0):
        weights = rng.uniform(1.0, most, n)
        values = [1.0 / np.log2(1.0 + ranks) for ranks in (old, new)]
        (found,) = report_of(
            old.tolist(), new.tolist(), weight={"by": "weight"}, weights=weights.tolist()
        ).comparisons

        deltas = values[1] - values[0]
        expected = np.average(deltas, weights=weights) / deltas.std(ddof=1)
        assert found.effect_size == pytest.approx(expected)
