"""Experiments from Python: `evalkit.evaluate_experiment`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from evalkit.config import hinted
from evalkit.errors import RequestError, did_you_mean
from evalkit.kernels.memory import run_within
from evalkit.planning.counters import input_of
from evalkit.planning.work import MeasureOptions
from evalkit.report import Input, Report
from evalkit.sources import Guessing, Table

from ._asked import ExperimentRequest, WrittenExperiment, read_asked
from ._phases import read_phases, with_phases
from .conclude import READ
from .measure import read_units, report_of, said_of
from .open import EVENTS, EXPOSURES, LocatedFiles, open_tables


@hinted
def evaluate_experiment(
    exposures: object,
    events: object | None = None,
    *,
    variants: Mapping[str, float],
    metrics: Sequence[str] | str,
    sums: Mapping[str, object] | None = None,
    before: Mapping[str, str | Sequence[str]] | None = None,
    window: str | None = None,
    until: str | date | datetime | None = None,
    covariate_days: float = 14,
    primary: Sequence[str] | str = (),
    guardrails: Sequence[str] | str = (),
    lower_is_better: Sequence[str] | str = (),
    columns: Mapping[str, Any] | None = None,
    profile: str = "evalkit",
    phases: Sequence[Mapping[str, object]] = (),
    policies: Mapping[str, str] | None = None,
    segments: Mapping[str, str] | Sequence[str] | str | None = None,
    statistics: Mapping[str, object] | None = None,
    per_user: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    name: str = "experiment",
    covariates: object | None = None,
) -> Report:
    """What an experiment says: effects of variants on metrics, and whether they can be read.

    Args:
        exposures: a table with unit, variant and time; without `events` one row a unit, with the
            columns that metrics name. Paths, frames of Polars or pandas, Arrow.
        events: a table with unit, time, kind and, for sums of values, value.
        variants: name -> share of the units; the first is the baseline.
        metrics: `mean(clicks)`, `fraction(orders)`, `ratio(clicks, shown)`, `sum(orders)`,
            `quantile(latency, q=0.9, over='events')`, `mean(revenue, winsor=0.999)`.
        sums: column of a unit -> a kind of events, whose rows are counted, or
            `{"kind": "purchase", "of": "value"}`; by default columns are kinds.
        before: column -> its value before exposure, or a list of them: columns of ready-made
            rows, or of `covariates`.
        window: events count so long after a unit's first exposure, as "7d".
        until: the moment up to which the logs are complete; that of the last event by default.
        covariate_days: events of so many days before exposure are covariates; 0: none.
        primary, guardrails: metrics that decide, and those that must not get worse.
        lower_is_better: metrics whose fall is good.
        columns: our name -> column or SQL; or the same under `exposures` and `events`.
        phases: shares that changed midway, `[{"start": "2026-01-08", "variants": {...}}]`: units
            are stratified by them, and each has a sample ratio of its own.
        policies: choices at edges, such as `{"crossed_units": "first"}`.
        segments: columns of exposures, fixed before exposure, to look at apart.
        statistics: keys of [statistics], such as `{"sequential": ..., "margin": 0.01}`.
        per_user: keep the values of every unit.
        memory_limit: bytes; units are read in several passes to keep it.
        covariates: a table with one row a unit, and the columns that `before` names.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
    Example:
        >>> import polars as pl
        >>> units = pl.DataFrame({"unit": range(8), "variant": ["a", "b"] * 4,
        ...                       "clicks": [0, 1, 2, 3, 1, 2, 0, 2]})
        >>> report = evaluate_experiment(units, variants={"a": 1, "b": 1},
        ...                              metrics=["mean(clicks)"])
        >>> report.comparisons[0].delta
        1.25
    """
    given: dict[str, Any] = dict(locals())
    listed = [segments] if isinstance(segments, str) else segments or ()
    given |= {"until": moment_of(until), "segments": listed, "has_events": events is not None}
    written = {name: given[name] for name in WrittenExperiment.__slots__ if name in given}
    asked = with_phases(read_asked(WrittenExperiment(**written)), read_phases(phases, moment_of))
    check_covariates(has_events=events is not None, has_table=covariates is not None, asked=asked)
    _check_columns(columns or {}, asked)
    located = _located(exposures, events, covariates, columns)
    opened = open_tables(asked, *located, Guessing(entry_point="python"))
    work = MeasureOptions(threads=threads, memory_limit=memory_limit, per_user=per_user)
    clock = work.started(None)
    read = partial(read_units, asked, opened, clock, work)
    units = run_within(read, read)
    said = said_of(asked, units, per_user=per_user)
    clock.stop("conclude")
    return report_of(asked, said, inputs_of(opened.all, units.counts), clock, work)


def inputs_of(tables: Sequence[Table], counts: Mapping[str, int]) -> list[Input]:
    """What was read of all tables.

    Example:
        >>> import numpy as np
        >>> inputs_of([], {})
        []
    """
    named = zip(("experiment", "events", "covariates"), READ, strict=True)
    return [
        input_of(table, counts.get(count, 0), role)
        for table, (role, count) in zip(tables, named, strict=False)
    ]


def moment_of(until: object) -> int | None:
    """Microseconds since 1970 of a date, a datetime (UTC where it has no zone) or ISO text.

    Raises:
        RequestError: it is no moment [bad-time].
    Example:
        >>> import numpy as np
        >>> moment_of("1970-01-02")
        86400000000
    """
    if until is None:
        return None
    if isinstance(until, str):
        try:
            until = datetime.fromisoformat(until)
        except ValueError:
            message = f"until is {until!r}, no moment"
            hint = 'write until = "2026-01-31T00:00:00"'
            raise RequestError(message, code="bad-time", at="until", hint=hint) from None
    if isinstance(until, date) and not isinstance(until, datetime):
        until = datetime(until.year, until.month, until.day)
    if not isinstance(until, datetime):
        hint = "give a date, a datetime or text such as 2026-01-31T00:00:00"
        raise RequestError(f"until is {until!r}, no moment", code="bad-time", at="until", hint=hint)
    whole = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    since = whole - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**6 + since.microseconds


def check_covariates(*, has_events: bool, has_table: bool, asked: ExperimentRequest) -> None:
    """Raise where a table of covariates and the names of its columns do not meet.

    Raises:
        RequestError: conflicting-keys.
    """
    if has_events and has_table != bool(asked.before):
        message = "before names covariates, and there is no table of them"
        hint = "give covariates=, with unit; events before exposure need no name"
        if has_table:
            message, hint = "no column takes its covariates from the table", 'before={"clicks": ..}'
    elif has_table and not has_events:
        message, hint = "ready-made rows hold their covariates", "leave covariates= out"
    else:
        return
    raise RequestError(message, code="conflicting-keys", at="covariates", hint=hint)


def _check_columns(columns: Mapping[str, Any], asked: ExperimentRequest) -> None:
    """Raise where a name of a column stands for nothing [unknown-key]."""
    of_tables = {
        "exposures": (*EXPOSURES, "triggered", "exclude"),
        "events": (*EVENTS, "event"),
        "covariates": ("unit",),
    }
    if not asked.has_events:
        listed = asked.before.values()
        made = [name for names in (*listed, *(e.columns for e in asked.measures)) for name in names]
        of_tables["exposures"] += (*made, *filter(None, [asked.statistics.cluster]))
    flat = [name for names in of_tables.values() for name in names]
    for key, own in columns.items():
        given = own if key in of_tables and isinstance(own, Mapping) else {key: own}
        known = of_tables[key] if given is own else (*flat, *of_tables)
        for name in given:
            if name not in known:
                message = f"no column is called {name!r} here"
                hint = did_you_mean(name, known, f"the keys are {', '.join(dict.fromkeys(known))}")
                raise RequestError(message, code="unknown-key", at="columns", hint=hint)


def _located(
    exposures: object,
    events: object | None,
    covariates: object | None,
    columns: Mapping[str, Any] | None,
) -> tuple[LocatedFiles, LocatedFiles | None, LocatedFiles | None]:
    named, roles = dict(columns or {}), ("exposures", "events", "covariates")
    own = [named.pop(role, {}) for role in roles]
    for role, own_columns in zip(roles, own, strict=True):
        if not isinstance(own_columns, Mapping):
            message = f"columns of {role} are {own_columns!r}"
            hint = '{"unit": "user_id", "time": "ts"}'
            raise RequestError(message, code="wrong-type", at=f"columns.{role}", hint=hint)
    exclude = {**named, **own[0]}.get("exclude")
    first = {**named, **own[0]}
    first.pop("exclude", None)
    second = {**named, **own[1]}
    is_ready = events is None
    return (
        LocatedFiles(given=exposures, columns=first, exclude=exclude),
        None if is_ready else LocatedFiles(given=events, columns=second),
        None if covariates is None else LocatedFiles(given=covariates, columns={**named, **own[2]}),
    )
