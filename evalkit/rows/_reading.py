"""Tables of rows on their way into a store: policies, counts, keys of groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Policies
from evalkit.errors import DataError
from evalkit.keys import USER_KEY, IdPlan, Keys, Sample, as_array, as_keys, hash_ids
from evalkit.rows._store import Batch, Column, Store, by_hash, parts_for
from evalkit.sources import Table, reading
from evalkit.threads import ordered_map

BATCH_ROWS = 1 << 19
OTHER_SEED = 0x9E3779B9
UNKNOWN_ROWS = 1 << 22


@dataclass(frozen=True, slots=True)
class Grouping:
    """How rows are grouped: the columns of an id, and its keys.

    Args:
        name: "user" or "session"; columns of the table are `<name>_0`, `<name>_1`, ...
        plan: of the keys.
    """

    name: str
    plan: IdPlan

    @property
    def key(self) -> str:
        return f"{self.name}_key"

    @property
    def check(self) -> str | None:
        """The column of a second hash, where the key is one itself and might be shared."""
        return f"{self.name}_check" if self.plan.hashed else None

    def select(self) -> list[pl.Expr]:
        """The key as it is stored, and the check."""
        found = [self.plan.key().alias(self.key)]
        if self.check is not None:
            exprs = self.plan.canonical()
            whole = exprs[0] if len(exprs) == 1 else pl.struct(exprs)
            check = hash_ids(whole, self.plan.seed + OTHER_SEED) // (1 << 32)
            found.append(check.cast(pl.UInt32).alias(self.check))
        return found

    def dtypes(self) -> dict[str, type]:
        found: dict[str, type] = {self.key: np.uint64}
        return found if self.check is None else {**found, self.check: np.uint32}


@dataclass(slots=True)
class RowTally:
    """What became of the rows of one model."""

    rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    users: dict[str, list[Keys]] = field(default_factory=dict)  # of rows that were left out

    @property
    def rows_used(self) -> int:
        return self.rows - sum(self.dropped.values())

    def add(self, other: "RowTally") -> None:
        """What became of some rows more."""
        self.rows += other.rows
        for mine, theirs in ((self.dropped, other.dropped), (self.noted, other.noted)):
            for reason, number in theirs.items():
                mine[reason] = mine.get(reason, 0) + number
        for reason, keys in other.users.items():
            self.users.setdefault(reason, []).extend(keys)


@dataclass(slots=True)
class Rows:
    """Some rows of one model as arrays, while faulty ones are sorted out."""

    frame: pl.DataFrame
    tally: RowTally
    columns: dict[str, Column] = field(default_factory=dict)

    def drop(self, bad: npt.NDArray[np.bool_] | pl.Series, reason: str) -> None:
        """Leave out the rows of a mask, and count them."""
        mask = bad if isinstance(bad, pl.Series) else pl.Series(bad)
        number = int(mask.sum() or 0)
        self.tally.dropped[reason] = self.tally.dropped.get(reason, 0) + number
        if number:
            self.frame = self.frame.filter(~mask)

    def drop_nulls(self, names: Sequence[str], reason: str) -> None:
        """Leave out rows in which one of these columns is null."""
        having = [name for name in names if self.frame[name].null_count()]
        if not having:
            self.tally.dropped.setdefault(reason, 0)
            return
        self.drop(
            self.frame.select(pl.any_horizontal(pl.col(having).is_null())).to_series(), reason
        )

    def take_groups(self, groupings: Sequence[Grouping]) -> None:
        """The keys of rows as columns."""
        for each in groupings:
            self.columns[each.key] = as_keys(self.frame[each.key])
            if each.check is not None:
                self.columns[each.check] = as_array(self.frame[each.check])


@dataclass(slots=True)
class ModelRows:
    """One model's rows: a store for each grouping, and counts."""

    tally: RowTally
    stores: dict[str, Store]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the tables of a run are read.

    Args:
        groupings: a store is filled for each of them.
        columns: the expressions to read of a table, without ids.
        prepare: sorts faulty rows out and makes the columns of the store.
        dtypes: of the store's columns besides keys, by table.
        counted_by: the column that says how many rows of a log each row stands for.
    """

    groupings: Sequence[Grouping]
    columns: Callable[[Table], Sequence[pl.Expr]]
    prepare: Callable[[Rows, Table], None]
    dtypes: Callable[[Table], Mapping[str, type]]
    policies: Policies
    threads: int
    sample: float | None
    progress: Callable[[int], None]
    counted_by: str | None = None

    def read(self, models: Sequence[tuple[str | None, Table]]) -> dict[str, ModelRows]:
        """All rows of all models, models in the order in which they come.

        Raises:
            DataError: a row is faulty and its policy is to refuse.
        """
        found: dict[str, ModelRows] = {}
        for model, table in models:
            if model is not None:
                found[model] = self._fresh(table)
            with reading(table):
                self._read_table(model, table, found)
        for rows in found.values():
            for store in rows.stores.values():
                store.seal()
        return found

    def _fresh(self, table: Table) -> ModelRows:
        hint = table.n_rows_hint()
        n_rows = UNKNOWN_ROWS if hint is None else hint
        dtypes = dict(self.dtypes(table))
        return ModelRows(
            RowTally(),
            {
                each.name: Store({**each.dtypes(), **dtypes}, parts_for(n_rows), n_rows)
                for each in self.groupings
            },
        )

    def _read_table(self, model: str | None, table: Table, found: dict[str, ModelRows]) -> None:
        sample = None
        columns = list(self.columns(table))
        for each in self.groupings:
            columns += each.select()
        if self.sample is not None:
            user = self.groupings[0]
            sample = Sample(self.sample, user.plan)
            if user.plan.hashed:
                columns += user.plan.canonical()
        if model is None:
            columns.append(pl.col("model"))

        def frames() -> Iterator[tuple[str, pl.DataFrame, dict[str, tuple[int, int]]]]:
            for frame in table.stream(columns, most=BATCH_ROWS):
                self.progress(frame.height)
                for name, part in _by_model(model, frame, table):
                    if name not in found:
                        found[name] = self._fresh(table)
                    places = {
                        each: store.reserve(part.height)
                        for each, store in found[name].stores.items()
                    }
                    yield name, part, places

        def work(
            item: tuple[str, pl.DataFrame, dict[str, tuple[int, int]]],
        ) -> tuple[str, RowTally, dict[str, Batch]]:
            name, frame, places = item
            rows = Rows(frame, RowTally(rows=frame.height))
            self._sort_out(rows, table, sample)
            batches = {
                each.name: found[name]
                .stores[each.name]
                .fill(
                    places[each.name],
                    rows.columns,
                    by_hash(each.key, found[name].stores[each.name].n_parts),
                )
                for each in self.groupings
            }
            return name, rows.tally, batches

        for name, tally, batches in ordered_map(work, frames(), threads=self.threads):
            found[name].tally.add(tally)
            for kind, batch in batches.items():
                found[name].stores[kind].batches.append(batch)

    def _sort_out(self, rows: Rows, table: Table, sample: Sample | None) -> None:
        keys = [each.key for each in self.groupings]
        rows.drop_nulls(keys, "null_id")
        if rows.tally.dropped["null_id"] and self.policies.null_ids == "error":
            what = " or ".join(each.name for each in self.groupings)
            raise DataError(
                f"{rows.tally.dropped['null_id']:,} rows or more have no {what}",
                code="null-id",
                at=table.at,
                hint='write null_ids = "drop" under [policies] to leave them out',
            )
        rows.tally.dropped["not_sampled"] = 0
        if sample is not None:
            named = rows.frame.rename({keys[0]: USER_KEY}) if keys[0] != USER_KEY else rows.frame
            other = pl.Series(~sample.holds(named))
            left_out = rows.frame.filter(other)
            rows.drop(other, "not_sampled")
            if self.counted_by is not None:
                rows.tally.dropped["not_sampled"] = int(left_out[self.counted_by].sum())
        self.prepare(rows, table)
        rows.take_groups(self.groupings)


def _by_model(
    model: str | None, frame: pl.DataFrame, table: Table
) -> Iterator[tuple[str, pl.DataFrame]]:
    if model is not None:
        yield model, frame
        return
    for part in frame.partition_by("model", maintain_order=True):
        name = part["model"][0]
        if name is None:
            raise DataError(
                f"{part.height:,} rows or more have no model",
                code="null-model",
                at=table.at,
                hint='leave them out: where = "model is not null"',
            )
        yield str(name), part
