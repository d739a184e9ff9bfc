"""The scores of a model cut into ranges of about as many rows each, whatever they look like.

Keys of scores are turned round: they ascend as scores descend, so the first range has the highest.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Flags, Int32s, Ints, Keys
from evalkit.kinds.labels._kernels import find_ends
from evalkit.kinds.pointwise import kernels
from evalkit.kinds.pointwise.passes import Columns, ModelRows
from evalkit.kinds.pointwise.store import Column, Placing, values_of

LEADING_BITS = 17
ROWS_A_PART = 1 << 17


@dataclass(slots=True)
class Leading:
    """How many rows have each value of the leading bits of their score's key.

    Args:
        least, most: the smallest and the largest key; the smallest is that of the highest score.
        counts: int64[n_cells, 2], rows with label 0 and 1 of each cell.
    """

    least: int
    most: int
    counts: Ints

    @classmethod
    def of(cls, rows: Columns) -> "Leading":
        """Of some rows."""
        keys = rows["score"]
        if not keys.size:
            return cls.nothing()
        found = cls(int(keys.min()), int(keys.max()), np.empty(0, dtype=np.int64))
        found.counts = np.zeros((found._n_cells, 2), dtype=np.int64)
        first, shift = np.uint64(found.first), np.uint64(found.shift)
        kernels.count_leading(keys, rows["label"], first, shift, found.counts)
        return found

    @classmethod
    def nothing(cls) -> "Leading":
        """Of no rows."""
        return cls(1, 0, np.zeros((0, 2), dtype=np.int64))

    @classmethod
    def of_all(cls, rows: ModelRows) -> "Leading":
        """Of all rows."""
        total = cls.nothing()
        for each in rows.look(cls.of):
            total.merge(each)
        return total

    def score_range(self, dtype: type) -> tuple[float, float]:
        """The lowest and the highest score; NaN without rows."""
        if self.is_empty:
            return np.nan, np.nan
        high, low = values_of(~np.array([self.least, self.most], dtype=np.uint64).astype(dtype))
        return float(low), float(high)

    @property
    def is_empty(self) -> bool:
        return self.least > self.most

    @property
    def shift(self) -> int:
        """Bits below the leading ones; cells begin at multiples of 2^shift."""
        if self.is_empty:
            return 0
        shift = max(0, (self.most - self.least).bit_length() - LEADING_BITS)
        return shift + ((self.most >> shift) - (self.least >> shift) >> LEADING_BITS)

    @property
    def first(self) -> int:
        """The first key of the first cell."""
        return self.least >> self.shift << self.shift

    @property
    def _n_cells(self) -> int:
        return (self.most >> self.shift) - (self.least >> self.shift) + 1

    def merge(self, other: "Leading") -> None:
        """Take over the counts of other rows."""
        if self.is_empty or other.is_empty:
            kept = other if self.is_empty else self
            self.least, self.most, self.counts = kept.least, kept.most, kept.counts
            return
        both = Leading(min(self.least, other.least), max(self.most, other.most), self.counts)
        added = [other]
        if (both.first, both.shift, both._n_cells) != (self.first, self.shift, self._n_cells):
            both.counts, added = np.zeros((both._n_cells, 2), dtype=np.int64), [self, other]
        for counted in added:
            before = counted.first - both.first >> counted.shift  # cells of the finer kind
            if counted.shift == both.shift:
                both.counts[before : before + counted.counts.shape[0]] += counted.counts
                continue
            cells = np.arange(counted.counts.shape[0], dtype=np.uint64) + np.uint64(before)
            cells = (cells >> np.uint64(both.shift - counted.shift)).astype(np.int64)
            begins = np.flatnonzero(np.diff(cells, prepend=-1))
            both.counts[cells[begins]] += np.add.reduceat(counted.counts, begins, axis=0)
        self.least, self.most, self.counts = both.least, both.most, both.counts

    def find_mixed(self, rows: ModelRows) -> Flags:
        """bool[n_cells], cells whose rows have more than one score."""
        first, shift = np.uint64(self.first), np.uint64(self.shift)

        def fresh() -> Keys:
            ends = np.zeros(self.counts.shape, dtype=np.uint64)
            ends[:, 0] = np.iinfo(np.uint64).max
            return ends

        def find(some: Columns) -> Keys:
            ends = fresh()
            find_ends(some["score"], first, shift, ends)
            return ends

        total = fresh()
        for ends in rows.look(find):
            np.minimum(total[:, 0], ends[:, 0], out=total[:, 0])
            np.maximum(total[:, 1], ends[:, 1], out=total[:, 1])
        mixed: Flags = total[:, 0] < total[:, 1]
        return mixed


@dataclass(frozen=True, slots=True)
class _KeyRanges:
    """Ranges of keys, which ascend: first and last key, int64[n_cells, 2] rows by label."""

    lows: Keys
    highs: Keys
    counts: Ints

    def take(self, chosen: Flags | npt.NDArray[np.intp]) -> "_KeyRanges":
        return _KeyRanges(self.lows[chosen], self.highs[chosen], self.counts[chosen])

    @property
    def rows(self) -> Ints:
        found: Ints = self.counts[:, 0] + self.counts[:, 1]  # `sum` takes ten times as long
        return found


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """Ranges of keys, in each of which as many rows lie as a cache holds.

    A score that more rows have is a part of its own. Its rows need not be sorted, only counted,
    so they are never stored.

    Args:
        firsts: uint64[n_parts], the first key of each.
        counts: int64[n_parts, 2], rows with label 0 and 1.
        is_counted: bool[n_parts], where all rows have one score and are not stored.
        cells: int32[n_cells, 2], first and last part with keys of a cell of `leading`.
    """

    leading: Leading
    firsts: Keys
    counts: Ints
    is_counted: Flags
    cells: Int32s

    @classmethod
    def of(cls, leading: Leading, rows: ModelRows, *, apart: int | None = None) -> "ScoreParts":
        """Cut the scores of a model; cells with too many rows are looked into.

        Args:
            apart: a key that begins a part, a power of two above what cells are wide.
        """
        width = np.uint64((1 << leading.shift) - 1)
        numbers = np.arange(leading.counts.shape[0], dtype=np.uint64)
        lows = np.uint64(leading.first) + (numbers << np.uint64(leading.shift))
        cells = _refine(_KeyRanges(lows, lows + width, leading.counts), rows)
        begins = _begins(cells, apart)
        firsts = cells.lows[begins]
        counts = np.zeros((begins.size, 2), dtype=np.int64)
        if begins.size:
            counts[:] = np.add.reduceat(cells.counts, begins, axis=0)
        is_one = (cells.lows == cells.highs)[begins] & (
            np.diff(begins, append=cells.rows.size) == 1
        )
        is_counted = is_one & (counts[:, 0] + counts[:, 1] >= ROWS_A_PART)
        table = np.stack(
            [np.searchsorted(firsts, each, side="right") - 1 for each in (lows, lows + width)],
            axis=1,
        )
        return cls(leading, firsts, counts, is_counted, np.maximum(table, 0).astype(np.int32))

    @property
    def stored(self) -> Ints:
        """Rows of each part that are stored."""
        return np.where(self.is_counted, 0, self.counts[:, 0] + self.counts[:, 1])

    def part_of(self, keys: Column) -> Int32s:
        """The part of each row."""
        found = np.empty(keys.size, dtype=np.int32)
        kernels.find_ranges(keys, self._ranges, found)
        return found

    @property
    def _ranges(self) -> kernels.Ranges:
        first, shift = np.uint64(self.leading.first), np.uint64(self.leading.shift)
        return kernels.Ranges(first, shift, self.cells, self.firsts)

    def placing(self, held: range) -> Placing:
        """Rows of the parts that are held lie in these; the column `packed` is made beside.

        That is how far a row's key is from its part's first one, times 2, and its label.
        """
        slots = np.full(self.firsts.size, len(held), dtype=np.int32)
        slots[held.start : held.stop] = np.arange(len(held))
        slots[self.is_counted] = len(held)
        ranges = self._ranges

        def place(rows: Mapping[str, Column], starts: Int32s, places: Int32s) -> None:
            kernels.place_scores(
                rows["score"], rows["label"], ranges, slots, starts, places, rows["packed"]
            )

        return place


def _begins(cells: _KeyRanges, apart: int | None) -> npt.NDArray[np.intp]:
    """The first cell of each part: neighbours share one until it is full."""
    rows = cells.rows
    if not rows.size:
        return np.empty(0, dtype=np.intp)
    parts = (np.cumsum(rows) - rows) // ROWS_A_PART
    heavy = rows >= ROWS_A_PART  # a part of its own, and so is what follows
    fresh = np.concatenate([[True], (parts[1:] != parts[:-1]) | heavy[1:] | heavy[:-1]])
    if apart is not None:
        fresh[1:] |= np.diff(cells.lows >= np.uint64(apart))
    return np.flatnonzero(fresh)


def _refine(cells: _KeyRanges, rows: ModelRows) -> _KeyRanges:
    """The same ranges; those with too many rows are cut up as long as they have several scores."""
    while True:
        is_heavy = (cells.rows >= ROWS_A_PART) & (cells.lows < cells.highs)
        if not is_heavy.any():
            return cells
        pieces = _look_into(cells.take(is_heavy), rows)
        kept = cells.take(~is_heavy)
        joined = _KeyRanges(
            np.concatenate([kept.lows, pieces.lows]),
            np.concatenate([kept.highs, pieces.highs]),
            np.concatenate([kept.counts, pieces.counts]),
        )
        cells = joined.take(np.argsort(joined.lows))


def _look_into(heavy: _KeyRanges, rows: ModelRows) -> _KeyRanges:
    """Pieces of some ranges that have rows, from their first key to their last."""
    n_bits = max(1, LEADING_BITS - heavy.lows.size.bit_length())
    widths = [int(high) - int(low) for low, high in zip(heavy.lows, heavy.highs, strict=True)]
    shifts = np.array([max(0, each.bit_length() - n_bits) for each in widths], dtype=np.uint64)
    shape = (heavy.lows.size, 1 << n_bits)

    def fresh() -> _KeyRanges:
        lows = np.full(shape, np.iinfo(np.uint64).max, dtype=np.uint64)
        return _KeyRanges(
            lows, np.zeros(shape, dtype=np.uint64), np.zeros((*shape, 2), dtype=np.int64)
        )

    def count(some: Columns) -> _KeyRanges:
        found = fresh()
        into = (found.counts, found.lows, found.highs)
        kernels.count_within(some["score"], some["label"], heavy.lows, heavy.highs, shifts, *into)
        return found

    total = fresh()
    for tally in rows.look(count):
        total.counts[:] += tally.counts
        np.minimum(total.lows, tally.lows, out=total.lows)
        np.maximum(total.highs, tally.highs, out=total.highs)
    there = total.counts.sum(axis=2) > 0
    return _KeyRanges(total.lows[there], total.highs[there], total.counts[there])
