"""Effects of ready-made units held against what plain NumPy and SciPy make of the same rows."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.errors import DataError
from evalkit.statistics.quantiles import Sorted, deviation_at, deviation_of
from evalkit.statistics.sample_ratio import binomial_p

VARIANTS = {"a": 1, "b": 9}
ALWAYS_VALID = {"method": "always-valid", "tightest_at": 600}


def units_of(draw, n=(30, 270), **columns):
    rows = pl.DataFrame({"variant": ["a"] * n[0] + ["b"] * n[1]})
    return rows.with_row_index("unit").with_columns(y=draw.normal(10, 3, sum(n)), **columns)


def sides(units, column="y"):
    return (units.filter(variant=name)[column].to_numpy() for name in VARIANTS)


def effect(units, metric="mean(y)", statistics=None, **asked):
    own = {"level": 0.95, **(statistics or {})}
    return evalkit.evaluate_experiment(
        units, variants=VARIANTS, metrics=[metric], statistics=own, **asked
    )


def test_one_variance_of_both_variants_makes_relative_limits_and_margins_of_unequal_sizes():
    """Fieller's limits and the margin's t of candidate - (1 + t) baseline, whose variance is
    s^2 (1 / n_b + (1 + t)^2 / n_a).
    """
    units = units_of(np.random.default_rng(1))
    a, b = sides(units)
    df = a.size + b.size - 2
    square = ((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / df
    reach = stats.t.isf(0.025, df) ** 2 * square
    one, both, other = a.mean() ** 2 - reach / a.size, a.mean() * b.mean(), b.mean() ** 2
    half = np.sqrt(both**2 - one * (other - reach / b.size))
    z = (b.mean() - 0.98 * a.mean()) / np.sqrt(square * (1 / b.size + 0.98**2 / a.size))

    (found,) = effect(units, statistics={"variance": "pooled", "margin_relative": 0.02}).comparisons

    assert found.relative_low == pytest.approx((both - half) / one - 1)
    assert found.relative_high == pytest.approx((both + half) / one - 1)
    assert found.p_not_inferior == pytest.approx(stats.t.sf(z, df))


def test_a_stratum_that_one_variant_lacks_leaves_a_pooled_test_undefined():
    draw = np.random.default_rng(2)
    units = units_of(draw, stratum=pl.Series(["rare"] + ["common"] * 299))

    report = effect(units, statistics={"variance": "pooled", "strata": ["stratum"]})

    assert report.comparisons[0].verdict == "not tested"
    assert [each.code for each in report.warnings] == ["no-interval"]


def test_fractions_with_limits_of_counts_are_not_adjusted_by_covariates():
    """Newcombe's limits are of conversions as they were counted: so is what stands in them."""
    draw = np.random.default_rng(3)
    before = draw.normal(size=300)
    units = units_of(draw, before=before, hit=(before + draw.normal(size=300) > 1).astype(int))
    a, b = sides(units, "hit")

    report = effect(units, "fraction(hit)", before={"hit": "before"})
    own, raw = report.comparisons

    assert own.test == raw.test == "newcombe"
    assert own.delta == raw.delta == pytest.approx(b.mean() - a.mean())
    assert own.theta == 0.0
    assert report.value("fraction(hit)", model="b") == pytest.approx(b.mean())


def test_limits_of_a_fraction_over_strata_lie_around_it():
    """Of two strata, whose shares changed midway, the plain fraction is another number."""
    draw = np.random.default_rng(4)
    first = np.arange(300) % 30 < 15
    first[:15] = True
    hit = (draw.random(300) < np.where(first, 0.9, 0.1)).astype(int)
    units = units_of(draw, phase=pl.Series(first).cast(pl.String), hit=hit)

    report = effect(units, "fraction(hit)", statistics={"strata": ["phase"]})

    for own in report.estimates:
        n = own.value * (1 - own.value) / own.std_error**2
        low, high = stats.binomtest(round(own.value * n), round(n)).proportion_ci(method="wilson")
        assert (own.low, own.high) == pytest.approx((low, high), abs=0.02)


def test_segments_of_many_columns_are_told_apart():
    """More combinations than an integer of 64 bits has values."""
    draw = np.random.default_rng(5)
    names = [f"s{place}" for place in range(20)]
    drawn = {name: pl.Series(draw.permutation(np.arange(300) % 9)) for name in names}
    units = units_of(draw, **drawn)

    report = effect(units, segments=names)

    for name in names:
        held = units.group_by(name, "variant").agg(pl.col("y").mean()).rows()
        wanted = {(str(segment), variant): value for segment, variant, value in held}
        found = {
            (each.segment, each.model): each.value
            for each in report.estimates
            if each.segmentation == name and each.n_users
        }
        assert found == pytest.approx(wanted)


def test_ratios_over_strata_are_of_all_sums():
    """Strata of which both variants have the same share leave values as they are; the error is
    that of (y - R d) / D within strata.
    """
    draw = np.random.default_rng(6)
    stratum = np.arange(400) % 4 < 2
    shown = np.where(stratum, 100, 1) + draw.poisson(1, 400)
    clicks = draw.binomial(shown, np.where(stratum, 0.1, 0.5))
    units = pl.DataFrame({"unit": range(400), "variant": ["a", "b"] * 200, "clicks": clicks})
    units = units.with_columns(shown=shown, stratum=pl.Series(stratum).cast(pl.String))

    (found,) = effect(units, "ratio(clicks, shown)", statistics={"strata": ["stratum"]}).comparisons

    variance = 0.0
    for name, value in zip(VARIANTS, (found.value_baseline, found.value_candidate), strict=True):
        own = units.filter(variant=name)
        ratio = own["clicks"].sum() / own["shown"].sum()
        left = (own["clicks"] - ratio * own["shown"]) / own["shown"].mean()
        variance += sum(
            0.25 * left.filter(own["stratum"] == s).var() / 100 for s in own["stratum"].unique()
        )
        assert value == pytest.approx(ratio)
    assert found.std_error == pytest.approx(np.sqrt(variance))


def test_means_over_strata_of_clusters_are_of_units():
    """Clusters of ten units in one stratum, of two in the other."""
    draw = np.random.default_rng(7)
    place = np.arange(480)
    large = place < 400
    cluster = np.where(large, place // 10, 40 + (place - 400) // 2)
    y = draw.normal(np.where(large, 5, 1), 1)
    units = pl.DataFrame({"unit": place, "variant": np.where(cluster % 2, "b", "a"), "y": y})
    units = units.with_columns(cluster=cluster, stratum=pl.Series(large).cast(pl.String))

    plain, over = (
        effect(units, statistics={"cluster": "cluster", **own}).comparisons[0]
        for own in ({}, {"strata": ["stratum"]})
    )

    assert over.value_baseline == pytest.approx(plain.value_baseline)
    assert over.delta == pytest.approx(plain.delta)
    assert over.std_error < 0.5 * plain.std_error


def test_a_segment_without_anything_before_is_compared_unadjusted():
    """Newcomers have no impressions before exposure: their ratio stands on none."""
    draw = np.random.default_rng(8)
    is_old = np.arange(300) % 2
    shown = draw.poisson(5, 300) + 1
    units = units_of(draw, new=pl.Series(is_old).cast(pl.String), shown=shown, clicks=shown // 2)
    before = draw.poisson(5, 300) * is_old
    units = units.with_columns(bs=before, bc=before // 2)

    report = effect(
        units, "ratio(clicks, shown)", before={"clicks": "bc", "shown": "bs"}, segments=["new"]
    )

    own, raw = (each for each in report.comparisons if each.segment == "0")
    assert own.theta == 0.0
    assert (own.delta, own.low, own.high) == (raw.delta, raw.low, raw.high)
    assert own.p_value is not None


def test_limits_of_quantiles_of_events_hold_where_values_are_few():
    """P(0) is 0.9, so the quantile 0.9 is 0; every second sample has 1 there."""
    draw = np.random.default_rng(9)
    missed = 0
    for _ in range(300):
        units = np.repeat(np.arange(200), draw.poisson(4, 200) + 1)
        values = (draw.random(units.size) > 0.9).astype(float)
        at = Sorted(np.sort(values), 200).quantile(0.9)
        own = Sorted(np.sort(values), 200, deviation_at(at, 0.9, values, units, 200))
        limits = own.limits(0.9, 1.96)
        missed += not limits.low <= 0.0 <= limits.high

    assert missed <= 15


@pytest.mark.parametrize("n", [7, 8, 453, 454])
def test_two_outcomes_that_are_both_likeliest_are_no_surprise(n):
    for k in (n // 2, n - n // 2):
        assert binomial_p(k, n, 0.5) == pytest.approx(stats.binomtest(k, n, 0.5).pvalue)


def test_interleaving_decides_where_users_and_impressions_say_the_same():
    """One user lost 200 impressions, 39 won one each."""
    seen = pl.DataFrame({"user": [0] * 200 + [*range(1, 40)], "credit_a": [1] * 200 + [0] * 39})
    seen = seen.with_columns(credit_b=1 - pl.col("credit_a"))
    without = pl.concat([seen, pl.DataFrame({"user": [None], "credit_a": [9], "credit_b": [0]})])
    (found,) = evalkit.evaluate_interleaving(seen, models=["a", "b"]).comparisons

    assert found.delta < 0 < found.wins - found.losses
    assert found.verdict == "cannot tell"
    with pytest.raises(DataError, match="no user"):
        evalkit.evaluate_interleaving(without, models=["a", "b"])


@pytest.mark.parametrize(("sizes", "has_limits"), [([200] * 2 + [5] * 60, True), ([99, 1], False)])
def test_limits_of_interleaving_count_users_by_their_impressions(
    sizes: list[int], has_limits: bool
) -> None:
    rng, held = np.random.default_rng(4), 0
    users = np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(60):
        chances = 1 / (1 + np.exp(-rng.normal(0, 0.8, len(sizes))))
        won = (rng.random(users.size) < chances[users]).astype(int)
        seen = pl.DataFrame({"user": users, "credit_a": 1 - won, "credit_b": won})
        (found,) = evalkit.evaluate_interleaving(seen, models=["a", "b"]).comparisons
        assert (found.low is not None) == has_limits
        held += has_limits and found.low <= 0.0 <= found.high

    assert held >= 48 * has_limits  # of 60; without the weights 75 % hold, 45


@pytest.mark.parametrize("order", [1, 2, 3])
def test_interleaving_has_no_order_of_rows_and_no_names_of_users(order: int) -> None:
    rng = np.random.default_rng(order)
    seen = pl.DataFrame(
        {
            "user": rng.integers(0, 30, 200) ** 2,
            "credit_a": rng.integers(0, 3, 200) / 3,
            "credit_b": rng.integers(0, 3, 200) / 3,
        }
    )
    others = [
        seen.sample(fraction=1.0, shuffle=True, seed=order),
        seen.with_columns(pl.col("user").cast(pl.String)),
        seen.with_columns((pl.col("user") * 7919) % 907),
    ]

    whole = evalkit.evaluate_interleaving(seen, models=["a", "b"])

    for other in others:
        found = evalkit.evaluate_interleaving(other, models=["a", "b"])
        assert (found.comparisons, found.estimates) == (whole.comparisons, whole.estimates)


def test_credits_that_are_far_apart_and_users_who_lean_alike_end_in_no_noise() -> None:
    far = pl.DataFrame({"user": [1, 2, 3], "credit_a": [-1e308] * 3, "credit_b": [1e308] * 3})
    alike = pl.DataFrame({"user": np.repeat(np.arange(9), 7), "credit_a": [0] * 63})
    alike = alike.with_columns(credit_b=pl.Series([1, 1, 1, 1, 1, 0, 0] * 9))

    (won,) = evalkit.evaluate_interleaving(far, models=["a", "b"]).comparisons
    (same,) = evalkit.evaluate_interleaving(alike, models=["a", "b"]).comparisons

    assert won.delta == 0.5
    assert (same.std_error, same.low) == (None, None)


def test_large_clusters_of_strata_count_for_what_they_pull():
    """What is left of a large cluster is too small; of few alike it is not."""
    draw = np.random.default_rng(10)
    for spread, is_larger in ((1.0, True), (0.0, False)):
        sizes = np.ceil(draw.lognormal(1.5, spread, 24)).astype(int)
        cluster = np.repeat(np.arange(24), sizes)
        units = pl.DataFrame({"cluster": cluster, "y": draw.normal(size=24)[cluster]})
        units = units.with_row_index("unit").with_columns(
            variant=pl.Series(np.where(cluster % 2, "b", "a")),
            stratum=pl.Series(cluster // 2 % 2).cast(pl.String),
        )
        rules = {"cluster": "cluster", "strata": ["stratum"]}
        (cr2,), (delta,) = (
            effect(units, statistics={**rules, "clusters": each}).comparisons
            for each in ("cr2", "delta")
        )

        assert cr2.delta == delta.delta
        assert (cr2.std_error > 1.02 * delta.std_error) == is_larger
        assert (cr2.df < 0.8 * delta.df) == is_larger


@pytest.mark.parametrize("sequential", [{"spending": "pocock", "final": 600}, ALWAYS_VALID])
def test_a_look_before_anybody_converted_is_no_fault(sequential):
    """Nothing varies yet: there is no effect in standard errors to draw a path of."""
    units = units_of(np.random.default_rng(11), hit=0)
    metric = "mean(hit)"

    report = effect(units, metric, {"sequential": sequential}, primary=[metric])

    assert report.comparisons[0].verdict == "not tested"
    assert [each for each in report.graphs if each.kind == "path-over-looks"] == []


def test_no_order_of_units_moves_the_deviation_of_a_quantile():
    draw = np.random.default_rng(12)
    found = set()
    events = draw.poisson(5, 301).astype(float)
    below = np.floor(events * draw.random(301))
    for _ in range(20):
        order = draw.permutation(301)
        found.add(deviation_of(below[order], events[order]))

    assert len(found) == 1


SMALL = [
    ({"sequential": ALWAYS_VALID}, {"segments": ["empty"]}),
    ({"sequential": {"spending": "obrien-fleming", "final": 6000}}, {}),
    ({"strata": ["stratum"]}, {"columns": {"triggered": "never"}}),
    ({}, {"columns": {"triggered": "seen"}}),
]


@pytest.mark.parametrize(("statistics", "asked"), SMALL)
def test_parts_without_units_are_no_fault(statistics, asked):
    """A segment without a variant's units, a bound that is infinite, nobody triggered, no sums."""
    draw = np.random.default_rng(13)
    units = units_of(draw, (3, 27), none=0.0, empty=pl.Series(["x"] * 3 + ["y"] * 27))
    units = units.with_columns(
        never=False, seen=pl.col("unit") > 1, stratum=(pl.col("unit") % 2).cast(pl.String)
    )

    for metric in ("mean(y)", "ratio(none, none)", "quantile(y, q=0.5)"):
        report = effect(units, metric, statistics, **asked)
        assert all(each.low is None or each.low <= each.delta for each in report.comparisons)


def test_ids_of_another_type_change_no_digit_of_clusters():
    draw = np.random.default_rng(4)
    units = units_of(draw, (200, 200)).with_columns(
        pl.Series("group", draw.integers(0, 20, 400)), y=pl.Series(draw.lognormal(size=400))
    )
    units = units.with_columns(
        variant=pl.when(pl.col("group") < 10).then(pl.lit("a")).otherwise(pl.lit("b"))
    )

    def numbers(form):
        named = units.with_columns(pl.format(form, pl.col("group") * 7919 % 10007).alias("group"))
        report = effect(named, statistics={"cluster": "group"})
        return report.estimates, report.comparisons

    assert numbers("{}") == numbers("cluster {} of the log") == numbers("{}0")


@pytest.mark.parametrize("sizes", [(30, 270), (150, 150), (270, 30)])
def test_gates_of_a_value_count_the_joint_mean_of_its_covariate(sizes):
    """b - theta (x_b - x): x is the mean of all, so that units of both variants move it."""
    draw = np.random.default_rng(9)
    x = draw.normal(size=sum(sizes))
    units = units_of(draw, sizes, x=x).with_columns(y=pl.col("x") + 0.2 * pl.col("y"))
    report = evalkit.evaluate_experiment(
        units,
        variants=dict(zip("ab", sizes, strict=True)),
        metrics=["mean(y)"],
        before={"y": "x"},
        statistics={"limits": "wald"},
    )
    own, theta = report.estimates[1], report.comparisons[0].theta
    share = sizes[1] / sum(sizes)
    (x_a, x_b), (_, y_b) = sides(units, "x"), sides(units)
    both = np.cov(y_b, x_b)
    slopes = np.array([1.0, -theta * (1.0 - share)])
    square = slopes @ both @ slopes / sizes[1]
    square += (theta * (1.0 - share)) ** 2 * x_a.var(ddof=1) / sizes[0]
    widened = (own.high_gate - own.value) / (own.high - own.value)

    assert widened == pytest.approx(np.sqrt(square) / own.std_error, rel=1e-9)
    assert widened > 1.0
    assert own.value - own.low_gate == pytest.approx(own.high_gate - own.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("times", [1e-155, 1e150, 1e155])
@pytest.mark.parametrize("relative", ["fieller", "delta", "log", "fixed"])
def test_relative_limits_do_not_go_by_the_unit_of_measure(times, relative):
    """Squares of values are no numbers: errors of 1e155 are unknown, relative ones of 1e150 not."""
    units = units_of(np.random.default_rng(10), (200, 1800))
    asked = {"relative": relative}
    plain = effect(units, statistics=asked).comparisons[0]
    other = effect(units.with_columns(pl.col("y") * times), statistics=asked).comparisons[0]

    assert other.relative == pytest.approx(plain.relative)
    for end in ("relative_low", "relative_high", "relative_low_gate", "relative_high_gate"):
        expected = None if times == 1e155 else pytest.approx(getattr(plain, end), rel=1e-4)
        assert getattr(other, end) == expected


def test_gates_of_a_value_over_strata_count_the_shares_of_strata():
    """Of values 1 and 10 that hardly vary, the mean is as uncertain as how many are of each."""
    draw = np.random.default_rng(11)
    stratum = draw.integers(0, 2, 300)
    units = units_of(draw, stratum=stratum.astype(str)).with_columns(
        y=1.0 + 9.0 * stratum + 0.01 * draw.normal(size=300)
    )
    is_less = (pl.col("variant") == "b") & (pl.col("stratum") == "1")
    units = units.with_columns(y=pl.col("y") - pl.when(is_less).then(5.0).otherwise(0.0))
    own = effect(units, statistics={"strata": ["stratum"], "limits": "wald"})
    for name, each in zip(VARIANTS, own.estimates, strict=True):
        strata = [units.filter(variant=name, stratum=of)["y"].to_numpy() for of in "01"]
        shares = np.bincount(stratum) / 300
        within = sum(p**2 * y.var(ddof=1) / y.size for p, y in zip(shares, strata, strict=True))
        between = shares.prod() * (strata[1].mean() - strata[0].mean()) ** 2 / 300
        widened = (each.high_gate - each.value) / (each.high - each.value)

        assert each.std_error == pytest.approx(np.sqrt(within))
        assert widened == pytest.approx(np.sqrt(1.0 + between / within))

    (each,) = own.comparisons
    halves = [
        np.subtract(*(units.filter(variant=name, stratum=of)["y"].mean() for name in "ba"))
        for of in "01"
    ]
    between = shares.prod() * (halves[1] - halves[0]) ** 2 / 300
    widened = (each.high - each.delta) * np.sqrt(1.0 + between / each.std_error**2)
    assert each.high_gate - each.delta >= 0.99 * widened > 5.0 * (each.high - each.delta)
