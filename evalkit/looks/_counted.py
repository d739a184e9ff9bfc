"""Users with as many hits up to a cutoff, of as many relevant items, are added together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evalkit.exact import ExactSums, add_weighted
from evalkit.kernels import kernel
from evalkit.metrics import Hits, Relevant
from evalkit.values.settle import N_CASES, settle

if TYPE_CHECKING:
    from evalkit.values.blocks import Measuring

MOST_KINDS = 1 << 20  # of relevant items, rows and cases
MOST_COUNTS = 1 << 21

Counts = npt.NDArray[np.int64]


@kernel(allocates=False)
def count_hits(first_rows, starts, ranks, counts):  # type: ignore[no-untyped-def]
    """Note in int64[n_rows, depth] at which cutoffs users come to a number of hits, and leave it.

    A user's numbers of hits, from 0 on, are the rows from `first_rows` on.
    """
    for user in range(first_rows.size):
        row = first_rows[user]
        counts[row, 0] += 1
        for hit in range(starts[user], starts[user + 1]):
            rank = ranks[hit]
            if rank > counts.shape[1]:
                break
            counts[row, rank - 1] -= 1
            row += 1
            counts[row, rank - 1] += 1


@dataclass(frozen=True, slots=True)
class HitCounts:
    """Kinds of users of one model, by the ranks that one set of rules gives.

    Args:
        places: the groups of requests whose values hang on the counts alone.
        first_rows: int64[n_users], where the rows of each user's kind begin.
        n_hits, n_relevant, lengths, cases: of each row.
        depth: the deepest cutoff.
    """

    measuring: "Measuring"
    probe: int
    places: Sequence[int]
    first_rows: npt.NDArray[np.int64]
    n_hits: npt.NDArray[np.int64]
    n_relevant: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    cases: npt.NDArray[np.uint8]
    depth: int

    @classmethod
    def of(cls, measuring: "Measuring", probe: int) -> "HitCounts | None":
        """None where no group counts hits, or where users are of too many kinds."""
        places = [
            place
            for place, own in enumerate(measuring.probes)
            if own == probe and measuring.counts_hits(place)
        ]
        relevant = measuring.truth.pairs.n_relevant * measuring.present[probe]
        lengths, cases = measuring.lengths[probe], measuring.cases[probe]
        n_lengths = int(lengths.max(initial=0)) + 1
        if not places or (int(relevant.max(initial=0)) + 1) * n_lengths * N_CASES > MOST_KINDS:
            return None
        codes = (relevant.astype(np.int64) * n_lengths + lengths) * N_CASES + cases
        is_used = np.bincount(codes) > 0
        kinds = np.flatnonzero(is_used)
        of_kinds = kinds // (n_lengths * N_CASES)
        begins = np.cumsum(of_kinds + 1) - (of_kinds + 1)
        depth = max(int(measuring.groups[place].cutoffs[-1]) for place in places)
        n_rows = int(of_kinds.sum()) + kinds.size
        if n_rows * depth > MOST_COUNTS:
            return None
        kind_of = np.cumsum(is_used) - 1
        rows = np.repeat(np.arange(kinds.size), of_kinds + 1)
        return cls(
            measuring,
            probe,
            places,
            begins[kind_of[codes]],
            np.arange(n_rows) - begins[rows],
            of_kinds[rows],
            (kinds // N_CASES % n_lengths)[rows],
            (kinds % N_CASES).astype(np.uint8)[rows],
            depth,
        )

    def empty(self) -> Counts:
        """Nothing counted yet."""
        return np.zeros((self.n_hits.size, self.depth), dtype=np.int64)

    def count(
        self, users: npt.NDArray[np.int64], hits: Hits, relevant: Relevant, counts: Counts
    ) -> None:
        """Count a block of users."""
        rows = self.first_rows[users]
        if not np.array_equal(np.diff(relevant.starts), self.n_relevant[rows]):
            raise AssertionError("users have as many relevant items as their kind")
        count_hits(rows, hits.starts, hits.ranks, counts)

    def add_to(self, sums: ExactSums, counts: Counts, firsts: Sequence[int]) -> None:
        """Add the values of all who were counted; `firsts`: the first column of each group."""
        weights = np.cumsum(counts, axis=1)
        rows = np.flatnonzero(weights.any(axis=1))
        weights = weights[rows]
        n_hits, n_relevant = self.n_hits[rows], self.n_relevant[rows]
        ones = np.ones(int(n_hits.sum()))
        hits = Hits(_starts(n_hits), ones.astype(np.int32), ones, ones)
        relevant = Relevant(_starts(n_relevant), np.ones(int(n_relevant.sum())))
        for place in self.places:
            group = self.measuring.groups[place]
            request, cutoffs = group.request, group.cutoffs
            values = np.empty((rows.size, cutoffs.size))
            threshold = self.measuring.truth.threshold
            request.measure(
                hits, relevant, self.lengths[rows], cutoffs, values, threshold=threshold
            )
            higher = bool(request.metric.higher_is_better)
            settle(values, self.cases[rows], group.policies, higher_is_better=higher)
            own = np.ascontiguousarray(weights[:, cutoffs - 1])
            add_weighted(sums, values, own, first_column=firsts[place])


def _starts(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)])
