"""The search over segments: what it lists, and that what it lists is mostly true."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from campaigns import examples
from scipy import stats

from evalkit.errors import RequestError
from evalkit.statistics.search import SegmentDelta, search_segments

SIZES = {"age": 4, "country": 6, "device": 3}


def people(n_users, rng):
    """Segment codes of users in three segmentations and their crosses, of unequal sizes."""
    plain = {
        name: np.minimum(rng.geometric(0.4, n_users) - 1, size - 1) for name, size in SIZES.items()
    }
    crosses = {
        f"{one} x {two}": plain[one] * SIZES[two] + plain[two]
        for one, two in itertools.combinations(SIZES, 2)
    }
    return {**plain, **crosses}


def deltas_of(differences, codes):
    found, powers = [], (differences, differences**2, differences**2 * differences)
    for name, code in codes.items():
        n = np.bincount(code)
        total, squares, cubes = (np.bincount(code, power) for power in powers)
        for segment in np.flatnonzero(n > 1):
            mean = total[segment] / n[segment]
            variance = (squares[segment] - n[segment] * mean * mean) / (n[segment] - 1)
            error = math.sqrt(max(0.0, variance) / n[segment])
            third = (cubes[segment] - 3 * mean * squares[segment]) / n[segment] + 2 * mean**3
            skewness = third / max(variance, 1e-30) ** 1.5
            found.append(
                SegmentDelta(name, str(segment), int(n[segment]), float(mean), error, skewness)
            )
    return found


def everyone_of(differences):
    return SegmentDelta(
        "",
        "",
        differences.size,
        float(differences.mean()),
        float(stats.sem(differences)),
        float(stats.skew(differences)),
    )


def zero_inflated(n_users, rng, *, skewed):
    """Differences as of two recommenders: most users see none; their mean is 0 on paper."""
    differs = rng.random(n_users) < 0.3
    if skewed:  # rare large losses, frequent small gains
        sizes = np.where(rng.random(n_users) < 0.2, -0.8, 0.2)
    else:
        sizes = rng.beta(0.7, 1.5, n_users) * rng.choice([-1.0, 1.0], n_users)
    return np.where(differs, sizes, 0.0)


def test_losses_and_gains_are_listed_by_size():
    segments = [
        SegmentDelta("age", "young", 400, -0.02, 0.002),
        SegmentDelta("age", "old", 400, -0.05, 0.01),
        SegmentDelta("age", "middle", 400, 0.001, 0.01),
        SegmentDelta("device", "phone", 400, 0.03, 0.002),
        SegmentDelta("device", "tv", 99, -0.9, 0.002),
    ]
    found = search_segments(segments, false_discovery_rate=0.05, min_users=100)

    assert [each.found.segment for each in found.losses] == ["old", "young"]
    assert [each.found.segment for each in found.gains] == ["phone"]
    assert [each.segment for each in found.too_small] == ["tv"]
    assert found.n_searched == 4
    assert found.losses[1].p_adjusted == pytest.approx(4 * found.losses[1].p_value)
    # three of four were picked: limits at 1 - 0.05 * 3 / 4
    reach = stats.t.ppf(1 - 0.05 * 3 / 4 / 2, 399) * 0.002
    assert found.gains[0].interval.low == pytest.approx(0.03 - reach)


def test_where_lower_is_better_losses_are_rises():
    segments = [SegmentDelta("age", "old", 400, 0.05, 0.001, higher_is_better=False)]
    found = search_segments(segments, false_discovery_rate=0.05, min_users=2)

    assert len(found.losses) == 1
    assert not found.gains


def test_several_metrics_are_one_search():
    plain = [SegmentDelta("age", str(n), 400, -0.01 * n, 0.01) for n in range(1, 6)]
    two = [*plain, *(replace(each, metric="RR", delta=0.0) for each in plain)]
    one_metric, both = (
        search_segments(each, false_discovery_rate=0.05, min_users=2) for each in (plain, two)
    )

    assert both.n_searched == 2 * one_metric.n_searched
    assert both.losses[0].p_adjusted == pytest.approx(2 * one_metric.losses[0].p_adjusted)


def test_a_segment_without_variance_is_not_searched():
    segments = [SegmentDelta("age", "old", 400, 0.05, 0.0), SegmentDelta("a", "b", 1, 0.1, None)]

    found = search_segments(segments, false_discovery_rate=0.05, min_users=1)
    assert found.n_searched == 0
    assert len(found.too_small) == 2


def test_against_others_is_welchs_test():
    rng = np.random.default_rng(3)
    code = rng.integers(0, 3, 900)
    differences = rng.normal(0.1, 0.3, 900) + 0.3 * (code == 1)
    found = search_segments(
        deltas_of(differences, {"age": code}),
        false_discovery_rate=0.1,
        min_users=2,
        against="others",
        everyone={"": everyone_of(differences)},
    )

    (gain,) = found.gains
    peer = stats.ttest_ind(
        differences[code == 1], differences[code != 1], equal_var=False, alternative="greater"
    )
    assert gain.found.segment == "1"
    assert gain.p_value == pytest.approx(peer.pvalue, rel=0.02)  # whole degrees of freedom
    assert gain.delta == pytest.approx(
        differences[code == 1].mean() - differences[code != 1].mean(), rel=1e-9
    )
    assert {each.found.segment for each in found.losses} == {"0", "2"}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_of_nothing_little_is_found(skewed, rate):
    rng = np.random.default_rng(17)
    draws, false = examples(1000), 0
    codes = people(4000, rng)
    for _ in range(draws):
        differences = zero_inflated(4000, rng, skewed=skewed)
        found = search_segments(
            deltas_of(differences, codes), false_discovery_rate=rate, min_users=100
        )
        false += bool(found.losses or found.gains)

    assert false / draws <= rate + 3 * math.sqrt(rate * (1 - rate) / draws)


def test_on_data_with_turned_signs_little_is_found():
    # real differences whose signs are drawn: what Fisher's test calls no effect
    rng = np.random.default_rng(23)
    codes = people(3000, rng)
    sizes = np.where(codes["age"] == 1, -0.3, 0.1) * rng.beta(0.7, 1.5, 3000)
    draws, false = 300, 0
    for _ in range(draws):
        turned = sizes * rng.choice([-1.0, 1.0], sizes.size)
        found = search_segments(deltas_of(turned, codes), false_discovery_rate=0.1, min_users=100)
        false += bool(found.losses or found.gains)

    assert false / draws <= 0.1 + 3 * math.sqrt(0.09 / draws)


def test_on_shuffled_segments_no_segment_stands_out():
    rng = np.random.default_rng(29)
    codes = people(3000, rng)
    differences = zero_inflated(3000, rng, skewed=False) + 0.05  # better everywhere
    everyone = {"": everyone_of(differences)}
    draws, false = 300, 0
    for _ in range(draws):
        found = search_segments(
            deltas_of(rng.permutation(differences), codes),
            false_discovery_rate=0.1,
            min_users=100,
            against="others",
            everyone=everyone,
        )
        false += bool(found.losses or found.gains)

    assert false / draws <= 0.1 + 3 * math.sqrt(0.09 / draws)


def test_beside_true_losses_few_are_false_and_limits_hold():
    # the old lose 0.05: they, and their crosses by their share of the old, are true losses
    rng = np.random.default_rng(31)
    rate, draws = 0.1, 200
    shares_false, shares_missed, n_found = [], [], 0
    codes = people(4000, rng)
    effects = np.where(codes["age"] == 2, -0.05, 0.0)
    truths = {(each.segmentation, each.segment): each.delta for each in deltas_of(effects, codes)}
    disjoint = {name for name in codes if "age" in name}  # elsewhere every segment loses a little
    kept = {name: code for name, code in codes.items() if name in disjoint}
    for _ in range(draws):
        differences = zero_inflated(4000, rng, skewed=False) + effects
        found = search_segments(
            deltas_of(differences, kept), false_discovery_rate=rate, min_users=50
        )
        listed = [*found.losses, *found.gains]
        true = [truths[each.found.segmentation, each.found.segment] for each in listed]
        false = [value >= 0.0 for value in true]
        missed = [not each.interval.holds(value) for each, value in zip(listed, true, strict=True)]
        shares_false.append(sum(false) / max(1, len(listed)))
        shares_missed.append(sum(missed) / max(1, len(listed)))
        n_found += len(listed)

    assert n_found > draws  # the old are found nearly always
    for shares in (shares_false, shares_missed):
        assert np.mean(shares) <= rate + 3 * np.std(shares) / math.sqrt(draws)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, math.nan])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(RequestError) as caught:
        search_segments([], false_discovery_rate=rate, min_users=2)

    assert caught.value.code == "bad-rate"


def test_against_others_needs_everyone():
    with pytest.raises(ValueError, match="everyone"):
        search_segments(
            [SegmentDelta("a", "b", 5, 0.1, 0.1)],
            false_discovery_rate=0.1,
            min_users=2,
            against="others",
        )
