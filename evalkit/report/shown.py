"""A report with its metrics named as they were asked for, which every text form shows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalkit.report.record import Report, once

RENAMED = (
    *("estimates", "comparisons", "findings", "macros", "gaps", "standings", "distributions"),
    "gates",
)


def as_shown(report: Report) -> Report:
    """The report whose metrics are named as they were asked for, `nDCG@10` under any profile."""
    return _renamed(report) if any(_names(report)) else report


def _names(report: Report) -> dict[str, str]:
    return {label: shown for label, shown in report.shown.items() if label != shown}


@once
def _renamed(report: Report) -> Report:
    names = _names(report)
    curves = {_whole(label): _whole(shown) for label, shown in names.items()}
    renamed = {name: _named(getattr(report, name), names) for name in RENAMED}
    primary = tuple(names.get(each, each) for each in report.primary)
    return replace(report, primary=primary, curves=_named(report.curves, curves), **renamed)


def definitions(report: Report) -> list[str]:
    """What the names stand for that do not say it themselves: `GAUC: AUC(over='users')`.

    Also models that have every number of another one, with its error.
    """
    named = [f"{shown}: {label}" for label, shown in report.shown.items() if label != shown]
    return named + _doubles(report)


@once
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


def _named(records: Sequence[Any], names: Mapping[str, str]) -> Any:
    return tuple(
        replace(each, metric=names[each.metric]) if each.metric in names else each
        for each in records
    )
