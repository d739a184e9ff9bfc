"""Users with as many hits up to a cutoff, of as many relevant items, have the same values.

They are measured once, and added together; or, where a sum needs users apart, looked up.
"""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.aggregate.accumulators.parts import WordSums
from evalkit.aggregate.user_values.blocks import KernelCall, Measuring, PlainHits, UserValues
from evalkit.aggregate.user_values.buffer_pool import BufferPool
from evalkit.aggregate.user_values.outcomes import apply_user_policies
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Floats, Int32s, Ints
from evalkit.kernels.threads import slices_of
from evalkit.metrics import NO_CUTOFF, Hits, Relevant
from evalkit.statistics.exact import ExactSums, add_weighted

MOST_KINDS = 1 << 20  # of relevant items, rows, cases and groups
MOST_COUNTS = 1 << 21
NEAR_COUNTS = 1 << 18  # which stay close to the core
MANY_VALUES = 64  # of a user, for which counts that do not are worth it
USERS_A_ROW = 8  # at least, for which counting takes less time than measuring them


@kernel(allocates=False)
def number_kinds(n_relevant, present, lengths, cases, apart, sizes, codes, is_used):  # type: ignore[no-untyped-def]
    """Number each user's kind, in mixed radix of int64[4] `sizes`; `is_used` of those that are.

    Without a list a user has nothing to hit. `apart` may be empty.
    """
    for user in range(codes.size):
        code = np.int64(n_relevant[user]) if present[user] else np.int64(0)
        code = (code * sizes[1] + lengths[user]) * sizes[2] + cases[user]
        if apart.size > 0:
            code = code * sizes[3] + apart[user]
        codes[user] = code
        is_used[code] = True


@kernel(allocates=False)
def find_rows(users, hit_starts, relevant_starts, counts, rows):  # type: ignore[no-untyped-def]
    """Where the rows of each user's kind begin, into `rows`; whether hits fit to their kinds."""
    first_rows, n_relevant, lengths = counts
    are_alike = True
    for user in range(users.size):
        row = first_rows[users[user]]
        n_hits = hit_starts[user + 1] - hit_starts[user]
        are_alike &= relevant_starts[user + 1] - relevant_starts[user] == n_relevant[row]
        are_alike &= n_hits <= min(n_relevant[row], lengths[row])
        rows[user] = row
    return are_alike


@kernel(allocates=False)
def count_hits(first_rows, starts, ranks, columns, counts):  # type: ignore[no-untyped-def]
    """Note in int64[n_rows, n_cutoffs] where users come to a number of hits, and leave it.

    A user's numbers of hits, from 0 on, are the rows from `first_rows` on. `columns`, by rank, is
    the place of the first cutoff that reaches it; the last one is that of all deeper ranks.
    """
    for user in range(first_rows.size):
        row = first_rows[user]
        counts[row, 0] += 1
        for hit in range(starts[user], starts[user + 1]):
            column = columns[min(ranks[hit], columns.size - 1)]
            if column == counts.shape[1]:
                break
            counts[row, column] -= 1
            row += 1
            counts[row, column] += 1


@kernel(allocates=False)
def look_up(first_rows, starts, ranks, columns, values, places, rows, out):  # type: ignore[no-untyped-def]
    """Fill float64[n_users, n_columns] from `values`, float64[n_rows, n_columns].

    A user's rows and `columns` are those of `count_hits`; `places` is the cutoff of each column,
    `rows` int64[n_cutoffs].
    """
    for user in range(first_rows.size):
        rows[:] = 0
        for hit in range(starts[user], starts[user + 1]):
            column = columns[min(ranks[hit], columns.size - 1)]
            if column == rows.size:
                break
            rows[column] += 1
        row = np.int64(first_rows[user])
        for place in range(rows.size):
            row += rows[place]
            rows[place] = row
        for column in range(places.size):
            out[user, column] = values[rows[places[column]], column]


@dataclass(frozen=True, slots=True)
class HitCounts:
    """Kinds of users of one model, by the ranks that one set of rules gives.

    Args:
        places: the groups of requests whose values hang on the counts alone.
        first_rows: int32[n_users], where the rows of each user's kind begin.
        n_hits, n_relevant, lengths, cases, apart: of each row.
        cutoffs: int64[n_cutoffs], of all groups.
        columns: int64[depth + 2], by rank the first of the cutoffs that reaches it; none does where
            it is their number.
    """

    measuring: Measuring
    places: Sequence[int]
    first_rows: Int32s
    n_hits: Ints
    n_relevant: Ints
    lengths: Ints
    cases: Bytes
    apart: Int32s
    cutoffs: Ints
    columns: Ints

    @classmethod
    def of(
        cls, measuring: Measuring, places: Sequence[int], apart: Int32s | None = None
    ) -> "HitCounts | None":
        """None where users are of too many kinds.

        Args:
            places: of groups that count hits, which look at the same ranks.
            apart: int32[n_users], groups of users that do not come together.
        """
        probe = measuring.probes[places[0]]
        n_relevant, present = measuring.truth.pairs.n_relevant, measuring.present[probe]
        lengths, cases = measuring.lengths[probe], measuring.cases[probe]
        groups = np.empty(0, dtype=np.int32) if apart is None else apart
        sizes = np.array([int(p.max(initial=0)) + 1 for p in (n_relevant, lengths, cases, groups)])
        if math.prod(sizes.tolist()) > MOST_KINDS:
            return None
        codes = np.empty_like(n_relevant)
        is_used = np.zeros(math.prod(sizes.tolist()), dtype=np.bool_)
        number_kinds(n_relevant, present, lengths, cases, groups, sizes, codes, is_used)
        kinds = np.unravel_index(np.flatnonzero(is_used), sizes)
        n_rows = np.minimum(kinds[0], kinds[1]) + 1  # no list shows more hits than it has rows
        begins = np.cumsum(n_rows) - n_rows
        asked = {cutoff for p in places for cutoff in measuring.groups[p].cutoffs.tolist()}
        cutoffs = np.array(sorted(asked), dtype=np.int64)
        depth = int(max(cutoffs[cutoffs < NO_CUTOFF], default=0))
        if max(int(n_rows.sum()) * cutoffs.size, depth) > MOST_COUNTS:
            return None
        first_rows = np.empty(is_used.size, dtype=np.int32)
        first_rows[is_used] = begins
        for users in slices_of(codes.size):
            codes[users] = first_rows[codes[users]]
        rows = np.repeat(np.arange(begins.size), n_rows)
        of_rows, lengths, cases, groups = (part[rows] for part in kinds)
        return cls(
            measuring,
            places,
            codes,
            np.arange(rows.size) - begins[rows],
            of_rows,
            lengths,
            cases.astype(np.uint8),
            groups.astype(np.int32),
            cutoffs,
            np.searchsorted(cutoffs, np.arange(depth + 2)),
        )

    @property
    def probe(self) -> int:
        """The place of the ranks that are looked at."""
        return self.measuring.probes[self.places[0]]

    @property
    def is_cheap(self) -> bool:
        """Whether users are many more than their kinds, so that counting saves time."""
        n_rows = self.n_hits.size
        n_values = sum(self.measuring.groups[place].cutoffs.size for place in self.places)
        is_near = n_rows * self.cutoffs.size <= NEAR_COUNTS
        return (is_near or n_values >= MANY_VALUES) and n_rows * USERS_A_ROW <= self.first_rows.size

    def empty(self) -> Ints:
        """Nothing counted yet."""
        return np.zeros((self.n_hits.size, self.cutoffs.size), dtype=np.int64)

    def rows_of(self, users: Ints, hits: Hits, relevant: Relevant) -> Int32s:
        """Where the rows of each user's kind begin."""
        rows = np.empty(users.size, dtype=np.int32)
        counts = self.first_rows, self.n_relevant, self.lengths
        if not find_rows(users, hits.starts, relevant.starts, counts, rows):
            raise AssertionError("users have as many relevant items and rows as their kind")
        return rows

    def add_to(
        self,
        sums: ExactSums,
        counts: Ints,
        groups: Sequence[KernelCall],
        firsts: Sequence[int],
        parts: WordSums | None = None,
    ) -> None:
        """Add the values of all who were counted.

        Args:
            groups: all of them, at cutoffs that were counted.
            firsts: the first column of each group.
            parts: they are added to as well, by the groups that users are told apart by.
        """
        weights = np.cumsum(counts, axis=1)
        rows = np.flatnonzero(weights.any(axis=1))
        weights = weights[rows]
        for place, values in zip(self.places, self.values_of(rows, groups), strict=True):
            cutoffs = groups[place].cutoffs
            own = np.ascontiguousarray(weights[:, np.searchsorted(self.cutoffs, cutoffs)])
            add_weighted(sums, values, own, first_column=firsts[place])
            if parts is not None:
                parts.add_values(values, self.apart[rows], firsts[place], own, parts.words)

    def values_of(self, rows: Ints, groups: Sequence[KernelCall]) -> Iterator[Floats]:
        """For each group float64[n_rows, n_cutoffs] of users who are of these rows."""
        n_hits, n_relevant = self.n_hits[rows], self.n_relevant[rows]
        ones = np.ones(int(n_hits.sum()))
        hits = Hits(_starts(n_hits), ones.astype(np.int32), ones, ones)
        relevant = Relevant(_starts(n_relevant), np.ones(int(n_relevant.sum())))
        for group in (groups[place] for place in self.places):
            request, cutoffs = group.request, group.cutoffs
            values = np.empty((rows.size, cutoffs.size))
            threshold = self.measuring.truth.threshold
            request.measure(
                hits, relevant, self.lengths[rows], cutoffs, values, threshold=threshold
            )
            higher = bool(request.metric.higher_is_better)
            apply_user_policies(values, self.cases[rows], group.policies, higher_is_better=higher)
            yield values


@dataclass(frozen=True, slots=True)
class HitValues:
    """What users of each row have, of all groups side by side.

    Args:
        values: float64[n_rows, n_columns].
        places: int64[n_columns], the cutoff of each column.
        columns: int64[depth + 2], by rank the first of the cutoffs that reaches it.
    """

    counts: HitCounts
    values: Floats
    places: Ints
    columns: Ints

    @classmethod
    def of(cls, counts: HitCounts, groups: Sequence[KernelCall]) -> "HitValues":
        """Measured once for all users; of all groups, at cutoffs that are counted."""
        cutoffs = np.concatenate([groups[place].cutoffs for place in counts.places])
        asked, places = np.unique(cutoffs, return_inverse=True)
        rows = np.arange(counts.n_hits.size)
        values = np.concatenate([*counts.values_of(rows, groups)], axis=1)
        columns = np.searchsorted(asked, np.arange(counts.columns.size))
        return cls(counts, values, places, columns)

    def of_users(self, first_rows: Int32s, hits: Hits, pool: BufferPool | None) -> Floats:
        """float64[n_users, n_columns] of a block of users, whose rows begin there."""
        take = np.empty if pool is None else pool.take
        found: Floats = take((first_rows.size, self.places.size), np.float64)
        rows = np.empty(int(self.places.max()) + 1, dtype=np.int64)
        given = first_rows, hits.starts, hits.ranks, self.columns
        look_up(*given, self.values, self.places, rows, found)
        return found


class CountedValues:
    """Values of users, of whom those of as many hits are measured once where these say it all.

    The groups of requests that count hits are the last ones; they stand side by side as one, or
    where nobody needs users apart have no value of a user.

    Args:
        counted: of every model, of the same groups.
        are_apart: users are looked up.
        are_counted: sums of models are those of the counts, not of values of users.
    """

    def __init__(
        self,
        users: UserValues,
        counted: Mapping[str, HitCounts],
        *,
        are_apart: bool,
        are_counted: bool,
    ) -> None:
        self.columns = users.columns
        self._users, self._counted, self.are_counted = users, counted, are_counted
        self._counts_all = are_counted or bool(users.n_beside)
        self._n_measured = min(next(iter(counted.values())).places)
        self.n_added = self._n_measured + (not are_counted)
        n_groups = self._n_measured + are_apart
        self.higher_is_better = users.higher_is_better[:n_groups]
        of_each = counted.items() if are_apart else ()
        self._values = {name: HitValues.of(each, users.groups) for name, each in of_each}
        self._counts: dict[tuple[str, int], Ints] = {}  # of each model and thread

    def blocks(self, order: Ints | None = None) -> Iterator[Ints]:
        """User codes, a few thousand at a time."""
        return self._users.blocks(order)

    def measure(self, users: Ints, pool: BufferPool | None = None) -> dict[str, list[Floats]]:
        """For each model, for each group float64[n_users, n_cutoffs]."""
        found = {}
        for name, measuring in self._users.measuring.items():
            counted, plain = self._counted[name], PlainHits()
            places = range(self._n_measured)
            found[name] = list(self._users.each(name, users, places, plain, pool))
            hits, relevant = measuring.gather(users, counted.probe, plain, pool)
            first_rows = counted.rows_of(users, hits, relevant)
            if name in self._values:
                found[name].append(self._values[name].of_users(first_rows, hits, pool))
            if self._counts_all:
                key = name, threading.get_ident()
                if key not in self._counts:
                    self._counts[key] = counted.empty()
                count_hits(first_rows, hits.starts, hits.ranks, counted.columns, self._counts[key])
        return found

    def add_to(
        self,
        sums: Mapping[str, ExactSums],
        groups: Sequence[KernelCall],
        firsts: Sequence[int],
        parts: Mapping[str, WordSums],
    ) -> None:
        """Add the values of all who were counted, to the sums of each model, of one cell."""
        for name, counted in self._counted.items():
            counts = counted.empty()
            for (model, _), own in self._counts.items():
                counts += own if model == name else 0
            counted.add_to(sums[name], counts, groups, firsts, parts.get(name))


def _starts(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)])
