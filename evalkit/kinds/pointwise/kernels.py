# mypy: disable-error-code="no-untyped-def, assignment"
"""Kernels that bring rows together: keys that order as numbers do, scattering, packing."""

from typing import NamedTuple

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Keys
from evalkit.kernels.intrinsics import prefetch
from evalkit.sources.ids import mix

SIGN_32, INFINITE_32 = 0x80000000, 0x7F800000
SIGN_64, INFINITE_64 = 0x8000000000000000, 0x7FF0000000000000
ONE = np.uint64(1)
BATCHES_AHEAD = 3  # whose rows are fetched before they are read
MOST_DIGIT_BITS = 11  # of a key, when it is sorted


@kernel(allocates=False)
def order_keys_32(bits, keys, counts):
    """Keys of float32 bits that ascend as the numbers do; `counts` gets NaN and infinities."""
    n_nan = n_infinite = 0
    for row in range(bits.size):
        each = np.int64(bits[row])
        size = each & 0x7FFFFFFF
        n_nan += size > INFINITE_32
        n_infinite += size == INFINITE_32
        if size == 0:
            each = np.int64(0)  # -0 is 0
        keys[row] = np.uint32(each ^ 0xFFFFFFFF if each & SIGN_32 else each | SIGN_32)
    counts[0] += n_nan
    counts[1] += n_infinite


@kernel(allocates=False)
def order_keys_64(bits, keys, counts):
    """Keys of float64 bits that ascend as the numbers do; `counts` gets NaN and infinities."""
    n_nan = n_infinite = 0
    sign = ONE << np.uint64(63)
    infinite = np.uint64(INFINITE_64)
    for row in range(bits.size):
        each = np.uint64(bits[row])
        size = each & ~sign
        n_nan += size > infinite
        n_infinite += size == infinite
        if size == np.uint64(0):
            each = np.uint64(0)  # -0 is 0
        keys[row] = ~each if each & sign else each | sign
    counts[0] += n_nan
    counts[1] += n_infinite


@kernel(allocates=False)
def place_by_hash(keys, n_bits, first, n_held, starts, places):
    """Rows of one part, chosen by the top bits of the key's hash, get neighbouring places.

    Parts from `first` on are held, `n_held` of them; rows of others come last.
    """
    shift = np.uint64(64 - n_bits)
    for row in range(keys.size):
        part = np.int64(mix(keys[row]) >> shift) if n_bits > 0 else np.int64(0)
        slot = part - first
        slot = slot if 0 <= slot < n_held else n_held
        places[row] = slot
        starts[slot + 1] += 1
    settle(starts, places)


@kernel(allocates=False)
def count_hashes(keys, n_bits, counts):
    """Rows of each part, as `place_by_hash` chooses them, into `counts`[n]."""
    shift = np.uint64(64 - n_bits)
    for row in range(keys.size):
        counts[np.int64(mix(keys[row]) >> shift) if n_bits > 0 else np.int64(0)] += 1


class Ranges(NamedTuple):
    """Ranges of keys, and where to look for a key.

    Args:
        least, shift: of cells of keys.
        table: int32[n_cells, 2], the first and the last range that has keys of a cell.
        firsts: the first key of each range; they ascend.
    """

    least: np.uint64
    shift: np.uint64
    table: Int32s
    firsts: Keys


@kernel(allocates=False)
def range_of(key, ranges):
    """The one of `Ranges` that a key lies in."""
    firsts = ranges.firsts
    cell = np.int64((key - ranges.least) >> ranges.shift)
    found, last = np.int64(ranges.table[cell, 0]), np.int64(ranges.table[cell, 1])
    while found < last:
        middle = (found + last + 1) >> 1
        if firsts[middle] <= key:
            found = middle
        else:
            last = middle - 1
    return found


@kernel(allocates=False)
def find_ranges(keys, ranges, out):
    """The range of keys that each row lies in, as `range_of` finds it."""
    for row in range(keys.size):
        out[row] = range_of(np.uint64(keys[row]), ranges)


@kernel(allocates=False)
def place_scores(keys, labels, ranges, slots, starts, places, packed):
    """Rows of one part become neighbours, `slots` being the part of each range of keys.

    `packed` gets how far a key is from the first one of its range, times 2, and the label.
    """
    for row in range(keys.size):
        key = np.uint64(keys[row])
        found = range_of(key, ranges)
        slot = slots[found]
        places[row] = slot
        starts[slot + 1] += 1
        packed[row] = ((key - ranges.firsts[found]) << ONE) | np.uint64(labels[row])
    settle(starts, places)


@kernel(allocates=False)
def settle(starts, places):
    """Turn counts into starts, and the part of each row into its place."""
    for part in range(1, starts.size):
        starts[part] += starts[part - 1]
    for row in range(places.size):
        part = places[row]
        places[row] = starts[part]
        starts[part] += 1
    for part in range(starts.size - 1, 0, -1):
        starts[part] = starts[part - 1]
    starts[0] = 0


@kernel(allocates=False)
def scatter(values, places, out):
    """`values` at their places; those behind the end are left out."""
    for row in range(values.size):
        if places[row] < out.size:
            out[places[row]] = values[row]


@kernel(allocates=False)
def count_leading(keys, labels, least, shift, counts):
    """Rows with label 0 and 1 at each value of the keys' leading bits, into `counts`[n, 2]."""
    for row in range(keys.size):
        counts[np.int64((np.uint64(keys[row]) - least) >> shift), np.int64(labels[row] != 0)] += 1


@kernel(allocates=False)
def count_within(keys, labels, lows, highs, shifts, counts, least, most):
    """Rows with label 0 and 1 in equal pieces of some ranges of keys, and the keys' extremes.

    Args:
        lows, highs: first and last key of each range; they ascend.
        shifts: a piece of a range has as many bits.
        counts: int64[n_ranges, n_pieces, 2], on top of which rows are counted.
        least, most: uint64[n_ranges, n_pieces], which start as the largest and as 0.
    """
    for row in range(keys.size):
        key = np.uint64(keys[row])
        found, last = np.int64(0), lows.size - 1
        while found < last:
            middle = (found + last + 1) >> 1
            if lows[middle] <= key:
                found = middle
            else:
                last = middle - 1
        if lows[found] <= key <= highs[found]:
            piece = np.int64((key - lows[found]) >> shifts[found])
            counts[found, piece, np.int64(labels[row] != 0)] += 1
            least[found, piece] = min(least[found, piece], key)
            most[found, piece] = max(most[found, piece], key)


@kernel(allocates=False)
def gather(column, firsts, starts, part, out):
    """The rows of one part out of every batch, one batch after the other.

    `starts`[n_parts + 1, n_batches]: where each part begins within a batch, `firsts`: this itself.
    """
    place = 0
    for batch in range(firsts.size):
        ahead = min(batch + BATCHES_AHEAD, firsts.size - 1)
        prefetch(column, firsts[ahead] + starts[part, ahead])
        first = firsts[batch]
        for row in range(first + starts[part, batch], first + starts[part + 1, batch]):
            out[place] = column[row]
            place += 1


@kernel(allocates=False)
def number_keys(keys, table, numbers, distinct):
    """Number the distinct keys as they come; how many there are. `table` int32 starts as -1."""
    mask = np.uint64(table.size - 1)
    n_distinct = 0
    last = np.int64(-1)
    for row in range(keys.size):
        key = keys[row]
        if last >= 0 and distinct[last] == key:
            numbers[row] = last
            continue
        slot = mix(key) & mask
        while True:
            last = np.int64(table[slot])
            if last < 0:
                last = np.int64(n_distinct)
                table[slot] = n_distinct
                distinct[n_distinct] = key
                n_distinct += 1
                break
            if distinct[last] == key:
                break
            slot = (slot + ONE) & mask
        numbers[row] = last
    return n_distinct


@kernel(allocates=False)
def find_conflict(numbers, checks, seen, first):
    """Whether rows of one number have two checks: two ids then share a key. `seen` starts as 0."""
    for row in range(numbers.size):
        number = numbers[row]
        if seen[number] == 0:
            seen[number] = 1
            first[number] = checks[row]
        elif first[number] != checks[row]:
            return True
    return False


@kernel(allocates=False)
def rank_densely(order, keys, ranks, distinct):
    """The place of each key among the distinct ones, which ascend; how many there are."""
    n_distinct = 0
    for place in range(order.size):
        row = order[place]
        if place == 0 or keys[row] != distinct[n_distinct - 1]:
            distinct[n_distinct] = keys[row]
            n_distinct += 1
        ranks[row] = n_distinct - 1
    return n_distinct


@kernel(allocates=False)
def push(packed, values, n_bits):
    """Shift every packed number up and put a value below."""
    shift = np.uint64(n_bits)
    for row in range(packed.size):
        packed[row] = (packed[row] << shift) | np.uint64(values[row])


@kernel(allocates=False)
def pop(packed, n_bits, out):
    """Take the lowest bits out of every packed number."""
    shift = np.uint64(n_bits)
    mask = (ONE << shift) - ONE
    for row in range(packed.size):
        out[row] = packed[row] & mask
        packed[row] >>= shift


@kernel(allocates=False)
def pop_distinct(packed, n_bits, distinct, out):
    """Take ranks out of every packed number; the distinct values that they stand for."""
    shift = np.uint64(n_bits)
    mask = (ONE << shift) - ONE
    for row in range(packed.size):
        out[row] = distinct[np.int64(packed[row] & mask)]
        packed[row] >>= shift


@kernel(allocates=False)
def find_starts(packed, starts):
    """Where each number's rows begin; numbers ascend, and each of them is there."""
    for row in range(packed.size):
        starts[np.int64(packed[row]) + 1] = row + 1


@kernel(allocates=False)
def sort_digits(keys, spare, counts, digit_bits):
    """Sort unsigned keys of `n_digits` digits of so many bits, from the lowest digit on.

    `spare` has as many keys, `counts` is int64[n_digits, 2^digit_bits] of 0.
    """
    n_digits, n_values = counts.shape
    last_value = np.uint64(n_values - 1)
    for row in range(keys.size):
        key = np.uint64(keys[row])
        for digit in range(n_digits):
            counts[digit, (key >> np.uint64(digit_bits * digit)) & last_value] += 1
    source, target = keys, spare
    for digit in range(n_digits):
        shift = np.uint64(digit_bits * digit)
        place = 0
        for value in range(n_values):
            count = counts[digit, value]
            counts[digit, value] = place
            place += count
        for row in range(keys.size):
            key = source[row]
            value = (np.uint64(key) >> shift) & last_value
            target[counts[digit, value]] = key
            counts[digit, value] += 1
        source, target = target, source
    if n_digits % 2 == 1:
        for row in range(keys.size):
            keys[row] = spare[row]


@kernel(allocates=False)
def pack_rows(numbers, keys, labels, packed):
    """The number of a row's group above its key above its label."""
    n_bits = np.uint64(8 * keys.itemsize + 1)
    for row in range(keys.size):
        below = (np.uint64(keys[row]) << ONE) | np.uint64(labels[row])
        packed[row] = (np.uint64(numbers[row]) << n_bits) | below


@kernel(allocates=False)
def unpack_rows(packed, starts, keys, labels, bits):
    """What `pack_rows` packed, where each group begins, and the bits of the keys' turned values."""
    n_bits = np.uint64(8 * keys.itemsize + 1)
    sign = ONE << (n_bits - np.uint64(2))
    mask = sign | (sign - ONE)
    for row in range(packed.size):
        each = packed[row]
        key = (each >> ONE) & mask
        turned = key ^ mask
        keys[row] = key
        labels[row] = each & ONE
        bits[row] = turned ^ sign if turned & sign else key
        starts[np.int64(each >> n_bits) + 1] = row + 1
