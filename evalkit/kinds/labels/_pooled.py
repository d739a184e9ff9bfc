"""All rows of a model in the order of their scores, part by part, exactly.

Rows are scattered by their scores into parts of about as many rows each. Each part is sorted
alone; the weight of the rows in the parts above it is known, so parts are walked side by side, or
in several passes over the rows, and what they give is put together in the order of scores.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from evalkit.kernels.arrays import Floats
from evalkit.kernels.threads import ordered_map
from evalkit.kinds.labels._kernels import count_ties, tie_groups
from evalkit.kinds.labels._parts import ScoreParts
from evalkit.kinds.labels._walk import LabelTotals, Ties, Walked, walk
from evalkit.kinds.pointwise.passes import Columns, ModelRows, bytes_of
from evalkit.kinds.pointwise.store import (
    Column,
    Store,
    StoreBatch,
    sort_packed,
    sort_rows,
    values_of,
)
from evalkit.metrics import Term
from evalkit.statistics.exact import SCALE_BITS, CellRows, ExactSums


class Pooled:
    """The rows of a model in parts of descending scores.

    Args:
        rows: with columns `score` (turned round), `label`, and `weight` if rows have one.
        dtypes: of these columns.
        parts: of the scores.
        threads: kernels that run side by side.
    """

    def __init__(
        self, rows: ModelRows, dtypes: Mapping[str, type], parts: ScoreParts, *, threads: int
    ) -> None:
        self.rows, self.dtypes, self.parts, self.threads = rows, dtypes, parts, threads
        self.weighted = "weight" in dtypes
        if self.weighted:
            self.sums, self.above = self._weigh()
        else:
            self.sums = parts.counts[:, ::-1].astype(np.float64)
            self.above = np.concatenate([np.zeros((1, 2)), np.cumsum(self.sums, axis=0)])
        positives, negatives = map(float, self.above[-1])
        self.totals = LabelTotals(positives, negatives, self.weighted)

    @property
    def score_range(self) -> tuple[float, float]:
        """The lowest and the highest score; NaN without rows."""
        return self.parts.leading.score_range(self.dtypes["score"])

    def walk(self, terms: Sequence[Term]) -> Walked:
        """What the walk over all distinct scores gives."""
        total = Walked.start(terms)
        for held in self.rows.cut(self.parts.stored, bytes_of(self._stored)):
            store = self._scatter(held)

            def work(part: int, first: int = held.start, store: Store = store) -> Walked:
                ties = self._ties(part, store, part - first)
                return walk(ties, self._down_to(part), self.totals, terms)

            for part in ordered_map(work, held, threads=self.threads):
                total.merge(part)
            store.forget()
        return total

    @property
    def _stored(self) -> Mapping[str, type]:
        """Columns of the store: score and label are one where rows have no weight."""
        if self.weighted:
            return self.dtypes
        return {"packed": self.dtypes["score"]}

    def _scatter(self, held: range) -> Store:
        n_rows = int(self.parts.stored[held.start : held.stop].sum())
        store, placing = Store(self._stored, len(held), n_rows), self.parts.placing(held)

        def fill(rows: Columns) -> StoreBatch:
            packed: Column = np.empty(rows["score"].size, dtype=self.dtypes["score"])
            return store.fill({**rows, "packed": packed}, placing)

        if n_rows:
            for _ in self.rows.look(fill):
                pass
        store.seal()
        return store

    def _down_to(self, part: int) -> tuple[float, float]:
        """Weight of the rows above a part, with label 1 and 0."""
        return float(self.above[part, 0]), float(self.above[part, 1])

    def _ties(self, part: int, store: Store, slot: int) -> Ties:
        """Distinct scores of a part."""
        above, down_to = self._down_to(part), self._down_to(part + 1)
        if self.parts.is_counted[part]:
            key: Column = self.parts.firsts[part : part + 1].astype(self.dtypes["score"])
            sums = self.sums[part, :1], self.sums[part, 1:]
            return Ties.of(values_of(~key), *sums, above, down_to)
        if self.weighted:
            return self._weighted_ties(store, slot, above, down_to)
        (packed,) = store.part(slot, ["packed"])
        sort_packed(packed, int(packed.max(initial=0)).bit_length())
        bits: Column = np.empty(packed.size, dtype=self.dtypes["score"])
        found = np.empty((4, packed.size))
        n = count_ties(packed, self.parts.firsts[part], *above, bits, found)
        scores = bits[:n].view(np.float32 if bits.itemsize == 4 else np.float64)
        return Ties(scores.astype(np.float64, copy=False), *(each[:n] for each in found))

    def _weighted_ties(
        self, store: Store, slot: int, above: tuple[float, float], down_to: tuple[float, float]
    ) -> Ties:
        _, (keys, labels, weights) = sort_rows(None, store.part(slot, list(self.dtypes)))
        distinct = np.empty(keys.size, dtype=keys.dtype)
        positives, negatives = np.empty(keys.size), np.empty(keys.size)
        n = tie_groups(keys, labels, values_of(weights), distinct, positives, negatives)
        sums = positives[:n], negatives[:n]
        return Ties.of(values_of(~distinct[:n]), *sums, above, down_to)

    def _weigh(self) -> tuple[Floats, Floats]:
        """Weight of the rows with label 1 and 0 of each part, and of all above it, rounded once."""
        n_parts = self.parts.firsts.size

        def weigh(rows: Columns) -> ExactSums:
            sums = ExactSums(2, n_parts)
            is_good, weights = rows["label"] != 0, values_of(rows["weight"])
            columns = np.stack([weights * is_good, weights * ~is_good], axis=1)
            sums.add(columns, rows=CellRows.of(self.parts.part_of(rows["score"]), n_parts))
            return sums

        total = ExactSums(2, n_parts)
        for each in self.rows.look(weigh):
            total.merge(each)
        scaled = [
            [total.sum_of(2 * part + label).scaled for part in range(n_parts)] for label in (0, 1)
        ]
        above = [list(accumulate(each, initial=0)) for each in scaled]
        return _rounded(scaled), _rounded(above)


def _rounded(scaled: list[list[int]]) -> Floats:
    unit = 1 << SCALE_BITS
    return np.array([[each / unit for each in column] for column in scaled]).T
