"""Events on their way to units: looked up, added to integers, and nothing else kept of a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.kernels.threads import ordered_map
from evalkit.sources import Table, reading
from evalkit.sources.ids import IdPlan, KeyCollisionError, as_array, as_keys

from ._exposures import BATCH_ROWS, FIRST_SLOTS, NEVER, Exposed, Logs, keys_of, micros_of, no_time
from ._kernels import (
    LEFT_OUT,
    LOST,
    N_TALLIES,
    TWICE,
    add_events,
    add_halves,
    count_equal,
    look_up,
    round_sums,
)
from ._units import Column, Events, Halves, bad_values

Words = Ints

SCALE = 80  # bits behind the point of a sum of values
HEADROOM = 106  # bits that the largest value may have, before and behind it
MOST_NAMES = 16  # that texts are compared with one by one
MOST_COMPARED = 1 << 20  # rows of events, of which equal ones are counted


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """One sum of units: rows of a kind, or their values, in a span of time; or of halves of days.

    Args:
        start, end: microseconds after exposure.
        place: of its words among those of a unit.
        n_days: since exposure, by which it is cut, and by midnight; 0: the span is one.
    """

    kind: int
    is_value: bool
    start: int
    end: int
    place: int
    n_days: int = 0

    @property
    def n_words(self) -> int:
        if not self.n_days:
            return 1 + self.is_value
        return self.n_days * (4 if self.is_value else 1)


@dataclass(slots=True)
class Added:
    """Sums of units, and what was seen of rows on the way.

    Args:
        units: int64[n_units * width], the first exposure, then the words of sums.
        scales: int64[n_sums], bits behind the point.
        last: the last moment.
    """

    units: Ints
    width: int
    scales: Ints
    counts_by_model: Ints
    read: int = 0
    rows: int = 0
    nan: int = 0
    null: int = 0
    infinite: int = 0
    timeless: int = 0
    null_unit: int = 0
    last: int = -NEVER
    n_equal: int | None = None
    events: dict[Column, Events] = field(default_factory=dict)

    def column(self, each: KeptEvents, place: int) -> Floats:
        """float64[n_units], one sum of every unit, of days their total; rounded once."""
        if not each.n_days:
            return self._rounded(self.units, self.width, each, place)
        width = 1 + each.is_value
        words = np.empty(self.units.size // self.width * width, dtype=np.int64)
        add_halves(self.units, self.width, each.place, each.n_days, int(each.is_value), words)
        return self._rounded(words, width, replace(each, place=0), place)

    def _rounded(
        self, words: Words, width: int, each: KeptEvents, place: int, n_steps: int = 1
    ) -> Floats:
        out = np.empty(words.size // width * n_steps, dtype=np.float64)
        of = (width, each.place, int(each.is_value), n_steps, int(self.scales[place]))
        round_sums(words, *of, out)
        return out

    def halves(self, each: KeptEvents, place: int, stays: Flags) -> Halves:
        """[2 * n_days, n_units], sums of some units by halves of days."""
        if each.is_value:
            n_steps = 2 * each.n_days
            sums = self._rounded(self.units, self.width, each, place, n_steps)
            return np.ascontiguousarray(sums.reshape(n_steps, stays.size)[:, stays])
        rows = self.units.reshape(-1, self.width)[:, each.place : each.place + each.n_days]
        words = np.ascontiguousarray(rows if stays.all() else rows[stays])
        return np.ascontiguousarray(words.view(np.uint32).T)


def read_events(
    logs: Logs,
    plan: IdPlan,
    exposed: Exposed,
    begun: Ints,
    kept: Sequence[KeptEvents],
    kinds: Sequence[str],
) -> Added:
    """Read the events once; again where values are too large or too fine for the usual scale.

    Args:
        begun: int64[n_units], the first exposure, or that a unit is left out.
    Raises:
        DataError: values that are none [bad-values], rows without time [null-time].
        KeyCollisionError: two ids share a key.
    """
    scales = np.full(len(kept), SCALE, dtype=np.int64)
    found = _EventPass(logs, plan, exposed, begun, kept, kinds, scales).run()
    if found.counts_by_model[LOST]:
        scales = _scales(logs.events, kept, kinds)
        found = _EventPass(logs, plan, exposed, begun, kept, kinds, scales).run()
    return found


def _scales(table: Table, kept: Sequence[KeptEvents], kinds: Sequence[str]) -> Ints:
    """Bits behind the point that fit the largest value of each kind."""
    kind, size = pl.col("kind").cast(pl.String), pl.col("value").cast(pl.Float64).abs()
    rows = table.frame.select(kind, size.alias("size")).filter(pl.col("size").is_finite())
    with reading(table):
        largest = rows.group_by("kind").agg(pl.col("size").max()).collect(engine="streaming")
    sizes = dict(largest.iter_rows())
    found = [HEADROOM - int(np.frexp(sizes.get(kinds[each.kind]) or 1.0)[1]) for each in kept]
    return np.array(found, dtype=np.int64)


class _EventPass:
    """One pass over the events."""

    def __init__(
        self,
        logs: Logs,
        plan: IdPlan,
        exposed: Exposed,
        begun: Ints,
        kept: Sequence[KeptEvents],
        kinds: Sequence[str],
        scales: Ints,
    ) -> None:
        self.logs, self.plan, self.exposed, self.begun = logs, plan, exposed, begun
        self.kinds = kinds
        width = 1 + sum(each.n_words for each in kept)
        units = np.zeros(exposed.n * width, dtype=np.int64)
        units[::width] = begun
        self.found = Added(units, width, scales, np.zeros(N_TALLIES, dtype=np.int64))
        order = sorted(range(len(kept)), key=lambda number: kept[number].kind)
        rows = [kept[number] for number in order]
        self.sums = np.array(
            [(e.kind, e.is_value, e.start, e.end, e.place, e.n_days > 0) for e in rows],
            dtype=np.int64,
        ).reshape(-1, 6)
        self.begins = np.searchsorted(self.sums[:, 0], np.arange(len(kinds) + 1))
        self.scales = scales[order]
        asked = logs.asked
        summed = {each.kind for each in asked.sums.values() if each.of is not None}
        self.of_events: dict[Column, tuple[int, int]] = {}
        for measure in asked.measures:
            if measure.of_events:
                (name,), window = measure.columns, asked.window_of(measure)
                summed.add(asked.sums[name].kind)
                kind = kinds.index(asked.sums[name].kind)
                self.of_events[name, window] = kind, NEVER if window is None else window
        self.valued = np.array([kind in summed for kind in kinds])
        self.equal = _Equal(logs.events, drops=asked.policy("equal_events") == "once")
        self.parts: dict[Column, list[tuple[Ints, Floats]]] = {key: [] for key in self.of_events}
        self.lock = Lock()

    def run(self) -> Added:
        logs, table, found = self.logs, self.logs.events, self.found
        kind = places_in(pl.col("kind").cast(pl.String), self.kinds)
        columns = [*logs.ids(self.plan), micros_of(table).alias("time"), kind.alias("kind")]
        if self.valued.any():
            columns.append(pl.col("value").cast(pl.Float64))
        if self.equal.looks:
            names = table.frame.collect_schema().names()
            columns.append(pl.struct(names).hash(7).alias("whole"))

        def frames() -> Iterator[pl.DataFrame]:
            for frame in table.stream(columns, most=BATCH_ROWS):
                logs.clock.line.advance(frame.height)
                yield frame

        with reading(table):
            for _ in ordered_map(self._add, frames(), threads=logs.threads):
                pass
        if found.timeless:
            raise no_time(found.timeless, table)
        is_strict = logs.asked.policy("bad_values") == "error"
        if is_strict and (found.nan or found.null or found.infinite):
            numbers = {"NaN": found.nan, "null": found.null, "infinite": found.infinite}
            raise bad_values("value", numbers, table.at)
        found.n_equal = self.equal.n_equal if self.equal.looks else None
        for key, parts in self.parts.items():
            units = np.concatenate([codes for codes, _ in parts] or [np.empty(0, np.int64)])
            values = np.concatenate([values for _, values in parts] or [np.empty(0)])
            found.events[key] = Events(units, values)
        return found

    def _add(self, whole: pl.DataFrame) -> None:
        last = whole["time"].max()  # of all shares
        frame, n_null = self.logs.held(whole)
        n_rows, n_timeless = frame.height + n_null, frame["time"].null_count()
        if n_timeless:
            frame = frame.filter(pl.col("time").is_not_null())
        if self.equal.looks:
            frame = self.equal.first_of(frame)
        bad, values = (0, 0, 0), np.empty(0)
        if self.valued.any():
            frame, bad = self._without_bad(frame)
            values = as_array(frame["value"].fill_null(0.0))
        times, kinds = as_array(frame["time"]), as_array(frame["kind"])
        codes = np.empty(frame.height, dtype=np.int64)
        if look_up(*keys_of(frame), self.exposed.slots, self.exposed.known, codes) == TWICE:
            raise KeyCollisionError
        found, limit = self.found, self.logs.limit
        add_events(
            *(codes, times, kinds, values, found.units, found.width),
            *(self.sums, self.begins, self.scales, limit, found.counts_by_model),
        )
        parts = {}
        for key, (kind, end) in self.of_events.items():
            rows = np.flatnonzero((kinds == kind) & (codes >= 0) & (times <= limit))
            begun = self.begun[codes[rows]]
            rows = rows[(begun > LEFT_OUT) & (times[rows] >= begun) & (times[rows] - begun < end)]
            parts[key] = codes[rows], values[rows]
        with self.lock:
            found.read += whole.height
            found.rows, found.timeless = found.rows + n_rows, found.timeless + n_timeless
            found.null_unit += n_null
            found.null, found.nan = found.null + bad[0], found.nan + bad[1]
            found.infinite += bad[2]
            if isinstance(last, int):
                found.last = max(found.last, last)
            for key, part in parts.items():
                self.parts[key].append(part)

    def _without_bad(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[int, int, int]]:
        """Rows whose values are none lose their kind; how many are null, NaN and infinite."""
        kinds, values = as_array(frame["kind"]), frame["value"]
        numbers = values.fill_null(0.0).to_numpy()
        is_bad = ~np.isfinite(numbers)
        if not values.null_count() and not is_bad.any():
            return frame, (0, 0, 0)
        is_summed = np.zeros(frame.height, dtype=np.bool_)
        is_summed[kinds >= 0] = self.valued[kinds[kinds >= 0]]
        nulls, is_bad = values.is_null().to_numpy() & is_summed, is_bad & is_summed
        n_nan = int(np.isnan(numbers[is_bad]).sum())
        kind = pl.when(pl.Series(is_bad | nulls)).then(-1).otherwise(pl.col("kind"))
        frame = frame.with_columns(kind.cast(pl.Int32).alias("kind"))
        return frame, (int(nulls.sum()), n_nan, int(is_bad.sum()) - n_nan)


def places_in(texts: pl.Expr, names: Sequence[str]) -> pl.Expr:
    """int32, the place of each text among the names, -1 of all others.

    A few comparisons take a tenth of the time of `replace_strict`.
    """
    if len(names) > MOST_NAMES:
        places = {name: place for place, name in enumerate(names)}
        return texts.replace_strict(places, default=-1, return_dtype=pl.Int32).fill_null(-1)
    found = pl.lit(-1, dtype=pl.Int32)
    for place, name in enumerate(names):
        found = pl.when(texts == name).then(pl.lit(place, dtype=pl.Int32)).otherwise(found)
    return found


class _Equal:
    """Rows of events that equal another one: counted in small logs, left out where that is asked.

    They are held by a hash of 64 bits, 16 to 32 bytes a row, and half as much again as it grows.
    """

    def __init__(self, table: Table, *, drops: bool) -> None:
        hint = table.n_rows_hint()
        self.drops, self.n_equal, self._n = drops, 0, 0
        self.looks = drops or (hint is not None and hint <= MOST_COMPARED)
        self._slots = np.zeros(FIRST_SLOTS, dtype=np.uint64)
        self._lock = Lock()

    def first_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows that equal none before, or all of them where equal ones are only counted."""
        hashes, is_first = as_keys(frame["whole"]), np.empty(frame.height, dtype=np.bool_)
        with self._lock:
            while 2 * (self._n + hashes.size + 1) > self._slots.size - 1:
                old, self._slots = self._slots, np.zeros(2 * self._slots.size, dtype=np.uint64)
                for begin in range(0, old.size, BATCH_ROWS):
                    part = old[begin : begin + BATCH_ROWS]
                    part = part[part != 0]
                    count_equal(part, self._slots, 0, np.empty(part.size, dtype=np.bool_))
            n = int(count_equal(hashes, self._slots, self._n, is_first))
            self.n_equal += hashes.size - (n - self._n)
            self._n = n
        return frame.filter(pl.Series(is_first)) if self.drops else frame
