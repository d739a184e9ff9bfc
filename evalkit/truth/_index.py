"""A user's items, and how kernels find them: table entries, bit sets, halved item keys."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Floats, Int32s, Keys
from evalkit.kernels.intrinsics import prefetch
from evalkit.truth._table import Layout, find_entry

COUNT_BITS = 24  # of the word that packs start and count
MAX_PACKED_COUNT = (1 << COUNT_BITS) - 1
FEW_ITEMS = 16  # up to here one look compares them all, and 64 bits filter them
SCANNED_ITEMS = 64  # up to here a few looks compare them all; beyond, items are sorted and halved
FILTER_BITS_AN_ITEM = 16
LEAST_FILTER_LOG = 8  # bits of four words
SPREAD = 0x9E3779B97F4A7C15  # odd and without pattern, so that products mix
SHORT_SPREAD = SPREAD >> 32


class Index(NamedTuple):
    """Where users and their items stand.

    Args:
        table: uint64[n_entries * 4], of user key, filter, start and count packed, code + 1.
        layout: of the table.
        counts: int32[n_users], items of each user code.
        lows: uint32[n_places + 16], low halves of the item keys. A user of more than 64 items has
            them in ascending order of (low half, high half).
        highs: uint32[n_places], high halves, or empty when all are 0.
        filters: uint64[n_words], bit sets of the users of more than 16 items.
    """

    table: Keys
    layout: Layout
    counts: Int32s
    lows: npt.NDArray[np.uint32]
    highs: npt.NDArray[np.uint32]
    filters: Keys


class Grades(NamedTuple):
    """How relevant each item is: one of few values by its code, or a value of its own.

    Args:
        codes: uint8[n_places], places in `values`, or empty.
        values: float64[256], of which the first ones are used.
        own: float64[n_places] when there are more values than codes, or empty. Without codes
            and values of their own, all items are simply relevant.
    """

    codes: Bytes
    values: Floats
    own: Floats

    @property
    def is_graded(self) -> bool:
        """Whether items may differ in relevance."""
        return bool(self.codes.size or self.own.size)

    @property
    def largest(self) -> float:
        """No item is more relevant."""
        if self.codes.size:
            return float(self.values.max())
        return float(self.own.max()) if self.own.size else 1.0


@kernel(allocates=False)
def relevance_at(codes, values, own, place):  # type: ignore[no-untyped-def]
    """The relevance of the item at a place."""
    if codes.size > 0:
        return values[codes[place]]
    if own.size > 0:
        return own[place]
    return 1.0


@kernel(allocates=False)
def code_of(table, entry):  # type: ignore[no-untyped-def]
    """The user code of a table entry."""
    return np.int64(table[np.uint64(entry) + np.uint64(3)]) - 1


@kernel(allocates=False)
def start_of(table, entry):  # type: ignore[no-untyped-def]
    """Where the items of a table entry's user begin."""
    return np.int64(table[entry + 2] >> np.uint64(COUNT_BITS))


@kernel(allocates=False)
def count_of(table, entry, counts):  # type: ignore[no-untyped-def]
    """How many items the user of a table entry has."""
    count = np.int64(table[entry + 2] & np.uint64(MAX_PACKED_COUNT))
    if count == MAX_PACKED_COUNT:
        count = np.int64(counts[code_of(table, entry)])
    return count


@kernel(allocates=False)
def find_codes(index, users, codes):  # type: ignore[no-untyped-def]
    """User code of each row, -1 for unknown users; `codes` int64[n_rows] is filled."""
    table = index.table
    entry = -1
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(table, users[row], index.layout)
        codes[row] = code_of(table, entry) if entry >= 0 else -1


@kernel(allocates=False)
def count_unknown(index, users):  # type: ignore[no-untyped-def]
    """How many rows are of unknown users."""
    n_unknown, is_unknown = 0, False
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            is_unknown = find_entry(index.table, users[row], index.layout) < 0
        n_unknown += is_unknown
    return n_unknown


@kernel(allocates=False)
def few_bits(item):  # type: ignore[no-untyped-def]
    """Two bits of 64, one of each half, that stand for an item in the filter of a user of few."""
    folded = np.uint32((item ^ (item >> np.uint64(32))) & np.uint64(0xFFFFFFFF))
    mixed = np.uint32(folded * np.uint32(SHORT_SPREAD))
    return mixed >> np.uint32(27), np.uint32(32) + ((mixed >> np.uint32(22)) & np.uint32(31))


@kernel(allocates=False)
def filter_log(count):  # type: ignore[no-untyped-def]
    """The logarithm of the bits that filter `count` items, more than a few."""
    log = LEAST_FILTER_LOG
    while (1 << log) < count * FILTER_BITS_AN_ITEM:
        log += 1
    return log


@kernel(allocates=False)
def may_hold(table, entry, count, filters, item):  # type: ignore[no-untyped-def]
    """False only for items that are not among the `count` of the user of a table entry."""
    word = table[entry + 1]
    if count <= FEW_ITEMS:
        first, second = few_bits(item)
        return (word >> first) & (word >> second) & np.uint64(1) != 0
    bit = (item * np.uint64(SPREAD)) >> (np.uint64(64) - (word & np.uint64(63)))
    words = filters[np.int64((word >> np.uint64(6)) + (bit >> np.uint64(6)))]
    return (words >> (bit & np.uint64(63))) & np.uint64(1) != 0


@kernel(allocates=False)
def prefetch_filter(table, entry, filters, item):  # type: ignore[no-untyped-def]
    """0 where the user of a table entry lacks an item by a look at the entry alone, else 1.

    The word that filters the items of a user of many is on its way to the cache then.
    """
    at = np.uint64(entry)
    word = table[at + np.uint64(1)]
    if (table[at + np.uint64(2)] & np.uint64(MAX_PACKED_COUNT)) > np.uint64(FEW_ITEMS):
        bit = (item * np.uint64(SPREAD)) >> (np.uint64(64) - (word & np.uint64(63)))
        prefetch(filters, np.int64((word >> np.uint64(6)) + (bit >> np.uint64(6))))
        return np.int64(1)
    first, second = few_bits(item)
    return np.int64((word >> first) & (word >> second) & np.uint64(1))


@kernel(allocates=False)
def select_candidates(items, table, entry, count, filters, passes, candidates):  # type: ignore[no-untyped-def]
    """Places in `items` of those that the user of a table entry may have; gives their number.

    Whether each one passes the filter is found for many at a time; `passes` is room for it.
    """
    word = table[entry + 1]
    if count <= FEW_ITEMS:
        lower = np.uint32(word & np.uint64(0xFFFFFFFF))
        upper = np.uint32(word >> np.uint64(32))
        for row in range(items.size):
            first, second = few_bits(items[row])
            both = (lower >> first) & (upper >> (second - np.uint32(32)))
            passes[row] = np.uint8(both & np.uint32(1))
    else:
        shift = np.uint64(64) - (word & np.uint64(63))
        begin = word >> np.uint64(6)
        for row in range(items.size):
            bit = (items[row] * np.uint64(SPREAD)) >> shift
            words = filters[np.int64(begin + (bit >> np.uint64(6)))]
            passes[row] = np.uint8((words >> (bit & np.uint64(63))) & np.uint64(1))
    n = np.int64(0)
    for row in range(items.size):  # without a branch, which would be guessed wrong
        candidates[n] = row
        n += passes[row]
    return n


@kernel(allocates=False)
def find_low(lows, low, start, count):  # type: ignore[no-untyped-def]
    """The first place from `start` where a user of `count` items has a low half.

    Without one, any place where it does not stand or that is not the user's.
    """
    if count <= SCANNED_ITEMS:
        for first in range(start, start + count, FEW_ITEMS):
            few = lows[first : first + FEW_ITEMS]
            nearest = np.int32(FEW_ITEMS)
            for number in range(few.size):  # together; behind the user's items is no match
                at = np.int32(number) if few[number] == low else np.int32(FEW_ITEMS)
                nearest = min(nearest, at)
            if nearest < FEW_ITEMS:
                return first + nearest
        return start + count
    bottom, top = start, start + count
    while bottom < top:
        middle = (bottom + top) >> 1
        if lows[middle] < low:
            bottom = middle + 1
        else:
            top = middle
    return bottom


@kernel(allocates=False)
def find_item(lows, highs, item, start, count):  # type: ignore[no-untyped-def]
    """Place of an item among the `count` items of a user from `start`; -1 when it is not there."""
    low = np.uint32(item & np.uint64(0xFFFFFFFF))
    high = np.uint32(item >> np.uint64(32))
    end = start + count
    place = find_low(lows, low, start, count)
    if highs.size == 0:
        return place if place < end and high == 0 and lows[place] == low else -1
    while place < end and (count <= SCANNED_ITEMS or lows[place] == low):
        if lows[place] == low and highs[place] == high:
            return place
        place += 1
    return -1
