"""Kernels of two scans: the best row of each relevant item, then the rows that beat it."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import atomic_add, atomic_raise, prefetch
from evalkit.ranks._apart import ask_entries, end_apart, find_apart, found_entry, look_up_apart
from evalkit.ranks._kernels import find_hits, keep_known, next_runs, show_item
from evalkit.ranks._records import DEFERRED, HITS, KNOWN_RUNS, N_FIELDS, RUNS
from evalkit.truth import code_of, find_item, merge_sort, start_of

FEW_SHOWN = 16  # of one user, up to which they are put in order, and compared, one by one


@kernel(allocates=False)
def find_best(rows, index, ranks, best, state, found):  # type: ignore[no-untyped-def]
    """First scan: strengths of relevant items that lists show; `ranks` 0 where shown."""
    users, items = rows.users, rows.items
    begins, ends, entries, counters = found.begins, found.ends, found.entries, found.counters
    row = 0
    while row < users.size:
        last = end_apart(users, row)
        if last > row:
            first = counters[KNOWN_RUNS]
            n_chosen = look_up_apart(users, items, row, last, index, ranks, state.wide, found)
            for number in range(n_chosen):
                start = start_of(index.table, found.ends[number])
                prefetch(best.strengths, start)
                prefetch(best.orders, start)
            for known in range(first, counters[KNOWN_RUNS]):
                atomic_add(state.small, found.run_codes[known] * N_FIELDS, np.int32(1))
            n_hits = find_apart(items, n_chosen, index, found)
            note_best(rows, n_hits, ranks, best, found)
            row = last
            continue
        n_runs, row = next_runs(users, row, index, found)
        n_runs = keep_known(users, n_runs, index, ranks, state.wide, found)
        for run in range(n_runs):
            begin, end, entry = begins[run], ends[run], entries[run]
            code = code_of(index.table, entry)
            atomic_add(state.small, code * N_FIELDS, np.int32(end - begin))
            n_hits = find_hits(items, begin, end, entry, index, found)
            note_best(rows, n_hits, ranks, best, found)


@kernel(allocates=False)
def note_best(rows, n_hits, ranks, best, found):  # type: ignore[no-untyped-def]
    """Note the strengths of all hits that are not counted yet."""
    counters = found.counters
    for hit in range(counters[HITS], n_hits):
        place, shown = found.hit_places[hit], found.hit_rows[hit]
        show_item(ranks, place, 0, found)
        atomic_raise(best.strengths, place, rows.strengths[shown])
        if rows.orders.size > 0:
            best.orders[place] = rows.orders[shown]
    counters[HITS] = n_hits


@kernel(allocates=False)
def count_shown(starts, counts, ranks, first, last, n_shown):  # type: ignore[no-untyped-def]
    """How many items of each of the users first..last are shown."""
    for user in range(first, last):
        n = 0
        for place in range(starts[user], starts[user] + counts[user]):
            n += ranks[place] == 0
        n_shown[user] = n


@kernel
def order_shown(starts, counts, ranks, best, first, last, shown):  # type: ignore[no-untyped-def]
    """Between the scans: the shown items of the users first..last, from strongest to weakest."""
    strengths, places = best.strengths, shown.places
    top = np.uint64(1) << np.uint64(63)
    for user in range(first, last):
        begin, end = shown.firsts[user], shown.firsts[user + 1]
        if begin == end:
            continue
        n = begin
        for place in range(starts[user], starts[user] + counts[user]):
            if ranks[place] != 0:
                continue
            at = n
            if end - begin <= FEW_SHOWN:
                while at > begin and strengths[places[at - 1]] < strengths[place]:
                    places[at] = places[at - 1]
                    at -= 1
            places[at] = place
            n += 1
        if end - begin > FEW_SHOWN:
            found = places[begin:end].copy()
            keys = np.empty(found.size, dtype=np.uint64)
            for number in range(found.size):
                keys[number] = ~(np.uint64(strengths[found[number]]) ^ top)
            order = np.arange(found.size)
            merge_sort(keys, order, np.empty(found.size, dtype=np.int64))
            for number in range(found.size):
                places[begin + number] = found[order[number]]
        for number in range(begin, end):
            shown.marks[2 * number] = strengths[places[number]]
            shown.orders[number] = best.orders[places[number]]


@kernel(allocates=False)
def count_beaten(rows, index, shown, found, only_ties):  # type: ignore[no-untyped-def]
    """Second scan: each row adds one to the strongest relevant item that it beats.

    Rows equal to a relevant item need orders; without them they go into `found.deferred`.
    """
    users, table, layout = rows.users, index.table, index.layout
    firsts, marks = shown.firsts, shown.marks
    begins, ends, entries = found.begins, found.ends, found.entries
    for row in range(0, users.size, RUNS):
        last = min(row + RUNS, users.size)
        ask_entries(users, row, last, index, entries)
        for number in range(last - row):  # each step asks for what the next one reads
            entry = found_entry(table, entries[number], users[row + number], layout)
            entries[number] = code_of(table, entry) if entry >= 0 else -1
            prefetch(firsts, entries[number])
        for number in range(last - row):
            code = entries[number]
            begins[number] = firsts[code] if code >= 0 else 0
            ends[number] = firsts[code + 1] if code >= 0 else 0
            prefetch(marks, 2 * begins[number])
            prefetch(marks, 2 * ends[number] - 1)
        for number in range(last - row):
            begin, end = begins[number], ends[number]
            strength = rows.strengths[row + number]
            beaten = first_beaten(marks, begin, end, strength)
            if beaten < end and not only_ties:
                atomic_add(marks, 2 * beaten + 1, np.int64(1))
            if beaten > begin and marks[2 * beaten - 2] == strength:
                note_ties(rows, row + number, index, begin, beaten, shown, found)


@kernel(allocates=False)
def first_beaten(marks, begin, end, strength):  # type: ignore[no-untyped-def]
    """The first of begin..end whose strength, which falls, is below `strength`."""
    if end - begin <= FEW_SHOWN:  # most rows beat none
        while end > begin and marks[2 * end - 2] < strength:
            end -= 1
        return end
    while begin < end:
        middle = (begin + end) >> 1
        if marks[2 * middle] < strength:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel(allocates=False)
def note_ties(rows, row, index, begin, end, shown, found):  # type: ignore[no-untyped-def]
    """Hold a row against other items that are as strong, the last of begin..end."""
    places, counters = shown.places, found.counters
    strength, number = rows.strengths[row], end - 1
    while number >= begin and shown.marks[2 * number] == strength:
        if find_item(index.lows, index.highs, rows.items[row], places[number], 1) < 0:
            if rows.orders.size == 0:
                found.deferred[counters[DEFERRED]] = row
                counters[DEFERRED] += 1
                return
            shown.is_tied[number] = 1
            if rows.orders[row] < shown.orders[number]:
                atomic_add(shown.tied, number, np.int32(1))
        number -= 1


@kernel(allocates=False)
def rank_shown(shown, ranks):  # type: ignore[no-untyped-def]
    """After both scans: ranks from the counts."""
    for user in range(shown.firsts.size - 1):
        above = np.int64(0)
        for number in range(shown.firsts[user], shown.firsts[user + 1]):
            above += shown.marks[2 * number + 1]
            ranks[shown.places[number]] = np.int32(above + shown.tied[number] + 1)
