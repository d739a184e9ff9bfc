"""All rows of a model in the order of their scores, part by part, exactly.

The stored rows are scattered once more, by the leading bits of their scores, into parts of about
as many rows each, whatever the scores look like. Each part is sorted alone; the weight of the rows
in the parts above it is known, so parts are walked side by side, and what they give is put
together in the order of scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.labels._kernels import cumulate, find_ends, sum_labels, tie_groups
from evalkit.labels._walk import Totals, Walked, walk
from evalkit.labels._wanted import Wanted
from evalkit.rows import (
    Batch,
    Column,
    Store,
    count_leading,
    place_by_table,
    sort_rows,
    values_of,
)
from evalkit.threads import ordered_map

LEADING_BITS = 17
ROWS_A_PART = 1 << 17
LARGEST_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Leading:
    """How many rows have each value of the leading bits of their score's key.

    Args:
        least, most: the smallest and the largest key; the smallest is that of the highest score.
        shift: bits below the leading ones.
        counts: int64[n, 2], rows with label 0 and 1.
    """

    least: int
    most: int
    shift: int
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, store: Store, *, threads: int) -> "Leading":
        """The leading bits of a store's rows; cells ascend as scores descend."""
        least, most = _extremes(store)
        spread = max(0, most - least)
        shift = max(0, spread.bit_length() - LEADING_BITS)
        n_cells = (spread >> shift) + 1
        first = np.uint64(min(least, most))

        def count(batch: Batch) -> npt.NDArray[np.int64]:
            counts = np.zeros((n_cells, 2), dtype=np.int64)
            keys, labels = store.rows(batch, "score"), store.rows(batch, "label")
            count_leading(keys, labels, first, np.uint64(shift), counts)
            return counts

        total = np.zeros((n_cells, 2), dtype=np.int64)
        for counts in ordered_map(count, store.batches, threads=threads):
            total += counts
        return cls(least, most, shift, total)

    def find_mixed(self, store: Store, *, threads: int) -> npt.NDArray[np.bool_]:
        """bool[n_cells], cells of the leading bits whose rows have more than one score."""
        first, shift = np.uint64(min(self.least, self.most)), np.uint64(self.shift)
        n_cells = self.counts.shape[0]

        def look(batch: Batch) -> npt.NDArray[np.uint64]:
            ends = np.zeros((n_cells, 2), dtype=np.uint64)
            ends[:, 0] = LARGEST_KEY
            find_ends(store.rows(batch, "score"), first, shift, ends)
            return ends

        lowest, highest = np.full(n_cells, LARGEST_KEY), np.zeros(n_cells, dtype=np.uint64)
        for ends in ordered_map(look, store.batches, threads=threads):
            np.minimum(lowest, ends[:, 0], out=lowest)
            np.maximum(highest, ends[:, 1], out=highest)
        mixed: npt.NDArray[np.bool_] = lowest < highest
        return mixed


class Pooled:
    """The rows of a store as parts of descending scores.

    Args:
        store: with columns `score` (turned round), `label`, and `weight` if rows have one; they
            are taken out of it, to save memory.
        leading: of its scores.
        threads: kernels that run side by side.
    """

    def __init__(self, store: Store, leading: Leading, *, threads: int) -> None:
        self.threads = threads
        self.weighted = "weight" in store.dtypes
        self.names = ("score", "label", *(("weight",) if self.weighted else ()))
        self.least, self.most = leading.least, leading.most
        self.store, counts = self._scatter(store, leading)
        self.above, self.totals = self._count(counts)

    @property
    def score_range(self) -> tuple[float, float]:
        """The lowest and the highest score; NaN without rows."""
        if self.least > self.most:
            return np.nan, np.nan
        dtype = self.store.dtypes["score"]
        high, low = values_of(~np.array([self.least, self.most], dtype=np.uint64).astype(dtype))
        return float(low), float(high)

    def walk(self, wanted: Wanted) -> Walked:
        """What the walk over all distinct scores gives."""

        def work(part: int) -> Walked:
            scores, positives, negatives = self._groups(part)
            above = (float(self.above[part, 0]), float(self.above[part, 1]))
            if not scores.size:
                return Walked()
            return walk(scores, positives, negatives, above, self.totals, wanted)

        parts = ordered_map(work, range(self.store.n_parts), threads=self.threads)
        total = next(parts)
        for part in parts:
            total.merge(part)
        return total

    def _groups(self, part: int) -> tuple[Floats, Floats, Floats]:
        """Distinct scores of a part, and the weight of rows with label 1 and 0 at each."""
        _, columns = sort_rows(None, self.store.part(part, self.names))
        keys = columns[0]
        weights = values_of(columns[2]) if self.weighted else np.empty(0)
        distinct = np.empty(keys.size, dtype=keys.dtype)
        positives, negatives = np.empty(keys.size), np.empty(keys.size)
        n = tie_groups(keys, columns[1], weights, distinct, positives, negatives)
        return values_of(~distinct[:n]), positives[:n], negatives[:n]

    def _scatter(self, store: Store, leading: Leading) -> tuple[Store, npt.NDArray[np.int64]]:
        shift, least = np.uint64(leading.shift), np.uint64(min(leading.least, leading.most))
        table = _parts_of(leading.counts.sum(axis=1))
        n_parts = int(table[-1]) + 1
        n_rows = sum(batch.n_rows for batch in store.batches)
        dtypes = {name: store.dtypes[name] for name in self.names}
        pooled = Store(dtypes, n_parts, n_rows)
        sums = np.zeros((n_parts, 2), dtype=np.int64)

        def place(
            rows: Mapping[str, Column], starts: npt.NDArray[np.int32], places: npt.NDArray[np.int32]
        ) -> None:
            place_by_table(rows["score"], least, shift, table, starts, places)

        def scatter(item: tuple[Batch, tuple[int, int]]) -> Batch:
            batch, where = item
            rows = {name: store.rows(batch, name) for name in self.names}
            return pooled.fill(where, rows, place)

        places = ((batch, pooled.reserve(batch.n_rows)) for batch in store.batches)
        for batch in ordered_map(scatter, places, threads=self.threads):
            pooled.batches.append(batch)
            if batch.n_rows:
                sum_labels(batch.starts, pooled.rows(batch, "label"), sums)
        pooled.seal()
        return pooled, sums

    def _count(self, sums: npt.NDArray[np.int64]) -> tuple[Floats, Totals]:
        """The weight of the rows above each part, and of all."""
        if self.weighted:
            values = self._weigh_parts()
        else:
            values = np.stack([sums[:, 1], sums[:, 0] - sums[:, 1]], axis=1).astype(np.float64)
        above = np.zeros((values.shape[0] + 1, 2))
        for column in range(2):
            cumulate_from_zero(values[:, column].copy(), above[1:, column])
        totals = Totals(float(above[-1, 0]), float(above[-1, 1]), self.weighted)
        return above[:-1], totals

    def _weigh_parts(self) -> Floats:
        def weigh(part: int) -> tuple[float, float]:
            _, positives, negatives = self._groups(part)
            room = np.empty(positives.size)
            return float(cumulate(positives, 0.0, room)), float(cumulate(negatives, 0.0, room))

        found = ordered_map(weigh, range(self.store.n_parts), threads=self.threads)
        return np.array(list(found)).reshape(-1, 2)


def cumulate_from_zero(values: Floats, out: npt.NDArray[np.float64]) -> None:
    """Sums up to and with each value."""
    room = np.empty(values.size)
    cumulate(values, 0.0, room)
    out[:] = room


def _extremes(store: Store) -> tuple[int, int]:
    found = [store.rows(batch, "score") for batch in store.batches if batch.n_rows]
    if not found:
        return 1, 0
    return min(int(each.min()) for each in found), max(int(each.max()) for each in found)


def _parts_of(leading: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The part of each value of the leading bits: neighbours share one until it is full."""
    before = np.cumsum(leading) - leading
    parts = before // ROWS_A_PART
    heavy = leading >= ROWS_A_PART  # a part of its own, and so is what follows
    fresh = np.concatenate([[0], (parts[1:] != parts[:-1]) | heavy[1:] | heavy[:-1]])
    return np.cumsum(fresh).astype(np.int32)
