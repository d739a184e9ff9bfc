"""Kernels for rows whose users lie apart: each row is looked up by itself, many at a time."""

import numpy as np

from evalkit.ids import mix
from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import atomic_add, atomic_raise, prefetch
from evalkit.ranks._records import (
    BAD_RANKS,
    HITS,
    KNOWN_RUNS,
    N_FIELDS,
    NOT_RANKED,
    REAPPEARED,
    RUNS,
    UNKNOWN_ROWS,
    UNKNOWN_RUNS,
)
from evalkit.truth import (
    FEW_ITEMS,
    code_of,
    count_of,
    find_entry,
    find_item,
    home_entry,
    may_hold,
    prefetch_filter,
    start_of,
)

LOOKED_AT = 16  # rows that tell whether users lie apart


@kernel(allocates=False)
def end_apart(users, row):  # type: ignore[no-untyped-def]
    """The row behind the next ones, where users lie apart; otherwise `row`.

    They do where most of 16 rows are of other users than the row before. No run of rows of one
    user is cut.
    """
    n_runs, last = np.int64(1), min(row + LOOKED_AT, users.size)
    for other in range(row + 1, last):
        n_runs += users[other] != users[other - 1]
    if 2 * n_runs <= last - row:
        return row
    last = min(row + RUNS, users.size)
    while last < users.size and last > row and users[last] == users[last - 1]:
        last -= 1
    return last


@kernel(allocates=False)
def ask_entries(users, row, last, index, entries):  # type: ignore[no-untyped-def]
    """Where the table entries of rows row..last, 64 at most, should be; they are on their way."""
    table, layout = index.table, index.layout
    for place in range(row, last):
        entry = home_entry(users[place], layout)
        entries[place - row] = entry
        prefetch(table, entry)


@kernel(allocates=False)
def found_entry(table, entry, user, layout):  # type: ignore[no-untyped-def]
    """A user's table entry, where it should be or else; -1 for a user that is not there."""
    at = np.uint64(entry)  # of an index without a sign nobody asks whether it is negative
    if table[at] == user and table[at + np.uint64(3)] != 0:
        return entry
    return find_entry(table, user, layout)


@kernel(allocates=False)
def look_up_apart(users, items, row, last, index, ranks, wide, found):  # type: ignore[no-untyped-def]
    """Put known users' rows of row..last behind those that are counted; rows of others are counted.

    Gives the number of rows that may be hits, which stand in `found.begins`, their table entries in
    `found.ends`. All that is needed of them is on its way to the cache.
    """
    table, layout, counts = index.table, index.layout, index.counts
    filters, lows = index.filters, index.lows
    rows, entries, chosen, counters = found.begins, found.entries, found.ends, found.counters
    ask_entries(users, row, last, index, entries)
    n_known = counters[KNOWN_RUNS]
    n = np.int64(0)
    for place in range(row, last):
        user, item = users[place], items[place]
        entry = found_entry(table, entries[place - row], user, layout)
        if entry < 0:
            counters[UNKNOWN_ROWS] += 1
            found.unknown_users[counters[UNKNOWN_RUNS]] = user
            counters[UNKNOWN_RUNS] += 1
            continue
        code = code_of(table, entry)
        prefetch(wide, code * 2)
        found.run_rows[n_known] = place
        found.run_codes[n_known] = code
        n_known += 1
        rows[n], chosen[n] = place, entry
        n += prefetch_filter(table, entry, filters, item)  # without a branch to be guessed wrong
    counters[KNOWN_RUNS] = n_known
    n_chosen = np.int64(0)
    for number in range(n):
        place, entry = rows[number], chosen[number]
        count = count_of(table, entry, counts)
        if count <= FEW_ITEMS or may_hold(table, entry, count, filters, items[place]):
            prefetch(lows, start_of(table, entry))
            prefetch(ranks, start_of(table, entry))
            rows[n_chosen], chosen[n_chosen] = place, entry
            n_chosen += 1
    return n_chosen


@kernel(allocates=False)
def find_apart(items, n_chosen, index, found):  # type: ignore[no-untyped-def]
    """Put the hits among the rows that may be some behind those that are counted.

    Gives the new number of hits.
    """
    table, counts, lows, highs = index.table, index.counts, index.lows, index.highs
    n_hits = found.counters[HITS]
    for number in range(n_chosen):
        row, entry = found.begins[number], found.ends[number]
        count = count_of(table, entry, counts)
        place = find_item(lows, highs, items[row], start_of(table, entry), count)
        if place >= 0:
            found.hit_rows[n_hits], found.hit_places[n_hits] = row, place
            n_hits += 1
    return n_hits


@kernel(allocates=False)
def note_apart(users, row_ranks, offset, first, state, found):  # type: ignore[no-untyped-def]
    """The ranks of known users' rows, from the row number `first` of them, into their state."""
    small, wide, counters = state.small, state.wide, found.counters
    has_reappeared = counters[REAPPEARED] != 0
    for number in range(first, counters[KNOWN_RUNS]):
        row, code = found.run_rows[number], found.run_codes[number]
        rank = np.int64(row_ranks[row]) - offset
        if rank < 1:
            counters[BAD_RANKS] += 1
            continue
        n_before = atomic_add(small, code * N_FIELDS, np.int32(1))
        if not has_reappeared and n_before != 0:
            has_reappeared = row == 0 or users[row] != users[row - 1]
        if small[code * N_FIELDS + 1] < rank:  # it never falls
            atomic_raise(small, code * N_FIELDS + 1, np.int32(min(rank, NOT_RANKED)))
        atomic_add(wide, code * 2 + 1, np.int64(mix(np.uint64(rank))))
    counters[REAPPEARED] = has_reappeared
