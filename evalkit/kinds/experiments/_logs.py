"""Logs of exposures and events to units: every rule, every count.

A unit takes 48 bytes in the table and beside it, 8 a count and 16 a sum of values while events are
added (both again for covariates), then 8 a column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.sources import Table, reading
from evalkit.sources.hints import turn_column
from evalkit.sources.ids import IdPlan, KeyCollisionError, ids_of_keys, plan_ids

from ._asked import ExperimentRequest
from ._events import Added, KeptEvents, read_events
from ._exposures import BATCH_ROWS, NEVER, Exposed, Logs, keys_of, read_exposures
from ._expressions import DAY
from ._kernels import CROSSED, LATE, LEFT_OUT, OUTSIDE, TWICE, UNEXPOSED, look_up
from ._phases import phases_of
from ._units import (
    READ_COVARIATES,
    READ_EVENTS,
    Column,
    Events,
    GroupedUnits,
    Units,
    as_floats,
    check_clusters,
    columns_of,
    days_of,
    open_windows,
    units_a_day,
)

MOST_DAYS = 60


def read_logs(logs: Logs, seed: int) -> Units:
    """The units of logs.

    Raises:
        DataError: empty-variant, crossed-units, time-zone, dates-beside-moments,
            no-event-in-window, unexposed-events; of ids as `plan_ids`, of rows as
            `read_exposures` and `read_events`.
        KeyCollisionError: two ids share a key under this seed.
    """
    plan = plan_of(logs, seed)
    _check_times([(table, table.frame.collect_schema()) for table in logs.tables[:2]])
    counts: dict[str, int] = {}
    exposed = read_exposures(logs, plan, counts)
    logs.clock.stop("exposures")
    arms = _Arms.of(logs.asked, exposed)
    kinds = list(dict.fromkeys(each.kind for each in logs.asked.sums.values()))
    wanted = _Wanted.of(logs.asked, kinds, exposed.moments)
    added = read_events(logs, plan, exposed, arms.begun, wanted.kept, kinds)
    logs.clock.stop("events")
    _count(logs, arms, added, counts)
    known = read_covariates(logs, plan, exposed, counts)
    return _units(logs, plan, exposed, arms, wanted, added, known, counts)


def plan_of(logs: Logs, seed: int) -> IdPlan:
    """The common key of units over all tables."""
    schemas = [(table, table.frame.collect_schema()) for table in logs.tables]
    units = [(table.role, table.at, {"unit": schema["unit"]}) for table, schema in schemas]
    return plan_ids("unit", units, seed=seed)


def _check_times(schemas: Sequence[tuple[Table, pl.Schema]]) -> None:
    """Raise where times of one side alone have a zone [time-zone], or events alone are of days
    [dates-beside-moments]."""
    (exposures, first), (events, second) = schemas
    kinds = [
        None if dtype.is_integer() else getattr(dtype, "time_zone", None) is not None
        for dtype in (first["time"], second["time"])
    ]
    if None not in kinds and kinds[0] != kinds[1]:
        zoned = exposures if kinds[0] else events
        raise DataError(
            f"events.time is {second['time']}, exposures.time is {first['time']}: one of them "
            "alone has a time zone",
            code="time-zone",
            hint=f"if the other is in UTC: {turn_column(zoned, 'time', 'cast({} as timestamp)')}",
        )
    if second["time"] == pl.Date and isinstance(first["time"], pl.Datetime):
        to_day = turn_column(exposures, "time", "cast({} as date)")
        to_moment = turn_column(events, "time", "cast({} as timestamp)")
        raise DataError(
            "events have dates, exposures have moments: events of the day of exposure would all "
            "be before it",
            code="dates-beside-moments",
            at=events.at,
            hint=f"{to_day} counts that day, {to_moment} begins with the next one",
        )


@dataclass(frozen=True, slots=True)
class _Arms:
    """Who is in which variant, and who in several or left out.

    Args:
        begun: int64[n_units], the first exposure, or why a unit is left out.
        stays: bool[n_units].
        crossed, excluded: units by variant.
    """

    begun: Ints
    stays: Flags
    n_crossed: int
    crossed: Mapping[str, int]
    excluded: Mapping[str, int]

    @classmethod
    def of(cls, asked: ExperimentRequest, exposed: Exposed) -> "_Arms":
        n, names = exposed.n, asked.names
        masks, arms = exposed.masks[: 2 * n], exposed.arms[:n]
        variants, is_excluded = masks[0::2], (masks[1::2] & 2) != 0
        is_crossed = (variants & (variants - 1)) != 0
        leaves = is_crossed & (asked.policy("crossed_units") != "first")
        stays = ~(leaves | is_excluded)
        crossed = {
            name: int(((variants >> i) & 1)[is_crossed].sum()) for i, name in enumerate(names)
        }
        excluded = {name: int((is_excluded & (arms == i)).sum()) for i, name in enumerate(names)}
        begun = np.where(is_excluded, LEFT_OUT, exposed.firsts[:n])
        begun = np.where(leaves, OUTSIDE, begun)
        return cls(
            begun, stays, int(is_crossed.sum()), crossed, excluded if is_excluded.any() else {}
        )


@dataclass(slots=True)
class _Wanted:
    """The sums of a unit: of columns, of covariates, of days.

    Args:
        columns, before: place of each among `kept`.
        halves: likewise, of days, whose sum is the column that spans them; `days`: way -> names.
    """

    kept: list[KeptEvents] = field(default_factory=list)
    columns: dict[Column, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    halves: dict[str, int] = field(default_factory=dict)
    days: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, asked: ExperimentRequest, kinds: Sequence[str], moments: tuple[int, int]
    ) -> "_Wanted":
        found = cls()
        width = 1

        def add(name: str, start: int, end: int, n_days: int = 0) -> int:
            nonlocal width
            of = asked.sums[name]
            kind, is_value = kinds.index(of.kind), of.of is not None
            own = KeptEvents(kind, is_value, start, end, width, n_days)
            found.kept.append(own)
            width += own.n_words
            return len(found.kept) - 1

        end, names = 0, _by_day(asked)
        if asked.window is not None and names and moments[0] <= moments[1]:
            n_days = -(-asked.window // DAY)
            if n_days <= MOST_DAYS:
                found.days["day"] = tuple(map(str, range(n_days)))
            first, last = moments[0] // DAY, (moments[1] + asked.window) // DAY
            last = last if asked.until is None else min(last, asked.until // DAY)
            if last - first < MOST_DAYS:
                dates = np.arange(first, last + 1).astype("datetime64[D]").astype(str).tolist()
                found.days["date"] = tuple(dates)
            if found.days:
                n_days = min(n_days, max(1, last - first + 1))
                end = min(asked.window, n_days * DAY)
                found.halves = {name: add(name, 0, end, n_days) for name in names}
        for name, window in columns_of(asked):
            if name in found.halves and window == end:
                found.columns[name, window] = found.halves[name]
                continue
            found.columns[name, window] = add(name, 0, NEVER if window is None else window)
        if asked.covariate_days > 0:
            start = -round(asked.covariate_days * DAY)
            from_events = [e for e in asked.measures if not (e.is_plain or asked.names_before(e))]
            adjusted = [name for measure in from_events for name in measure.columns]
            found.before = {name: add(name, start, 0) for name in dict.fromkeys(adjusted)}
        return found


def bytes_of_days(asked: ExperimentRequest) -> int:
    """What a unit takes for effects by day: 8 bytes a day of counts, 32 of values."""
    names = _by_day(asked) if asked.window is not None else []
    n_days = -(-(asked.window or 0) // DAY)
    return sum(n_days * (8 if asked.sums[name].of is None else 32) for name in names)


def _by_day(asked: ExperimentRequest) -> list[str]:
    """Columns of the primary metrics that are looked at day by day."""
    if asked.phases:  # days are not stratified
        return []
    primary = [each for each in asked.measures if each.label in asked.primary]
    plain = [e for e in primary if e.kind in ("mean", "ratio") and e.cap is None is e.winsor]
    return list(dict.fromkeys(name for each in plain for name in each.columns))


def _count(logs: Logs, arms: _Arms, added: Added, counts: dict[str, int]) -> None:
    """Counts of rows and units; raises where they are not what policies allow."""
    counts_by_model, asked = added.counts_by_model, logs.asked
    counts |= {
        READ_EVENTS: added.read,
        "event_rows": added.rows,
        "event_null_unit": added.null_unit,
        "event_value_nan": added.nan,
        "event_value_null": added.null,
        "event_value_infinite": added.infinite,
        "event_rows_equal": added.n_equal or 0,
        "units": int(arms.stays.sum()),
        "units_in_two_variants": arms.n_crossed,
        "units_excluded": sum(arms.excluded.values()),
        "event_never_exposed": int(counts_by_model[UNEXPOSED]),
        "event_in_two_variants": int(counts_by_model[CROSSED]),
        "event_after_until": int(counts_by_model[LATE]),
    }
    if counts_by_model[UNEXPOSED] and asked.policy("unexposed_events") == "error":
        message = f"{counts_by_model[UNEXPOSED]:,} events are of units that were never exposed"
        hint = 'write unexposed_events = "drop" under [policies] to leave them out'
        raise DataError(message, code="unexposed-events", at=logs.events.at, hint=hint)


def _units(
    logs: Logs,
    plan: IdPlan,
    exposed: Exposed,
    arms: _Arms,
    wanted: _Wanted,
    added: Added,
    known: Mapping[str, Floats],
    counts: dict[str, int],
) -> Units:
    asked, n, stays = logs.asked, exposed.n, arms.stays
    firsts = exposed.firsts[:n][stays]
    until = added.last if asked.until is None else asked.until

    def column(place: int) -> Floats:
        return added.column(wanted.kept[place], place)[stays]

    columns = {key: column(place) for key, place in wanted.columns.items()}
    events_before = {name: column(place) for name, place in wanted.before.items()}
    before: dict[str, tuple[Floats, ...]] = {n: (e,) for n, e in events_before.items() if e.any()}
    if known:
        of_table = asked.before.items()
        before |= {name: tuple(known[each][stays] for each in listed) for name, listed in of_table}
    opened, counts["units_with_open_window"] = open_windows(asked, firsts, until)
    facts = exposed.facts[: n * exposed.n_facts].reshape(n, exposed.n_facts)[stays]
    if logs.has_cluster:
        check_clusters(int((facts[:, -1] == 0).sum()), logs.exposures.at)
    keys, places = exposed.keys()[stays], np.cumsum(stays) - 1
    flags = exposed.masks[1 : 2 * n : 2][stays]
    has_triggers = "triggered" in logs.exposures.frame.collect_schema()
    return Units(
        keys=keys,
        names=asked.names,
        variants=exposed.arms[:n][stays].astype(np.int32),
        columns=columns,
        before=before,
        open=opened,
        groups={
            name: _named(facts[:, number], exposed.texts[number])
            for number, name in enumerate(logs.facts)
        }
        | phases_of(asked, firsts),
        clusters=facts[:, -1].copy() if logs.has_cluster else None,
        triggered=(flags & 1).astype(np.bool_) if has_triggers else None,
        crossed=arms.crossed,
        excluded=arms.excluded,
        events={key: Events(places[e.units], e.values) for key, e in added.events.items()},
        days=days_of(
            {n: added.halves(wanted.kept[e], e, stays) for n, e in wanted.halves.items()},
            *(wanted.days, firsts, until, asked.window or 0),
        ),
        counts=counts,
        ids=_ids_of(logs, plan, keys),
        a_day=units_a_day(firsts),
        firsts=firsts,
        until=until,
    )


def _ids_of(logs: Logs, plan: IdPlan, keys: Keys) -> pl.DataFrame | None:
    """The ids of units; those that were hashed are read once more where somebody asks for them."""
    if not plan.hashed:
        return ids_of_keys(plan, keys)
    if not logs.keeps_ids:
        return None
    read = logs.exposures.frame.select(plan.select("key")).drop_nulls("key").unique("key")
    wanted = pl.LazyFrame({"key": keys}).join(read, on="key", how="left", maintain_order="left")
    return wanted.select(plan.columns).collect(engine="streaming")


def _named(hashes: Keys, texts: Mapping[int, str]) -> GroupedUnits:
    """Units by a fact, its texts in order; -1 of null."""
    names = tuple(sorted(set(texts.values())))
    if not names:
        return GroupedUnits(np.full(hashes.size, -1, dtype=np.int32), ())
    places = {name: place for place, name in enumerate(names)}
    known = np.array(sorted(texts), dtype=np.uint64)
    codes = np.array([places[texts[int(each)]] for each in known], dtype=np.int32)
    at = np.minimum(np.searchsorted(known, hashes), known.size - 1)
    return GroupedUnits(np.where(known[at] == hashes, codes[at], -1).astype(np.int32), names)


def read_covariates(
    logs: Logs, plan: IdPlan, exposed: Exposed, counts: dict[str, int]
) -> dict[str, Floats]:
    """float64[n_units] of each column, NaN of units that have none; nothing without a table.

    Raises:
        DataError: a unit has two rows [duplicate-unit], a column no numbers [not-a-number].
        KeyCollisionError: two ids share a key.
    """
    table = logs.covariates
    if table is None:
        return {}
    names = list(dict.fromkeys(name for each in logs.asked.before.values() for name in each))
    found = {name: np.full(exposed.n, np.nan) for name in names}
    n_rows, n_read = np.zeros(exposed.n, dtype=np.int32), 0
    with reading(table):
        for whole in table.stream([*logs.ids(plan), *map(pl.col, names)], most=BATCH_ROWS):
            logs.clock.line.advance(whole.height)
            n_read += whole.height
            frame, _ = logs.held(whole)
            codes = np.empty(frame.height, dtype=np.int64)
            if look_up(*keys_of(frame), exposed.slots, exposed.known, codes) == TWICE:
                raise KeyCollisionError
            is_known = codes >= 0
            np.add.at(n_rows, codes[is_known], 1)
            for name in names:
                found[name][codes[is_known]] = as_floats(frame[name], name, table.at)[is_known]
    if (n_rows > 1).any():
        message = f"{int((n_rows > 1).sum()):,} units have more than one row of covariates"
        hint = "add their rows up first: covariates are one row a unit"
        raise DataError(message, code="duplicate-unit", at=table.at, hint=hint)
    counts |= {READ_COVARIATES: n_read, "units_without_covariates": int((n_rows == 0).sum())}
    logs.clock.stop("covariates")
    return found
