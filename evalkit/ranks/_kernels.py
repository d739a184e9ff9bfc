"""Kernels of the probe: rows of rankings against the truth's items, in any order, by any thread."""

import numpy as np

from evalkit.keys import mix
from evalkit.metrics import kernel
from evalkit.native import atomic_add, atomic_lower, atomic_raise, prefetch
from evalkit.pairs import COUNT_BITS, find_entry, find_item, item_bit, merge_sort, read_entry
from evalkit.ranks._records import NOT_RANKED


@kernel
def next_runs(users, row, table, shift, begins, ends, entries):  # type: ignore[no-untyped-def]
    """The next runs of rows of one user each, their table entries on the way to the cache.

    Gives the number of runs; the last row is `ends[n - 1]`.
    """
    n_rows = users.size
    n_runs = 0
    while row < n_rows and n_runs < begins.size:
        user = users[row]
        begins[n_runs] = row
        row += 1
        while row < n_rows and users[row] == user:
            row += 1
        ends[n_runs] = row
        entry = np.int64(mix(user) >> np.uint64(shift)) * 4
        prefetch(table, entry)
        entries[n_runs] = entry
        n_runs += 1
    return n_runs


@kernel
def locate_runs(users, n_runs, begins, table, shift, slot_bits, pair_items, ranks, state, entries):  # type: ignore[no-untyped-def]
    """Turn `entries` into the runs' table entries, -1 for unknown users; fetch what they need."""
    for run in range(n_runs):
        entry = entries[run]
        user = users[begins[run]]
        if table[entry + 3] == 0 or table[entry] != user:
            entry = find_entry(table, user, shift, slot_bits)
        entries[run] = entry
        if entry >= 0:
            start = np.int64(table[entry + 2] >> np.uint64(COUNT_BITS))
            prefetch(pair_items, start)
            prefetch(pair_items, start + 8)
            prefetch(ranks, start)
            prefetch(state, (np.int64(table[entry + 3]) - 1) * 4)


@kernel
def probe_ranks(  # type: ignore[no-untyped-def]
    users,
    items,
    row_ranks,
    rank_offset,
    row_strengths,
    table,
    shift,
    slot_bits,
    pair_counts,
    pair_items,
    ranks,
    strengths,
    state,
    checksums,
    counters,
    unknown_users,
    run_rows,
    run_codes,
    hit_rows,
    hit_places,
    copy_places,
    copy_ranks,
):
    """Lower `ranks` to the best rank at which these rows show each relevant item.

    Without `row_ranks` a row's rank is its place in its run. `row_strengths`, if any, raise
    `strengths` of the hits. The three last pairs of arrays are filled where they have room.
    """
    begins = np.empty(64, dtype=np.int64)
    ends = np.empty(64, dtype=np.int64)
    entries = np.empty(64, dtype=np.int64)
    by_place = row_ranks.size == 0
    row = 0
    n_known = counters[2]
    n_unknown = counters[1]
    n_hits = counters[3]
    n_copies = counters[4]
    while row < users.size:
        n_runs = next_runs(users, row, table, shift, begins, ends, entries)
        locate_runs(
            users, n_runs, begins, table, shift, slot_bits, pair_items, ranks, state, entries
        )
        row = ends[n_runs - 1]
        for run in range(n_runs):
            begin, end = begins[run], ends[run]
            entry = entries[run]
            if entry < 0:
                counters[0] += end - begin
                unknown_users[n_unknown] = users[begin]
                n_unknown += 1
                continue
            code, bits, start, count = read_entry(table, entry, pair_counts)
            if run_rows.size > 0:
                run_rows[n_known] = begin
                run_codes[n_known] = code
            n_known += 1
            largest = np.int64(0)
            n_low = 0
            is_sequence = True
            if not by_place:
                for place in range(begin, end):
                    rank = np.int64(row_ranks[place]) - rank_offset
                    is_sequence &= rank == place - begin + 1
            if is_sequence:
                largest = end - begin
                check = np.uint64(0)
                if largest < checksums.size:
                    check = checksums[largest]
                else:
                    for rank in range(1, largest + 1):
                        check += mix(np.uint64(rank))
            else:
                check = np.uint64(0)
                for place in range(begin, end):
                    rank = np.int64(row_ranks[place]) - rank_offset
                    if rank < 1:
                        n_low += 1
                    else:
                        check += mix(np.uint64(rank))
                        largest = max(largest, rank)
            counters[5] += n_low
            before = atomic_add(state, code * 4, end - begin - n_low)
            if before != 0:
                counters[6] = 1
            atomic_raise(state, code * 4 + 1, largest)
            atomic_add(state, code * 4 + 2, np.int64(check))
            for place in range(begin, end):
                item = items[place]
                if bits & item_bit(item) == 0:
                    continue
                pair = find_item(pair_items, item, start, start + count)
                if pair < 0:
                    continue
                rank = place - begin + 1
                if not by_place:
                    rank = np.int64(row_ranks[place]) - rank_offset
                if rank < 1:
                    continue
                if hit_rows.size > 0:
                    hit_rows[n_hits] = place
                    hit_places[n_hits] = pair
                n_hits += 1
                old = np.int64(atomic_lower(ranks, pair, np.int32(min(rank, NOT_RANKED))))
                if old != NOT_RANKED:
                    copy_places[n_copies] = pair
                    copy_ranks[n_copies] = max(old, rank)
                    n_copies += 1
                if row_strengths.size > 0:
                    atomic_raise(strengths, pair, row_strengths[place])
    counters[1] = n_unknown
    counters[2] = n_known
    counters[3] = n_hits
    counters[4] = n_copies


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


@kernel
def rank_many_hits(row_strengths, orders, begin, end, hit_rows, first, last, hit_ranks):  # type: ignore[no-untyped-def]
    """Ranks of many hits of one user by binary search of each row; gives the number of tied hits.

    -1: equal strengths, and no orders to tell them apart.
    """
    order = sort_hits(row_strengths, orders, hit_rows, first, last)
    n = last - first
    beaten = np.zeros(n + 1, dtype=np.int64)
    sharing = np.zeros(n, dtype=np.int64)
    for row in range(begin, end):
        strength = row_strengths[row]
        low, high = 0, n  # the first hit that this row beats
        while low < high:
            middle = (low + high) >> 1
            hit_row = hit_rows[first + order[middle]]
            beats = strength > row_strengths[hit_row]
            if strength == row_strengths[hit_row] and orders.size > 0:
                beats = orders[row] < orders[hit_row]
            if beats:
                high = middle
            else:
                low = middle + 1
        beaten[low] += 1
        # equals stand directly before (with orders also after) the first beaten hit
        near = low - 1
        while near >= 0 and row_strengths[hit_rows[first + order[near]]] == strength:
            if hit_rows[first + order[near]] != row:
                if orders.size == 0:
                    return -1
                sharing[near] = 1
                if sharing[max(near - 1, 0)] == 1:
                    break
            near -= 1
        near = low
        while near < n and row_strengths[hit_rows[first + order[near]]] == strength:
            if hit_rows[first + order[near]] != row:
                sharing[near] = 1
                if near + 1 < n and sharing[near + 1] == 1:
                    break
            near += 1
    above = 0
    n_tied = 0
    for hit in range(n):
        above += beaten[hit]
        hit_ranks[order[hit]] = above + 1
        n_tied += sharing[hit]
    return n_tied


@kernel
def count_strengths(  # type: ignore[no-untyped-def]
    users,
    items,
    row_strengths,
    orders,
    table,
    shift,
    slot_bits,
    pair_counts,
    pair_items,
    ranks,
    state,
    counters,
    unknown_users,
    run_rows,
    run_codes,
    hit_rows,
    hit_places,
    copy_places,
    copy_ranks,
    deferred,
    is_second_look,
):
    """Rank each hit by counting the rows of its run that beat it.

    `orders` (smaller first) tells equals apart; without it the rows of a run with tied hits are
    put into `deferred`, nothing of the run's ranks is written, and the caller comes back with
    those rows and their orders (`is_second_look`: the runs are already counted).
    """
    begins = np.empty(64, dtype=np.int64)
    ends = np.empty(64, dtype=np.int64)
    entries = np.empty(64, dtype=np.int64)
    many_ranks = np.empty(64, dtype=np.int64)
    row = 0
    n_known = counters[2]
    n_unknown = counters[1]
    n_hits = counters[3]
    n_copies = counters[4]
    n_deferred = counters[8]
    while row < users.size:
        n_runs = next_runs(users, row, table, shift, begins, ends, entries)
        locate_runs(
            users, n_runs, begins, table, shift, slot_bits, pair_items, ranks, state, entries
        )
        row = ends[n_runs - 1]
        for run in range(n_runs):
            begin, end = begins[run], ends[run]
            entry = entries[run]
            if entry < 0:
                counters[0] += end - begin
                unknown_users[n_unknown] = users[begin]
                n_unknown += 1
                continue
            code, bits, start, count = read_entry(table, entry, pair_counts)
            run_rows[n_known] = begin
            run_codes[n_known] = code
            n_known += 1
            if not is_second_look:
                if atomic_add(state, code * 4, end - begin) != 0:
                    counters[6] = 1
            first = n_hits
            for place in range(begin, end):
                item = items[place]
                if bits & item_bit(item) == 0:
                    continue
                pair = find_item(pair_items, item, start, start + count)
                if pair >= 0:
                    hit_rows[n_hits] = place
                    hit_places[n_hits] = pair
                    n_hits += 1
            n_found = n_hits - first
            if n_found > many_ranks.size:
                many_ranks = np.empty(2 * n_found, dtype=np.int64)
            n_tied = 0
            if n_found > 32:
                n_tied = rank_many_hits(
                    row_strengths, orders, begin, end, hit_rows, first, n_hits, many_ranks
                )
            else:
                for hit in range(n_found):
                    strength = row_strengths[hit_rows[first + hit]]
                    n_above = 0
                    n_equal = 0
                    for place in range(begin, end):
                        n_above += row_strengths[place] > strength
                        n_equal += row_strengths[place] == strength
                    if n_equal > 1:
                        if orders.size == 0:
                            n_tied = -1
                            break
                        n_tied += 1
                        mine = orders[hit_rows[first + hit]]
                        for place in range(begin, end):
                            if row_strengths[place] == strength and orders[place] < mine:
                                n_above += 1
                    many_ranks[hit] = n_above + 1
            if n_tied < 0:
                for place in range(begin, end):
                    deferred[n_deferred] = place
                    n_deferred += 1
                n_hits = first
                continue
            counters[7] += n_tied
            for hit in range(n_found):
                pair = hit_places[first + hit]
                old = np.int64(atomic_lower(ranks, pair, np.int32(many_ranks[hit])))
                if old != NOT_RANKED:
                    copy_places[n_copies] = pair
                    copy_ranks[n_copies] = max(old, many_ranks[hit])
                    n_copies += 1
    counters[1] = n_unknown
    counters[2] = n_known
    counters[3] = n_hits
    counters[4] = n_copies
    counters[8] = n_deferred


@kernel
def find_best(  # type: ignore[no-untyped-def]
    users,
    items,
    row_strengths,
    orders,
    table,
    shift,
    slot_bits,
    pair_counts,
    pair_items,
    ranks,
    strengths,
    hit_orders,
    state,
    counters,
    unknown_users,
    run_rows,
    run_codes,
    hit_rows,
    hit_places,
    copy_places,
):
    """First of two scans: `strengths` of relevant items that lists show; `ranks` 0 where shown."""
    begins = np.empty(64, dtype=np.int64)
    ends = np.empty(64, dtype=np.int64)
    entries = np.empty(64, dtype=np.int64)
    row = 0
    n_known = n_unknown = n_hits = n_copies = 0
    while row < users.size:
        n_runs = next_runs(users, row, table, shift, begins, ends, entries)
        locate_runs(
            users, n_runs, begins, table, shift, slot_bits, pair_items, ranks, state, entries
        )
        row = ends[n_runs - 1]
        for run in range(n_runs):
            begin, end = begins[run], ends[run]
            entry = entries[run]
            if entry < 0:
                counters[0] += end - begin
                unknown_users[n_unknown] = users[begin]
                n_unknown += 1
                continue
            code, bits, start, count = read_entry(table, entry, pair_counts)
            run_rows[n_known] = begin
            run_codes[n_known] = code
            n_known += 1
            atomic_add(state, code * 4, end - begin)
            for place in range(begin, end):
                item = items[place]
                if bits & item_bit(item) == 0:
                    continue
                pair = find_item(pair_items, item, start, start + count)
                if pair < 0:
                    continue
                hit_rows[n_hits] = place
                hit_places[n_hits] = pair
                n_hits += 1
                if atomic_lower(ranks, pair, np.int32(0)) != NOT_RANKED:
                    copy_places[n_copies] = pair
                    n_copies += 1
                atomic_raise(strengths, pair, row_strengths[place])
                if orders.size > 0:
                    hit_orders[pair] = orders[place]
    counters[1] = n_unknown
    counters[2] = n_known
    counters[3] = n_hits
    counters[4] = n_copies


@kernel
def order_best(starts, counts, ranks, strengths, first, last, places, n_shown):  # type: ignore[no-untyped-def]
    """Between the scans: the shown places of users first..last, from strongest to weakest."""
    top = np.uint64(1) << np.uint64(63)
    for user in range(first, last):
        n = 0
        for place in range(starts[user], starts[user] + counts[user]):
            if ranks[place] == 0:
                places[starts[user] + n] = place
                n += 1
        n_shown[user] = n
        if n > 1:
            keys = np.empty(n, dtype=np.uint64)
            shown = places[starts[user] : starts[user] + n].copy()
            for hit in range(n):
                keys[hit] = ~(np.uint64(strengths[shown[hit]]) ^ top)
            order = np.arange(n)
            merge_sort(keys, order, np.empty(n, dtype=np.int64))
            for hit in range(n):
                places[starts[user] + hit] = shown[order[hit]]


@kernel
def count_beaten(  # type: ignore[no-untyped-def]
    users,
    items,
    row_strengths,
    orders,
    table,
    shift,
    slot_bits,
    pair_items,
    ranks,
    strengths,
    hit_orders,
    state,
    places,
    n_shown,
    beaten,
    tied,
    is_tied,
    counters,
    deferred,
    only_ties,
):
    """Second scan: each row adds one to the strongest relevant item that it beats.

    Rows equal to a relevant item need orders; without them they go into `deferred`.
    """
    begins = np.empty(64, dtype=np.int64)
    ends = np.empty(64, dtype=np.int64)
    entries = np.empty(64, dtype=np.int64)
    row = 0
    n_deferred = 0
    while row < users.size:
        n_runs = next_runs(users, row, table, shift, begins, ends, entries)
        locate_runs(
            users, n_runs, begins, table, shift, slot_bits, pair_items, ranks, state, entries
        )
        row = ends[n_runs - 1]
        for run in range(n_runs):
            entry = entries[run]
            if entry < 0:
                continue
            code = np.int64(table[entry + 3]) - 1
            start = np.int64(table[entry + 2] >> np.uint64(COUNT_BITS))
            n = n_shown[code]
            if n == 0:
                continue
            for place in range(begins[run], ends[run]):
                strength = row_strengths[place]
                low, high = 0, n
                while low < high:
                    middle = (low + high) >> 1
                    if strengths[places[start + middle]] < strength:
                        high = middle
                    else:
                        low = middle + 1
                if low < n and not only_ties:
                    atomic_add(beaten, start + low, np.int32(1))
                equal = low - 1
                while equal >= 0 and strengths[places[start + equal]] == strength:
                    pair = places[start + equal]
                    if pair_items[pair] != items[place]:
                        if orders.size == 0:
                            deferred[n_deferred] = place
                            n_deferred += 1
                            break
                        is_tied[pair] = 1
                        if orders[place] < hit_orders[pair]:
                            atomic_add(tied, start + equal, np.int32(1))
                    equal -= 1
    counters[8] = n_deferred


@kernel
def rank_beaten(starts, places, n_shown, beaten, tied, ranks):  # type: ignore[no-untyped-def]
    """After both scans: ranks from the counts."""
    for user in range(starts.size):
        above = 0
        for hit in range(n_shown[user]):
            above += beaten[starts[user] + hit]
            ranks[places[starts[user] + hit]] = above + tied[starts[user] + hit] + 1


@kernel
def strengths_of_floats(bits, strengths):  # type: ignore[no-untyped-def]
    """Integers that order as float64 scores do, given as int64 bits; gives the number of NaN."""
    n_nan = 0
    for row in range(bits.size):
        value = bits[row]
        if (value & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000:
            n_nan += 1
            strengths[row] = -9223372036854775807 - 1
        elif value >= 0:
            strengths[row] = value
        else:
            # -0.0 becomes 0, other negatives turn around
            strengths[row] = -(value & 0x7FFFFFFFFFFFFFFF)
    return n_nan


@kernel
def rank_checksums(sums):  # type: ignore[no-untyped-def]
    """`sums[n]` becomes the wrapping sum of the hashed ranks 1..n."""
    total = np.uint64(0)
    sums[0] = total
    for rank in range(1, sums.size):
        total += mix(np.uint64(rank))
        sums[rank] = total


@kernel
def find_bad_ranks(state, checksums, out):  # type: ignore[no-untyped-def]
    """Users whose ranks are not 1..n, each once; codes into `out`, gives their number."""
    n_bad = 0
    for user in range(state.size // 4):
        rows = state[user * 4]
        if rows != state[user * 4 + 1] or np.uint64(state[user * 4 + 2]) != checksums[rows]:
            out[n_bad] = user
            n_bad += 1
    return n_bad


@kernel
def note_ranks(  # type: ignore[no-untyped-def]
    users, row_ranks, rank_offset, lowest_rank, table, shift, slot_bits, state
):
    """Rows, largest rank and checksum of each user's ranks into `state`."""
    entry = -1
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(table, users[row], shift, slot_bits)
        if entry < 0 or row_ranks[row] < lowest_rank:
            continue
        code = np.int64(table[entry + 3]) - 1
        atomic_add(state, code * 4, 1)
        rank = np.int64(row_ranks[row]) - rank_offset
        if rank >= 1:
            atomic_raise(state, code * 4 + 1, rank)
            atomic_add(state, code * 4 + 2, np.int64(mix(np.uint64(rank))))


@kernel
def mark_seen(users, items, table, shift, slot_bits, pair_counts, pair_items, seen):  # type: ignore[no-untyped-def]
    """`seen` becomes True for rows whose (user, item) is in the training log; gives how many."""
    entry = -1
    n_seen = 0
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(table, users[row], shift, slot_bits)
        seen[row] = False
        if entry >= 0 and table[entry + 1] & item_bit(items[row]) != 0:
            _, _, start, count = read_entry(table, entry, pair_counts)
            if find_item(pair_items, items[row], start, start + count) >= 0:
                seen[row] = True
                n_seen += 1
    return n_seen


@kernel
def clean_lists(codes, items, rows, given_ranks, policy, kept, ranks):  # type: ignore[no-untyped-def]
    """Drop copies of items from whole lists and rank what stays; gives the number of copies.

    Rows are grouped by user and stand in their order. `policy`: 1 best, 2 first, 3 last by `rows`,
    4 keep every copy. `kept` and `ranks` are filled; given ranks stay as they are.
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
        for place in range(n):
            kept[begin + place] = True
        place = 0
        while place < n:
            last = place + 1
            while last < n and items[begin + order[last]] == items[begin + order[place]]:
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


@kernel
def count_disagreements(starts, counts, ranks, strengths):  # type: ignore[no-untyped-def]
    """Hits whose score is above that of the user's next better ranked hit."""
    n_disagreements = 0
    for user in range(starts.size):
        n = 0
        for place in range(starts[user], starts[user] + counts[user]):
            n += ranks[place] != NOT_RANKED
        if n < 2:
            continue
        shown = np.empty(n, dtype=np.int64)
        keys = np.empty(n, dtype=np.uint64)
        n = 0
        for place in range(starts[user], starts[user] + counts[user]):
            if ranks[place] != NOT_RANKED:
                shown[n] = place
                keys[n] = np.uint64(ranks[place])
                n += 1
        order = np.arange(n)
        merge_sort(keys, order, np.empty(n, dtype=np.int64))
        for hit in range(1, n):
            if strengths[shown[order[hit]]] > strengths[shown[order[hit - 1]]]:
                n_disagreements += 1
    return n_disagreements
