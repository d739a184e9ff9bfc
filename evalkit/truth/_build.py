"""Rows become items by user. They move only where the rows of a user do not lie together."""

import math
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evalkit.ids import Keys, mix
from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import prefetch
from evalkit.kernels.threads import ordered_map
from evalkit.truth._index import (
    COUNT_BITS,
    FEW_ITEMS,
    FILTER_BITS_AN_ITEM,
    LEAST_FILTER_LOG,
    MAX_PACKED_COUNT,
    SCANNED_ITEMS,
    SPREAD,
    Grades,
    Index,
    few_bits,
    filter_log,
    find_codes,
    relevance_at,
)
from evalkit.truth._rows import MAX_GRADES, PairRows
from evalkit.truth._table import (
    MIXED,
    Table,
    are_even,
    count_places,
    cut,
    find_entry,
    hash_in_order,
    home_entry,
    partition_bits,
    partition_of,
    tabulate,
)

ROWS_A_PARTITION = 1 << 16
GROUPED_RUNS = 0.7  # runs a row, up to which users are taken to lie together
AHEAD = 16  # users between asking for a table entry and using it
INTERPRETED = 256  # items that are settled before the kernel for it would be compiled

RELEVANT, KEPT, NEGATIVE = 1, 2, 4  # marks of a code

DUPLICATES = ("max", "error", "sum", "last")

Filled = TypeVar("Filled", bound=np.generic)


@dataclass(frozen=True, slots=True)
class UserItems:
    """Items by user, and the index that finds them.

    Args:
        index: table, item keys and counts.
        grades: relevances, beside the item keys.
        users: uint64[n_users], key of each user code.
        starts: int64[n_users], where a user's items begin. Places between users may be unused.
        n_relevant: int32[n_users], items that reach the threshold.
        first_rows: int64[n_users], a row with that user, or empty.
    """

    index: Index
    grades: Grades
    users: Keys
    starts: npt.NDArray[np.int64]
    n_relevant: npt.NDArray[np.int32]
    first_rows: npt.NDArray[np.int64]

    @property
    def n_users(self) -> int:
        """Users with at least one row, relevant or not."""
        return int(self.users.size)

    @property
    def n_places(self) -> int:
        """Length of the arrays beside the item keys."""
        return int(self.index.lows.size) - FEW_ITEMS

    @property
    def counts(self) -> npt.NDArray[np.int32]:
        """int32[n_users], how many items a user has."""
        return self.index.counts

    def codes_of(self, users: Keys) -> npt.NDArray[np.int64]:
        """int64[n_rows], the code of each row's user; -1 for a user that is not there."""
        codes = np.empty(users.size, dtype=np.int64)
        find_codes(self.index, users, codes)
        return codes

    def item_keys(self) -> Keys:
        """uint64[n_places], the whole keys, put together anew; unused places hold anything."""
        keys = self.index.lows[: self.n_places].astype(np.uint64)
        if self.index.highs.size:
            keys |= self.index.highs[: self.n_places].astype(np.uint64) << np.uint64(32)
        return keys


@dataclass(frozen=True, slots=True)
class BuildCounts:
    """What building found: rows that repeat an earlier (user, item), negative relevances."""

    duplicates: int
    negative: int
    copied: npt.NDArray[np.int64] = field(compare=False)  # codes of users with some, for errors


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows grouped by user, items not yet settled; all but `users` may be written."""

    users: Keys
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int32]
    lows: npt.NDArray[np.uint32]
    highs: npt.NDArray[np.uint32]
    grades: Grades
    first_rows: npt.NDArray[np.int64]


@kernel(allocates=False)
def scatter_rows(  # type: ignore[no-untyped-def]
    users,
    lows,
    highs,
    grades,
    first_row,
    hash,
    shift,
    places,
    out_users,
    out_lows,
    out_highs,
    out_grades,
    out_rows,
):
    """Move rows to their partition, keeping their order; `places` is the next place of each."""
    codes, own, out_codes, out_own = grades.codes, grades.own, out_grades.codes, out_grades.own
    for row in range(users.size):
        partition = partition_of(users[row], hash, shift)
        place = places[partition]
        places[partition] = place + 1
        out_users[place] = users[row]
        out_lows[place] = lows[row]
        if highs.size > 0:
            out_highs[place] = highs[row]
        if codes.size > 0:
            out_codes[place] = codes[row]
        if own.size > 0:
            out_own[place] = own[row]
        if out_rows.size > 0:
            out_rows[place] = first_row + row


@kernel
def group_partition(  # type: ignore[no-untyped-def]
    users, lows, highs, grades, rows, begin, end, out_users, out_starts, out_counts, out_rows
):
    """Group rows begin..end of one partition by user, in place; gives the number of users."""
    n_rows = end - begin
    size = 16
    while size < 2 * n_rows:
        size *= 2
    mask = np.uint64(size - 1)
    slot_codes = np.full(size, -1, dtype=np.int32)
    row_codes = np.empty(n_rows, dtype=np.int32)
    n_users = 0
    code = -1
    for row in range(n_rows):
        user = users[begin + row]
        if row == 0 or user != users[begin + row - 1]:
            slot = mix(user) & mask
            while True:
                code = slot_codes[np.int64(slot)]
                if code < 0:
                    code = n_users
                    slot_codes[np.int64(slot)] = code
                    out_users[begin + code] = user
                    out_counts[begin + code] = 0
                    if rows.size > 0:
                        out_rows[begin + code] = rows[begin + row]
                    n_users += 1
                    break
                if out_users[begin + code] == user:
                    break
                slot = (slot + np.uint64(1)) & mask
        row_codes[row] = code
        out_counts[begin + code] += 1

    order = np.empty(n_rows, dtype=np.int64)
    places = np.empty(n_users, dtype=np.int64)
    place = begin
    for user_code in range(n_users):
        places[user_code] = place - begin
        out_starts[begin + user_code] = place
        place += out_counts[begin + user_code]
    for row in range(n_rows):
        order[places[row_codes[row]]] = row
        places[row_codes[row]] += 1
    reorder(lows, highs, grades.codes, grades.own, begin, order)
    return n_users


@kernel
def reorder(lows, highs, codes, own, begin, order):  # type: ignore[no-untyped-def]
    """Bring items and relevances from `begin` on into an order of places counted from there."""
    end = begin + order.size
    old_lows = lows[begin:end].copy()
    for place in range(order.size):
        lows[begin + place] = old_lows[order[place]]
    if highs.size > 0:
        old_highs = highs[begin:end].copy()
        for place in range(order.size):
            highs[begin + place] = old_highs[order[place]]
    if codes.size > 0:
        old_codes = codes[begin:end].copy()
        for place in range(order.size):
            codes[begin + place] = old_codes[order[place]]
    if own.size > 0:
        old_own = own[begin:end].copy()
        for place in range(order.size):
            own[begin + place] = old_own[order[place]]


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
def may_have_copies(lows, begin, n):  # type: ignore[no-untyped-def]
    """Whether the low halves of two of a user's items are equal."""
    items = lows[begin : begin + n]
    if n <= FEW_ITEMS:
        seen = np.uint64(0)
        seen_too = np.uint64(0)
        both = np.uint64(0)
        for low in items:  # two bits an item, both of which copies find set
            mixed = low * np.uint64(SPREAD)
            one, other = mixed >> np.uint64(58), (mixed >> np.uint64(52)) & np.uint64(63)
            bit, bit_too = np.uint64(1) << one, np.uint64(1) << other
            both |= np.uint64((seen & bit) != 0) & np.uint64((seen_too & bit_too) != 0)
            seen |= bit
            seen_too |= bit_too
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
    relevant_from, keep_negative = keep
    return relevance >= relevant_from or relevance > 0.0 or (keep_negative and relevance < 0.0)


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
def join_items(  # type: ignore[no-untyped-def]
    lows, highs, codes, values, own, begin, n, policy, keep, counters
):
    """Join one user's copies and leave out what has no gain, in place; gives what is left.

    `keep`: the lowest relevance that stays whatever its gain, and whether negative ones stay.
    """
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
                chosen = join_copies(codes, values, own, place, copies, policy)
        value = relevance_at(codes, values, own, chosen)
        counters[1] += value < 0.0
        if not graded or is_kept(value, keep):
            copy_item(lows, highs, codes, own, chosen, write)
            write += 1
        place = copies
    return write - begin


@kernel(allocates=False)
def order_by_code(lows, highs, codes, order, begin, n, room):  # type: ignore[no-untyped-def]
    """Bring some items into descending order of relevance, as ideal lists want them.

    `order` uint8[256] is the place of each code's relevance among all, from the largest.
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
    for place in range(n):
        lows[begin + place] = np.uint32(items[place] & np.uint64(0xFFFFFFFF))
        codes[begin + place] = np.uint8(moved[place])
    if highs.size > 0:
        for place in range(n):
            highs[begin + place] = np.uint32(items[place] >> np.uint64(32))


@kernel(allocates=False)
def find_unsettled(  # type: ignore[no-untyped-def]
    starts, counts, lows, grades, marks, first, last, keep, n_relevant, counters, unsettled
):
    """Of users first..last those whose items do not stay as they are; gives how many.

    They may have copies, items without gain, or more items than are compared one by one. What is
    relevant and negative of the others is counted, as `settle_users` does it.
    """
    codes, own = grades.codes, grades.own
    graded = codes.size > 0 or own.size > 0
    n_unsettled = 0
    for user in range(first, last):
        begin = starts[user]
        n = relevant = n_kept = int(counts[user])
        n_negative = 0
        if graded:
            relevant, n_kept, n_negative = count_kept(marks, codes, own, begin, begin + n, keep)
        if n > SCANNED_ITEMS or n_kept < n or may_have_copies(lows, begin, n):
            unsettled[n_unsettled] = user
            n_unsettled += 1
        else:
            n_relevant[user] = relevant
            counters[1] += n_negative
    return n_unsettled


@kernel(allocates=False)
def settle_users(  # type: ignore[no-untyped-def]
    unsettled,
    starts,
    index,
    grades,
    own_bits,
    marks,
    room,
    policy,
    keep,
    n_relevant,
    counters,
    copied,
):
    """Join copies of some users' items, and leave out what has no gain.

    Their items stand in ascending order of their keys then. `own_bits` is the memory of the
    relevances without codes, `marks` says which codes are relevant and kept. `room` holds two
    words for every item of the largest user. `counters`: duplicates, negative relevances.
    `copied` bool[n_users] becomes True for users with duplicates, unless it is empty.
    """
    codes, values, own = grades.codes, grades.values, grades.own
    counts, lows, highs = index.counts, index.lows, index.highs
    for user in unsettled:
        begin, n = starts[user], int(counts[user])
        before = counters[0]
        sort_items(lows, highs, codes, own_bits, begin, n, room)
        relevant = n = join_items(lows, highs, codes, values, own, begin, n, policy, keep, counters)
        if copied.size > 0:
            copied[user] = counters[0] > before
        if codes.size > 0 or own.size > 0:
            relevant, _, _ = count_kept(marks, codes, own, begin, begin + n, keep)
        counts[user] = n
        n_relevant[user] = relevant


@kernel(allocates=False)
def enter_users(users, starts, index, codes, order, room, first, last, word):  # type: ignore[no-untyped-def]
    """Complete the table entries of users first..last, whose items are settled.

    Up to 64 items are brought into descending order of their codes' relevance; `order` says which
    is larger. More than 16 have a bit set, from `word` on.
    """
    table, layout = index.table, index.layout
    counts, lows, highs, filters = index.counts, index.lows, index.highs, index.filters
    for user in range(first, last):
        if user + AHEAD < last:
            prefetch(table, home_entry(users[user + AHEAD], layout))
        begin, n = starts[user], int(counts[user])
        if codes.size > 0 and n <= SCANNED_ITEMS:
            order_by_code(lows, highs, codes, order, begin, n, room)
        bits = np.uint64(0)
        if n <= FEW_ITEMS:
            for place in range(begin, begin + n):
                one, other = few_bits(item_at(lows, highs, place))
                bits |= (np.uint64(1) << one) | (np.uint64(1) << other)
        else:
            log = filter_log(n)
            for place in range(begin, begin + n):
                bit = (item_at(lows, highs, place) * np.uint64(SPREAD)) >> np.uint64(64 - log)
                at = word + np.int64(bit >> np.uint64(6))
                filters[at] |= np.uint64(1) << (bit & np.uint64(63))
            bits = (np.uint64(word) << np.uint64(6)) | np.uint64(log)
            word += 1 << (log - 6)
        entry = find_entry(table, users[user], layout)
        table[entry + 1] = bits
        table[entry + 2] = (np.uint64(begin) << np.uint64(COUNT_BITS)) | np.uint64(
            min(n, MAX_PACKED_COUNT)
        )


@kernel(allocates=False)
def item_at(lows, highs, place):  # type: ignore[no-untyped-def]
    """The whole key of an item."""
    if highs.size > 0:
        return (np.uint64(highs[place]) << np.uint64(32)) | np.uint64(lows[place])
    return np.uint64(lows[place])


def build_user_items(
    rows: PairRows,
    *,
    relevant_from: float = math.inf,
    duplicates: str = "max",
    keep_negative: bool = False,
    with_rows: bool = False,
    threads: int = 1,
) -> tuple[UserItems, BuildCounts]:
    """Group rows by user.

    Rows whose users lie together stay where they are, so that a truth and rankings in one order
    of users are walked through side by side; other rows are moved.

    Args:
        rows: they are used up.
        relevant_from: items below it stay only for their gain, when above 0.
        duplicates: what an item's copies become: "max", "sum" (of relevances that have no codes),
            "last"; "error" counts like "max".
        keep_negative: keep items of negative relevance.
        with_rows: remember a row of each user.
        threads: kernels that run side by side.
    """
    n_rows, n_runs = rows.size, rows.n_runs
    users, ends = rows.take_runs()
    starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    lows, highs = rows.lows[: n_rows + FEW_ITEMS], rows.highs[:n_rows]
    counts = (ends - starts).astype(np.int32)
    first_rows = starts.copy() if with_rows else starts[:0]
    groups = _Groups(users, starts, counts, lows, highs, rows.grades(), first_rows)
    table = tabulate(users, threads) if n_runs <= n_rows * GROUPED_RUNS else None
    if table is None:
        groups = _move_rows(groups, with_rows=with_rows, threads=threads)
        table = tabulate(groups.users, threads)
    if table is None:
        raise AssertionError("a user has two groups")
    keep = (relevant_from, keep_negative)
    return _settle(groups, table, DUPLICATES.index(duplicates), keep, threads)


def _move_rows(groups: _Groups, *, with_rows: bool, threads: int) -> _Groups:
    """Bring the rows of each user together, partition by partition."""
    users = np.repeat(groups.users, groups.counts)
    n_rows = users.size
    bits = partition_bits(n_rows, ROWS_A_PARTITION)
    pieces = cut(n_rows, 4 * threads)
    hash = hash_in_order(users)
    offsets, first_places = count_places(users, hash, bits, pieces, threads)
    if not are_even(offsets):
        hash = MIXED
        offsets, first_places = count_places(users, hash, bits, pieces, threads)
    moved = _Groups(
        np.empty(n_rows, dtype=np.uint64),
        groups.starts,
        groups.counts,
        np.empty(n_rows + FEW_ITEMS, dtype=np.uint32),
        np.empty(groups.highs.size, dtype=np.uint32),
        Grades(
            np.empty(groups.grades.codes.size, dtype=np.uint8),
            groups.grades.values,
            np.empty(groups.grades.own.size, dtype=np.float64),
        ),
        np.empty(n_rows if with_rows else 0, dtype=np.int64),
    )

    def scatter(number: int) -> None:
        begin, end = pieces[number]
        scatter_rows(
            users[begin:end],
            groups.lows[begin:end],
            groups.highs[begin:end],
            _slice(groups.grades, begin, end),
            begin,
            hash,
            63 - bits,
            first_places[number].copy(),
            moved.users,
            moved.lows,
            moved.highs,
            moved.grades,
            moved.first_rows,
        )

    for _ in ordered_map(scatter, range(len(pieces)), threads=threads):
        pass
    out_users = np.empty(n_rows, dtype=np.uint64)
    out_starts = np.empty(n_rows, dtype=np.int64)
    out_counts = np.empty(n_rows, dtype=np.int32)
    out_rows = np.empty(moved.first_rows.size, dtype=np.int64)

    def group(partition: int) -> int:
        return int(
            group_partition(
                moved.users,
                moved.lows,
                moved.highs,
                moved.grades,
                moved.first_rows,
                int(offsets[partition]),
                int(offsets[partition + 1]),
                out_users,
                out_starts,
                out_counts,
                out_rows,
            )
        )

    n_users = list(ordered_map(group, range(1 << bits), threads=threads))
    filled = [slice(int(begin), int(begin) + n) for begin, n in zip(offsets, n_users, strict=False)]

    def join(array: npt.NDArray[Filled]) -> npt.NDArray[Filled]:
        return np.concatenate([array[each] for each in filled])

    return _Groups(
        join(out_users),
        join(out_starts),
        join(out_counts),
        moved.lows,
        moved.highs,
        moved.grades,
        join(out_rows) if with_rows else out_rows,
    )


def _slice(grades: Grades, begin: int, end: int) -> Grades:
    return Grades(grades.codes[begin:end], grades.values, grades.own[begin:end])


def count_filter_words(counts: npt.NDArray[np.int32]) -> int:
    """Words that the bit sets of users with so many items take at most."""
    many = counts[counts > FEW_ITEMS].astype(np.int64)
    logs = np.frexp(many * FILTER_BITS_AN_ITEM - 1)[1]  # as `filter_log` counts them
    return int((1 << np.maximum(logs, LEAST_FILTER_LOG).astype(np.int64) - 6).sum())


def _settle(
    groups: _Groups, table: Table, policy: int, keep: tuple[float, bool], threads: int
) -> tuple[UserItems, BuildCounts]:
    """Settle every user's items and complete the table."""
    pieces = cut(groups.users.size, 4 * threads)

    def count_words(piece: tuple[int, int]) -> int:
        return count_filter_words(groups.counts[slice(*piece)])

    n_words = list(ordered_map(count_words, pieces, threads=threads))
    filters = np.zeros(sum(n_words), dtype=np.uint64)
    index = Index(
        table.entries,
        table.layout,
        groups.counts,
        groups.lows,
        groups.highs,
        filters,
    )
    n_relevant = np.empty(groups.users.size, dtype=np.int32)
    values = groups.grades.values
    reaches, below = values >= keep[0], values < 0.0
    kept = reaches | (values > 0.0) | (keep[1] & below)
    order = np.argsort(np.argsort(-values, kind="stable")).astype(np.uint8)
    n_words_of_room = max(2 * int(groups.counts.max(initial=0)), MAX_GRADES + 2 * SCANNED_ITEMS)
    marks = (RELEVANT * reaches + KEPT * kept + NEGATIVE * below).astype(np.uint8)

    is_error = policy == DUPLICATES.index("error")
    copied = np.zeros(groups.users.size if is_error else 0, dtype=np.bool_)

    def settle(number: int) -> npt.NDArray[np.int64]:
        counters = np.zeros(2, dtype=np.int64)
        first, last = pieces[number]
        unsettled = np.empty(last - first, dtype=np.int64)
        n_unsettled = find_unsettled(
            groups.starts,
            groups.counts,
            groups.lows,
            groups.grades,
            marks,
            first,
            last,
            keep,
            n_relevant,
            counters,
            unsettled,
        )
        room = np.empty(n_words_of_room, dtype=np.uint64)
        if n_unsettled > 0:
            n_items = int(groups.counts[unsettled[:n_unsettled]].sum())
            settle_some = settle_users.interpret if n_items <= INTERPRETED else settle_users
            settle_some(
                unsettled[:n_unsettled],
                groups.starts,
                index,
                groups.grades,
                groups.grades.own.view(np.uint64),
                marks,
                room,
                policy,
                keep,
                n_relevant,
                counters,
                copied,
            )
        word = sum(n_words[:number])
        codes = groups.grades.codes
        enter_users(groups.users, groups.starts, index, codes, order, room, first, last, word)
        return counters

    settled = list(ordered_map(settle, range(len(pieces)), threads=threads))
    found = BuildCounts(
        duplicates=sum(int(counters[0]) for counters in settled),
        negative=sum(int(counters[1]) for counters in settled),
        copied=np.flatnonzero(copied),
    )
    stored = UserItems(
        index, groups.grades, groups.users, groups.starts, n_relevant, groups.first_rows
    )
    return stored, found
