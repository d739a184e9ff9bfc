"""Kernels that count ranks from strengths: how many rows of a user beat each hit."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import atomic_add
from evalkit.ranks._kernels import find_hits, keep_known, next_runs, show_item
from evalkit.ranks._records import DEFERRED, HITS, N_FIELDS, REAPPEARED, TIES
from evalkit.truth import code_of, merge_sort

LARGEST = 2**63 - 1
MANY_HITS = 32  # of one user, from which on each row looks for the hits that it beats


@kernel
def sort_hits(row_strengths, orders, hit_rows, first, last):  # type: ignore[no-untyped-def]
    """Put hits first..last of one user from strongest to weakest, equals by order."""
    n = last - first
    keys = np.empty(n, dtype=np.uint64)
    order = np.arange(n)
    spare = np.empty(n, dtype=np.int64)
    top = np.uint64(1) << np.uint64(63)
    if orders.size > 0:
        for hit in range(n):
            keys[hit] = np.uint64(orders[hit_rows[first + hit]]) ^ top
        merge_sort(keys, order, spare)
    for hit in range(n):
        keys[hit] = ~(np.uint64(row_strengths[hit_rows[first + hit]]) ^ top)
    merge_sort(keys, order, spare)
    return order


@kernel(allocates=False)
def count_as_strong(strengths, strength):  # type: ignore[no-untyped-def]
    """How many of some falling strengths reach `strength`."""
    base, n = 0, strengths.size
    while n > 1:  # without a branch, which would be guessed wrong half of the time
        half = n >> 1
        base += half if strengths[base + half - 1] >= strength else 0
        n -= half
    return base + (1 if strengths[base] >= strength else 0)


@kernel
def rank_many_hits(rows, begin, end, first, last, found, tied):  # type: ignore[no-untyped-def]
    """Ranks of many hits of one user by binary search of each row; gives the number of tied hits.

    -1: equal strengths, and no orders to tell them apart.
    """
    row_strengths, orders = rows.strengths, rows.orders
    order = sort_hits(row_strengths, orders, found.hit_rows, first, last)
    n = last - first
    strengths = np.empty(n, dtype=np.int64)
    shown = np.empty(n, dtype=np.int64)
    for hit in range(n):
        shown[hit] = found.hit_rows[first + order[hit]]
        strengths[hit] = row_strengths[shown[hit]]
    beaten = np.zeros(n + 1, dtype=np.int64)
    sharing = np.zeros(n, dtype=np.int64)
    equal = np.zeros(n, dtype=np.int64)  # rows as strong as the hit, which is the first of such
    before = np.zeros(n, dtype=np.int64)  # of them, those that stand before all such hits
    for row in range(begin, end):
        strength = row_strengths[row]
        low = count_as_strong(strengths, strength)  # the first hit that this row beats
        if low == 0 or strengths[low - 1] != strength:
            beaten[low] += 1
            continue
        if orders.size > 0:  # equals stand in their order, and this row among them
            top = low
            if strength == LARGEST:
                low = 0
            else:
                low = count_as_strong(strengths[:top], strength + 1)
            group = low
            while low < top:
                middle = (low + top) >> 1
                if orders[row] < orders[shown[middle]]:
                    top = middle
                else:
                    low = middle + 1
            equal[group] += 1
            before[group] += low == group
        beaten[low] += 1
        # equals stand directly before (with orders also after) the first beaten hit
        near = low - 1
        while near >= 0 and strengths[near] == strength:
            if shown[near] != row:
                if orders.size == 0:
                    return -1
                sharing[near] = 1
                if sharing[max(near - 1, 0)] == 1:
                    break
            near -= 1
        near = low
        while near < n and strengths[near] == strength:
            if shown[near] != row:
                sharing[near] = 1
                if near + 1 < n and sharing[near + 1] == 1:
                    break
            near += 1
    above = 0
    n_tied = 0
    group = 0
    best = 0
    for hit in range(n):
        above += beaten[hit]
        found.hit_ranks[order[hit]] = above + 1
        n_tied += sharing[hit]
        if hit == 0 or strengths[hit] != strengths[hit - 1]:
            group = hit
            best = above - before[hit] + 1
        if sharing[hit] == 1:
            note_tie(tied, found.hit_places[first + order[hit]], best, equal[group])
    return n_tied


@kernel(allocates=False)
def note_tie(tied, place, best, n_equal):  # type: ignore[no-untyped-def]
    """The ranks that the rows of a hit's score take up together, from `best` on."""
    most = np.iinfo(tied.firsts.dtype).max - 1
    tied.firsts[place] = min(best, most)
    tied.lasts[place] = min(best + n_equal - 1, most)


@kernel(allocates=False)
def count_above(row_strengths, orders, begin, end, row):  # type: ignore[no-untyped-def]
    """Rows begin..end that beat a row, and how many equal it; -1 where orders are missing."""
    strength = row_strengths[row]
    run_strengths = row_strengths[begin:end]
    n_above = 0
    n_equal = 0
    for other in range(run_strengths.size):
        n_above += run_strengths[other] > strength
        n_equal += run_strengths[other] == strength
    if n_equal == 1:
        return n_above, n_above, n_equal
    if orders.size == 0:
        return -1, n_above, n_equal
    n_before = n_above
    for other in range(begin, end):
        n_before += row_strengths[other] == strength and orders[other] < orders[row]
    return n_before, n_above, n_equal


@kernel(allocates=False)
def rank_hits(rows, begin, end, first, last, found, tied):  # type: ignore[no-untyped-def]
    """Ranks of hits first..last of one user by counting; gives the number of tied hits.

    -1: equal strengths, and no orders to tell them apart.
    """
    if last - first > MANY_HITS:
        return rank_many_hits(rows, begin, end, first, last, found, tied)
    n_tied = 0
    for hit in range(first, last):
        n_before, n_above, n_equal = count_above(
            rows.strengths, rows.orders, begin, end, found.hit_rows[hit]
        )
        if n_before < 0:
            return -1
        if n_equal > 1:
            n_tied += 1
            note_tie(tied, found.hit_places[hit], n_above + 1, n_equal)
        found.hit_ranks[hit - first] = n_before + 1
    return n_tied


@kernel(allocates=False)
def count_strengths(rows, index, ranks, state, found, is_second_look, tied):  # type: ignore[no-untyped-def]
    """Rank each hit by counting the rows of its run that beat it.

    Orders (smaller first) tell equals apart; without them the rows of a run with tied hits are
    put into `found.deferred`, nothing of the run's ranks is written, and the caller comes back
    with those rows, their orders and room for `tied` (`is_second_look`: the runs are counted).
    """
    users, items = rows.users, rows.items
    begins, ends, entries, counters = found.begins, found.ends, found.entries, found.counters
    row = 0
    while row < users.size:
        n_runs, row = next_runs(users, row, index, found)
        n_runs = keep_known(users, n_runs, index, ranks, state.wide, found)
        for run in range(n_runs):
            begin, end, entry = begins[run], ends[run], entries[run]
            if not is_second_look:
                rows_before = code_of(index.table, entry) * N_FIELDS
                if atomic_add(state.small, rows_before, np.int32(end - begin)) != 0:
                    counters[REAPPEARED] = 1
            first = counters[HITS]
            n_hits = find_hits(items, begin, end, entry, index, found)
            n_tied = rank_hits(rows, begin, end, first, n_hits, found, tied)
            if n_tied < 0:
                for place in range(begin, end):
                    found.deferred[counters[DEFERRED]] = place
                    counters[DEFERRED] += 1
                continue
            counters[HITS] = n_hits
            counters[TIES] += n_tied
            for hit in range(first, n_hits):
                show_item(ranks, found.hit_places[hit], found.hit_ranks[hit - first], found)
