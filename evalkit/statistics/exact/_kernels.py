"""Kernels that cut floats into integers and add these into limbs."""

import math
from typing import NamedTuple

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints
from evalkit.kernels.intrinsics import float_bits, prefetch, square_error

SCALE_BITS = 1074  # every finite float64 is a whole multiple of 2^-1074
LIMB_BITS = 32
SUM_LIMBS = 70  # 2^1074 times 2^1024 times 2^64 values, and a sign
SQUARE_LIMBS = 136
N_LIMBS = SUM_LIMBS + SQUARE_LIMBS
ADDS_BEFORE_CARRY = 1 << 26  # a limb takes 2^30 numbers of 33 bits, a value adds at most eight

# a value below 1 is cut into multiples of 2^-48 and 2^-97, its square also into one of 2^-146
GRID_1, GRID_2, GRID_3 = 1.5 * 2.0**4, 1.5 * 2.0**-45, 1.5 * 2.0**-94
BITS_1, BITS_2, BITS_3 = -48, -97, -146
TOGETHER = 1 << 10  # rows that are added at a time, few enough to stay close to the core
APART = 8  # values between columns, which would share the places of a cache otherwise
MOST_WAITING = 1 << 14  # values whose cuts, of 48 bits each, an int64 takes
N_WAITING = 7  # their number, five sums, and whether the limbs hold anything
HAS_LIMBS = 6
N_COUNTS = 4  # finite, NaN, infinite, 0
WINS, TIES, LOSSES = range(3)
AHEAD = 16  # rows that are fetched before they are read
TWO = 1024 << 52  # bits of 2.0: values below it wait for each other, on the grids of that size
WAITING_EXPONENT = 1
SMALL = (1023 - 12) << 52  # bits of 2^-12: smaller values would leave too much over
WIDEST = 400  # exponents that fit the grids with their squares
SMALLEST = (1023 - 500) << 52  # bits of 2^-500: smaller values might vanish when scaled
# values up to 1 are cut to 20 bits for their skewness, whose cubes have 60
POWER_GRID = 1.5 * 2.0**32
N_POWERS = 6
LEAST_SPREAD = 16  # grid units of deviation, below which skewness would be that of the rounding
ABSOLUTE = 0x7FFFFFFFFFFFFFFF
INFINITY = 0x7FF0000000000000


class Numbers(NamedTuple):
    """The arrays of sums that kernels add to, as `ExactSums` has them."""

    limbs: Ints
    counts: Ints
    largest: Ints
    powers: Ints
    waiting: Ints


@kernel(allocates=False)
def add_shifted(limbs, number, bit):  # type: ignore[no-untyped-def]
    """Add a signed integer times 2^bit."""
    limb, shift = bit >> 5, bit & 31
    low = (number & 0xFFFFFFFF) << shift
    high = (number >> 32) << shift
    limbs[limb] += low & 0xFFFFFFFF
    limbs[limb + 1] += (low >> 32) + (high & 0xFFFFFFFF)
    limbs[limb + 2] += high >> 32


@kernel(allocates=False)
def add_value(limbs, value):  # type: ignore[no-untyped-def]
    """Add one finite value and its square, whatever their size."""
    bits = float_bits(value)
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= 0x10000000000000
    bit = exponent - 1
    add_shifted(limbs[:SUM_LIMBS], mantissa if bits >= 0 else -mantissa, bit)
    high, low = mantissa >> 27, mantissa & 0x7FFFFFF
    squares = limbs[SUM_LIMBS:]
    add_shifted(squares, low * low, 2 * bit)
    add_shifted(squares, 2 * high * low, 2 * bit + 27)
    add_shifted(squares, high * high, 2 * bit + 54)


@kernel(allocates=False)
def sort_by_cell(cells, order, begins):  # type: ignore[no-untyped-def]
    """Rows in the order of their cells, within a cell as they came; `begins` starts as 0."""
    for row in range(cells.size):
        begins[cells[row] + 1] += 1
    for cell in range(begins.size - 1):
        begins[cell + 1] += begins[cell]
    for row in range(cells.size):  # each begin moves on to its cell's end
        cell = cells[row]
        order[begins[cell]] = row
        begins[cell] += 1
    for cell in range(begins.size - 1, 0, -1):
        begins[cell] = begins[cell - 1]
    begins[0] = 0


@kernel(allocates=False)
def add_cells(  # type: ignore[no-untyped-def]
    values,
    baseline,
    order,
    begins,
    room,
    first_column,
    higher_is_better,
    outcomes,
    n_columns,
    limbs,
    counts,
    largest,
    powers,
    waiting,
):
    """Add float64[n_values, n_cutoffs], less those of a baseline, to the limbs of each row's cell.

    One kernel for both, as most of what it calls is compiled for each that calls it. Without a
    baseline it has no rows. Into `outcomes`, int64[n_cells, n_columns, 3], goes how many values
    win against it, tie and lose; a row without either value is none of them. Gives how many have
    one value alone. `room` is float64[2, n_cutoffs, TOGETHER].
    """
    # Wide: all registers of the sums; called by them alone.
    n_alone = np.int64(0)
    is_scattered, is_paired = begins.size > 2, baseline.shape[0] > 0
    for cell in range(begins.size - 1):
        for first in range(begins[cell], begins[cell + 1], TOGETHER):
            n = min(TOGETHER, begins[cell + 1] - first)
            gather(values, order, first, n, room[0], is_scattered)
            if is_paired:
                gather(baseline, order, first, n, room[1], is_scattered)
            for column in range(values.shape[1]):
                some, old = room[0, column, :n], room[1, column, :n]
                if is_paired:
                    found = outcomes[cell, first_column + column]
                    n_alone += take_away(old, some, found, higher_is_better)
                place = cell * n_columns + first_column + column
                most = add_some(some, limbs[place], counts[place], waiting[place])
                largest[place] = max(largest[place], most)
                add_powers(some, powers[place])
    return n_alone


@kernel(allocates=False)
def gather(values, order, first, n, room, is_scattered):  # type: ignore[no-untyped-def]
    """The `n` rows that stand from `first` on in `order`, column by column."""
    begin = order[first]
    if not is_scattered or order[first + n - 1] - begin == n - 1:  # as they came
        for column in range(values.shape[1]):
            for row in range(n):
                room[column, row] = values[begin + row, column]
        return
    for row in range(n):
        ahead = values[order[min(first + row + AHEAD, order.size - 1)]]
        prefetch(ahead, 0)
        prefetch(ahead, ahead.size - 1)
        for column in range(values.shape[1]):
            room[column, row] = values[order[first + row], column]


@kernel(allocates=False)
def take_away(old, new, outcomes, higher_is_better):  # type: ignore[no-untyped-def]
    """Make `new` what it is more than `old`, and count outcomes; gives how many stand alone."""
    n_more = n_less = n_equal = n_alone = np.int64(0)
    for row in range(new.size):  # many at a time
        value, before = new[row], old[row]
        n_more += value > before
        n_less += value < before
        n_equal += value == before
        n_alone += (before != before) != (value != value)
        new[row] = value - before
    more, less = (WINS, LOSSES) if higher_is_better else (LOSSES, WINS)
    outcomes[more] += n_more
    outcomes[less] += n_less
    outcomes[TIES] += n_equal
    return n_alone


@kernel(allocates=False)
def add_some(values, limbs, counts, waiting):  # type: ignore[no-untyped-def]
    """Add a few thousand values; gives the bits of the largest absolute one.

    They are cut along fixed grids into integers, which are added many at a time; where something
    is left over, because the values differ too much in size, they are added one by one. Values
    below 2 share their grids, so that their integers wait for those of further values.
    """
    n_nan = n_zero = 0
    largest = np.int64(0)
    for row in range(values.size):
        bits = float_bits(values[row]) & ABSOLUTE
        is_nan = bits > INFINITY
        n_nan += is_nan
        n_zero += bits == 0
        largest = max(largest, np.int64(0) if is_nan else bits)
    counts[0] += values.size - n_nan
    counts[1] += n_nan
    counts[3] += n_zero
    if largest == 0:
        return largest
    if SMALL <= largest < TWO:
        fits, sum_1, sum_2, square_1, square_2, square_3 = cut(values, WAITING_EXPONENT)
        if fits:
            if waiting[0] + values.size > MOST_WAITING:
                settle_one(waiting, limbs)
            waiting[0] += values.size
            waiting[1] += sum_1
            waiting[2] += sum_2
            waiting[3] += square_1
            waiting[4] += square_2
            waiting[5] += square_3
            return largest
    waiting[HAS_LIMBS] = 1
    exponent = (largest >> 52) - 1022  # every value is below 2^exponent
    if -WIDEST < exponent < WIDEST:
        fits, sum_1, sum_2, square_1, square_2, square_3 = cut(values, exponent)
        if fits:
            add_cuts(limbs, exponent, sum_1, sum_2, square_1, square_2, square_3)
            return largest
    for row in range(values.size):
        bits = float_bits(values[row]) & ABSOLUTE
        if bits == INFINITY:
            counts[0] -= 1
            counts[2] += 1
        elif bits < INFINITY and bits != 0:
            add_value(limbs, values[row])
    return largest


@kernel(allocates=False)
def add_powers(values, powers):  # type: ignore[no-untyped-def]
    """Add the first powers of a few thousand values from -1 to 1, cut to 20 bits.

    Their number and sum, then sums of squares and of cubes, low 30 bits and the rest apart.
    """
    zero = float_bits(POWER_GRID)
    n = total = squares = low = high = np.int64(0)
    for row in range(values.size):
        value = values[row]
        is_within = abs(value) <= 1.0  # not so of NaN
        n += is_within
        short = float_bits((value if is_within else 0.0) + POWER_GRID) - zero
        square = short * short
        cube = square * short
        total += short
        squares += square
        low += cube & 0x3FFFFFFF
        high += cube >> 30
    powers[0] += n
    powers[1] += total
    powers[2] += squares & 0x3FFFFFFF
    powers[3] += squares >> 30
    powers[4] += low
    powers[5] += high


@kernel(allocates=False)
def cut(values, exponent):  # type: ignore[no-untyped-def]
    """Sums of what the grids cut from values below 2^exponent, two, and from their squares, three.

    Before them whether nothing is left over; otherwise they are worth nothing.
    """
    unit = math.ldexp(1.0, int(-exponent))
    sum_1 = sum_2 = square_1 = square_2 = square_3 = left_over = np.int64(0)
    zero_1, zero_2, zero_3 = float_bits(GRID_1), float_bits(GRID_2), float_bits(GRID_3)
    for row in range(values.size):
        bits = float_bits(values[row]) & ABSOLUTE
        left_over |= np.int64((bits != 0) & (bits < SMALLEST))
        value = values[row] * unit
        value = 0.0 if value != value else value
        cut = value + GRID_1
        sum_1 += float_bits(cut) - zero_1
        rest = value - (cut - GRID_1)
        cut = rest + GRID_2
        sum_2 += float_bits(cut) - zero_2
        left_over |= float_bits(rest - (cut - GRID_2)) & ABSOLUTE
        square = value * value
        error = square_error(value)  # what the square lost when it was rounded
        cut = square + GRID_1
        square_1 += float_bits(cut) - zero_1
        rest = square - (cut - GRID_1)
        cut = rest + GRID_2
        square_2 += float_bits(cut) - zero_2
        left_over |= float_bits(rest - (cut - GRID_2)) & ABSOLUTE
        cut = error + GRID_2
        square_2 += float_bits(cut) - zero_2
        rest = error - (cut - GRID_2)
        cut = rest + GRID_3
        square_3 += float_bits(cut) - zero_3
        left_over |= float_bits(rest - (cut - GRID_3)) & ABSOLUTE
    return left_over == 0, sum_1, sum_2, square_1, square_2, square_3


@kernel(allocates=False)
def add_cuts(  # type: ignore[no-untyped-def]
    limbs, exponent, sum_1, sum_2, square_1, square_2, square_3
):
    """Add what was cut from values below 2^exponent."""
    place = SCALE_BITS + exponent
    add_shifted(limbs, sum_1, place + BITS_1)
    add_shifted(limbs, sum_2, place + BITS_2)
    place = 2 * (SCALE_BITS + exponent)
    add_shifted(limbs[SUM_LIMBS:], square_1, place + BITS_1)
    add_shifted(limbs[SUM_LIMBS:], square_2, place + BITS_2)
    add_shifted(limbs[SUM_LIMBS:], square_3, place + BITS_3)


@kernel(allocates=False)
def settle_one(waiting, limbs):  # type: ignore[no-untyped-def]
    """Bring what waits in one place into its limbs."""
    add_cuts(limbs, WAITING_EXPONENT, waiting[1], waiting[2], waiting[3], waiting[4], waiting[5])
    waiting[:HAS_LIMBS] = 0
    waiting[HAS_LIMBS] = 1


@kernel(allocates=False)
def settle_all(waiting, limbs):  # type: ignore[no-untyped-def]
    """Bring what waits in every place into its limbs."""
    for place in range(waiting.shape[0]):
        if waiting[place, 0] > 0:
            settle_one(waiting[place], limbs[place])


@kernel(allocates=False)
def sum_cells(  # type: ignore[no-untyped-def]
    cells, begins, columns, n_columns, whole, may_wait, limbs, found
):
    """Add some columns of some cells of `whole` to each cell of `found`.

    Args:
        begins: int64[n_found + 1], where the cells of each begin.
        may_wait: of `whole`; otherwise any of its numbers holds some of `limbs`.
    """
    for group in range(begins.size - 1):
        for cell in cells[begins[group] : begins[group + 1]]:
            for column in range(columns.size):
                place, into = cell * n_columns + columns[column], group * columns.size + column
                for number in range(N_COUNTS):
                    found.counts[into, number] += whole.counts[place, number]
                for number in range(N_POWERS):
                    found.powers[into, number] += whole.powers[place, number]
                found.largest[into] = max(found.largest[into], whole.largest[place])
                some, own = whole.waiting[place], found.limbs[into]
                if some[0] > 0:
                    add_cuts(own, WAITING_EXPONENT, some[1], some[2], some[3], some[4], some[5])
                if some[HAS_LIMBS] or not may_wait:
                    for limb in limbs:
                        own[limb] += whole.limbs[place, limb]


@kernel(allocates=False)
def carry(limbs):  # type: ignore[no-untyped-def]
    """Bring every limb but the last of each number into 32 bits; the rest moves up."""
    for column in range(limbs.shape[0]):
        for limb in range(limbs.shape[1] - 1):
            if limb != SUM_LIMBS - 1:
                over = limbs[column, limb] >> LIMB_BITS
                if over != 0:  # limbs that nobody wrote to take no memory
                    limbs[column, limb] -= over << LIMB_BITS
                    limbs[column, limb + 1] += over


@kernel(allocates=False)
def mark_used(limbs, used):  # type: ignore[no-untyped-def]
    """Bits of each limb that are set in any number."""
    for column in range(limbs.shape[0]):
        for limb in range(limbs.shape[1]):
            used[limb] |= limbs[column, limb]
