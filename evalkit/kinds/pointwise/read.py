"""Tables of rows on their way into stores, or to whoever looks at them: policies and counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.kernels.arrays import Ints
from evalkit.kernels.memory import give_back_early
from evalkit.kernels.threads import ordered_map
from evalkit.kinds.pointwise import passes
from evalkit.kinds.pointwise.counts import WORD, CheckedRows, Grouping, Lost, RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.store import MOST_BITS, Store, by_hash, count_by_hash, parts_for
from evalkit.sources import Table, reading
from evalkit.sources.delimited import NO_IDS, SUMS
from evalkit.sources.hints import keep_rows
from evalkit.sources.ids import USER_KEY, IdPlan, Sample, as_keys

BATCH_ROWS = 1 << 19
UNKNOWN_ROWS = 1 << 22

Done = TypeVar("Done")


class RowReader(Protocol):
    """How tables of one kind are read."""

    def columns(self, table: Table) -> Sequence[pl.Expr]:
        """The expressions to read of a table, without ids."""

    def dtypes(self, table: Table) -> Mapping[str, type]:
        """The store's columns besides keys."""

    def prepare(self, rows: CheckedRows, table: Table) -> None:
        """Sort faulty rows out and make the columns of the store."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the tables of a run are read.

    Args:
        groupings: by each of them rows can be brought together.
        reader: of the tables.
        budget: for rows, in memory.
        mark: notes in the tally what is to be remembered of good rows, when they are first read.
        together: tables whose groups are to lie in the same parts, where they are held.
    """

    groupings: Sequence[Grouping]
    job: RowJob
    reader: RowReader
    budget: passes.MemoryBudget
    mark: Callable[[CheckedRows], None] | None = None
    together: Sequence[Table] = ()

    def holds(self, tables: Sequence[Table]) -> bool:
        """Whether the rows of these tables fit into memory side by side."""
        hints = [table.n_rows_hint() for table in tables]
        n_rows = None if None in hints else sum(hint or 0 for hint in hints)
        return self.budget.holds(n_rows, max(map(self.bytes_a_row, tables)))

    def models_of(
        self, model: str | None, table: Table, *, held: bool | None = None
    ) -> Iterator[tuple[str, passes.ModelRows]]:
        """The rows of each model of a table, models by name.

        Args:
            held: whether they are held, or read again for every pass; by default they are held
                where they fit into memory.

        Raises:
            DataError: a row is faulty and its policy is to refuse.
        """
        found: Mapping[str, passes.ModelRows]
        if self.holds([table]) if held is None else held:
            found = self._hold(model, table)
        elif model is not None:
            found = {model: self._survey(table, None)}
        else:
            found = {name: self._survey(table, name) for name in names_of_models(table)}
        total = RowOutcomes()
        for rows in found.values():
            for error in rows.row_counts.refused.values():
                total.refuse(error)
        total.tell()
        yield from found.items()

    def bytes_a_row(self, table: Table) -> int:
        """Bytes of a row in all stores, and of those in the order of scores."""
        again = passes.bytes_of(self.reader.dtypes(table))
        return again + sum(passes.bytes_of(self.dtypes_of(table, each)) for each in self.groupings)

    def dtypes_of(self, table: Table, grouping: Grouping) -> dict[str, type]:
        """The columns of a store."""
        return {**grouping.dtypes(), **self.reader.dtypes(table)}

    def look(
        self, table: Table, model: str | None, work: Callable[[CheckedRows], Done]
    ) -> Iterator[Done]:
        """`work` on the good rows of a table, batch by batch, in their order.

        Args:
            model: whose rows, where the table has a column of models; None: all.
        """
        return self._look(table, model, lambda _, rows: work(rows), split=False)

    def _look(
        self,
        table: Table,
        model: str | None,
        work: Callable[[str, CheckedRows], Done],
        *,
        split: bool,
    ) -> Iterator[Done]:
        columns = list(self.reader.columns(table))
        for each in self.groupings:
            columns += each.select()
        sample = None
        if self.job.work.sample is not None:
            user = self.groupings[0]
            sample = Sample(self.job.work.sample, user.plan)
            if user.plan.hashed:
                columns += user.plan.canonical()
        rows = table.frame
        if split:
            columns.append(pl.col("model"))
        elif model is not None:
            rows = rows.filter(pl.col("model") == model)

        n_unnamed = 0

        def frames() -> Iterator[tuple[str, pl.DataFrame]]:
            nonlocal n_unnamed
            for frame in table.with_frame(rows, None).stream(columns, most=BATCH_ROWS):
                self.job.clock.line.advance(frame.height)
                if split:
                    n_unnamed += frame["model"].null_count()
                    yield from _by_model(frame.drop_nulls("model"))
                else:
                    yield "", frame

        def prepared(item: tuple[str, pl.DataFrame]) -> Done:
            name, frame = item
            rows = CheckedRows(frame, RowOutcomes(rows=frame.height))
            self._sort_out(rows, table, sample)
            return work(name, rows)

        with reading(table):
            yield from ordered_map(prepared, frames(), threads=self.job.threads)
        if n_unnamed:
            raise _null_model(n_unnamed, table)

    def _hold(self, model: str | None, table: Table) -> dict[str, passes.RowsInMemory]:
        """Every model's rows in stores."""
        n_rows = _expected(table)
        n_parts = parts_for(max(map(_expected, self.together or [table])))
        placings = {each.name: by_hash(each.key, n_parts) for each in self.groupings}
        found: dict[str, passes.RowsInMemory] = {}
        lock = Lock()

        def rows_of(name: str) -> passes.RowsInMemory:
            with lock:
                if name not in found:
                    stores = {
                        each.name: Store(self.dtypes_of(table, each), n_parts, n_rows)
                        for each in self.groupings
                    }
                    found[name] = passes.RowsInMemory(RowOutcomes(), stores, self.job.threads)
                return found[name]

        def keep(named: str, rows: CheckedRows) -> tuple[str, RowOutcomes]:
            name = named if model is None else model
            for kind, store in rows_of(name).stores.items():
                store.fill(rows.columns, placings[kind])
            self._mark(rows)
            return name, rows.row_counts

        names = [] if model is None else [model]
        for name, row_counts in self._look(table, None, keep, split=model is None):
            found[name].row_counts.add(row_counts)
            names.append(name)
        models = {name: rows_of(name) for name in sorted(set(names))}
        for rows in models.values():
            for store in rows.stores.values():
                store.seal()
        return models

    def _survey(self, table: Table, model: str | None) -> passes.StreamedRows:
        """The rows of one model counted, so that passes can be planned."""
        smallest = 1 << MOST_BITS

        def count(rows: CheckedRows) -> tuple[RowOutcomes, list[Ints]]:
            self._mark(rows)
            counts = [count_by_hash(rows.columns[each.key], smallest) for each in self.groupings]
            return rows.row_counts, counts

        give_back_early()
        dtypes = {each.name: self.dtypes_of(table, each) for each in self.groupings}
        self.budget.check(_expected(table), max(map(passes.bytes_of, dtypes.values())))
        hashed = {each.name: np.zeros(smallest, dtype=np.int64) for each in self.groupings}
        row_counts = RowOutcomes()
        for some, counts in self.look(table, model, count):
            row_counts.add(some)
            for total, each in zip(hashed.values(), counts, strict=True):
                total += each
        return passes.StreamedRows(
            row_counts, hashed, dtypes, partial(self.look, table, model), self.budget
        )

    def _mark(self, rows: CheckedRows) -> None:
        if self.mark is not None:
            self.mark(rows)

    def _sort_out(self, rows: CheckedRows, table: Table, sample: Sample | None) -> None:
        keys = [each.key for each in self.groupings]
        rows.drop_nulls(keys, "null_id")
        if rows.row_counts.dropped["null_id"] and self.job.config.policies.null_ids == "error":
            what = f"rows have no {' or '.join(each.name for each in self.groupings)}"
            hint = 'write null_ids = "drop" under [policies] to leave them out'
            n_null = rows.row_counts.dropped["null_id"]
            rows.refuse_rows("null-id", n_null, what, at=table.at, hint=hint)
        rows.row_counts.dropped["not_sampled"] = 0
        if sample is not None:
            named = rows.frame.rename({keys[0]: USER_KEY}) if keys[0] != USER_KEY else rows.frame
            other = pl.Series(~sample.holds(named))
            rows.drop(other, "not_sampled")
        users = rows.frame[keys[0]]
        self.reader.prepare(rows, table)
        rows.take_groups(self.groupings)
        _note_words(rows, self.groupings[0])
        if rows.frame.height < users.len():
            rows.row_counts.marks["lost"] = Lost.between(as_keys(users), rows.columns[keys[0]])


def _note_words(rows: CheckedRows, grouping: Grouping) -> None:
    """Note ids that programs write for a null or a sum."""
    words = _keys_of_words(grouping.plan)
    if words:
        keys = rows.columns[grouping.key]
        found = keys[np.isin(keys, np.fromiter(words, np.uint64))]
        rows.row_counts.noted |= {f"{WORD} {words[key]}": 1 for key in found.tolist()}


@lru_cache(maxsize=8)
def _keys_of_words(plan: IdPlan) -> dict[int, str]:
    """Those of them that ids may be, by key."""
    if plan.dtypes != (pl.String(),):
        return {}
    words = [*NO_IDS, *SUMS]
    keys = pl.DataFrame({plan.columns[0]: words}).select(plan.key()).to_series()
    return dict(zip(keys.to_list(), words, strict=True))


def _expected(table: Table) -> int:
    hint = table.n_rows_hint()
    return UNKNOWN_ROWS if hint is None else hint


def _by_model(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    for part in frame.partition_by("model", maintain_order=True):
        yield str(part["model"][0]), part


def names_of_models(table: Table) -> list[str]:
    """The models of a table with a column of them, by name.

    Raises:
        DataError: a row has none [null-model].
    """
    names = table.frame.select(pl.col("model").unique())
    with reading(table):
        found = names.collect(engine="streaming")["model"]
    if found.null_count():
        with reading(table):
            unnamed = table.frame.select(pl.col("model").null_count()).collect(engine="streaming")
        raise _null_model(int(unnamed.item()), table)
    return sorted(map(str, found))


def _null_model(n_rows: int, table: Table) -> DataError:
    message, hint = f"{n_rows:,} rows have no model", keep_rows(table, "model")
    return DataError(message, code="null-model", at=table.at, hint=hint)
