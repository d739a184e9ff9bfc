"""Kernels that lay the hits of users, and what is relevant to them, side by side."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Ints
from evalkit.kernels.intrinsics import prefetch
from evalkit.truth import Grades, first_gap, relevance_at

AHEAD = 12  # users between asking for a list and using it
RELEVANT, GRADED, POOL, JUDGED = 0, 1, 2, 3  # what is gathered


@kernel(allocates=False)
def sort_descending(gains):  # type: ignore[no-untyped-def]
    """Sort one user's gains in place, the largest first.

    Source:
        Shell, CACM 1959, with the gaps of Knuth, The Art of Computer Programming 3, 5.2.1.
    """
    gap = first_gap(gains.size)
    while gap > 0:
        for place in range(gap, gains.size):
            gain = gains[place]
            before = place - gap
            while before >= 0 and gains[before] < gain:
                gains[before + gap] = gains[before]
                before -= gap
            gains[before + gap] = gain
        gap //= 3


@kernel(allocates=False)
def sort_by_rank(ranks, gains):  # type: ignore[no-untyped-def]
    """Sort one user's hits in place, by rank; hits at one rank, the larger gain first."""
    gap = first_gap(ranks.size)
    while gap > 0:
        for place in range(gap, ranks.size):
            rank, gain = ranks[place], gains[place]
            before = place - gap
            while before >= 0 and (
                ranks[before] > rank or (ranks[before] == rank and gains[before] < gain)
            ):
                ranks[before + gap] = ranks[before]
                gains[before + gap] = gains[before]
                before -= gap
            ranks[before + gap] = rank
            gains[before + gap] = gain
        gap //= 3


@kernel(allocates=False)
def find_first(places, begin):  # type: ignore[no-untyped-def]
    """Where the first of ascending places stands that is not before `begin`."""
    low, high = 0, places.size
    while low < high:
        middle = (low + high) >> 1
        if places[middle] < begin:
            low = middle + 1
        else:
            high = middle
    return low


class RelevantItems(NamedTuple):
    """Relevant items of users, as `truth.Pairs` has them."""

    starts: Ints
    counts: Int32s
    grades: Grades


class ShownRanks(NamedTuple):
    """At which ranks a model shows them, and those of copies, as `ranks.Ranks` has them."""

    ranks: npt.NDArray[np.int16 | np.int32]
    copy_places: Ints
    copy_ranks: Int32s


@kernel(allocates=False)
def state_of(gain, relevant_from, which):  # type: ignore[no-untyped-def]
    """1 of a relevant item, 0 of a judged one, -1 of one that was pooled and never judged."""
    if gain >= relevant_from:
        return 1.0
    return -1.0 if which == POOL and gain < 0.0 else 0.0


@kernel(allocates=False)
def gather_hits(  # type: ignore[no-untyped-def]
    users, items, relevant_from, which, subtracts, present, found, hits, relevant
):
    """Fill the ragged rows that metrics are measured on, for a block of user codes.

    Users without a list stay empty: a policy says what they count.

    Args:
        which: RELEVANT items; GRADED ones, with a gain, be it below 0 where `subtracts`; all in
            the truth, with states for gains, of which those below 0 are in the POOL or JUDGED.
        items: values of their own beside codes are weights, which multiply gains.
    """
    # Wide: what lies beside the truth's items is given array by array.
    starts, counts, grades = items.starts, items.counts, items.grades
    ranks, copy_places, copy_ranks = found.ranks, found.copy_places, found.copy_ranks
    codes, values, own = grades.codes, grades.values, grades.own
    hit_starts, hit_ranks, hit_gains, hit_ideal = hits.starts, hits.ranks, hits.gains, hits.ideal
    relevant_starts, relevant_gains = relevant.starts, relevant.gains
    graded = codes.size > 0 or own.size > 0
    weighed = codes.size > 0 and own.size > 0
    not_ranked = np.iinfo(ranks.dtype).max
    n_hits = 0
    n_relevant = 0
    hit_starts[0] = 0
    relevant_starts[0] = 0
    for row in range(users.size):
        user = users[row]
        ahead = starts[users[min(row + AHEAD, users.size - 1)]]  # users may be in any order
        prefetch(ranks, ahead)
        prefetch(codes, ahead)
        first_hit, first_relevant = n_hits, n_relevant
        begin = starts[user]
        end = begin + counts[user] if present[user] else begin
        last_gain = np.inf
        is_descending = True  # as most users' items are kept
        for place in range(begin, end):
            gain = relevance_at(codes, values, own, place) if graded else 1.0
            if weighed:
                gain *= own[place]
            is_descending &= gain <= last_gain
            last_gain = gain
            is_relevant = gain >= relevant_from
            if which >= POOL:
                gain = state_of(gain, relevant_from, which)
            if is_relevant or which >= POOL or (which == GRADED and gain > 0.0):
                relevant_gains[n_relevant] = gain
                n_relevant += 1
            elif which == RELEVANT or not (subtracts and gain < 0.0):
                continue
            hit_ranks[n_hits] = ranks[place]
            hit_gains[n_hits] = hit_ideal[n_hits] = gain
            n_hits += ranks[place] != not_ranked
        if copy_places.size > 0:
            copy = find_first(copy_places, begin)
            while copy < copy_places.size and copy_places[copy] < end:
                gain = relevance_at(codes, values, own, copy_places[copy])
                if weighed:
                    gain *= own[copy_places[copy]]
                is_hit = gain >= relevant_from or which >= POOL
                if which >= POOL:
                    gain = state_of(gain, relevant_from, which)
                elif which == GRADED:
                    is_hit = is_hit or gain > 0.0 or (subtracts and gain < 0.0)
                if is_hit:
                    hit_ranks[n_hits] = copy_ranks[copy]
                    hit_gains[n_hits] = hit_ideal[n_hits] = gain
                    n_hits += 1
                    is_descending = False
                copy += 1
        sort_by_rank(hit_ranks[first_hit:n_hits], hit_gains[first_hit:n_hits])
        if not is_descending:
            sort_descending(hit_ideal[first_hit:n_hits])
            sort_descending(relevant_gains[first_relevant:n_relevant])
        hit_starts[row + 1] = n_hits
        relevant_starts[row + 1] = n_relevant
