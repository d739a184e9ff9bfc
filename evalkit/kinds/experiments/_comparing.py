"""From moments to numbers: values of variants, and comparisons before any correction."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evalkit.aggregate.segments import ALL, Segment
from evalkit.report import Comparison, Estimate
from evalkit.statistics.conversions import FEWEST_CONVERSIONS, FEWEST_UNITS, newcombe
from evalkit.statistics.independent import (
    Adjustment,
    BoundedValues,
    Contrast,
    Difference,
    Rules,
)
from evalkit.statistics.intervals import NO_INTERVAL, Interval, wilson_interval
from evalkit.statistics.power import smallest_difference
from evalkit.statistics.quantiles import quantile_difference
from evalkit.statistics.unseen import FEWEST_APART

from ._asked import ExperimentRequest
from ._cells import TRIGGERED
from ._gates import errors_of_shares, fewest_of, gate_of, skewness_of
from ._measuring import Few, MeasuredUnits, MetricNumbers
from ._units import Units

FewOfBoth = tuple[tuple[int, int], tuple[int, int]]  # conversions and units of both variants
DILUTED: Segment = ("triggered", "diluted to all")


def estimates_of(
    units: Units,
    asked: ExperimentRequest,
    numbers: MetricNumbers,
    label: str,
    segment: Segment,
    measured: MeasuredUnits,
    rules: Rules,
) -> Iterator[Estimate]:
    measure = numbers.measure
    two_sided = replace(rules, alternative="two-sided")
    for arm, name in enumerate(units.names):
        n = measured.n_units[arm]
        value, error, df, limits = math.nan, math.nan, None, NO_INTERVAL
        gate: Interval | None = None
        if measured.totals:
            value = measured.totals[arm]
        elif measured.sorted:
            own = measured.sorted[arm]
            value = own.quantile(measure.q)
            limits = own.limits(measure.q, two_sided.reach(math.inf, own.n_units))
        elif n:
            is_few = bool(measured.counts) and _is_few(asked, measured, arm)
            group, by = measured.groups[arm], _adjustment(asked, measured, is_few=is_few)
            value, error = group.value(by), group.std_error(by)
            df = group.df(by) if error > 0.0 else None
            if is_few and (_is_plain(asked) or (0.0 < value < 1.0 and error > 0.0)):
                limits = _limits_of_few(asked, measured.counts[arm], value, error, two_sided)
            elif df is not None:
                reach = two_sided.reach(df, group.n)
                limits = Interval(value - reach * error, value + reach * error)
                gate = gate_of(units, asked, measured, arm, by, two_sided, limits)
        is_clustered = units.clusters is not None and bool(measured.groups)
        yield Estimate(
            model=name,
            metric=label,
            name=measure.kind,
            cutoff=None,
            parameters=_parameters(numbers),
            value=value,
            n_users=n,
            n_undefined=0,
            segmentation=None if segment == ALL else segment[0],
            segment=None if segment == ALL else segment[1],
            low=number_of(limits.low),
            high=number_of(limits.high),
            std_error=number_of(error),
            n_clusters=measured.groups[arm].n if is_clustered else None,
            df=number_of(df) if is_clustered else None,
            low_gate=number_of((gate or limits).low),
            high_gate=number_of((gate or limits).high),
            higher_is_better=measure.label not in asked.lower_is_better,
        )


def _parameters(numbers: MetricNumbers) -> dict[str, str | float]:
    measure = numbers.measure
    found: dict[str, str | float] = {}
    if measure.kind == "quantile":
        found = {"q": measure.q, "over": "events" if measure.of_events else "units"}
    if measure.kind == "fraction":
        found["above"] = measure.above
    if measure.winsor is not None:
        found["winsor"] = measure.winsor
    return found


def number_of(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) or math.isinf(value) else value


def _is_few(asked: ExperimentRequest, measured: MeasuredUnits, arm: int) -> bool:
    """Whether Newcombe's limits serve a variant beside the baseline."""
    limits = asked.statistics.limits
    if limits != "auto":
        return limits == "newcombe"
    both = [measured.counts[0], measured.counts[arm]]
    if sum(each.n for each in both) < FEWEST_UNITS:
        return True
    return min(min(each.ones, each.n - each.ones) for each in both) < FEWEST_CONVERSIONS


def _adjustment(asked: ExperimentRequest, measured: MeasuredUnits, *, is_few: bool) -> Adjustment:
    """What covariates take away: nothing where limits are Newcombe's, which are of counts."""
    by = measured.adjustment
    return Adjustment(0.0 * by.theta, by.joint) if is_few and _is_plain(asked) else by


def _limits_of_few(
    asked: ExperimentRequest, few: Few, value: float, error: float, rules: Rules
) -> Interval:
    """Wilson's limits of a fraction; adjusted or over strata, of as many units as its error has."""
    level, ones, n = rules.level, float(few.ones), float(few.n)
    if asked.statistics.is_sequential:
        level = math.erf(min(rules.reach(math.inf, few.n), 8.0) * math.sqrt(0.5))
    if not _is_plain(asked):
        n = value * (1.0 - value) / error**2
        ones = value * n
    return wilson_interval(ones, n, level=level)


@dataclass(slots=True)
class EffectDraft:
    """A comparison while it is made."""

    comparison: Comparison
    family: str | None
    higher_is_better: bool
    rules: Rules
    contrast: Contrast | None
    margin: tuple[float, bool] | None  # and whether it is relative
    few: FewOfBoth | None = None
    find: Callable[[Rules], Difference] | None = None  # by other rules
    fewest: int = 0  # units of a variant that gates ask for

    def lacks(self, fewest: int) -> bool:
        """Whether a variant has fewer units, or clusters."""
        both = (
            () if self.contrast is None else (self.contrast.baseline.n, self.contrast.candidate.n)
        )
        return min(both, default=fewest) < fewest


def drafts_of(
    units: Units,
    asked: ExperimentRequest,
    numbers: MetricNumbers,
    label: str,
    segment: Segment,
    measured: MeasuredUnits,
    rules: Rules,
    family: str | None,
) -> Iterator[EffectDraft]:
    measure, statistics = numbers.measure, asked.statistics
    if measured.totals:
        return
    better = measure.label not in asked.lower_is_better
    for arm in range(1, len(asked.names)):
        contrast: Contrast | None = None
        test, n = _test_of(asked), measured.n_units[0] + measured.n_units[arm]
        few: FewOfBoth | None = None
        effect = smallest = theta = None
        if measured.sorted:
            test = "quantile"
        else:
            groups = measured.groups
            others = [each for place, each in enumerate(groups) if place not in (0, arm)]
            seen = _seen(measured, arm) if statistics.limits != "wald" else None
            if measured.counts and _is_plain(asked) and _is_few(asked, measured, arm):
                base, new = measured.counts[0], measured.counts[arm]
                few, test = ((base.ones, new.ones), (base.n, new.n)), "newcombe"
            by = _adjustment(asked, measured, is_few=few is not None)
            lean = skewness_of(asked, measured, arm)
            contrast = Contrast(groups[0], groups[arm], rules, by, others, seen, lean)
        find = partial(_difference, measured, arm, measure.q, contrast, few)
        found = find(rules)
        if contrast is not None:
            effect = _effect(contrast, found)
            if segment == ALL:
                smallest = _smallest(found, statistics.level, statistics.power)
            if contrast.by.theta.size:
                theta = float(contrast.by.theta[0])
        margin, share = _margin(asked), statistics.margin_relative
        if statistics.margin is not None and found.value_baseline > 0.0:
            share = statistics.margin / found.value_baseline
        comparison = Comparison(
            baseline=asked.names[0],
            candidate=asked.names[arm],
            metric=label,
            segmentation=None if segment == ALL else segment[0],
            segment=None if segment == ALL else segment[1],
            delta=found.delta,
            std_error=number_of(found.std_error),
            low=number_of(found.limits.low),
            high=number_of(found.limits.high),
            relative=number_of(found.relative),
            relative_low=number_of(found.relative_limits.low),
            relative_high=number_of(found.relative_limits.high),
            p_value=number_of(found.p_value),
            effect_size=effect,
            test=test,
            n_users=n,
            margin=statistics.margin,
            verdict="not tested",
            smallest_difference=smallest,
            df=number_of(found.df) if contrast is not None and not rules.is_normal else None,
            value_baseline=number_of(found.value_baseline),
            value_candidate=number_of(found.value_candidate),
            statistic=number_of(found.statistic),
            theta=theta,
            cap=numbers.caps[0] if numbers.caps else None,
            margin_relative=share,
        )
        fewest = fewest_of(units, asked, measured)
        yield EffectDraft(comparison, family, better, rules, contrast, margin, few, find, fewest)


def _difference(
    measured: MeasuredUnits,
    arm: int,
    q: float,
    contrast: Contrast | None,
    few: FewOfBoth | None,
    rules: Rules,
) -> Difference:
    if contrast is None:
        return _of_quantiles(measured, arm, q, rules)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = contrast.by_rules(rules).difference()
    if few is None:
        return found
    limits, p_value, _ = newcombe(*few, rules)
    return replace(found, limits=limits, p_value=p_value)


def _seen(measured: MeasuredUnits, arm: int) -> BoundedValues | None:
    """Units above and below the joint mean, where something is known of those not seen."""
    if not measured.above:
        return None
    above = measured.above[0], measured.above[arm]
    below = measured.n_units[0] - above[0], measured.n_units[arm] - above[1]
    return BoundedValues(measured.widest, above, below, is_of_seen=measured.is_of_seen)


def margin_numbers(each: EffectDraft, level: float) -> tuple[float, float, Interval]:
    """One-sided p of "not above baseline - margin" and of "not below + margin", and the two-sided
    limits that go with them; by Newcombe's where conversions are few.
    """
    if each.margin is None or each.contrast is None:
        return math.nan, math.nan, NO_INTERVAL
    if each.contrast.rules.counts_lean and each.lacks(min(each.fewest, FEWEST_APART)):
        return 1.0, 1.0, NO_INTERVAL
    (margin, is_relative), error = each.margin, 2.0 * (1.0 - level)
    if each.few is None:
        above, below = each.contrast.margin_p(margin, is_relative=is_relative)
        return above, below, each.contrast.margin_limits(error)
    rules, found = each.contrast.rules, []
    for sign in (-1.0, 1.0):
        times, at = (1.0 + sign * margin, 0.0) if is_relative else (1.0, sign * margin)
        z = newcombe(*each.few, rules, times=times, at=at)[2]
        found.append(rules.p_above(-sign * z, math.inf, each.contrast.n))
    two_sided = replace(rules, level=1.0 - error, alternative="two-sided")
    return found[0], found[1], newcombe(*each.few, two_sided)[0]


def by_variance(each: EffectDraft, *, is_other: bool) -> EffectDraft:
    """The same effect as a verdict needs it: margins count skewness, and one variance of both
    variants stands beside Welch's, which is the other where it was asked for.

    Where a variant is small, and few values are large, it may have drawn none of them: its mean and
    its variance are too low together, and Welch's test leans. The pooled one leans otherwise. Where
    nothing differs, both find an effect on the same side at most as often as they say.
    """
    if each.contrast is None or each.few is not None:
        return each
    is_pooled = each.rules.is_pooled != is_other
    rules = replace(each.rules, is_pooled=is_pooled, counts_lean=True)
    contrast = each.contrast.by_rules(rules)
    variance, df = contrast.variance(0.0)
    error = number_of(math.sqrt(variance)) if variance > 0.0 else None
    p_value = error and number_of(rules.p_value(contrast.delta / error, df, contrast.n))
    comparison = replace(each.comparison, p_value=p_value, std_error=error)
    return replace(each, comparison=comparison, contrast=contrast)


def with_gate_limits(each: EffectDraft) -> Comparison:
    """The comparison with limits that gates go by: no nearer than those of a verdict by any margin.

    They hold those of both variances, with skewness and what was not seen, and the plain ones.
    """
    own, rules, contrasts = each.comparison, each.rules, []
    if each.lacks(each.fewest) or (own.segmentation, own.segment) == DILUTED:
        return own  # the latter with those of triggered units
    if each.contrast is not None:
        other = each.contrast.by_rules(replace(rules, is_pooled=not rules.is_pooled))
        contrasts = [each.contrast, other]
    ends = [
        (own.low, -math.inf),
        (own.high, math.inf),
        (own.relative_low, -math.inf),
        (own.relative_high, math.inf),
    ]
    found = [[beyond if end is None else end for end, beyond in ends]]
    for contrast in contrasts:
        if each.few is not None and contrast.rules.is_pooled:
            limits = Interval(*found[0][:2])
        elif each.few is None and contrast.variance(0.0)[0] > 0.0:
            limits = _with_shares(contrast, contrast.margin_limits(rules.error, counts_lean=True))
        else:
            continue  # what conversions do not know, or in neither variant anything varies
        relative = contrast.relative_within(limits)
        found.append([limits.low, limits.high, relative.low, relative.high])
    lows, highs = np.min(found, axis=0), np.max(found, axis=0)
    return replace(
        own,
        low_gate=number_of(float(lows[0])),
        high_gate=number_of(float(highs[1])),
        relative_low_gate=number_of(float(lows[2])),
        relative_high_gate=number_of(float(highs[3])),
    )


def _with_shares(contrast: Contrast, limits: Interval) -> Interval:
    """Limits of a difference that is others in each stratum: shares of strata are those drawn."""
    both, delta = (contrast.baseline, contrast.candidate), contrast.delta
    old, new = ([float(part.linear.estimates[0]) for part in each.parts] for each in both)
    deltas = [after - before for before, after in zip(old, new, strict=True)]
    error = math.sqrt(contrast.variance(0.0)[0])
    times = math.hypot(error, *errors_of_shares((*both, *contrast.others), deltas)) / error
    if not times > 1.0:
        return limits
    return Interval(delta - times * (delta - limits.low), delta + times * (limits.high - delta))


def _test_of(asked: ExperimentRequest) -> str:
    statistics = asked.statistics
    if statistics.is_sequential:
        return "spending" if statistics.tightest_at is None else "always-valid"
    if statistics.distribution == "normal":
        return "z"
    return "pooled" if statistics.variance == "pooled" else "welch"


def _is_plain(asked: ExperimentRequest) -> bool:
    statistics = asked.statistics
    is_once = statistics.spending is None and not asked.leaves_plan
    return statistics.cluster is None and not statistics.strata and is_once


def _of_quantiles(measured: MeasuredUnits, arm: int, q: float, rules: Rules) -> Difference:
    base, new = measured.sorted[0], measured.sorted[arm]
    delta, limits, p_value = quantile_difference(base, new, q, rules)
    at = base.quantile(q)
    relative = delta / at if at > 0.0 else math.nan
    nan = math.nan
    return Difference(
        at, new.quantile(q), delta, nan, nan, nan, p_value, limits, relative, NO_INTERVAL
    )


def _effect(contrast: Contrast, found: Difference) -> float | None:
    """Cohen's d by the deviation of the baseline's units, unadjusted.

    Source:
        Cohen 1988, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, 2.2;
        Glass 1976, Educational Researcher 5(10), 3-8 (the baseline's deviation).
    """
    parts = contrast.baseline.parts
    n = contrast.baseline.n
    if not n:
        return None
    variance = sum(part.linear.covariances[0, 0] * part.linear.n for part in parts) / n
    return number_of(found.delta / math.sqrt(variance)) if variance > 0.0 else None


def _smallest(found: Difference, level: float, power: float) -> float | None:
    if not found.std_error > 0.0 or not found.df >= 1.0:
        return None
    n = found.df + 1.0
    return number_of(
        smallest_difference(found.std_error * math.sqrt(n), n, level=level, power=power)
    )


def _margin(asked: ExperimentRequest) -> tuple[float, bool] | None:
    statistics = asked.statistics
    if statistics.margin is not None:
        return statistics.margin, False
    if statistics.margin_relative is not None:
        return statistics.margin_relative, True
    return None


def diluted(drafts: Sequence[EffectDraft]) -> Iterator[EffectDraft]:
    """Effects among triggered units as effects on all: times their share of the denominator.

    Source:
        Deng and Hu 2015, Diluted Treatment Effect Estimation for Trigger Analysis in Online
        Controlled Experiments, WSDM, section 3.
    """
    by_place = {
        (each.comparison.metric, each.comparison.candidate, each.comparison.segment): each
        for each in drafts
        if each.comparison.segmentation in (None, TRIGGERED[0])
    }
    for (metric, candidate, segment), draft in by_place.items():
        whole = by_place.get((metric, candidate, None))
        if segment != TRIGGERED[1] or whole is None or draft.contrast is None:
            continue
        share = _share_of(draft.contrast, whole.contrast)
        own, base = with_gate_limits(draft), whole.comparison.value_baseline
        times = share / base if base and base > 0.0 else None

        def scaled(number: float | None, by: float | None = share) -> float | None:
            return None if number is None or by is None else number_of(number * by)

        diluted = replace(
            own,
            segmentation=DILUTED[0],
            segment=DILUTED[1],
            delta=own.delta * share,
            std_error=scaled(own.std_error),
            low=scaled(own.low),
            high=scaled(own.high),
            relative=scaled(own.delta, times),
            relative_low=scaled(own.low, times),
            relative_high=scaled(own.high, times),
            low_gate=scaled(own.low_gate),
            high_gate=scaled(own.high_gate),
            relative_low_gate=scaled(own.low_gate, times),
            relative_high_gate=scaled(own.high_gate, times),
            smallest_difference=scaled(own.smallest_difference),
            n_users=whole.comparison.n_users,
            value_baseline=base,
            value_candidate=None if base is None else base + own.delta * share,
        )
        yield EffectDraft(diluted, None, draft.higher_is_better, draft.rules, None, None)


def _share_of(some: Contrast, whole: Contrast | None) -> float:
    """Of the denominators of all units, those of triggered ones."""
    if whole is None:
        return math.nan

    def total(contrast: Contrast) -> float:
        return sum(
            float(part.linear.denominators[0]) * part.linear.n
            for group in (contrast.baseline, contrast.candidate)
            for part in group.parts
        )

    of_all = total(whole)
    share = total(some) / of_all if of_all else math.nan
    return share if share >= 0.0 else math.nan
