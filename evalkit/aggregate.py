"""From ranks to sums: blocks of users are measured and folded into exact sums at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.config import Policies
from evalkit.exact import ExactSums
from evalkit.metrics import Hits, Relevant, Request, kernel
from evalkit.pairs import merge_sort, relevance_at
from evalkit.ranks import NOT_RANKED, Ranks
from evalkit.threads import ordered_map
from evalkit.truth import Truth

USERS_A_BLOCK = 8192
SMALL_SORT = 64  # up to here insertion beats what needs room of its own

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Group:
    """The cutoffs of one metric with one set of parameters: one call of its kernel."""

    request: Request  # of any of the cutoffs
    cutoffs: npt.NDArray[np.int64]
    columns: tuple[int, ...]  # the place of each cutoff among the requests


def group_requests(requests: Sequence[Request]) -> list[Group]:
    """Requests that differ in their cutoff alone share one call."""
    members: dict[tuple[str, tuple[tuple[str, str | float], ...]], list[int]] = {}
    for place, request in enumerate(requests):
        members.setdefault((request.metric.name, request.parameters), []).append(place)
    groups = []
    for places in members.values():
        by_cutoff = sorted((requests[place].kernel_cutoff, place) for place in places)
        cutoffs = np.array([cutoff for cutoff, _ in by_cutoff], dtype=np.int64)
        columns = tuple(place for _, place in by_cutoff)
        groups.append(Group(requests[places[0]], cutoffs, columns))
    return groups


@kernel(allocates=False)
def sort_descending(gains):  # type: ignore[no-untyped-def]
    """Sort one user's gains, the largest first."""
    if gains.size > SMALL_SORT:
        sort_many_descending(gains)
        return
    for place in range(1, gains.size):
        gain = gains[place]
        before = place - 1
        while before >= 0 and gains[before] < gain:
            gains[before + 1] = gains[before]
            before -= 1
        gains[before + 1] = gain


@kernel
def sort_many_descending(gains):  # type: ignore[no-untyped-def]
    """Sort many gains, the largest first."""
    order = np.arange(gains.size)
    merge_sort(-gains, order, np.empty(gains.size, dtype=np.int64))
    old = gains.copy()
    for place in range(gains.size):
        gains[place] = old[order[place]]


@kernel(allocates=False)
def sort_by_rank(ranks, gains, graded):  # type: ignore[no-untyped-def]
    """Sort one user's hits by rank; hits at one rank, the larger gain first."""
    if ranks.size > SMALL_SORT:
        sort_many_by_rank(ranks, gains, graded)
        return
    for place in range(1, ranks.size):
        rank, gain = ranks[place], gains[place]
        before = place - 1
        while before >= 0 and (
            ranks[before] > rank or (ranks[before] == rank and gains[before] < gain)
        ):
            ranks[before + 1] = ranks[before]
            gains[before + 1] = gains[before]
            before -= 1
        ranks[before + 1] = rank
        gains[before + 1] = gain


@kernel
def sort_many_by_rank(ranks, gains, graded):  # type: ignore[no-untyped-def]
    """Sort many hits by rank; hits at one rank, the larger gain first."""
    n = ranks.size
    order = np.arange(n)
    spare = np.empty(n, dtype=np.int64)
    if graded:
        merge_sort(-gains, order, spare)
    merge_sort(ranks, order, spare)
    old_ranks = ranks.copy()
    old_gains = gains.copy()
    for place in range(n):
        ranks[place] = old_ranks[order[place]]
        gains[place] = old_gains[order[place]]


@kernel(allocates=False)
def gather_hits(  # type: ignore[no-untyped-def]
    users,
    starts,
    counts,
    grades,
    relevant_from,
    judged,
    present,
    ranks,
    copy_places,
    copy_ranks,
    hits,
    relevant,
):
    """Fill the ragged rows that metrics are measured on, for a block of user codes.

    Users without a list stay empty: a policy says what they count.
    """
    codes, values, own = grades.codes, grades.values, grades.own
    hit_starts, hit_ranks, hit_gains, hit_ideal = hits.starts, hits.ranks, hits.gains, hits.ideal
    relevant_starts, relevant_gains = relevant.starts, relevant.gains
    graded = codes.size > 0 or own.size > 0
    n_hits = 0
    n_relevant = 0
    hit_starts[0] = 0
    relevant_starts[0] = 0
    for row in range(users.size):
        user = users[row]
        first_hit, first_relevant = n_hits, n_relevant
        begin = starts[user]
        end = begin + counts[user] if present[user] else begin
        for place in range(begin, end):
            gain = relevance_at(codes, values, own, place) if graded else 1.0
            is_relevant = gain >= relevant_from
            if is_relevant or (judged and gain > 0.0):
                relevant_gains[n_relevant] = gain
                n_relevant += 1
            elif not judged:
                continue
            hit_ranks[n_hits] = ranks[place]
            hit_gains[n_hits] = gain
            n_hits += ranks[place] != NOT_RANKED
        if copy_places.size > 0:
            copy = np.searchsorted(copy_places, begin)
            while copy < copy_places.size and copy_places[copy] < end:
                gain = relevance_at(codes, values, own, copy_places[copy])
                if judged or gain >= relevant_from:
                    hit_ranks[n_hits] = copy_ranks[copy]
                    hit_gains[n_hits] = gain
                    n_hits += 1
                copy += 1
        sort_by_rank(hit_ranks[first_hit:n_hits], hit_gains[first_hit:n_hits], graded)
        for hit in range(first_hit, n_hits):
            hit_ideal[hit] = hit_gains[hit]
        if graded:
            sort_descending(hit_ideal[first_hit:n_hits])
            sort_descending(relevant_gains[first_relevant:n_relevant])
        hit_starts[row + 1] = n_hits
        relevant_starts[row + 1] = n_relevant


@kernel(allocates=False)
def settle(  # type: ignore[no-untyped-def]
    values, users, present, n_relevant, skip_missing, skip_without_relevant, higher_is_better
):
    """Apply the policies for users without a ranking and users without relevant items."""
    for row in range(users.size):
        without_relevant = n_relevant[users[row]] == 0
        missing = not present[users[row]]
        if (without_relevant and skip_without_relevant) or (missing and skip_missing):
            for column in range(values.shape[1]):
                values[row, column] = np.nan
        elif missing:
            for column in range(values.shape[1]):
                values[row, column] = 0.0 if higher_is_better else np.nan
        elif without_relevant and higher_is_better:
            for column in range(values.shape[1]):
                if np.isnan(values[row, column]):
                    values[row, column] = 0.0


@dataclass(frozen=True, slots=True)
class Measuring:
    """What it takes to measure one model's ranks, block by block."""

    truth: Truth
    ranks: Ranks
    groups: Sequence[Group]
    policies: Policies
    present: npt.NDArray[np.bool_]
    lengths: npt.NDArray[np.int32]

    def measure(self, users: npt.NDArray[np.int64]) -> list[Values]:
        """For each group float64[n_users, n_cutoffs] of a block of users; NaN where left out."""
        views: dict[bool, tuple[Hits, Relevant]] = {}
        two_views = self.truth.has_threshold or self.truth.counts.negative > 0
        measured = []
        lengths = self.lengths[users].astype(np.int64)
        for group in self.groups:
            judged = two_views and group.request.view == "judged"
            if judged not in views:
                views[judged] = self._gather(users, judged=judged)
            hits, relevant = views[judged]
            values = np.empty((users.size, group.cutoffs.size))
            group.request.measure(hits, relevant, lengths, group.cutoffs, values)
            settle(
                values,
                users,
                self.present,
                self.truth.pairs.n_relevant,
                self.policies.missing_ranking == "skip",
                self.policies.no_relevant == "skip",
                group.request.metric.higher_is_better,
            )
            measured.append(values)
        return measured

    def _gather(self, users: npt.NDArray[np.int64], *, judged: bool) -> tuple[Hits, Relevant]:
        pairs = self.truth.pairs
        n_places = int(pairs.counts[users].sum())
        n_hits = n_places + self.ranks.copy_places.size + 1  # one is written before it counts
        hits = Hits(
            np.empty(users.size + 1, dtype=np.int64),
            np.empty(n_hits, dtype=np.int32),
            np.empty(n_hits, dtype=np.float64),
            np.empty(n_hits, dtype=np.float64),
        )
        relevant = Relevant(
            np.empty(users.size + 1, dtype=np.int64), np.empty(n_places, dtype=np.float64)
        )
        gather_hits(
            users,
            pairs.starts,
            pairs.counts,
            pairs.grades,
            self.truth.relevant_from,
            judged,
            self.present,
            self.ranks.ranks,
            self.ranks.copy_places,
            self.ranks.copy_ranks,
            hits,
            relevant,
        )
        return hits, relevant


def measure_users(
    truth: Truth,
    ranks: Ranks,
    requests: Sequence[Request],
    *,
    policies: Policies,
    threads: int,
    keep: Callable[[npt.NDArray[np.int64], Values], Any] | None = None,
    order: npt.NDArray[np.int64] | None = None,
) -> ExactSums:
    """Exact sums of every request over the users of one model.

    Args:
        keep: called with each block's user codes and values, block after block.
        order: int64[n_users], the order in which users come by.
    """
    groups = group_requests(requests)
    measuring = Measuring(truth, ranks, groups, policies, ranks.present, ranks.lengths)
    columns = [column for group in groups for column in group.columns]  # as the sums hold them
    idle: SimpleQueue[ExactSums] = SimpleQueue()
    made: list[ExactSums] = []

    def work(users: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Values | None]:
        measured = measuring.measure(users)
        try:
            sums = idle.get_nowait()
        except Empty:  # as many sums as threads meet here
            sums = ExactSums(len(requests))
            made.append(sums)
        first = 0
        for values in measured:
            sums.add(values, first_column=first)
            first += values.shape[1]
        idle.put(sums)
        if keep is None:
            return users, None
        return users, np.concatenate(measured, axis=1)[:, np.argsort(columns)]

    codes = np.arange(truth.pairs.n_users) if order is None else order
    for users, values in ordered_map(work, _blocks(codes), threads=threads):
        if keep is not None and values is not None:
            keep(users, values)
    total = ExactSums(len(requests))
    for sums in made:
        total.merge(sums)
    return total.take(np.argsort(columns))


def _blocks(codes: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    for begin in range(0, max(codes.size, 1), USERS_A_BLOCK):  # at least one, be it empty
        yield codes[begin : begin + USERS_A_BLOCK]
