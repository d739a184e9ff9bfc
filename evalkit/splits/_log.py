"""A log as rows of numbers: codes of users and items, times, and whatever a rule asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.kernels.arrays import Flags, Int32s, Ints
from evalkit.sources import Extent, reading
from evalkit.sources.content import row_hashes
from evalkit.sources.ids import as_array, plan_ids
from evalkit.splits._codes import Coder, FootersDifferError, codes_between
from evalkit.splits._feed import ALL
from evalkit.splits._filters import COLUMNS, NULLS, OF_COPIES, LogRows, Twins, find_copies
from evalkit.splits._rule import least_as_read
from evalkit.splits._source import BATCH, Log, batches_of, refuse_changed
from evalkit.splits._units import as_ticks, find_unit, unit_of

ROWS_A_CODE = 8  # at least, where ids may be codes as they are


@dataclass(slots=True)
class LogFeed:
    """The rows that a rule looks at, batch by batch, read again as often as somebody wants them.

    Args:
        kept: which rows of the log are looked at; None: all that have user, item and time.
        n_rows: of the log, when it was read once.
        dropped: rows that are not looked at, by reason.
        first, last: time.
    """

    log: Log
    rule: SplitSection
    of_users: Coder
    of_items: Coder
    kept: Flags | None = None
    n_rows: int = -1
    n_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    first: int = np.iinfo(np.int64).max
    last: int = np.iinfo(np.int64).min
    _is_cut: bool = False
    _sample: list[Ints] = field(default_factory=list)
    _step: int = 0
    _told: list[Extent] = field(default_factory=list)  # times of row groups, by footers
    _early: int = 0  # rows at the beginning that are told to be before a moment
    _moment: int = 0
    twins: Twins | None = None
    _copies: Int32s | None = None  # of each row, how many alike are before it
    _coded: list[LogRows] = field(default_factory=list)  # codes of all rows, where they are kept

    @classmethod
    def of(cls, log: Log, rule: SplitSection, seed: int) -> "LogFeed":
        """All rows; ids that are hashed are hashed by a seed."""
        schema, at = log.schema, log.table.at
        users = {name: schema[name] for name in log.users}
        # codes without rows take little beside the rows, but a limit counts each
        n_own = 0 if rule.memory_limit else (log.table.n_rows_hint() or 0) // ROWS_A_CODE
        return cls(
            log,
            rule,
            Coder(plan_ids("user", [("split", at, users)], seed=seed), n_own),
            Coder(plan_ids("item", [("split", at, {"item": schema["item"]})], seed=seed), n_own),
        )

    @property
    def n_users(self) -> int:
        """Users so far."""
        return self.of_users.n

    @property
    def n_items(self) -> int:
        """Items so far."""
        return self.of_items.n

    @property
    def has_times(self) -> bool:
        """Whether rows have a time."""
        return "time" in self.log.schema

    def survey(self, *, is_coded: bool = False) -> None:
        """Read the log once, if nobody did since rows left; coded, users and items are counted.

        Where footers tell all that is asked for, nothing is read.
        """
        if self.n_rows >= 0 and not self._is_cut:
            return
        if is_coded or not self._take_extent():
            for _ in self.batches(is_coded=is_coded):
                pass

    @property
    def is_told(self) -> bool:
        """Whether footers told something that rows are still to be held against."""
        return bool(self._told)

    def _take_extent(self) -> bool:
        """Rows, first and last time by footers, where no row is dropped and the unit is plain."""
        rule = self.rule
        drops = self.kept is not None or least_as_read(rule) is not None
        if drops or not self.has_times or not self.log.trusts_footers:
            return False
        self._told = self.log.table.extents("time")
        rows, lows, highs = zip(*self._told, strict=True) if self._told else ((), (0,), (0,))
        first, last = min(lows), max(highs)
        if first <= 0 or unit_of(first) != unit_of(last):
            self._told = []
            return False
        self.first, self.last = first, last
        self.n_rows = self.log.n_rows = self.n_kept = sum(rows)
        self._sample = [np.array([first, last], dtype=np.int64)]
        return True

    def count_before(self, moment: int) -> int:
        """Rows at the beginning that are earlier, by footers; rows read later have to agree."""
        told = self._told if self.kept is None else []
        early = takewhile(lambda extent: extent[2] < moment, told)
        n_early = sum(rows for rows, _, _ in early)
        self._early, self._moment = n_early if n_early < self.n_rows else 0, moment
        return self._early

    @property
    def unit(self) -> str:
        """The unit of times; told of mixed ones once."""
        self.survey()
        if self._sample:
            times = np.concatenate(self._sample)
            self.log.unit = find_unit(self.log, self.rule, times)
            self._sample = []
        return self.log.unit

    def columns(self) -> list[pl.Expr]:
        """What `number` reads."""
        schema, rule = self.log.schema, self.rule
        ids = []
        if not self._coded:
            ids = [*self.of_users.expressions("user"), *self.of_items.expressions("item")]
        extra = [pl.col("time")] if "time" in schema else []
        if rule.threshold is not None or rule.dedupe == "max":
            extra.append(pl.col("relevance"))
        if self._draws or rule.by == "users" or rule.ties == "item":
            ids += [pl.col(self.log.users), pl.col("item")]
        return [*ids, *extra]

    @property
    def _draws(self) -> bool:
        return self.rule.by == "rows" or self.rule.order == "hash"

    def batches(self, *, is_coded: bool = True, skip: int = 0) -> Iterator[LogRows]:
        """The rows, in the order of the log; without codes those of users and items are 0.

        Args:
            skip: rows at the beginning that are left out.
        Raises:
            DataError: nulls [null-id, null-time].
            BusyError: the log has other rows than when it was read [input-changed].
            FootersDifferError: footers told of others.
        """
        begin = skip
        low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        with reading(self.log.table):
            for batch in self.log.table.stream(self.columns(), most=BATCH, skip=skip):
                if 0 <= self.n_rows < begin + batch.height:
                    refuse_changed(self.log)
                rows = self.number(batch, begin, is_coded=is_coded)
                begin += batch.height
                if self.n_rows < 0:
                    self._note(rows)
                if self.n_rows < 0 or self._is_cut:
                    self._note_times(rows)
                if self._told and rows.dropped.keys() & NULLS:
                    raise FootersDifferError
                if self._told and rows.n:
                    low, high = min(low, int(rows.times.min())), max(high, int(rows.times.max()))
                yield rows
        if 0 <= self.n_rows != begin:
            refuse_changed(self.log)
        self.n_rows = self.log.n_rows = begin
        self._is_cut = False
        if self._told and ((low < self.first if skip else low != self.first) or high != self.last):
            raise FootersDifferError

    def users_alone(self) -> Iterator[Int32s]:
        """The codes of users of all rows, with as little reading as that takes."""
        if self._coded and self.kept is None:
            yield from (rows.users for rows in self._coded)
        elif self._takes_all():
            for _, batch in self._ids(self.of_users.expressions("user")):
                yield self.of_users.encode(batch, "user")
        else:
            yield from (rows.users for rows in self.batches())

    def codes_alone(self) -> Iterator[LogRows]:
        """Users and items of the rows, with as little reading as that takes."""
        if not self._takes_all():
            yield from (rows.bare() for rows in self.batches())
            return
        ids = [*self.of_users.expressions("user"), *self.of_items.expressions("item")]
        for begin, batch in self._ids(ids):
            users, items = self.of_users.encode(batch, "user"), self.of_items.encode(batch, "item")
            rows = LogRows(users, items, n_users=self.n_users, n_items=self.n_items)
            rows.begin, rows.height = begin, batch.height
            yield rows

    def _takes_all(self) -> bool:
        """Whether it is known, without reading, that no row is left out."""
        if least_as_read(self.rule) is not None or self.kept is not None:
            return False
        return (self.n_rows >= 0 or self._take_extent()) and not self.dropped

    def _ids(self, columns: Sequence[pl.Expr]) -> Iterator[tuple[int, pl.DataFrame]]:
        """Where each batch begins, and columns of ids, none of which is to be null."""
        for begin, batch in self._numbered(self._streamed(columns)):
            if any(each.has_nulls() for each in batch.get_columns()):
                raise FootersDifferError
            yield begin, batch

    def _streamed(self, columns: Sequence[pl.Expr]) -> Iterator[pl.DataFrame]:
        with reading(self.log.table):
            yield from self.log.table.stream(columns, most=BATCH)

    def _numbered(self, batches: Iterator[pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame]]:
        """Batches with where they begin; refuses what is not as long as the log was."""
        begin = 0
        for batch in batches:
            if begin + batch.height > self.n_rows:
                refuse_changed(self.log)
            yield begin, batch
            begin += batch.height
        if begin != self.n_rows:
            refuse_changed(self.log)

    def backwards(
        self, slices: list[tuple[int, int]], *, is_whole: bool
    ) -> Iterator[tuple[LogRows, pl.DataFrame]]:
        """The rows from the last batch to the first, and the columns that they were read of.

        Args:
            slices: what is read together.
            is_whole: all our columns; of ids that codes tell, the bits of the numbers.
        """
        low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        coders = self._told_by_codes() if is_whole else {}
        columns = [pl.all().exclude(list(coders))] if is_whole else self.columns()

        frame = self.log.table.frame.select(columns)
        for begin, whole in self.log.read(frame, slices[::-1]):
            for at in range((whole.height - 1) // BATCH * BATCH, -1, -BATCH):
                own = whole.slice(at, BATCH)
                wanted = own.select(self.columns()) if is_whole else own
                rows = self.number(wanted, begin + at)
                if rows.dropped.keys() & NULLS:
                    raise FootersDifferError
                if rows.n:
                    low, high = min(low, int(rows.times[0])), max(high, int(rows.times[-1]))
                if coders:
                    codes = zip(coders.items(), (rows.users, rows.items), strict=True)
                    ids = [pl.Series(name, coder.keys(each)) for (name, coder), each in codes]
                    own = own.with_columns(ids).select(list(self.log.schema))
                yield rows, own
        if (low, high) != (self.first, self.last):
            raise FootersDifferError

    def _told_by_codes(self) -> dict[str, Coder]:
        """The columns of users and items, where codes of all rows tell the ids, and all stay."""
        coders = {"user_0": self.of_users, "item": self.of_items}
        is_told = all(
            self.log.schema[name].is_integer() and not coder.plan.hashed
            for name, coder in coders.items()
        )
        return coders if self._coded and self.kept is None and is_told else {}

    def whole(self, names: Sequence[str]) -> Iterator[tuple[LogRows, pl.DataFrame, pl.DataFrame]]:
        """The rows, all columns of the log, and those of them that are ours.

        Args:
            names: the log's columns that are ours, in our order.
        """
        ours = list(self.log.schema)
        renamed = [pl.col(name).alias(our) for name, our in zip(names, ours, strict=True)]
        for begin, batch in self._numbered(batches_of(self.log)):
            own = batch.select(renamed)
            yield self._again(own, begin), batch, own

    def with_relevance(self) -> Iterator[tuple[LogRows, pl.DataFrame, pl.DataFrame]]:
        """The rows, and our columns of the log."""
        for begin, batch in self._numbered(self._streamed([pl.all()])):
            yield self._again(batch, begin), batch, batch

    def _again(self, own: pl.DataFrame, begin: int) -> LogRows:
        """Rows of the last reading, which may be the first one of early ones."""
        rows = self.number(own.select(self.columns()), begin)
        if begin < self._early:
            early = rows.times[: self._early - begin]
            is_odd = early.size and (early.min() < self.first or early.max() >= self._moment)
            if rows.dropped or is_odd:
                raise FootersDifferError
        return rows

    def _note(self, rows: LogRows) -> None:
        """What the first reading leaves: counts, and times to tell their unit."""
        for reason, n in rows.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + n
        self.n_kept += rows.n
        if self.has_times:
            if not self._step:
                self._step = max(1, (self.log.table.n_rows_hint() or 0) // 100_000)
            self._sample.append(rows.times[:: self._step].copy())

    def _note_times(self, rows: LogRows) -> None:
        if rows.times.size:
            self.first = min(self.first, int(rows.times.min()))
            self.last = max(self.last, int(rows.times.max()))

    def number(self, batch: pl.DataFrame, begin: int, *, is_coded: bool = True) -> LogRows:
        """Codes of users and items, times, and what else the rule asks for."""
        kept, places, dropped = _without_nulls(batch, self, begin)
        columns: dict[str, Any] = {}
        if "time" in batch.columns:
            columns["times"] = as_array(as_ticks(kept["time"]))
        if "relevance" in batch.columns:
            values = kept["relevance"].cast(pl.Float64).fill_null(float("nan"))
            columns["relevance"] = as_array(values)
        if self.rule.by == "users":
            columns["user_hashes"] = row_hashes(kept.select(self.log.users))
        if self._draws:
            keys = [*self.log.users, "item", *(["time"] if "time" in batch.columns else [])]
            columns["hashes"] = row_hashes(kept.select(keys))
        if self.rule.ties == "item":
            columns["ranks"] = _ranks(kept["item"])
        users = items = np.zeros(0 if is_coded else kept.height, dtype=np.int32)
        if is_coded and self._coded:
            users, items = codes_between(self._coded, begin, batch.height)
        elif is_coded:
            users = self.of_users.encode(kept, "user")
            items = self.of_items.encode(kept, "item")
        columns |= {"places": places, "dropped": dropped, "begin": begin, "height": batch.height}
        rows = LogRows(users, items, n_users=self.n_users, n_items=self.n_items, **columns)
        if (least := least_as_read(self.rule)) is not None:
            rows.keep(rows.relevance >= least, "threshold")
        if self.kept is not None:
            rows.keep(rows.own(self.kept), "left")
        if self._copies is not None:
            rows.hashes = rows.hashes + rows.own(self._copies).astype(np.uint64) * OF_COPIES
        return rows

    def gather(self, low: int = 0, high: int = ALL) -> LogRows:
        """All rows at once, in memory; or those of users of some codes."""
        whole: dict[str, list[npt.NDArray[Any]]] = {}
        for rows in self.batches():
            if (low, high) != (0, ALL):
                rows.keep((rows.users >= low) & (rows.users < high), "elsewhere")
            places = rows.places if rows.n < rows.height else np.arange(rows.height)
            whole.setdefault("places", []).append(places + rows.begin)
            for name in COLUMNS:
                whole.setdefault(name, []).append(getattr(rows, name))
        codes = np.zeros(0, dtype=np.int32)
        empty = LogRows(codes, codes)
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(empty, name), *whole.get(name, [])])
            for name in (*COLUMNS, "places")
        }
        return LogRows(**columns, n_users=self.n_users, n_items=self.n_items, height=self.n_rows)

    def tell_copies(self, most: int) -> None:
        """Rows of one user, item and time get hashes of their own; `most` rows at a time."""
        if not self.n_kept:
            return
        n_shares = -(-self.n_kept // most)
        copies, twins = np.zeros(self.n_rows, dtype=np.int32), []
        for share in range(n_shares):
            parts = []
            for rows in self.batches():
                top = (rows.hashes >> np.uint64(32)) * np.uint64(n_shares) >> np.uint64(32)
                here = np.flatnonzero(top == share)
                places = rows.places[here] if rows.n < rows.height else here
                parts.append((rows.hashes[here], rows.users[here], places + rows.begin))
            hashes, users, at = (np.concatenate(each) for each in zip(*parts, strict=True))
            copies[at], found = find_copies(hashes, users, at)
            twins.append((found.users, found.places, found.others))
        self._copies = copies
        self.twins = Twins(*(np.concatenate(each) for each in zip(*twins, strict=True)))

    def leave(self, kept: Flags, reason: str) -> None:
        """Look at these rows of the log alone from now on."""
        n_left = self.n_kept - int(np.count_nonzero(kept))
        if not n_left:
            return
        self.dropped[reason] = n_left
        self.kept = kept
        self.n_kept -= n_left
        self.first, self.last = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        self._is_cut = True  # times are looked at again

    def remember(self, coded: list[LogRows]) -> None:
        """Keep codes of all rows, so that ids are not read again; none is kept where rows left."""
        if self.kept is None and not self.dropped and "time" in self.log.schema:
            self._coded = coded


def _without_nulls(
    batch: pl.DataFrame, feed: LogFeed, begin: int
) -> tuple[pl.DataFrame, Ints, dict[str, int]]:
    """The rows that have user, item and time, their places where some have not, and how many."""
    rule, log = feed.rule, feed.log
    bad = None
    dropped: dict[str, int] = {}
    kinds = {"user_key": "null_users", "item_key": "null_items", "time": "null_times"}
    for name, kind in kinds.items():
        if name not in batch.columns or not batch[name].has_nulls():
            continue
        is_null = batch[name].is_null() if bad is None else batch[name].is_null() & ~bad
        dropped[kind] = int(is_null.sum())
        policy = rule.bad_times if name == "time" else rule.null_ids
        if policy == "error":
            key = "bad_times" if name == "time" else "null_ids"
            raise DataError(
                f"{int(is_null.sum()):,} rows have no {name.removesuffix('_key')}",
                code="null-time" if name == "time" else "null-id",
                at=log.table.at,
                hint=f'{key} = "drop" under [split] counts them and leaves them out',
            )
        if policy == "train" and feed.n_rows < 0:
            found = begin + np.flatnonzero(as_array(is_null))
            log.train_anyway = np.concatenate([log.train_anyway, found])
        bad = is_null if bad is None else bad | is_null
    if bad is None:
        return batch, np.zeros(0, dtype=np.int64), dropped
    return batch.filter(~bad), np.flatnonzero(as_array(~bad)), dropped


def _ranks(items: pl.Series) -> Ints:
    """What orders items whatever row they stand in: whole numbers by size, others by a hash."""
    if items.dtype.is_integer():
        return as_array(items.cast(pl.Int64))
    return (row_hashes(items.to_frame()) >> np.uint64(1)).view(np.int64)
