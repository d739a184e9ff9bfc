"""Kernels of the probe: rows of rankings against the truth's items, in any order, by any thread."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import atomic_add, atomic_lower, atomic_raise, prefetch
from evalkit.ranks._records import (
    BAD_RANKS,
    CANDIDATES,
    DUPLICATES,
    HITS,
    KNOWN_RUNS,
    N_FIELDS,
    NOT_RANKED,
    REAPPEARED,
    RUNS,
    TOO_DEEP,
    UNKNOWN_ROWS,
    UNKNOWN_RUNS,
)
from evalkit.ranks._unsorted import (
    ask_entries,
    find_unsorted,
    look_up_unsorted,
    name_known,
    note_unsorted,
)
from evalkit.sources.ids import mix
from evalkit.truth import (
    FEW_ITEMS,
    code_of,
    count_of,
    find_entry,
    find_item,
    home_entry,
    merge_sort,
    select_candidates,
    sort_keys,
    start_of,
)

STRIDE = 16  # rows compared at once where a run is long


@kernel(allocates=False)
def next_runs(users, row, index, found):  # type: ignore[no-untyped-def]
    """The next runs of rows of one user each, their table entries on the way to the cache.

    Gives the number of runs and the row behind the last one.
    """
    table, layout = index.table, index.layout
    begins, ends, entries = found.begins, found.ends, found.entries
    n_runs = 0
    while row < users.size and n_runs < RUNS:
        user = users[row]
        begins[n_runs] = row
        row += 1
        while row + STRIDE <= users.size:  # many at a time
            same = True
            for other in users[row : row + STRIDE]:
                same &= other == user
            if not same:
                break
            row += STRIDE
        while row < users.size and users[row] == user:
            row += 1
        ends[n_runs] = row
        entries[n_runs] = home_entry(user, layout)
        prefetch(table, entries[n_runs])
        n_runs += 1
    return n_runs, row


@kernel(allocates=False)
def keep_known(users, n_runs, index, ranks, wide, found):  # type: ignore[no-untyped-def]
    """Keep the runs of known users, and ask for all that they need; rows of others are counted."""
    table, layout, counts = index.table, index.layout, index.counts
    lows, filters = index.lows, index.filters
    begins, ends, entries, counters = found.begins, found.ends, found.entries, found.counters
    n_known = 0
    n_kept = counters[KNOWN_RUNS]
    for run in range(n_runs):
        begin, entry = begins[run], entries[run]
        user = users[begin]
        if table[entry] != user or table[entry + 3] == 0:
            entry = find_entry(table, user, layout)
        if entry < 0:
            counters[UNKNOWN_ROWS] += ends[run] - begin
            found.unknown_users[counters[UNKNOWN_RUNS]] = user
            counters[UNKNOWN_RUNS] += 1
            continue
        start, code = start_of(table, entry), code_of(table, entry)
        prefetch(lows, start)
        prefetch(ranks, start)
        prefetch(wide, code * 2)
        if count_of(table, entry, counts) > FEW_ITEMS:
            prefetch(filters, np.int64(table[entry + 1] >> np.uint64(6)))
        begins[n_known] = begin
        ends[n_known] = ends[run]
        entries[n_known] = entry
        found.run_rows[n_kept + n_known] = begin
        found.run_codes[n_kept + n_known] = code
        n_known += 1
    counters[KNOWN_RUNS] = n_kept + n_known
    return n_known


@kernel(allocates=False)
def find_hits(items, begin, end, entry, index, found):  # type: ignore[no-untyped-def]
    """Rows begin..end that show an item of the user of a table entry, and its place.

    They are put behind the hits that are counted; gives the new number.
    """
    table, counts, filters = index.table, index.counts, index.filters
    lows, highs = index.lows, index.highs
    passes, candidates = found.passes, found.candidates
    hit_rows, hit_places = found.hit_rows, found.hit_places
    n_hits = found.counters[HITS]
    start, count = start_of(table, entry), count_of(table, entry, counts)
    for first in range(begin, end, CANDIDATES):
        last = min(first + CANDIDATES, end)
        n_candidates = select_candidates(
            items[first:last], table, entry, count, filters, passes, candidates
        )
        for number in range(n_candidates):
            row = first + candidates[number]
            place = find_item(lows, highs, items[row], start, count)
            if place >= 0:
                hit_rows[n_hits] = row
                hit_places[n_hits] = place
                n_hits += 1
    return n_hits


@kernel(allocates=False)
def show_item(ranks, place, rank, found):  # type: ignore[no-untyped-def]
    """Lower an item's rank to one at which it was shown; a copy remembers the worse of both."""
    counters = found.counters
    not_ranked = np.iinfo(ranks.dtype).max
    if rank >= not_ranked and not_ranked < NOT_RANKED:
        counters[TOO_DEEP] = 1
        return
    old = np.int64(atomic_lower(ranks, place, np.int32(min(rank, not_ranked))))
    if old != not_ranked:
        found.copy_places[counters[DUPLICATES]] = place
        found.copy_ranks[counters[DUPLICATES]] = max(old, rank)
        counters[DUPLICATES] += 1


@kernel(allocates=False)
def show_hits(rows, begin, n_hits, offset, ranks, strengths, found):  # type: ignore[no-untyped-def]
    """Lower the ranks of all hits that are not counted yet; without ranks they are in rows of one
    run, which starts at `begin`."""
    row_ranks, row_strengths, counters = rows.ranks, rows.strengths, found.counters
    for hit in range(counters[HITS], n_hits):
        place, shown = found.hit_places[hit], found.hit_rows[hit]
        rank = shown - begin + 1
        if row_ranks.size > 0:
            rank = np.int64(row_ranks[shown]) - offset
        if rank >= 1:
            show_item(ranks, place, rank, found)
            if row_strengths.size > 0:
                atomic_raise(strengths, place, row_strengths[shown])
    counters[HITS] = n_hits


@kernel(allocates=False)
def note_run(row_ranks, begin, end, offset, code, checksums, state, counters):  # type: ignore[no-untyped-def]
    """Rows, largest rank and checksum of one run's ranks into its user's state."""
    small, wide = state.small, state.wide
    n = end - begin
    run_ranks = row_ranks[begin:end]
    is_sequence = True
    for row in range(run_ranks.size):  # compared many at a time
        is_sequence &= run_ranks[row] == np.int32(row + 1 + offset)
    largest = n
    n_low = 0
    check = np.uint64(0)
    if is_sequence and n < checksums.size:
        check = checksums[n]
    else:
        largest = 0
        for row in range(begin, end):
            rank = np.int64(row_ranks[row]) - offset if row_ranks.size > 0 else row - begin + 1
            if rank < 1:
                n_low += 1
            else:
                check += mix(np.uint64(rank))
                largest = max(largest, rank)
    counters[BAD_RANKS] += n_low
    if n == n_low:
        return
    if atomic_add(small, code * N_FIELDS, np.int32(n - n_low)) != 0:
        counters[REAPPEARED] = 1
    atomic_raise(small, code * N_FIELDS + 1, np.int32(min(largest, NOT_RANKED)))
    atomic_add(wide, code * 2 + 1, np.int64(check))


@kernel(allocates=False)
def probe_ranks(rows, offset, index, ranks, strengths, state, checksums, found):  # type: ignore[no-untyped-def]
    """Lower `ranks` to the best rank at which these rows show each relevant item.

    Without ranks a row's rank is its place in its run. Strengths of rows, if any, raise
    `strengths` of the hits.
    """
    users, items, row_ranks = rows.users, rows.items, rows.ranks
    begins, ends, entries = found.begins, found.ends, found.entries
    table, counters = index.table, found.counters
    row = 0
    while row < users.size:
        n_runs, row = next_runs(users, row, index, found)
        n_runs = keep_known(users, n_runs, index, ranks, state.wide, found)
        for run in range(n_runs):
            begin, end, entry = begins[run], ends[run], entries[run]
            code = code_of(table, entry)
            note_run(row_ranks, begin, end, offset, code, checksums, state, counters)
            n_hits = find_hits(items, begin, end, entry, index, found)
            show_hits(rows, begin, n_hits, offset, ranks, strengths, found)


@kernel(allocates=False)
def probe_unsorted(portion, offset, index, ranks, strengths, state, found):  # type: ignore[no-untyped-def]
    """The same of a portion of gathered rows with ranks."""
    rows, offsets = portion.rows, portion.offsets
    n = np.int64(0)  # rows that wait
    for partition in range(portion.first, portion.last):
        for batch in range(offsets.shape[0]):
            begin, end = offsets[batch, partition], offsets[batch, partition + 1]
            ask_entries(rows.users, begin, min(begin + RUNS, end), index, found.entries)
            for row in range(begin, end, RUNS):
                until = min(row + RUNS, end)
                n = look_up_unsorted(rows, row, until, end, index, ranks, state.wide, n, found)
                note_unsorted(rows.ranks, row, until, offset, state, found)
                if portion.is_named:
                    name_known(row, until, found)
                if n >= RUNS:
                    n_hits = find_unsorted(rows.items, n, index, found)
                    show_hits(rows, 0, n_hits, offset, ranks, strengths, found)
                    n = np.int64(0)
    n_hits = find_unsorted(rows.items, n, index, found)
    show_hits(rows, 0, n_hits, offset, ranks, strengths, found)


@kernel(allocates=False)
def strengths_of_floats(bits, strengths):  # type: ignore[no-untyped-def]
    """Integers that order as scores do, given as the bits of float64 or float32; gives the number
    of NaN."""
    n_nan = 0
    top = np.iinfo(bits.dtype).max
    infinite = top & (-1 << (52 if bits.itemsize == 8 else 23))
    for row in range(bits.size):
        value = np.int64(bits[row])
        if (value & top) > infinite:
            n_nan += 1
            strengths[row] = -9223372036854775807 - 1
        elif value >= 0:
            strengths[row] = value
        else:
            # -0.0 becomes 0, other negatives turn around
            strengths[row] = -(value & top)
    return n_nan


@kernel(allocates=False)
def count_lists(users, index, n_lists):  # type: ignore[no-untyped-def]
    """Count lists of users that the truth has, up to 2 in `n_lists`; gives those who got there."""
    n_several = 0
    for row in range(users.size):
        entry = find_entry(index.table, users[row], index.layout)
        if entry >= 0:
            code = code_of(index.table, entry)
            n_several += n_lists[code] == 1
            n_lists[code] = min(n_lists[code] + 1, 2)
    return n_several


@kernel(allocates=False)
def find_bad_ranks(state, checksums, out):  # type: ignore[no-untyped-def]
    """Users whose ranks are not 1..n, each once; codes into `out`, gives their number."""
    small, wide = state.small, state.wide
    n_bad = 0
    for user in range(out.size):
        rows = small[user * N_FIELDS]
        largest = max(small[user * N_FIELDS + 1], 0)
        if rows != largest or np.uint64(wide[user * 2 + 1]) != checksums[rows]:
            out[n_bad] = user
            n_bad += 1
    return n_bad


@kernel(allocates=False)
def note_ranks(users, row_ranks, offset, lowest_rank, index, state):  # type: ignore[no-untyped-def]
    """Rows, largest rank and checksum of each user's ranks into `state`.

    Gives whether a run of rows belongs to a user of whom other runs were noted.
    """
    table, layout = index.table, index.layout
    small, wide = state.small, state.wide
    entry = -1
    is_first, has_reappeared = True, False
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(table, users[row], layout)
            is_first = True
        if entry < 0 or row_ranks[row] < lowest_rank:
            continue
        code = code_of(table, entry)
        n_before = atomic_add(small, code * N_FIELDS, np.int32(1))
        has_reappeared |= is_first and n_before != 0
        is_first = False
        rank = np.int64(row_ranks[row]) - offset
        if rank >= 1:
            atomic_raise(small, code * N_FIELDS + 1, np.int32(min(rank, NOT_RANKED)))
            atomic_add(wide, code * 2 + 1, np.int64(mix(np.uint64(rank))))
    return has_reappeared


@kernel(allocates=False)
def count_below(sorted_values, low, high, value):  # type: ignore[no-untyped-def]
    """The place in low..high of the first value that is not below `value`."""
    while low < high:
        middle = (low + high) >> 1
        if sorted_values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(allocates=False)
def close_up(users, row_ranks, lowest, gone_users, gone_ranks, out):  # type: ignore[no-untyped-def]
    """Each row's rank less the dropped rows of its user with a smaller one, `lowest` at least.

    `gone_users` and `gone_ranks` are those of the dropped rows, sorted. Ranks below `lowest` stay.
    """
    begin = end = 0
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            begin = count_below(gone_users, 0, gone_users.size, users[row])
            end = begin
            while end < gone_users.size and gone_users[end] == users[row]:
                end += 1
        rank = row_ranks[row]
        if rank >= lowest:
            n_gone = count_below(gone_ranks, begin, end, rank) - begin
            rank = np.int32(max(rank - n_gone, lowest))
        out[row] = rank


@kernel(allocates=False)
def mark_seen(users, items, index, found, seen):  # type: ignore[no-untyped-def]
    """`seen` becomes True for rows whose (user, item) is in the training log; gives how many."""
    begins, ends, counters = found.begins, found.ends, found.counters
    row = 0
    while row < users.size:
        n_runs, row = next_runs(users, row, index, found)
        for run in range(n_runs):
            begin = begins[run]
            entry = find_entry(index.table, users[begin], index.layout)
            if entry >= 0:
                counters[HITS] = find_hits(items, begin, ends[run], entry, index, found)
    for hit in range(counters[HITS]):
        seen[found.hit_rows[hit]] = True
    return counters[HITS]


@kernel
def clean_lists(codes, items, rows, given_ranks, policy, kept, ranks, firsts):  # type: ignore[no-untyped-def]
    """Drop copies of items from whole lists and rank what stays; gives the number of copies.

    Rows are grouped by user and stand in their order. `policy`: 1 best, 2 first, 3 last by `rows`,
    4 keep every copy. `kept`, at first True, and `ranks` are filled; given ranks stay as they are.
    `firsts` becomes the place of each row's item where it comes first.
    """
    n_copies = 0
    begin = 0
    while begin < codes.size:
        end = begin + 1
        while end < codes.size and codes[end] == codes[begin]:
            end += 1
        n = end - begin
        order = np.arange(n)
        merge_sort(items[begin:end], order, np.empty(n, dtype=np.int64))
        place = 0
        while place < n:
            firsts[begin + order[place]] = begin + order[place]
            last = place + 1
            while last < n and items[begin + order[last]] == items[begin + order[place]]:
                firsts[begin + order[last]] = begin + order[place]
                last += 1
            if last - place > 1:
                n_copies += last - place - 1
                chosen = order[place]
                for copy in range(place + 1, last):
                    earlier = rows[begin + order[copy]] < rows[begin + chosen]
                    if (policy == 2 and earlier) or (policy == 3 and not earlier):
                        chosen = order[copy]
                if policy != 4:
                    for copy in range(place, last):
                        kept[begin + order[copy]] = order[copy] == chosen
            place = last
        rank = 0
        for place in range(begin, end):
            if kept[place]:
                rank += 1
                ranks[place] = given_ranks[place] if given_ranks.size > 0 else rank
        begin = end
    return n_copies


@kernel(allocates=False)
def count_disagreements(starts, counts, ranks, strengths, room):  # type: ignore[no-untyped-def]
    """Hits whose score is above that of the user's next better ranked hit.

    `room` holds a word for every item of the largest user.
    """
    n_disagreements = 0
    not_ranked = np.iinfo(ranks.dtype).max
    for user in range(starts.size):
        begin, n_hits = starts[user], 0
        for item in range(int(counts[user])):
            rank = ranks[begin + item]
            if rank != not_ranked:
                room[n_hits] = (np.uint64(rank) << np.uint64(32)) | np.uint64(item)
                n_hits += 1
        sort_keys(room[:n_hits])
        for hit in range(1, n_hits):
            better = begin + np.int64(room[hit - 1] & np.uint64(0xFFFFFFFF))
            worse = begin + np.int64(room[hit] & np.uint64(0xFFFFFFFF))
            n_disagreements += strengths[worse] > strengths[better]
    return n_disagreements
