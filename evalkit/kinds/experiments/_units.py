"""Units of an experiment, one row each: read from logs, or ready-made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.aggregate.segments import hash_clusters
from evalkit.errors import DataError, RequestError, did_you_mean
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints, Keys
from evalkit.sources import Table

from ._asked import ExperimentRequest
from ._expressions import DAY
from ._kernels import take_date

Moments = Ints
MOST_CROSSED = 0.01
MOST_KINDS = 12
READ_EXPOSURES, READ_EVENTS = "exposures read", "events read"  # rows, of all shares
READ_COVARIATES = "covariates read"
Halves = npt.NDArray[np.uint32] | Floats
Column = tuple[str, int | None]  # of a unit: the sum, and its window


@dataclass(frozen=True, slots=True)
class GroupedUnits:
    """Units in groups by name: of strata, of segments; -1 of none."""

    codes: Int32s
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitDays:
    """Sums of units by day, of the primary metrics.

    Args:
        halves: sum -> [2 * n_days, n_units], of days since exposure, before and after midnight.
        names: of days: since exposure from 0, or dates.
        starts: int64[n_units], the dates of exposure `firsts`; `window`: microseconds.
    """

    halves: Mapping[str, Halves]
    names: tuple[str, ...]
    firsts: Moments
    starts: Moments
    until: int
    window: int

    @property
    def date(self) -> int | None:
        """The first one since 1970; None of days since exposure."""
        first = self.names[0]
        return None if first.isdigit() else int(np.datetime64(first, "D").astype(np.int64))

    def column(self, name: str, day: int) -> Floats:
        """float64[n_units], sums of a day."""
        halves, out = self.halves[name], np.zeros(self.firsts.size)
        if self.date is not None:
            take_date(halves, self.starts, self.date + day, out)
        elif 2 * day < halves.shape[0]:
            out += halves[2 * day]
            out += halves[2 * day + 1]
        return out

    def counts_in(self, day: int) -> Flags:
        """Whose day is over; of dates, which units are in their window then."""
        if self.date is None:
            return self.firsts + (day + 1) * DAY <= self.until + 1
        begin = (self.date + day) * DAY
        is_in = (self.firsts < begin + DAY) & (self.firsts + self.window > begin)
        return is_in & (begin <= self.until)


@dataclass(frozen=True, slots=True)
class Events:
    """Values of single events: of which unit, and how much."""

    units: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Units:
    """Units that are in one variant, in any order.

    Args:
        keys: uint64[n_units].
        ids: their ids, where they are known.
        a_day: units that were exposed for the first time a day.
        variants: places of `names`.
        columns: float64[n_units] each.
        before: column -> its covariates; NaN of a unit that has none.
        open: window -> which units' window was not over.
        clusters: uint64[n_units], where units vary together.
        counts: as `report.counts_frame` has them.
        crossed: units in two variants, by variant: each counts in all of its own.
        excluded: units left out by `exclude`, by variant.
        firsts: int64[n_units], first exposures; `until`: the moment when the logs end.
    """

    keys: Keys
    names: tuple[str, ...]
    variants: Int32s
    columns: Mapping[Column, Floats]
    counts: Mapping[str, int]
    before: Mapping[str, tuple[Floats, ...]] = field(default_factory=dict)
    open: Mapping[int, Flags] = field(default_factory=dict)
    groups: Mapping[str, GroupedUnits] = field(default_factory=dict)
    clusters: Keys | None = None
    triggered: Flags | None = None
    crossed: Mapping[str, int] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[Column, Events] = field(default_factory=dict)
    days: Mapping[str, UnitDays] = field(default_factory=dict)
    ids: pl.DataFrame | None = None
    a_day: float | None = None
    firsts: Moments | None = None
    until: int | None = None

    @property
    def n(self) -> int:
        return int(self.variants.size)

    def assigned(self, among: Flags) -> tuple[list[int], bool]:
        """Units by variant; clusters, and True, where each is in one variant: those came so."""
        arms = [among & (self.variants == arm) for arm in range(len(self.names))]
        if self.clusters is not None:
            found = [np.unique(self.clusters[own]) for own in arms]
            if np.unique(np.concatenate(found)).size == sum(each.size for each in found):
                return [each.size for each in found], True
        return [int(own.sum()) for own in arms], False


def open_windows(
    asked: ExperimentRequest, firsts: Moments, until: int
) -> tuple[dict[int, Flags], int]:
    """Which units do not count yet, by window; how many have one that is not over."""
    windows = {window for _, window in columns_of(asked) if window is not None}
    skips = asked.policy("open_windows") == "skip"
    found = {window: (firsts + window > until) & skips for window in windows}
    return found, int((firsts + max(windows) > until).sum()) if windows else 0


def units_a_day(firsts: Ints) -> float | None:
    """Units that are new a day, by their moments; where these are dates, the last day counts."""
    if not firsts.size:
        return None
    span = int(firsts.max()) - int(firsts.min()) + DAY * (not (firsts % DAY).any())
    return firsts.size / (span / DAY) if span > 0 else None


def days_of(
    halves: Mapping[str, Halves],
    names: Mapping[str, Sequence[str]],
    firsts: Moments,
    until: int,
    window: int,
) -> dict[str, UnitDays]:
    """Sums by day of both ways that have names."""
    starts = firsts // DAY
    return {
        way: UnitDays(halves, tuple(days), firsts, starts, until, window)
        for way, days in names.items()
        if days
    }


def columns_of(asked: ExperimentRequest) -> list[Column]:
    """The columns of a unit that metrics are made of, each with its window."""
    found: dict[Column, None] = {}
    for measure in asked.measures:
        for name in measure.columns:
            found.setdefault((name, asked.window_of(measure)))
    return list(found)


def check_sums(asked: ExperimentRequest, names: Sequence[str]) -> None:
    """Raise where a metric names a column that is not there [missing-column]."""
    for measure in asked.measures:
        for name in measure.columns:
            if name not in names:
                message = f"{measure.label} needs the column {name!r}"
                hint = did_you_mean(name, names, f"there is {', '.join(names)}")
                raise RequestError(message, code="missing-column", at="metrics", hint=hint)


def grouped(values: pl.Series) -> GroupedUnits:
    """Units by a column's values, names in order; null is none."""
    texts = values.cast(pl.String)
    names = texts.drop_nulls().unique().sort()
    places = {name: place for place, name in enumerate(names)}
    codes = texts.replace_strict(places, default=-1, return_dtype=pl.Int32)
    return GroupedUnits(codes.fill_null(-1).to_numpy(), tuple(names))


def bad_values(name: str, numbers: Mapping[str, int], at: str) -> DataError:
    """The refusal of values that are none."""
    told = ", ".join(f"{n:,} {what}" for what, n in numbers.items() if n)
    message = f"{name} has values that are none: {told}"
    hint = 'write bad_values = "drop" under [policies] to leave such rows out, counted'
    return DataError(message, code="bad-values", at=at, hint=hint)


def check_units(units: Units, asked: ExperimentRequest) -> None:
    """Raise where a declared variant has no unit [empty-variant], too many are in several."""
    n_crossed = units.counts.get("units_in_two_variants", 0)
    n, policy = units.n + n_crossed, asked.policy("crossed_units")
    if n_crossed and (policy == "error" or (policy == "drop" and n_crossed > MOST_CROSSED * n)):
        raise DataError(
            f"{n_crossed:,} of {n:,} units are in two variants or more",
            code="crossed-units",
            at="exposures",
            hint='crossed_units = "drop" under [policies] leaves up to 1 % of all units out, '
            '"first" takes the first variant of each; more say that the assignment is broken',
        )
    check_events(units, asked)
    if units.n and units.open and all(is_open.all() for is_open in units.open.values()):
        windows = [asked.window_of(measure) for measure in asked.measures]
        if None not in windows:
            raise DataError(
                f"the window of every unit is still open: none of {units.n:,} can be read yet",
                code="open-windows",
                at="experiment.window",
                hint='wait, shorten the window, or write open_windows = "keep" under [policies]; '
                "until says when the logs end, by default at the last event",
            )
    counts = {name: int((units.variants == i).sum()) for i, name in enumerate(asked.names)}
    empty = [name for name, n in counts.items() if not n]
    if empty:
        raise DataError(
            f"no unit is in variant {', '.join(map(repr, empty))}",
            code="empty-variant",
            at="exposures",
            hint=f"units are in {', '.join(f'{k} ({n:,})' for k, n in counts.items() if n)}; "
            "declare the variants that ran"
            if len(empty) < len(counts)
            else "is `variant` the right column?",
        )


def check_clusters(n_without: int, at: str) -> None:
    """Raise where units have no cluster [no-cluster]: they would be one together."""
    if n_without:
        message = f"{n_without:,} units have no cluster"
        hint = "give every unit one, or leave cluster out"
        raise DataError(message, code="no-cluster", at=at, hint=hint)


def check_events(units: Units, asked: ExperimentRequest, events: Table | None = None) -> None:
    """Raise where no event at all lies in any window [no-event-in-window].

    Args:
        events: their log, whose kinds are told.
    """
    if units.firsts is None or not units.n or any(e.any() for e in units.columns.values()):
        return
    n_events, n_unexposed = units.counts["event_rows"], units.counts["event_never_exposed"]
    told = f"{n_unexposed:,} of {n_events:,} events are of units that were never exposed; "
    wanted = ", ".join(sorted({each.kind for each in asked.sums.values()}))
    there = ""
    if events is not None:
        kinds = events.frame.select(pl.col("kind").cast(pl.String)).unique().head(MOST_KINDS)
        names = kinds.collect(engine="streaming")["kind"].drop_nulls().sort()
        there = f" Events have {', '.join(names) or 'none'}"
    raise DataError(
        "no event lies in the window of any unit" if n_events else "there are no events",
        code="no-event-in-window",
        at="events",
        hint=(told if n_unexposed else "") + "are times of both logs of one zone, are exposures "
        f"before events, and are the kinds {wanted} spelt as they are there?{there}",
    )


def unknown_variants(found: Mapping[str | None, int], names: Sequence[str], at: str) -> DataError:
    """The refusal of rows whose variant nobody declared."""
    told = ", ".join(
        f"{n:,} of {'no variant (null)' if name is None else repr(name)}"
        for name, n in sorted(found.items(), key=lambda each: (each[0] is None, each[0] or ""))[:5]
    )
    return DataError(
        f"exposures have rows of variants that are not declared: {told}",
        code="unknown-variant",
        at=at,
        hint=f"declared are {', '.join(names)}; add them with their shares, or write "
        'unknown_variants = "drop" under [policies]',
    )


def read_ready(
    frame: pl.DataFrame, asked: ExperimentRequest, groups: Sequence[str], at: str, n_read: int
) -> Units:
    """Units of a table with one row each: `unit`, `variant`, and columns as they are named.

    Raises:
        DataError: duplicate-unit, unknown-variant, empty-variant, bad-values, not-a-number.
    """
    places = {name: place for place, name in enumerate(asked.names)}
    texts = frame["variant"].cast(pl.String)
    codes = texts.replace_strict(places, default=-1, return_dtype=pl.Int32).fill_null(-1)
    unknown = texts.filter(codes < 0)
    if unknown.len() and asked.policy("unknown_variants") == "error":
        raise unknown_variants(dict(unknown.value_counts().iter_rows()), asked.names, at)
    has_ids = "unit" in frame.columns
    keep = (codes >= 0) & frame["unit"].is_not_null() if has_ids else codes >= 0
    rows, arms, excluded = frame.filter(keep), codes.filter(keep).to_numpy(), {}
    if has_ids and rows["unit"].n_unique() < rows.height:
        raise DataError(
            f"{int(rows['unit'].is_duplicated().sum()):,} rows share their unit with another one",
            code="duplicate-unit",
            at=at,
            hint="a ready-made table has one row a unit; give logs as exposures and events",
        )
    if "excluded" in rows.columns:
        is_out = rows["excluded"].cast(pl.Boolean).fill_null(value=False).to_numpy()
        if is_out.any():
            excluded = {name: int((arms[is_out] == i).sum()) for i, name in enumerate(asked.names)}
        rows, arms = rows.filter(pl.Series(~is_out)), arms[~is_out]
    units = ready_units(rows, asked, groups, at, arms)
    return replace(
        units,
        excluded=excluded,
        counts={
            READ_EXPOSURES: n_read,
            "exposure_rows": frame.height,
            "units": units.n,
            "unknown_variant": unknown.len() - unknown.null_count(),
            "null_variant": unknown.null_count(),
            "null_unit": int(frame["unit"].null_count()) if has_ids else 0,
            "units_excluded": sum(excluded.values()),
            **units.counts,
        },
    )


def ready_units(
    rows: pl.DataFrame,
    asked: ExperimentRequest,
    groups: Sequence[str],
    at: str,
    arms: Int32s | None = None,
) -> Units:
    """Units of rows that are in these variants; all in the baseline by default."""
    arms = np.zeros(rows.height, dtype=np.int32) if arms is None else arms
    columns, good, bad = _good_columns(rows, asked, at)
    before = {
        name: tuple(as_floats(rows[each], each, at)[good] for each in listed)
        for name, listed in asked.before.items()
    }
    rows, arms = rows.filter(pl.Series(good)), arms[good]
    triggered, cluster = None, asked.statistics.cluster
    if cluster is not None:
        check_clusters(rows[cluster].null_count(), at)
    if "triggered" in rows.columns:
        triggered = rows["triggered"].cast(pl.Boolean).fill_null(value=False).to_numpy()
    return Units(
        keys=np.arange(rows.height, dtype=np.uint64),
        names=asked.names,
        variants=arms,
        columns=columns,
        before=before,
        groups={name: grouped(rows[name]) for name in groups},
        clusters=None if cluster is None else hash_clusters(rows[cluster]),
        triggered=triggered,
        counts=bad,
        ids=rows.select("unit") if "unit" in rows.columns else None,
    )


def _good_columns(
    rows: pl.DataFrame, asked: ExperimentRequest, at: str
) -> tuple[dict[Column, Floats], Flags, dict[str, int]]:
    """Columns of the rows that have all of their values, which rows these are, and the others."""
    found: dict[Column, Floats] = {}
    good = np.ones(rows.height, dtype=np.bool_)
    n_null = n_nan = n_infinite = 0
    for name in dict.fromkeys(name for name, _ in columns_of(asked)):
        values, nulls = as_floats(rows[name], name, at), rows[name].is_null().to_numpy()
        own = {
            "null": int(nulls.sum()),
            "NaN": int((np.isnan(values) & ~nulls).sum()),
            "infinite": int(np.isinf(values).sum()),
        }
        if any(own.values()) and asked.policy("bad_values") == "error":
            raise bad_values(name, own, at)
        n_null, n_nan = n_null + own["null"], n_nan + own["NaN"]
        n_infinite += own["infinite"]
        good &= np.isfinite(values)
        found[name, None] = values
    counts = {"event_value_nan": n_nan, "event_value_null": n_null}
    counts["event_value_infinite"] = n_infinite
    return {key: values[good] for key, values in found.items()}, good, counts


def as_floats(values: pl.Series, name: str, at: str) -> Floats:
    """float64 of a column of numbers, NaN of null.

    Raises:
        DataError: it holds no numbers [not-a-number].
    """
    dtype = values.dtype
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        hint = f"write cast({name} as double) as its column, or another column"
        raise DataError(f"{name} is {dtype}, no number", code="not-a-number", at=at, hint=hint)
    found = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return np.ascontiguousarray(found, dtype=np.float64)
