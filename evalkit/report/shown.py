"""A report with its metrics named as they were asked for, which every text form shows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from evalkit.report.entries import (
    Comparison,
    Curve,
    Distribution,
    Estimate,
    Finding,
    Gap,
    Gate,
    Macro,
    Standing,
)
from evalkit.report.record import Report, once

Named = TypeVar(
    "Named", Comparison, Curve, Distribution, Estimate, Finding, Gap, Gate, Macro, Standing
)


def as_shown(report: Report) -> Report:
    """The report whose metrics are named as they were asked for, `nDCG@10` under any profile."""
    return once(report, _renamed) if any(_names(report)) else report


def _names(report: Report) -> dict[str, str]:
    return {label: shown for label, shown in report.shown.items() if label != shown}


def _renamed(report: Report) -> Report:
    names = _names(report)
    curves = {_whole(label): _whole(shown) for label, shown in names.items()}
    return replace(
        report,
        primary=tuple(names.get(each, each) for each in report.primary),
        estimates=_named(report.estimates, names),
        comparisons=_named(report.comparisons, names),
        findings=_named(report.findings, names),
        macros=_named(report.macros, names),
        gaps=_named(report.gaps, names),
        standings=_named(report.standings, names),
        distributions=_named(report.distributions, names),
        gates=_named(report.gates, names),
        curves=_named(report.curves, curves),
    )


def definitions(report: Report) -> list[str]:
    """What the names stand for that do not say it themselves: `GAUC: AUC(over='users')`.

    Also models that have every number of another one, with its error.
    """
    named = [f"{shown}: {label}" for label, shown in report.shown.items() if label != shown]
    return named + once(report, _doubles)


def _doubles(report: Report) -> list[str]:
    numbers: dict[str, list[object]] = {}
    for estimate in report.estimates:
        if estimate.std_error:  # without one, as where all is 0, no number tells models apart
            told = (
                estimate.metric,
                estimate.segmentation,
                estimate.segment,
                estimate.value,
                estimate.std_error,
            )
            numbers.setdefault(estimate.model, []).append(told)
    models: dict[tuple[object, ...], list[str]] = {}
    for model, found in numbers.items():
        models.setdefault(tuple(found), []).append(model)
    return [
        f"{', '.join(more)}: the same numbers as {first}"
        for first, *more in models.values()
        if more
    ]


def _whole(label: str) -> str:
    return label.rpartition("@")[0] or label


def _named(records: Sequence[Named], names: Mapping[str, str]) -> tuple[Named, ...]:
    return tuple(
        replace(each, metric=names[each.metric]) if each.metric in names else each
        for each in records
    )
