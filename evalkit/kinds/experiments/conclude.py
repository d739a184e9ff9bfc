"""From measured units to everything that a report says of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalkit.aggregate.segments import ALL
from evalkit.report import Comparison, Estimate, Warning_
from evalkit.report.entries import Check, Finding, Graph

from ._asked import ExperimentRequest
from ._checking import by_day, checks_of, paths, warnings_of
from ._comparing import EffectDraft, diluted, drafts_of, estimates_of
from ._deciding import correct, family_of, findings_of
from ._measuring import MetricNumbers
from ._units import READ_COVARIATES, READ_EVENTS, READ_EXPOSURES, Units

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
                drafts += drafts_of(asked, number, label, segment, measured, rules, family)
    drafts += diluted(drafts)
    n_tests = correct(drafts, asked)
    comparisons = tuple(each.comparison for each in drafts)
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
