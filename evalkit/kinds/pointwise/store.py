"""Rows brought together by user, or by score, in parts that a processor's cache holds.

Batches of rows come in any order from any thread. Each is scattered into parts on its own, so
threads share nothing; later a part is gathered from all batches and sorted whole. A row is packed
into one 64-bit integer for that, its group above, then its columns: the order is total, so what
follows does not depend on how rows came in. Columns too wide to pack are replaced by their ranks
among the part's distinct values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Floats, Int32s, Ints, Keys
from evalkit.kinds.pointwise import kernels

ROWS_A_PART = 1 << 17
MOST_BITS = 13
MORE_ROWS = 1 << 22
LARGEST_NARROW = 0xFFFFFFFF
FEW_KEYS = 2000  # which NumPy sorts before digits are counted

Column = npt.NDArray[Any]


def order_keys(values: npt.NDArray[np.floating[Any]], counts: Ints) -> npt.NDArray[Any]:
    """uint32 keys of float32 values or uint64 keys of float64 ones, in the same order.

    `counts` int64[2] gets NaN and infinite values on top.
    """
    if values.dtype == np.float32:
        small = np.empty(values.size, dtype=np.uint32)
        kernels.order_keys_32(values.view(np.uint32), small, counts)
        return small
    keys = np.empty(values.size, dtype=np.uint64)
    kernels.order_keys_64(values.view(np.uint64), keys, counts)
    return keys


def values_of(keys: npt.NDArray[Any]) -> Floats:
    """The values of keys that `order_keys` made."""
    if keys.dtype == np.uint32:
        sign = np.uint32(0x80000000)
        bits = np.where(keys & sign, keys ^ sign, ~keys)
        return bits.view(np.float32).astype(np.float64)
    wide = np.uint64(1 << 63)
    return np.where(keys & wide, keys ^ wide, ~keys).view(np.float64)


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """Where the rows of one batch lie: a segment of a store, and their first row there."""

    segment: int
    first: int
    starts: Int32s  # of the parts, within the batch; n_parts + 1

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])


@dataclass(slots=True)
class Store:
    """Columns of rows, scattered into parts batch by batch.

    Args:
        dtypes: of the columns.
        n_parts: how many parts there are.
        n_rows: rows that are expected; more of them go into further segments.

    Columns of 64 bits are held in 32 as long as all their values fit: ids are mostly small numbers.
    """

    dtypes: Mapping[str, Any]
    n_parts: int
    n_rows: int
    segments: list[dict[str, Column]] = field(default_factory=list)
    batches: list[StoreBatch] = field(default_factory=list)
    _room: int = 0
    _used: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    _tables: list[tuple[Ints, Int32s]] = field(default_factory=list)

    def fill(self, rows: Mapping[str, Column], placing: "Placing") -> StoreBatch:
        """Scatter a batch of rows into parts; any thread may. Rows of no part are left out."""
        starts = np.zeros(self.n_parts + 2, dtype=np.int32)
        places = np.empty(next(iter(rows.values())).size, dtype=np.int32)
        placing(rows, starts, places)
        n_kept = int(starts[self.n_parts])
        dtypes = {name: _narrowest(rows[name], dtype) for name, dtype in self.dtypes.items()}
        with self._lock:
            segment, first = self._reserve(n_kept, dtypes)
            batch = StoreBatch(segment, first, starts[:-1])
            self.batches.append(batch)
        for name, column in self.segments[segment].items():
            own = rows[name].astype(column.dtype, copy=False)
            kernels.scatter(own, places, column[first : first + n_kept])
        return batch

    def _reserve(self, n_rows: int, dtypes: Mapping[str, Any]) -> tuple[int, int]:
        """Segment and first row of a place for `n_rows` rows."""
        is_held = self.segments and all(
            column.itemsize >= np.dtype(dtypes[name]).itemsize
            for name, column in self.segments[-1].items()
        )
        if not is_held or self._used + n_rows > self._room:
            self._room = max(n_rows, MORE_ROWS if self.segments else self.n_rows)
            self._used = 0
            self.segments.append(
                {name: np.empty(self._room, dtype) for name, dtype in dtypes.items()}
            )
        first, self._used = self._used, self._used + n_rows
        return len(self.segments) - 1, first

    def rows(self, batch: StoreBatch, name: str) -> Column:
        """A column of one batch, part after part, as narrow as it is held."""
        return self.segments[batch.segment][name][batch.first : batch.first + batch.n_rows]

    def seal(self) -> None:
        """No batch follows; from here on many threads may read parts."""
        self._tables = []
        for number in range(len(self.segments)):
            ours = [batch for batch in self.batches if batch.segment == number and batch.n_rows]
            firsts = np.array([batch.first for batch in ours], dtype=np.int64)
            starts = np.zeros((len(ours), self.n_parts + 1), dtype=np.int32)
            for row, batch in enumerate(ours):
                starts[row] = batch.starts
            self._tables.append((firsts, np.ascontiguousarray(starts.T)))

    def part(self, number: int, names: Sequence[str]) -> list[Column]:
        """The columns of one part, batch after batch."""
        sizes = [int((s[number + 1] - s[number]).sum()) for _, s in self._tables]
        found = []
        for name in names:
            out = np.empty(sum(sizes), dtype=self.dtypes[name])
            done = 0
            for segment, (firsts, starts), size in zip(
                self.segments, self._tables, sizes, strict=True
            ):
                own = out[done : done + size]
                column = segment[name]
                into = own if column.dtype == out.dtype else np.empty(size, dtype=column.dtype)
                kernels.gather(column, firsts, starts, number, into)
                if into is not own:
                    own[:] = into
                done += size
            found.append(out)
        return found

    def forget(self) -> None:
        """Give the memory back."""
        self.segments.clear()


def _narrowest(column: Column, dtype: Any) -> Any:
    is_wide = np.dtype(dtype) == np.uint64
    return np.uint32 if is_wide and int(column.max(initial=0)) <= LARGEST_NARROW else dtype


# writes int32[n_rows] places of rows, part after part, those of no part last, and int32[n_parts +
# 2] starts of the parts, the last of which is where the rows of no part end; it starts as 0
Placing = Callable[[Mapping[str, Column], Int32s, Int32s], None]


def parts_for(n_rows: int) -> int:
    """How many parts of a size that a cache holds; a power of two."""
    return 1 << min(MOST_BITS, max(0, n_rows // ROWS_A_PART - 1).bit_length())


def by_hash(name: str, n_parts: int, held: range | None = None) -> Placing:
    """Rows of one key lie in one part, chosen by its hash.

    Args:
        n_parts: of all rows; a power of two.
        held: those of them that the store has; all by default.
    """
    n_bits = n_parts.bit_length() - 1
    held = range(n_parts) if held is None else held

    def place(rows: Mapping[str, Column], starts: Int32s, places: Int32s) -> None:
        kernels.place_by_hash(rows[name], n_bits, held.start, len(held), starts, places)

    return place


def count_by_hash(keys: Keys, n_parts: int) -> Ints:
    """How many rows `by_hash` puts into each part."""
    counts = np.zeros(n_parts, dtype=np.int64)
    kernels.count_hashes(keys, n_parts.bit_length() - 1, counts)
    return counts


@dataclass(frozen=True, slots=True)
class Numbered:
    """The groups of some rows: a number a row, and the key of each number."""

    numbers: Int32s
    keys: Keys

    @property
    def n_groups(self) -> int:
        return int(self.keys.size)


def number_groups(keys: Keys, checks: npt.NDArray[np.uint32] | None = None) -> Numbered | None:
    """Rows with equal keys get one number; None where rows of one key have two checks."""
    size = 1 << max(4, (2 * keys.size - 1).bit_length())
    table = np.full(size, -1, dtype=np.int32)
    numbers = np.empty(keys.size, dtype=np.int32)
    distinct = np.empty(keys.size, dtype=np.uint64)
    n_distinct = kernels.number_keys(keys, table, numbers, distinct)
    if checks is not None:
        seen = np.zeros(n_distinct, dtype=np.uint8)
        first = np.empty(n_distinct, dtype=np.uint32)
        if kernels.find_conflict(numbers, checks, seen, first):
            return None
    return Numbered(numbers, distinct[:n_distinct].copy())


@dataclass(frozen=True, slots=True)
class _Packing:
    n_bits: int
    distinct: npt.NDArray[Any] | None  # None: the value itself is packed


def sort_packed(packed: Keys, n_bits: int) -> None:
    """Sort keys of so many bits where they are."""
    if packed.size < FEW_KEYS:
        packed.sort()
        return
    n_digits = -(-n_bits // kernels.MOST_DIGIT_BITS)
    digit_bits = -(-n_bits // max(1, n_digits))
    counts = np.zeros((n_digits, 1 << digit_bits), dtype=np.int64)
    kernels.sort_digits(packed, np.empty_like(packed), counts, digit_bits)


def sort_labels(
    groups: Numbered, keys: Column, labels: Column
) -> tuple[Ints, Column, Floats, Column]:
    """Rows in the order of their group, then of their key, then of their label.

    Args:
        keys: of scores, turned round.
    Returns:
        starts int64[n_groups + 1], then in order keys, the scores they stand for, labels.
    """
    starts = np.zeros(groups.n_groups + 1, dtype=np.int64)
    n_bits = 8 * keys.itemsize + 1 + max(0, groups.n_groups - 1).bit_length()
    if n_bits > 64:
        starts, (keys, labels) = sort_rows(groups, [keys, labels])
        return starts, keys, values_of(~keys), labels
    packed = np.empty(keys.size, dtype=np.uint64)
    kernels.pack_rows(groups.numbers, keys, labels, packed)
    sort_packed(packed, n_bits)
    found_keys, bits, found_labels = (np.empty_like(each) for each in (keys, keys, labels))
    kernels.unpack_rows(packed, starts, found_keys, found_labels, bits)
    scores = bits.view(np.float32 if bits.itemsize == 4 else np.float64)
    return starts, found_keys, scores.astype(np.float64, copy=False), found_labels


def sort_rows(groups: Numbered | None, columns: Sequence[Column]) -> tuple[Ints, list[Column]]:
    """Rows in the order of their group, then of their columns one after the other.

    Args:
        groups: None where all rows are one group.
        columns: unsigned keys; uint8 ones are 0 or 1.
    Returns:
        starts int64[n_groups + 1], and the columns in order.
    """
    n_rows = int(columns[0].size)
    n_groups = 1 if groups is None else groups.n_groups
    group_bits = max(0, n_groups - 1).bit_length()
    widths = [1 if column.dtype == np.uint8 else 8 * column.itemsize for column in columns]
    packed = np.zeros(n_rows, dtype=np.uint64)
    if groups is not None:
        packed[:] = groups.numbers
    packings = []
    for column, width in zip(columns, widths, strict=True):
        distinct = None
        if width > 1 and group_bits + sum(widths) > 64:
            ranks = np.empty(n_rows, dtype=np.uint32)
            distinct = np.empty(n_rows, dtype=column.dtype)
            order = np.argsort(column)
            n_distinct = kernels.rank_densely(order, column, ranks, distinct)
            column, distinct = ranks, distinct[:n_distinct]
            width = max(1, (n_distinct - 1).bit_length())
        packings.append(_Packing(width, distinct))
        kernels.push(packed, column, width)
    n_bits = group_bits + sum(each.n_bits for each in packings)
    assert n_bits <= 64  # or a part is too large to be packed, beyond 2^20 rows of 3 columns
    sort_packed(packed, n_bits)
    found: list[Column] = []
    for column, packing in zip(reversed(columns), reversed(packings), strict=True):
        out = np.empty(n_rows, dtype=column.dtype)
        if packing.distinct is None:
            kernels.pop(packed, packing.n_bits, out)
        else:
            kernels.pop_distinct(packed, packing.n_bits, packing.distinct, out)
        found.insert(0, out)
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    kernels.find_starts(packed, starts)
    return starts, found
