"""Rows of one model, held in memory, or read again for every pass that looks at them.

A pass holds neighbouring parts: of users, chosen by the hash of their keys, or of scores. What is
measured of a part does not depend on the parts that are held beside it, and sums are exact, so a
limit of memory moves no digit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from evalkit.errors import MachineError
from evalkit.kernels.arrays import Ints
from evalkit.kernels.memory import default_limit, fits, polars_gives_back, room_to_compile
from evalkit.kernels.threads import ordered_map
from evalkit.kinds.pointwise.counts import CheckedRows, Grouping, RowOutcomes
from evalkit.kinds.pointwise.store import Column, Store, StoreBatch, by_hash, parts_for

BYTES_AT_REST = 280 << 20  # interpreter, libraries, kernels, row groups on the way
LEAST_AT_REST, MANY_ROWS = 0.8, 10_000_000  # of it where there are few rows, and where all of it
KEPT = 1.36  # times it, where Polars was loaded before a limit was known, and gives back late
BYTES_OF_WORK = 200  # of a row of a part, while the part is sorted and measured
LEAST_ROOM = 32 << 20
MOST_PASSES = 16  # more would take many times as long as one
NAMED_PASSES = 8  # that the limit is named for where one is refused
LAST_PASSES = 256  # where the machine has no more memory to give

Columns = Mapping[str, Column]
Done = TypeVar("Done")


class ModelRows(Protocol):
    """The rows of one model, to be looked at as often as one likes."""

    @property
    def row_counts(self) -> RowOutcomes:
        """What became of them."""

    def look(self, work: Callable[[Columns], Done]) -> Iterator[Done]:
        """`work` on all rows, batch by batch."""

    def shares(self, grouping: Grouping) -> Iterator[Store]:
        """Stores in which groups are whole; each group is in one of them."""

    def cut(self, rows: Ints, bytes_a_row: int) -> list[range]:
        """Neighbouring parts, of so many rows each, that may be held at a time."""

    def forget(self) -> None:
        """Nobody looks again."""


@dataclass(frozen=True, slots=True)
class RowsInMemory:
    """Rows in memory, a store for each grouping."""

    row_counts: RowOutcomes
    stores: dict[str, Store]
    threads: int

    def look(self, work: Callable[[Columns], Done]) -> Iterator[Done]:
        """`work` on all rows, batch by batch."""
        store = next(iter(self.stores.values()))

        def on(batch: StoreBatch) -> Done:
            return work({name: store.rows(batch, name) for name in store.dtypes})

        return ordered_map(on, store.batches, threads=self.threads)

    def shares(self, grouping: Grouping) -> Iterator[Store]:
        """The one store."""
        yield self.stores[grouping.name]

    def cut(self, rows: Ints, bytes_a_row: int) -> list[range]:
        """All parts: what is held fits into memory in another order, too."""
        return cut(rows, int(rows.sum()))

    def forget(self) -> None:
        """Give the memory back."""
        self.stores.clear()


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Memory that rows may take.

    Args:
        limit: bytes of the whole process; None: as many as rows need.
        threads: each works on one part.
        copies: how often a row is in memory.
        kept: bytes of what is kept of users beside the rows.
    """

    limit: int | None
    threads: int
    copies: int = 1
    kept: int = 0

    def taken(self, n_rows: int = MANY_ROWS) -> int:
        """Bytes that none of so many rows may take."""
        part = LEAST_AT_REST + (1 - LEAST_AT_REST) * min(1.0, n_rows / MANY_ROWS)
        return int(part * BYTES_AT_REST * (1.0 if polars_gives_back() else KEPT)) + self.kept

    def passes(self, n_groups: int, bytes_a_group: int) -> int:
        """In how many passes groups are looked at, while no rows are held."""
        if self.limit is None:
            return 1
        if fits(BYTES_AT_REST + n_groups * bytes_a_group, self.limit):
            return 1
        budget = max(self.limit - BYTES_AT_REST - room_to_compile(), LEAST_ROOM)
        return max(1, -(-n_groups * bytes_a_group // budget))

    def holds(self, n_rows: int | None, bytes_a_row: int) -> bool:
        """Whether all rows can be held; not so where nobody knows how many there are."""
        if self.limit is None:
            return True
        return n_rows is not None and fits(
            self.taken(n_rows) + n_rows * bytes_a_row * self.copies, self.limit
        )

    def check(self, n_rows: int, bytes_a_row: int) -> None:
        """Refuse, before kernels are compiled to count rows, what no count of them makes fit.

        Raises:
            MachineError: nothing is left for rows [memory-limit].
        """
        if self.limit is not None and not fits(self.taken(0), self.limit):
            parts = np.full(MOST_PASSES, n_rows // MOST_PASSES, dtype=np.int64)
            parts[0] += n_rows % MOST_PASSES
            self.cut(parts, bytes_a_row, "a part")

    def cut(self, rows: Ints, bytes_a_row: int, what: str) -> list[range]:
        """Neighbouring parts, of so many rows each, that fit at a time.

        Raises:
            MachineError: the largest part does not, or too little does [memory-limit].
        """
        assert self.limit is not None
        bytes_a_row *= self.copies
        largest, n_rows = int(rows.max(initial=0)), int(rows.sum())
        at_work = int(np.sort(rows)[-self.threads :].sum()) * BYTES_OF_WORK
        taken = self.taken(n_rows) + at_work + room_to_compile()
        budget = self.limit - taken
        named = taken + max(largest, n_rows // NAMED_PASSES) * bytes_a_row
        most = MOST_PASSES if named <= default_limit() else LAST_PASSES
        if budget < max(largest, n_rows // most) * bytes_a_row:
            needed = (named >> 20) + 1
            told = (
                f"{largest:,} rows of {what}"
                if largest > n_rows // NAMED_PASSES
                else f"{n_rows:,} rows"
            )
            message = f"{told} need about {needed:,} MiB, the limit is {self.limit >> 20:,} MiB"
            hint = f"give --memory-limit {needed}MiB"
            raise MachineError(message, code="memory-limit", hint=hint)
        return cut(rows, budget // bytes_a_row)


@dataclass(frozen=True, slots=True)
class StreamedRows:
    """Rows that are read for every pass.

    Args:
        hashed: by grouping, how many rows `by_hash` puts into each of the smallest parts.
        dtypes: of the store, by grouping.
        read: `look` of the table.
    """

    row_counts: RowOutcomes
    hashed: Mapping[str, Ints]
    dtypes: Mapping[str, Mapping[str, type]]
    read: Callable[[Callable[[CheckedRows], object]], Iterator[object]]
    budget: MemoryBudget

    def look(self, work: Callable[[Columns], Done]) -> Iterator[Done]:
        """`work` on all rows, batch by batch."""
        return self.read(lambda rows: work(rows.columns))  # type: ignore[return-value]

    def shares(self, grouping: Grouping) -> Iterator[Store]:
        """As few stores as the memory allows, one after the other."""
        for (store,) in _read_shares([self], grouping):
            yield store

    def cut(self, rows: Ints, bytes_a_row: int) -> list[range]:
        """Parts that the memory holds."""
        return self.budget.cut(rows, bytes_a_row, "neighbouring scores")

    def forget(self) -> None:
        """Nothing is held."""


def shares_together(tables: Sequence[ModelRows], grouping: Grouping) -> Iterator[Sequence[Store]]:
    """Stores of several tables side by side, whose parts have the same groups.

    All tables are held, with as many parts each, or all are read again for every pass.
    """
    streamed = [each for each in tables if isinstance(each, StreamedRows)]
    if streamed:
        yield from _read_shares(streamed, grouping)
    else:
        yield from zip(*(each.shares(grouping) for each in tables), strict=True)


def _read_shares(tables: Sequence[StreamedRows], grouping: Grouping) -> Iterator[list[Store]]:
    hashed = np.stack([each.hashed[grouping.name] for each in tables])
    n_bytes = max(bytes_of(each.dtypes[grouping.name]) for each in tables)
    n_parts, ranges = _parts(hashed.sum(axis=0), n_bytes, f"a {grouping.name}", tables[0].budget)
    rows = hashed.reshape(len(tables), n_parts, -1).sum(axis=2)
    for held in ranges:
        stores = []
        for table, own in zip(tables, rows, strict=True):
            n_rows = int(own[held.start : held.stop].sum())
            store = Store(table.dtypes[grouping.name], len(held), n_rows)
            placing = by_hash(grouping.key, n_parts, held)
            for _ in table.look(partial(store.fill, placing=placing)):
                pass
            store.seal()
            stores.append(store)
        yield stores
        for store in stores:  # whoever looked at them may still name them
            store.forget()


def _parts(hashed: Ints, n_bytes: int, what: str, budget: MemoryBudget) -> tuple[int, list[range]]:
    """How many parts are small beside a pass, if that can be, and those of each pass."""
    n_parts = parts_for(int(hashed.sum()))
    while n_parts < hashed.size:
        with suppress(MachineError):
            ranges = budget.cut(hashed.reshape(n_parts, -1).sum(axis=1), n_bytes, what)
            if 4 * len(ranges) <= n_parts or len(ranges) == 1:
                return n_parts, ranges
        n_parts *= 2
    return n_parts, budget.cut(hashed, n_bytes, what)


def bytes_of(dtypes: Mapping[str, type]) -> int:
    """Bytes of a row."""
    return sum(np.dtype(each).itemsize for each in dtypes.values())


def cut(rows: Ints, most: int) -> list[range]:
    """Neighbouring parts of at most so many rows together, but one part at least."""
    found: list[range] = []
    first = held = 0
    for part, number in enumerate(map(int, rows)):
        if part > first and held + number > most:
            found.append(range(first, part))
            first, held = part, 0
        held += number
    return [*found, range(first, rows.size)] if rows.size else found
