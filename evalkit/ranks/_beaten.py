"""Kernels of two scans: the best row of each relevant item, then the rows that beat it."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import atomic_add, atomic_raise, prefetch
from evalkit.ranks._kernels import show_item
from evalkit.ranks._records import DEFERRED, HITS, N_FIELDS, RUNS
from evalkit.ranks._unsorted import (
    ask_entries,
    find_unsorted,
    found_entry,
    look_up_unsorted,
    name_known,
)
from evalkit.truth import code_of, find_item, item_at, merge_sort

FEW_SHOWN = 16  # of one user, up to which they are put in order, and compared, one by one


@kernel(allocates=False)
def find_best(portion, index, ranks, best, state, found):  # type: ignore[no-untyped-def]
    """First scan: strengths of relevant items that lists show; `ranks` 0 where shown."""
    rows, offsets = portion.rows, portion.offsets
    n = np.int64(0)  # rows that wait
    for partition in range(portion.first, portion.last):
        for batch in range(offsets.shape[0]):
            begin, end = offsets[batch, partition], offsets[batch, partition + 1]
            ask_entries(rows.users, begin, min(begin + RUNS, end), index, found.entries)
            for row in range(begin, end, RUNS):
                until = min(row + RUNS, end)
                n = look_up_unsorted(rows, row, until, end, index, ranks, state.wide, n, found)
                for number in range(until - row):
                    if found.candidates[number] >= 0:
                        state.small[found.candidates[number] * N_FIELDS] += np.int32(1)
                if portion.is_named:
                    name_known(row, until, found)
                if n >= RUNS:
                    n_hits = find_unsorted(rows.items, n, index, found)
                    note_best(rows, n_hits, ranks, best, found)
                    n = np.int64(0)
    n_hits = find_unsorted(rows.items, n, index, found)
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
def order_shown(lists, items, ranks, best, first, last, shown):  # type: ignore[no-untyped-def]
    """Between the scans: the shown items of the users first..last, from strongest to weakest."""
    starts, counts = lists
    lows, highs = items
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
            if shown.by_key:
                shown.orders[number] = np.int64(item_at(lows, highs, places[number]) ^ shown.flip)
            elif best.orders.size > 0:
                shown.orders[number] = best.orders[places[number]]


@kernel(allocates=False)
def count_beaten(portion, index, shown, found):  # type: ignore[no-untyped-def]
    """Second scan: each row adds one to the strongest relevant item that it beats.

    Rows equal to a relevant item need orders; without them they go into `found.deferred`.
    """
    rows, offsets = portion.rows, portion.offsets
    for partition in range(portion.first, portion.last):
        for batch in range(offsets.shape[0]):
            end = offsets[batch, partition + 1]
            for row in range(offsets[batch, partition], end, RUNS):
                beat_shown(rows, row, min(row + RUNS, end), index, shown, found, False)


@kernel(allocates=False)
def hold_equals(rows, index, shown, found):  # type: ignore[no-untyped-def]
    """Rows that the second scan deferred, with their orders."""
    for row in range(0, rows.users.size, RUNS):
        beat_shown(rows, row, min(row + RUNS, rows.users.size), index, shown, found, True)


@kernel(allocates=False)
def beat_shown(rows, row, last, index, shown, found, only_ties):  # type: ignore[no-untyped-def]
    """Count rows row..last, 64 at most, for the items that they beat."""
    users, table, layout = rows.users, index.table, index.layout
    firsts, marks = shown.firsts, shown.marks
    begins, ends, entries, chosen = found.begins, found.ends, found.entries, found.candidates
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
    n_chosen = np.int64(0)
    for number in range(last - row):  # most rows beat none, found without a branch
        weakest = marks[max(2 * ends[number] - 2, 0)]
        chosen[n_chosen] = number
        is_chosen = (ends[number] > begins[number]) & (weakest <= rows.strengths[row + number])
        n_chosen += np.int64(is_chosen)
    for place in range(n_chosen):
        number = chosen[place]
        begin, end = begins[number], ends[number]
        strength = rows.strengths[row + number]
        beaten = first_beaten(marks, begin, end, strength)
        if beaten < end and not only_ties:
            marks[2 * beaten + 1] += 1
        if beaten > begin and marks[2 * beaten - 2] == strength:
            note_ties(rows, row + number, index, begin, beaten, shown, found)


@kernel(allocates=False)
def first_beaten(marks, begin, end, strength):  # type: ignore[no-untyped-def]
    """The first of begin..end whose strength, which falls, is below `strength`."""
    if end - begin <= FEW_SHOWN:
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
            if rows.orders.size == 0 and not shown.by_key:
                found.deferred[counters[DEFERRED]] = row
                counters[DEFERRED] += 1
                return
            atomic_add(shown.equal, number, np.int32(1))
            order = np.int64(rows.items[row] ^ shown.flip)
            if rows.orders.size > 0:
                order = rows.orders[row]
            if order < shown.orders[number]:
                atomic_add(shown.tied, number, np.int32(1))
        number -= 1


@kernel(allocates=False)
def rank_shown(shown, ranks, tied):  # type: ignore[no-untyped-def]
    """After both scans: ranks from the counts, and those of equals, where there are any."""
    for user in range(shown.firsts.size - 1):
        above = np.int64(0)
        for number in range(shown.firsts[user], shown.firsts[user + 1]):
            above += shown.marks[2 * number + 1]
            ranks[shown.places[number]] = np.int32(above + shown.tied[number] + 1)
            if shown.equal[number] > 0:
                tied.firsts[shown.places[number]] = np.int32(above + 1)
                tied.lasts[shown.places[number]] = np.int32(above + 1 + shown.equal[number])
