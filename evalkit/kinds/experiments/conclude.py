"""From measured units to everything that a report says of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evalkit.aggregate.segments import ALL, Segment
from evalkit.kernels.arrays import Flags
from evalkit.report import Comparison, Estimate, Warning_
from evalkit.report.entries import Check, Finding, Graph
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import normal_quantile
from evalkit.statistics.intervals import Interval
from evalkit.statistics.search import SegmentDelta, search_segments

from ._asked import ExperimentRequest
from ._cells import TRIGGERED
from ._checking import by_day, checks_of, paths, warnings_of
from ._comparing import (
    EffectDraft,
    by_variance,
    diluted,
    drafts_of,
    estimates_of,
    margin_numbers,
    number_of,
    with_gate_limits,
)
from ._measuring import MetricNumbers
from ._units import READ_COVARIATES, READ_EVENTS, READ_EXPOSURES, Units

FEWEST_SEARCHED = 100
ROUNDING = 1e-9  # of a standard error: variants of one size have the same by both variances
READ = (READ_EXPOSURES, READ_EVENTS, READ_COVARIATES)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an experiment comes to."""

    estimates: tuple[Estimate, ...]
    comparisons: tuple[Comparison, ...]
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    graphs: tuple[Graph, ...] = ()
    warnings: tuple[Warning_, ...] = ()
    n_tests: int = 1


def conclude(
    units: Units, asked: ExperimentRequest, numbers: Sequence[MetricNumbers]
) -> Conclusion:
    """Everything that is said of the units."""
    estimates: list[Estimate] = []
    drafts: list[EffectDraft] = []
    sizes = {each.measure.label: sum(each.by_segment[ALL].n_units) for each in numbers}
    for number in numbers:
        shown = [(number.measure.label, number.by_segment, True)]
        if number.is_adjusted:
            shown.append((number.measure.plain.label, number.raw, False))
        rules = asked.rules(number.measure.label, sizes[number.measure.label])  # segments, too
        for label, by_segment, is_asked in shown:
            for segment, measured in by_segment.items():
                if segment != ALL and sum(measured.n_units) < asked.statistics.min_users:
                    continue
                family = family_of(asked, number.measure.label, segment) if is_asked else None
                estimates += estimates_of(units, asked, number, label, segment, measured, rules)
                drafts += drafts_of(units, asked, number, label, segment, measured, rules, family)
    drafts += diluted(drafts)
    n_tests = correct(drafts, asked)
    comparisons = tuple(map(with_gate_limits, drafts))
    days = list(by_day(units, asked))
    reach = asked.statistics.rules(units.n).reach(math.inf, units.n)
    checks = (*checks_of(units, asked, numbers), *(each.trend() for each in days))
    return Conclusion(
        tuple(estimates),
        comparisons,
        checks,
        tuple(findings_of(asked, drafts)) if asked.statistics.search else (),
        (*paths(units, asked, comparisons, sizes), *(each.graph(reach) for each in days)),
        tuple(warnings_of(units, asked, numbers, comparisons, checks)),
        n_tests,
    )


def spell_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts of rows and units, those that every report has first."""
    first = (
        *("exposure_rows", "event_rows", "units", "units_in_two_variants"),
        *("units_with_open_window", "unknown_variant", "null_variant", "event_never_exposed"),
        *("event_in_two_variants", "event_value_nan", "event_value_null"),
    )
    return {name: counts.get(name, 0) for name in first} | {
        name: n for name, n in counts.items() if n and name not in (*first, *READ)
    }


def family_of(asked: ExperimentRequest, label: str, segment: Segment) -> str:
    if label in asked.guardrails:
        return "guardrail" if segment == ALL else "exploratory"
    if not asked.primary:
        return "all" if segment == ALL else f"segments {segment[0]}"
    return "primary" if label in asked.primary and segment == ALL else "exploratory"


def correct(drafts: Sequence[EffectDraft], asked: ExperimentRequest) -> int:
    """Adjusted p-values, limits and verdicts, family by family; how many tests decide."""
    statistics = asked.statistics
    error = 1.0 - statistics.level
    families: dict[str, list[EffectDraft]] = {}
    for draft in drafts:
        if draft.family is not None:
            name = draft.family
            if statistics.family == "metric" and not asked.primary:
                name = f"{name} {draft.comparison.metric}"
            families.setdefault(name, []).append(draft)
    n_tests = 0
    for name, family in families.items():
        correction = "none" if name == "guardrail" else statistics.correction
        (p_values, *tests), limits = _tests_of(family, statistics.level)
        found = adjust(p_values, correction, error=error)
        if name.partition(" ")[0] in ("primary", "all"):
            n_tests += found.size
        of_margins = [adjust(each, correction).p_adjusted for each in tests]
        by_both = np.array([p_values, *tests])  # what one variance does not say, both do not
        told_by = [np.asarray(each) <= error for each in (found.p_adjusted, *of_margins)]
        is_told: Flags = np.any(told_by, axis=0)
        for is_other in (False, True) if is_told.any() else ():
            told = [by_variance(family[at], is_other=is_other) for at in np.flatnonzero(is_told)]
            others = _tests_of(told, statistics.level)[0]
            by_both[:, is_told] = np.fmax(by_both[:, is_told], others)
        agreed = [adjust(each, correction).p_adjusted for each in by_both.tolist()]
        for place, effect in enumerate(family):
            _finish(
                effect,
                asked,
                found.p_adjusted[place],
                found.errors[place],
                (number_of(of_margins[0][place]), number_of(of_margins[1][place])),
                limits[place],
                found.size,
                _verdict(effect, error, *(each[place] for each in agreed)),
            )
    return n_tests


def _tests_of(
    family: Sequence[EffectDraft], level: float
) -> tuple[list[list[float]], list[Interval]]:
    """p-values of no difference, of none by the margin, of none for the worse; margins' limits."""
    margins = [margin_numbers(each, level) for each in family]
    p_values = [
        [_or_nan(each.comparison.p_value) for each in family],
        [max(above, below) for above, below, _ in margins],
        [
            above if each.higher_is_better else below
            for each, (above, below, _) in zip(family, margins, strict=True)
        ],
    ]
    return p_values, [limits for _, _, limits in margins]


def _finish(
    each: EffectDraft,
    asked: ExperimentRequest,
    p_adjusted: float,
    judged_at: float,
    of_margins: tuple[float | None, float | None],
    margin_limits: Interval,
    size: int,
    verdict: str,
) -> None:
    own, error = each.comparison, 1.0 - asked.statistics.level
    limits = own.low, own.high, own.relative_low, own.relative_high
    if each.find is not None and not math.isnan(judged_at) and judged_at != error:
        found = each.find(replace(each.rules, level=1.0 - judged_at))
        both = found.limits, found.relative_limits
        ends = [number_of(end) for its in both for end in (its.low, its.high)]
        limits = ends[0], ends[1], ends[2], ends[3]
    family = each.family if asked.primary or each.family == "guardrail" else None
    each.comparison = replace(
        own,
        p_adjusted=number_of(p_adjusted),
        low_adjusted=limits[0],
        high_adjusted=limits[1],
        relative_low_adjusted=limits[2],
        relative_high_adjusted=limits[3],
        p_equivalent=of_margins[0],
        p_not_inferior=of_margins[1],
        low_margin=number_of(margin_limits.low),
        high_margin=number_of(margin_limits.high),
        family=family,
        family_size=None if family in (None, "guardrail") else size,
        verdict=verdict,
    )


def _verdict(
    each: EffectDraft, error: float, p_adjusted: float, same: float, not_worse: float
) -> str:
    delta = each.comparison.delta
    if same <= error:
        return "equivalent"
    if p_adjusted <= error and delta != 0.0:
        return "better" if (delta > 0.0) == each.higher_is_better else "worse"
    if not_worse <= error:
        return "not inferior"
    return "not tested" if math.isnan(p_adjusted) else "cannot tell"


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _widened(draft: EffectDraft) -> float | None:
    """The standard error, the larger of both variances', and by as much as looks widen limits."""
    error, rules = draft.comparison.std_error, draft.rules
    other = by_variance(draft, is_other=True).comparison.std_error
    if error is not None and other is not None and other > error * (1.0 + ROUNDING):
        error = other
    if error is None or (rules.sequential is None and rules.spending is None):
        return error
    once = -normal_quantile(0.5 * rules.error)
    return error * rules.reach(math.inf, draft.comparison.n_users) / once


def findings_of(asked: ExperimentRequest, drafts: Sequence[EffectDraft]) -> Iterator[Finding]:
    """Segments that lose or gain, of the metrics that decide, with false ones under control."""
    deciding = asked.primary or tuple(each.label for each in asked.measures)
    for candidate in asked.names[1:]:
        deltas = [
            SegmentDelta(
                own.segmentation or "",
                own.segment or "",
                round(own.df + 1) if own.df is not None else own.n_users,
                own.delta,
                _widened(draft),
                metric=own.metric,
                higher_is_better=draft.higher_is_better,
            )
            for draft in drafts
            if (own := draft.comparison).segment is not None
            and own.segmentation != TRIGGERED[0]
            and own.candidate == candidate
            and own.metric in deciding
            and not math.isnan(own.delta)
        ]
        found = search_segments(
            deltas,
            false_discovery_rate=(1.0 - asked.statistics.level) / (len(asked.names) - 1),
            min_users=max(asked.statistics.min_users, FEWEST_SEARCHED),
        )
        for kind, listed in (("loss", found.losses), ("gain", found.gains)):
            for finding in listed:
                where = finding.found
                yield Finding(
                    baseline=asked.baseline,
                    candidate=candidate,
                    metric=where.metric,
                    segmentation=where.segmentation,
                    segment=where.segment,
                    kind=kind,
                    delta=finding.delta,
                    low=finding.interval.low,
                    high=finding.interval.high,
                    p_value=finding.p_value,
                    p_adjusted=finding.p_adjusted,
                    n_users=where.n,
                    n_searched=found.n_searched,
                )
