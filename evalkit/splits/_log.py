"""A log as rows of numbers: codes of users and items, times, and whatever a rule asks for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import DataError, warn
from evalkit.ids import IdPlan, Keys, as_array, as_keys, plan_ids
from evalkit.sources import Table, reading
from evalkit.splits._filters import Rows
from evalkit.splits._kernels import find_codes, look_codes, refill
from evalkit.splits.content import Content, row_hashes

BATCH = 1 << 18
_UNITS = {"ms": "ms", "us": "us", "ns": "ns"}
_MOST_DIRECT = 1 << 24  # ids that are their own place in a list


class TwoIdsShareError(Exception):
    """Two ids have one hash: the log is read again with another seed."""


@dataclass(slots=True)
class Coder:
    """Codes 0, 1, 2, ... of ids, by their first appearance.

    Small whole numbers look their code up in a list; all else in a hash table.
    """

    plan: IdPlan
    n: int = 0
    _direct: npt.NDArray[np.int32] | None = field(default_factory=lambda: np.full(1, -1, np.int32))
    _table: npt.NDArray[np.int32] = field(default_factory=lambda: np.full(1 << 12, -1, np.int32))
    _known: Keys = field(default_factory=lambda: np.zeros(1 << 11, np.uint64))
    _checks: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))

    def expressions(self, name: str) -> list[pl.Expr]:
        """Columns that `encode` reads: the key and, where it is a hash, another one."""
        found = [self.plan.key().alias(f"{name}_key")]
        if self.plan.hashed:
            other = IdPlan(
                self.plan.columns, self.plan.dtypes, True, self.plan.unsigned, self.plan.seed + 101
            )
            found.append(other.key().alias(f"{name}_check"))
        return found

    def encode(self, frame: pl.DataFrame, name: str) -> npt.NDArray[np.int32]:
        """The code of each row."""
        keys = as_keys(frame[f"{name}_key"])
        codes = np.empty(keys.size, dtype=np.int32)
        if self.n + keys.size > self._known.size:
            self._known = _grown(self._known, 1 << int(self.n + keys.size - 1).bit_length())
        if self._is_direct(keys):
            self.n = look_codes(keys, codes, self._direct, self._known, self.n)
            return codes
        checks = np.zeros(0, dtype=np.uint64)
        if self.plan.hashed:
            checks = as_keys(frame[f"{name}_check"])
            if self._checks.size < self._known.size:
                self._checks = _grown(self._checks, self._known.size)
        if self._table.size < 2 * self._known.size:
            self._table = np.full(2 * self._known.size, -1, dtype=np.int32)
            refill(self._known, self.n, self._table)
        found = find_codes(keys, checks, codes, self._table, self._known, self._checks, self.n)
        if found < 0:
            raise TwoIdsShareError
        self.n = found
        return codes

    def _is_direct(self, keys: Keys) -> bool:
        """Whether all ids so far, and these, are numbers that a list has room for."""
        if self._direct is None or self.plan.hashed:
            return False
        most = int(keys.max()) if keys.size else 0
        if most >= _MOST_DIRECT:
            self._direct = None
            self._table = np.zeros(0, dtype=np.int32)  # to be filled
        elif most >= self._direct.size:
            grown = np.full(min(2 * most + 1, _MOST_DIRECT), -1, dtype=np.int32)
            grown[: self._direct.size] = self._direct
            self._direct = grown
        return self._direct is not None


def _grown(values: Keys, size: int) -> Keys:
    grown = np.zeros(size, dtype=np.uint64)
    grown[: values.size] = values
    return grown


@dataclass(slots=True)
class Log:
    """A log that is open, and how its rows become numbers.

    Args:
        table: columns of user, item and, where there are, time and relevance.
        whole: the same rows with all their own columns.
        unit: of times: s, ms, us or ns.
    """

    table: Table
    whole: pl.LazyFrame
    unit: str = "s"
    n_rows: int = 0
    content: Content = field(default_factory=Content)
    nulls: dict[str, int] = field(default_factory=dict)
    train_anyway: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    shared_times: float = 0.0

    @property
    def users(self) -> list[str]:
        """Our names of the user columns."""
        return [name for name in self.table.frame.collect_schema() if name.startswith("user_")]


def check_log(log: Log, rule: SplitSection) -> None:
    """Refuse a log that lacks what a rule needs, and times that cannot be compared.

    Raises:
        DataError: no time [missing-time], times that are floats [bad-time], no relevance
            [missing-column].
    """
    schema = log.table.frame.collect_schema()
    by_time = rule.order == "time" and rule.by not in ("users", "rows", "round-robin", "blocks")
    if "time" not in schema and by_time and rule.by in ("user", "item"):
        raise DataError(
            f"by = {rule.by!r} takes the latest rows, and the log has no time",
            code="missing-time",
            at=log.table.at,
            hint='time = "..." under [split.columns], or order = "input" where the latest is last',
        )
    if "time" not in schema and by_time:
        raise DataError(
            "a split at a moment needs a time, and the log has none",
            code="missing-time",
            at=log.table.at,
            hint='time = "..." under [split.columns], or by = "rows"',
        )
    if "relevance" not in schema and (rule.threshold is not None or rule.dedupe == "max"):
        raise DataError(
            "threshold and the best of repeats need a relevance",
            code="missing-column",
            at=log.table.at,
            hint='relevance = "rating" under [split.columns]',
        )


def read_rows(log: Log, rule: SplitSection) -> Rows:
    """The rows that a rule looks at; nulls are dropped or refused and counted.

    Raises:
        DataError: nulls [null-id, null-time].
    """
    for seed in range(1, 100):
        try:
            return _read(log, rule, seed)
        except TwoIdsShareError:
            continue
    raise AssertionError("no seed tells these ids apart")


def _read(log: Log, rule: SplitSection, seed: int) -> Rows:
    frame, users = log.table.frame, log.users
    schema = frame.collect_schema()
    at = log.table.at
    of_users = Coder(plan_ids("user", [("split", at, {u: schema[u] for u in users})], seed=seed))
    of_items = Coder(plan_ids("item", [("split", at, {"item": schema["item"]})], seed=seed))
    columns = [*of_users.expressions("user"), *of_items.expressions("item")]
    extra = [pl.col(name) for name in ("time", "relevance") if name in schema]
    draws = rule.by in ("users", "rows") or rule.order == "hash"
    if draws or rule.ties == "item":
        columns += [pl.col(users), pl.col("item")]
    gathered: dict[str, list[npt.NDArray[np.generic]]] = {}
    log.n_rows = 0
    log.nulls = {}
    with reading(log.table):
        for batch in log.table.stream([*columns, *extra], most=BATCH):
            kept, places = _without_nulls(batch, log, rule)
            found: dict[str, npt.NDArray[np.generic]] = {
                "users": of_users.encode(kept, "user"),
                "items": of_items.encode(kept, "item"),
            }
            if places is not None:
                found["places"] = places
            elif log.nulls:
                found["places"] = np.arange(log.n_rows - batch.height, log.n_rows)
            if "time" in schema:
                found["times"] = as_array(as_ticks(kept["time"]))
            if "relevance" in schema and (rule.threshold is not None or rule.dedupe == "max"):
                found["relevance"] = as_array(
                    kept["relevance"].cast(pl.Float64).fill_null(float("nan"))
                )
            if draws:
                found["user_hashes"] = row_hashes(kept.select(users))
                keys = [*users, "item", *(["time"] if "time" in schema else [])]
                found["hashes"] = row_hashes(kept.select(keys))
            if rule.ties == "item":
                found["ranks"] = _ranks(kept["item"])
            for name, values in found.items():
                gathered.setdefault(name, []).append(values)
    rows = _gathered(gathered, log)
    rows.n_users, rows.n_items = of_users.n, of_items.n
    rows.dropped |= log.nulls
    if draws:
        _tell_copies_apart(rows)
    return rows


def _gathered(gathered: dict[str, list[npt.NDArray[np.generic]]], log: Log) -> Rows:
    def whole(name: str, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        parts = gathered.pop(name, [])
        return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)

    places = gathered.get("places", [])
    n_with_places = sum(each.size for each in places)
    users = whole("users", np.int32)
    if places and n_with_places < users.size:  # batches before the first null
        gathered["places"] = [np.arange(users.size - n_with_places), *places]
    return Rows(
        users=users,  # type: ignore[arg-type]
        items=whole("items", np.int32),  # type: ignore[arg-type]
        times=whole("times", np.int64),  # type: ignore[arg-type]
        relevance=whole("relevance", np.float64),  # type: ignore[arg-type]
        hashes=whole("hashes", np.uint64),  # type: ignore[arg-type]
        user_hashes=whole("user_hashes", np.uint64),  # type: ignore[arg-type]
        ranks=whole("ranks", np.int64),  # type: ignore[arg-type]
        places=whole("places", np.int64)  # type: ignore[arg-type]
        if log.nulls
        else np.arange(users.size, dtype=np.int64),
        n_users=0,
        n_items=0,
    )


def _without_nulls(
    batch: pl.DataFrame, log: Log, rule: SplitSection
) -> tuple[pl.DataFrame, npt.NDArray[np.int64] | None]:
    """The rows that have user, item and time, and their places where some have not."""
    begin = log.n_rows
    log.n_rows += batch.height
    bad = pl.Series("bad", [False]).new_from_index(0, batch.height)
    kinds = {"user_key": "null_users", "item_key": "null_items", "time": "null_times"}
    for name, kind in kinds.items():
        if name not in batch.columns or not batch[name].has_nulls():
            continue
        is_null = batch[name].is_null() & ~bad
        log.nulls[kind] = log.nulls.get(kind, 0) + int(is_null.sum())
        policy = rule.bad_times if name == "time" else rule.null_ids
        if policy == "error":
            key = "bad_times" if name == "time" else "null_ids"
            raise DataError(
                f"{int(is_null.sum()):,} rows have no {name.removesuffix('_key')}",
                code="null-time" if name == "time" else "null-id",
                at=log.table.at,
                hint=f'{key} = "drop" under [split] counts them and leaves them out',
            )
        if policy == "train":
            found = begin + np.flatnonzero(as_array(is_null))
            log.train_anyway = np.concatenate([log.train_anyway, found])
        bad = bad | is_null
    if not bad.any():
        return batch, None
    return batch.filter(~bad), begin + np.flatnonzero(as_array(~bad))


def as_ticks(times: pl.Series) -> pl.Series:
    """Times as whole numbers of the log's unit."""
    if times.dtype == pl.Date:
        return times.cast(pl.Int64) * 86400
    return times.to_physical().cast(pl.Int64)


def _ranks(items: pl.Series) -> npt.NDArray[np.int64]:
    """What orders items whatever row they stand in: whole numbers by size, others by a hash."""
    if items.dtype.is_integer():
        return as_array(items.cast(pl.Int64))
    return (row_hashes(items.to_frame()) >> np.uint64(1)).view(np.int64)


def _tell_copies_apart(rows: Rows) -> None:
    """Rows of one user, item and time are drawn apart: the k-th such row has a hash of its own."""
    order = np.argsort(rows.hashes, kind="stable")
    ordered = rows.hashes[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if same.size:
        begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        copy = np.arange(ordered.size) - np.repeat(begins, np.diff([*begins, ordered.size]))
        rows.hashes[order[same]] += copy[same].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def sample_times(log: Log) -> npt.NDArray[np.int64]:
    """Times of some rows, where their unit is to be told by their size."""
    none = np.zeros(0, dtype=np.int64)
    if not log.table.frame.collect_schema()["time"].is_integer():
        return none
    step = max(1, (log.table.n_rows_hint() or 0) // 100_000)
    with reading(log.table):
        found = [
            as_array(as_ticks(batch["time"].gather_every(step).drop_nulls()))
            for batch in log.table.stream([pl.col("time")], most=BATCH)
        ]
    return np.concatenate([none, *found])


def find_unit(log: Log, rule: SplitSection, times: npt.NDArray[np.int64]) -> str:
    """The unit of the log's times: as its type says, as the rule says, or by their size."""
    dtype = log.table.frame.collect_schema().get("time")
    if isinstance(dtype, pl.Datetime):
        return _UNITS[dtype.time_unit]
    if dtype == pl.Date or dtype is None:
        return "s"
    if rule.time_unit != "auto":
        return rule.time_unit
    if not times.size:
        return "s"
    sample = times[:: max(1, times.size // 100_000)]
    low, middle, high = (int(each) for each in np.quantile(sample, [0.01, 0.5, 0.99]))
    if low > 0 and _unit_of(low) != _unit_of(high):
        warn(
            "mixed-times",
            f"1 % of times are at most {low}, 1 % are {high} or more: two units in one column",
            at=log.table.at,
            hint='bring them to one unit, or say time_unit = "s" under [split]',
        )
    return _unit_of(middle)


def _unit_of(time: int) -> str:
    size = abs(time)
    limits = (("s", 10**11), ("ms", 10**14), ("us", 10**17))
    return next((unit for unit, limit in limits if size < limit), "ns")


def batches_of(frame: pl.LazyFrame, log: Log) -> Iterator[pl.DataFrame]:
    """All columns of all rows, in the order of the log."""
    from dataclasses import replace

    table = replace(log.table, frame=frame)
    with reading(log.table):
        yield from table.stream([pl.all()], most=BATCH)
