"""Exposures on their way to units: a hash table that grows, the first exposure, all variants."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError
from evalkit.kernels.arrays import Ints, Keys
from evalkit.planning.counters import Clock
from evalkit.sources import Table, ids, reading
from evalkit.sources.hints import keep_rows, turn_column

from ._asked import ExperimentRequest
from ._kernels import FULL, TWICE, enlarge, enter, note_exposures
from ._units import READ_EXPOSURES, unknown_variants

BATCH_ROWS = 1 << 19
FIRST_SLOTS = 1 << 16
NEVER = np.iinfo(np.int64).max
CHECK = "check"  # a second hash of ids that are hashed
_LIMITS = (10**11, 10**14, 10**17)  # below them whole numbers are s, ms, us since 1970


@dataclass(frozen=True, slots=True)
class Logs:
    """Both logs, and how their rows are read.

    Args:
        exposures: columns unit, variant, time; as there are triggered, excluded, fact_0, ...
        events: unit, time, kind and, where values are summed, value.
        covariates: unit, and the columns that `before` names.
        facts: names of the facts: strata, segments; then the cluster, if there is one.
        share: whose units alone are read.
        keeps_ids: units' own ids are kept, also where keys are hashes of them.
    """

    asked: ExperimentRequest
    exposures: Table
    events: Table
    facts: tuple[str, ...]
    clock: Clock
    threads: int
    share: ids.Share | None = None
    keeps_ids: bool = False
    covariates: Table | None = None

    @property
    def tables(self) -> list[Table]:
        """All that are read."""
        return [e for e in (self.exposures, self.events, self.covariates) if e is not None]

    @property
    def has_cluster(self) -> bool:
        """Whether the last fact is a cluster."""
        return self.asked.statistics.cluster is not None

    @property
    def limit(self) -> int:
        """The moment after which nothing counts."""
        return NEVER if self.asked.until is None else self.asked.until

    def ids(self, plan: ids.IdPlan) -> list[pl.Expr]:
        """The key of a row; of hashed ids a second hash, by which two that share one are told."""
        columns = [plan.key().alias(ids.USER_KEY)]
        if plan.hashed:
            columns.append(ids.hash_ids(plan.canonical()[0], plan.seed + 1000).alias(CHECK))
            columns += plan.canonical() if isinstance(self.share, ids.DrawnShare) else []
        return columns

    def held(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        """Rows of the share, and how many belong to it and have no unit."""
        n_null = frame[ids.USER_KEY].null_count()
        if n_null:
            frame = frame.filter(pl.col(ids.USER_KEY).is_not_null())
        if self.share is None:
            return frame, n_null
        frame = frame.filter(pl.Series(self.share.holds(frame)))
        return frame, n_null if self.share.is_first else 0


def keys_of(frame: pl.DataFrame) -> tuple[Keys, Keys]:
    """Keys of rows, and second hashes, none of ids that are their own keys."""
    checks = ids.as_keys(frame[CHECK]) if CHECK in frame.columns else np.empty(0, dtype=np.uint64)
    return ids.as_keys(frame[ids.USER_KEY]), checks


class Exposed:
    """Units so far; arrays have room for more than `n`.

    Args:
        n_facts: facts of a unit's first exposure, whose hashes `facts` holds.
        n_named: those of them whose texts are kept.

    `slots` is the table, uint64[2 * n_slots] of key and code + 1; by code `known` are second
    hashes, `firsts` first exposures, `arms` the variant then, `masks` bits of variants and flags.
    """

    def __init__(self, n_facts: int, n_named: int) -> None:
        room = FIRST_SLOTS // 2
        self.n, self.n_facts = 0, n_facts
        self.moments = (NEVER, -NEVER)  # the first and the last exposure, of all shares
        self.texts: list[dict[int, str]] = [{} for _ in range(n_named)]
        self.slots: Keys = np.zeros(2 * FIRST_SLOTS, dtype=np.uint64)
        self.known: Keys = np.zeros(room, dtype=np.uint64)
        self.firsts: Ints = np.full(room, NEVER, dtype=np.int64)
        self.arms: Ints = np.zeros(room, dtype=np.int64)
        self.masks: Ints = np.zeros(2 * room, dtype=np.int64)
        self.facts: Keys = np.zeros(n_facts * room, dtype=np.uint64)

    def reserve(self, n_more: int) -> None:
        """Room for so many more units."""
        size = self.slots.size // 2
        while 2 * (self.n + n_more + 1) > size - 1:
            size *= 2
        if 2 * size == self.slots.size:
            return
        slots = np.zeros(2 * size, dtype=np.uint64)
        enlarge(self.slots, slots)
        self.slots, room = slots, size // 2
        self.known, self.firsts = _longer(self.known, room, 0), _longer(self.firsts, room, NEVER)
        self.arms, self.masks = _longer(self.arms, room, 0), _longer(self.masks, 2 * room, 0)
        self.facts = _longer(self.facts, self.n_facts * room, 0)

    def see(self, times: pl.Series) -> None:
        """Take the moments of rows in, whoever's they are."""
        if times.len() > times.null_count():
            first, last = self.moments
            self.moments = min(first, times.min()), max(last, times.max())  # type: ignore

    def keys(self) -> Keys:
        """Of units, by code."""
        found, codes = np.zeros(self.n, dtype=np.uint64), self.slots[1::2]
        used = codes != 0
        found[codes[used].astype(np.int64) - 1] = self.slots[0::2][used]
        return found

    def note(self, frame: pl.DataFrame, arms: Ints, flags: Sequence[str]) -> None:
        """Take rows in, whose variants are these."""
        if not frame.height:
            return
        self.reserve(frame.height)
        codes = np.empty(frame.height, dtype=np.int64)
        n = int(enter(*keys_of(frame), self.slots, self.known, codes, self.n))
        if n == TWICE:
            raise ids.KeyCollisionError
        assert n != FULL
        self.n = n
        bits = np.zeros(frame.height, dtype=np.uint8)
        for name in flags:
            bits |= frame[name].to_numpy().astype(np.uint8) << ("triggered", "excluded").index(name)
        facts = np.zeros((self.n_facts, frame.height), dtype=np.uint64)
        for number in range(self.n_facts):
            values = frame[f"fact_{number}"]
            hashes = values.hash(1)
            facts[number] = np.where(values.is_null().to_numpy(), 0, hashes.to_numpy())
            if number < len(self.texts):
                pairs = pl.DataFrame({"hash": hashes, "text": values}).drop_nulls().unique()
                self.texts[number].update(pairs.iter_rows())
        times, found = ids.as_array(frame["time"]), (self.firsts, self.arms, self.masks, self.facts)
        note_exposures(codes, times, arms, bits, facts, *found)


def _longer(array: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    longer = np.full(size, fill, dtype=array.dtype)
    longer[: array.size] = array
    return longer


def read_exposures(logs: Logs, plan: ids.IdPlan, counts: dict[str, int]) -> Exposed:
    """Every unit that was exposed; what is counted of rows goes into `counts`.

    Raises:
        DataError: rows of variants that are not declared [unknown-variant], without time
            [null-time], or of no time at all [bad-time].
        KeyCollisionError: two ids share a key.
    """
    asked, table = logs.asked, logs.exposures
    schema = table.frame.collect_schema()
    places = {name: place for place, name in enumerate(asked.names)}
    flags = [name for name in ("triggered", "excluded") if name in schema]
    n_facts = len(logs.facts) + logs.has_cluster
    columns = [
        *logs.ids(plan),
        micros_of(table).alias("time"),
        pl.col("variant").cast(pl.String).alias("variant"),
        *(pl.col(name).cast(pl.Boolean).fill_null(value=False) for name in flags),
        *(pl.col(f"fact_{number}").cast(pl.String) for number in range(n_facts)),
    ]
    found = Exposed(n_facts, len(logs.facts))
    unknown: dict[str | None, int] = {}
    n_read = n_rows = n_null = n_late = n_timeless = 0
    with reading(table):
        for whole in table.stream(columns, most=BATCH_ROWS):
            logs.clock.line.advance(whole.height)
            n_read += whole.height
            found.see(whole["time"])
            frame, n_without = logs.held(whole)
            n_rows, n_null = n_rows + frame.height + n_without, n_null + n_without
            variants = frame["variant"]
            arms = variants.replace_strict(places, default=-1, return_dtype=pl.Int64).fill_null(-1)
            if (arms < 0).any():
                for name, n in variants.filter(arms < 0).value_counts().iter_rows():
                    unknown[name] = unknown.get(name, 0) + n
                frame, arms = frame.filter(arms >= 0), arms.filter(arms >= 0)
            n_timeless += frame["time"].null_count()
            in_time = (frame["time"] <= logs.limit).fill_null(value=False)
            if not in_time.all():
                n_late += int((~in_time).sum())
                frame, arms = frame.filter(in_time), arms.filter(in_time)
            found.note(frame, ids.as_array(arms), flags)
    if n_timeless:
        raise no_time(n_timeless, table)
    counts |= {
        READ_EXPOSURES: n_read,
        "exposure_rows": n_rows,
        "unknown_variant": sum(n for name, n in unknown.items() if name is not None),
        "null_variant": unknown.get(None, 0),
        "null_unit": n_null,
        "exposure_after_until": n_late,
    }
    if unknown and asked.policy("unknown_variants") == "error":
        raise unknown_variants(unknown, asked.names, table.at)
    return found


def micros_of(table: Table) -> pl.Expr:
    """Moments as int64 microseconds since 1970; whole numbers by the size of most of them.

    Raises:
        DataError: the column is no time [bad-time].
    """
    time, dtype = pl.col("time"), table.frame.collect_schema()["time"]
    if isinstance(dtype, pl.Datetime):
        return time.cast(pl.Datetime("us", dtype.time_zone)).to_physical()
    if dtype == pl.Date:
        return time.cast(pl.Datetime("us")).to_physical()
    if dtype.is_integer():
        size = time.cast(pl.Int64, strict=False).abs()
        below = [(size < limit).sum().alias(str(limit)) for limit in _LIMITS]
        with reading(table):
            n, *smaller = (
                table.frame.select(time.count(), *below).collect(engine="streaming").row(0)
            )
        place = sum(2 * each < n for each in smaller)
        time = time.cast(pl.Int64)
        return time * 1000 ** (2 - place) if place < 3 else time // 1000
    form, what = "strptime({}, '%Y-%m-%d %H:%M:%S')", "text of that form"
    if dtype.is_float():
        form, what = "cast({} * 1000 as bigint)", "seconds"
    raise DataError(
        f"time is {dtype}, neither a moment nor whole seconds since 1970",
        code="bad-time",
        at=table.at,
        hint=f"write {turn_column(table, 'time', form)}, if it is {what}",
    )


def no_time(n: int, table: Table) -> DataError:
    """The refusal of rows without time."""
    message = f"{n:,} rows of {table.role} have no time"
    return DataError(message, code="null-time", at=table.at, hint=keep_rows(table, "time"))
