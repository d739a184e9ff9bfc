"""Kernels that bring rows together by user, sort users' items and join copies of an item."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Int32s, Ints, Keys
from evalkit.sources.ids import mix
from evalkit.truth._index import FEW_ITEMS, SCANNED_ITEMS, SPREAD, Grades, relevance_at
from evalkit.truth._rows import MAX_GRADES
from evalkit.truth._table import partition_of

MARKED_WORDS = 64  # of 4,096 bits
RELEVANT, KEPT, NEGATIVE = 1, 2, 4  # marks of a code
BELOW_ZERO, ALL = 1, 2  # what stays beside gains above 0
DUPLICATES = ("max", "error", "sum", "last")


class RowsByUser(NamedTuple):
    """Rows by user, or on their way there.

    Args:
        users: uint64, of each row, or of each user.
        starts, counts: int64 and int32[n_users], which rows are a user's.
        lows, highs: uint32[n_rows], halves of item keys; `highs` is empty when all are 0.
        grades: relevances.
    """

    users: Keys
    starts: Ints
    counts: Int32s
    lows: npt.NDArray[np.uint32]
    highs: npt.NDArray[np.uint32]
    grades: Grades


class ItemRules(NamedTuple):
    """What becomes of items.

    Args:
        marks: uint8[256], which codes are relevant, kept and negative.
        policy: place in `DUPLICATES`.
        keep: the lowest relevance that stays whatever its gain, and what else stays than gains
            above 0: nothing, negative ones, or all.
    """

    marks: Bytes
    policy: int
    keep: tuple[float, int]


@kernel(allocates=False)
def count_rows(runs, hash, shift, counts):  # type: ignore[no-untyped-def]
    """Rows of each partition."""
    borders = runs.borders
    for run in range(runs.users.size):
        n_rows = borders[run + 1] - borders[run] if borders.size > 0 else 1
        counts[partition_of(runs.users[run], hash, shift)] += n_rows


@kernel(allocates=False)
def scatter_rows(runs, rows, hash, shift, places, pairs, moved):  # type: ignore[no-untyped-def]
    """Move rows to their partition, keeping their order; `places` is the next place of each.

    A row is written as two words, since each array that is written takes a cache line of every
    partition: its user, and its item, with the code of its relevance where no item has a high half.

    Args:
        pairs: uint64[2 * n_rows].
        moved: codes beside high halves, and values of their own.
    """
    lows, highs, codes, own = rows.lows, rows.highs, rows.grades.codes, rows.grades.own
    borders = runs.borders
    for run in range(runs.users.size):
        user, row = runs.users[run], runs.first + run
        end = row + 1
        if borders.size > 0:
            row, end = borders[run], borders[run + 1]
        partition = partition_of(user, hash, shift)
        place = places[partition]
        places[partition] = place + end - row
        while row < end:
            word = np.uint64(lows[row])
            if highs.size > 0:
                word |= np.uint64(highs[row]) << np.uint64(32)
            elif codes.size > 0:
                word |= np.uint64(codes[row]) << np.uint64(32)
            pairs[2 * place] = user
            pairs[2 * place + 1] = word
            if moved.codes.size > 0:
                moved.codes[place] = codes[row]
            if own.size > 0:
                moved.own[place] = own[row]
            row += 1
            place += 1


@kernel
def group_partitions(pairs, moved, offsets, first, last, rows, n_users):  # type: ignore[no-untyped-def]
    """Write the rows of partitions first..last by user into `rows`; `n_users` of each is filled.

    Users and their numbers of rows stand at the beginning of their partition of `pairs` then.
    """
    for partition in range(first, last):
        begin, end = offsets[partition], offsets[partition + 1]
        n_users[partition] = group_partition(pairs, moved, begin, end, rows)


@kernel
def group_partition(pairs, moved, begin, end, rows):  # type: ignore[no-untyped-def]
    """Write rows begin..end, of one partition, by user; gives the number of users."""
    n_rows = end - begin
    size = 16
    while size < 2 * n_rows:
        size *= 2
    mask = np.uint64(size - 1)
    slot_codes = np.full(size, -1, dtype=np.int32)
    row_codes = np.empty(n_rows, dtype=np.int32)
    counts = np.empty(n_rows, dtype=np.int32)
    n_users = 0
    code, before = -1, np.uint64(0)
    for row in range(n_rows):
        user = pairs[2 * (begin + row)]  # no user has a code above the number of his first row
        if row == 0 or user != before:
            before = user
            slot = mix(user) & mask
            while True:
                code = slot_codes[np.int64(slot)]
                if code < 0:
                    code = n_users
                    slot_codes[np.int64(slot)] = code
                    pairs[2 * (begin + code)] = user
                    counts[code] = 0
                    n_users += 1
                    break
                if pairs[2 * (begin + code)] == user:
                    break
                slot = (slot + np.uint64(1)) & mask
        row_codes[row] = code
        counts[code] += 1

    places = np.empty(n_users, dtype=np.int64)
    place = np.int64(begin)
    for user_code in range(n_users):
        places[user_code] = place
        place += counts[user_code]
    codes, own = rows.grades.codes, rows.grades.own
    for row in range(n_rows):
        place = places[row_codes[row]]
        places[row_codes[row]] = place + 1
        word = pairs[2 * (begin + row) + 1]
        rows.lows[place] = np.uint32(word & np.uint64(0xFFFFFFFF))
        if rows.highs.size > 0:
            rows.highs[place] = np.uint32(word >> np.uint64(32))
        elif codes.size > 0:
            codes[place] = np.uint8(word >> np.uint64(32))
        if moved.codes.size > 0:
            codes[place] = moved.codes[begin + row]
        if own.size > 0:
            own[place] = moved.own[begin + row]
    for user_code in range(n_users):
        pairs[2 * (begin + user_code) + 1] = counts[user_code]
    return n_users


@kernel(allocates=False)
def merge_sort(keys, order, spare):  # type: ignore[no-untyped-def]
    """Sort `order`, places in `keys`, by key; equal keys keep their order."""
    n = order.size
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle = min(begin + width, n)
            end = min(begin + 2 * width, n)
            left, right = begin, middle
            for place in range(begin, end):
                if left < middle and (right >= end or keys[order[left]] <= keys[order[right]]):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
        for place in range(n):
            order[place] = spare[place]
        width *= 2


@kernel(allocates=False)
def sort_keys(keys):  # type: ignore[no-untyped-def]
    """Sort keys in place, in ascending order.

    Source:
        Shell, CACM 1959, with the gaps of Knuth, The Art of Computer Programming 3, 5.2.1.
    """
    gap = first_gap(keys.size)
    while gap > 0:
        for place in range(gap, keys.size):
            key = keys[place]
            before = place - gap
            while before >= 0 and keys[before] > key:
                keys[before + gap] = keys[before]
                before -= gap
            keys[before + gap] = key
        gap //= 3


@kernel(allocates=False)
def first_gap(n):  # type: ignore[no-untyped-def]
    """The distance that Shell's method begins with: the largest (3^k - 1) / 2 below a third."""
    gap = 1
    while 9 * gap < n:
        gap = 3 * gap + 1
    return gap


@kernel(allocates=False)
def sort_items(lows, highs, codes, own_bits, begin, n, room):  # type: ignore[no-untyped-def]
    """Sort one user's items by (low half, high half); equal items keep their order.

    `room` uint64[2 * n or more] is worked in.
    """
    keys, other = room[:n], room[n : 2 * n]
    number = np.uint64(0xFFFFFFFF)  # the half of a key that says where the item stood
    for place in range(n):
        keys[place] = (np.uint64(lows[begin + place]) << np.uint64(32)) | np.uint64(place)
    sort_keys(keys)
    if highs.size > 0:
        for place in range(1, n):
            key = keys[place]
            high = highs[begin + np.int64(key & number)]
            before = place - 1
            while (
                before >= 0
                and keys[before] >> np.uint64(32) == key >> np.uint64(32)
                and highs[begin + np.int64(keys[before] & number)] > high
            ):
                keys[before + 1] = keys[before]
                before -= 1
            keys[before + 1] = key
        for place in range(n):
            other[place] = np.uint64(highs[begin + np.int64(keys[place] & number)])
        for place in range(n):
            highs[begin + place] = np.uint32(other[place])
    if codes.size > 0:
        for place in range(n):
            other[place] = np.uint64(codes[begin + np.int64(keys[place] & number)])
        for place in range(n):
            codes[begin + place] = np.uint8(other[place])
    if own_bits.size > 0:
        for place in range(n):
            other[place] = own_bits[begin + np.int64(keys[place] & number)]
        for place in range(n):
            own_bits[begin + place] = other[place]
    for place in range(n):
        lows[begin + place] = np.uint32(keys[place] >> np.uint64(32))


@kernel(allocates=False)
def may_have_copies(lows, begin, n, bits):  # type: ignore[no-untyped-def]
    """Whether the low halves of two of a user's items are equal.

    Args:
        bits: uint64[MARKED_WORDS], room.
    """
    items = lows[begin : begin + n]
    both = np.uint64(0)  # two bits an item, both of which copies find set
    if n <= FEW_ITEMS:
        seen = np.uint64(0)
        seen_too = np.uint64(0)
        for low in items:
            mixed = low * np.uint64(SPREAD)
            one, other = mixed >> np.uint64(58), (mixed >> np.uint64(52)) & np.uint64(63)
            bit, bit_too = np.uint64(1) << one, np.uint64(1) << other
            both |= np.uint64((seen & bit) != 0) & np.uint64((seen_too & bit_too) != 0)
            seen |= bit
            seen_too |= bit_too
    else:
        for each in range(MARKED_WORDS):
            bits[each] = 0
        for low in items:
            mixed = low * np.uint64(SPREAD)
            one, other = mixed >> np.uint64(52), (mixed >> np.uint64(40)) & np.uint64(4095)
            word, word_too = np.int64(one >> np.uint64(6)), np.int64(other >> np.uint64(6))
            bit, bit_too = np.uint64(1) << (one & np.uint64(63)), other & np.uint64(63)
            bit_too = np.uint64(1) << bit_too
            both |= np.uint64((bits[word] & bit) != 0) & np.uint64((bits[word_too] & bit_too) != 0)
            bits[word] |= bit
            bits[word_too] |= bit_too
    if both == 0:
        return False
    for place in range(1, n):
        low = items[place]
        n_equal = 0
        for before in items[:place]:
            n_equal += before == low
        if n_equal > 0:
            return True
    return False


@kernel(allocates=False)
def count_kept(marks, codes, own, begin, end, keep):  # type: ignore[no-untyped-def]
    """How many items are relevant, how many stay, and how many have a relevance below 0."""
    n_relevant = n_kept = n_negative = np.int64(0)
    if codes.size > 0:
        for place in range(begin, end):
            mark = np.int64(marks[codes[place]])
            n_relevant += mark & RELEVANT
            n_kept += (mark & KEPT) >> 1
            n_negative += (mark & NEGATIVE) >> 2
        return n_relevant, n_kept, n_negative
    for place in range(begin, end):
        n_relevant += own[place] >= keep[0]
        n_kept += is_kept(own[place], keep)
        n_negative += own[place] < 0.0
    return n_relevant, n_kept, n_negative


@kernel(allocates=False)
def is_kept(relevance, keep):  # type: ignore[no-untyped-def]
    """Whether an item of this relevance stays: it is relevant or has a gain."""
    relevant_from, others = keep
    if relevance >= relevant_from or relevance > 0.0 or others == ALL:
        return True
    return others == BELOW_ZERO and relevance < 0.0


@kernel(allocates=False)
def copy_item(lows, highs, codes, own, source, target):  # type: ignore[no-untyped-def]
    """Write the item and the relevance of one place to another."""
    lows[target] = lows[source]
    if highs.size > 0:
        highs[target] = highs[source]
    if codes.size > 0:
        codes[target] = codes[source]
    if own.size > 0:
        own[target] = own[source]


@kernel(allocates=False)
def join_copies(codes, values, own, begin, end, policy):  # type: ignore[no-untyped-def]
    """The place whose relevance copies begin..end get; the order of rows matters only to `last`."""
    if policy == 3:
        return end - 1
    if policy == 2:
        for place in range(begin + 1, end):  # ascending, so that the sum has one order
            value = own[place]
            before = place - 1
            while before >= begin and own[before] > value:
                own[before + 1] = own[before]
                before -= 1
            own[before + 1] = value
        for place in range(begin + 1, end):
            own[begin] += own[place]
        return begin
    best = begin
    for place in range(begin + 1, end):
        if relevance_at(codes, values, own, place) > relevance_at(codes, values, own, best):
            best = place
    return best


@kernel(allocates=False)
def join_items(groups, begin, n, rules, counters):  # type: ignore[no-untyped-def]
    """Join one user's copies and leave out what has no gain, in place; gives what is left."""
    lows, highs = groups.lows, groups.highs
    codes, values, own = groups.grades.codes, groups.grades.values, groups.grades.own
    graded = codes.size > 0 or own.size > 0
    end = begin + n
    write = place = begin
    while place < end:
        copies = place + 1
        while (
            copies < end
            and lows[copies] == lows[place]
            and (highs.size == 0 or highs[copies] == highs[place])
        ):
            copies += 1
        chosen = place
        if copies - place > 1:
            counters[0] += copies - place - 1
            if graded:
                chosen = join_copies(codes, values, own, place, copies, rules.policy)
        value = relevance_at(codes, values, own, chosen)
        counters[1] += value < 0.0
        if not graded or is_kept(value, rules.keep):
            if codes.size > 0 and own.size > 0:  # propensities
                for other in range(place + 1, copies):
                    counters[2] += own[other] != own[place]
            copy_item(lows, highs, codes, own, chosen, write)
            write += 1
        place = copies
    return write - begin


@kernel(allocates=False)
def order_by_code(lows, highs, codes, own_bits, order, begin, n, room):  # type: ignore[no-untyped-def]
    """Bring some items into descending order of relevance, as ideal lists want them.

    `order` uint8[256] is the place of each code's relevance among all, from the largest. `own_bits`
    is the memory of propensities, if there are any.
    """
    is_ordered = True
    largest = np.int64(0)
    for place in range(begin, begin + n):
        here = np.int64(order[codes[place]])
        is_ordered &= bool(here >= largest)
        largest = max(largest, here)
    if is_ordered:
        return
    places, items = room[:MAX_GRADES], room[MAX_GRADES : MAX_GRADES + n]
    moved = room[MAX_GRADES + SCANNED_ITEMS : MAX_GRADES + SCANNED_ITEMS + n]
    bits = room[MAX_GRADES + 2 * SCANNED_ITEMS : MAX_GRADES + 2 * SCANNED_ITEMS + n]
    for grade in range(largest + 1):
        places[grade] = 0
    for place in range(begin, begin + n):
        places[order[codes[place]]] += 1
    before = np.uint64(0)
    for grade in range(largest + 1):
        count = places[grade]
        places[grade] = before
        before += count
    for place in range(begin, begin + n):
        grade = order[codes[place]]
        target = np.int64(places[grade])
        places[grade] += 1
        items[target] = item_at(lows, highs, place)
        moved[target] = codes[place]
        if own_bits.size > 0:
            bits[target] = own_bits[place]
    for place in range(n):
        if own_bits.size > 0:
            own_bits[begin + place] = bits[place]
        lows[begin + place] = np.uint32(items[place] & np.uint64(0xFFFFFFFF))
        codes[begin + place] = np.uint8(moved[place])
    if highs.size > 0:
        for place in range(n):
            highs[begin + place] = np.uint32(items[place] >> np.uint64(32))


@kernel(allocates=False)
def item_at(lows, highs, place):  # type: ignore[no-untyped-def]
    """The whole key of an item."""
    if highs.size > 0:
        return (np.uint64(highs[place]) << np.uint64(32)) | np.uint64(lows[place])
    return np.uint64(lows[place])
