"""Exact sums of values that stand for many."""

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kernels.intrinsics import float_bits
from evalkit.statistics.exact._kernels import ABSOLUTE, INFINITY, POWER_GRID, SUM_LIMBS, add_shifted
from evalkit.statistics.exact._sums import ExactSums

HALF_BITS, HALF = 27, (1 << 27) - 1  # of a mantissa; times a weight below 2^31 an int64 takes it
POWER_BITS, LOW_POWER = 30, (1 << 30) - 1


@kernel(allocates=False)
def add_product(limbs, number, weight, bit):  # type: ignore[no-untyped-def]
    """Add a number of up to 55 bits times a weight below 2^31, times 2^bit."""
    add_shifted(limbs, (number & HALF) * weight, bit)
    add_shifted(limbs, (number >> HALF_BITS) * weight, bit + HALF_BITS)


@kernel(allocates=False)
def add_times(value, weight, limbs, counts, largest, powers):  # type: ignore[no-untyped-def]
    """Add a value as often as its weight says, as `add_some` and `add_powers` add it once."""
    bits = float_bits(value) & ABSOLUTE
    counts[1 if bits > INFINITY else 2 if bits == INFINITY else 0] += weight
    if bits <= INFINITY:
        largest[0] = max(largest[0], bits)
    if bits == 0:
        counts[3] += weight
    if abs(value) <= 1.0:  # not so of NaN
        short = float_bits(value + POWER_GRID) - float_bits(POWER_GRID)
        square = short * short
        cube = square * short
        powers[0] += weight
        powers[1] += short * weight
        low = (square & LOW_POWER) * weight
        powers[2] += low & LOW_POWER
        powers[3] += (low >> POWER_BITS) + (square >> POWER_BITS) * weight
        low = (cube & LOW_POWER) * weight
        powers[4] += low & LOW_POWER
        powers[5] += (low >> POWER_BITS) + (cube >> POWER_BITS) * weight
    if bits == 0 or bits >= INFINITY:
        return
    exponent, mantissa = bits >> 52, bits & 0xFFFFFFFFFFFFF
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= 0x10000000000000
    bit = exponent - 1
    add_product(limbs[:SUM_LIMBS], mantissa, weight if value > 0.0 else -weight, bit)
    high, low, squares = mantissa >> HALF_BITS, mantissa & HALF, limbs[SUM_LIMBS:]
    add_product(squares, low * low, weight, 2 * bit)
    add_product(squares, 2 * high * low, weight, 2 * bit + HALF_BITS)
    add_product(squares, high * high, weight, 2 * bit + 2 * HALF_BITS)


@kernel(allocates=False)
def add_all(values, weights, first_column, limbs, counts, largest, powers):  # type: ignore[no-untyped-def]
    """Add float64[n_rows, n_cutoffs] as often as int64[n_rows, n_cutoffs] says."""
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            weight, place = weights[row, column], first_column + column
            if weight > 0:
                value = values[row, column]
                most = largest[place : place + 1]
                add_times(value, weight, limbs[place], counts[place], most, powers[place])


def add_weighted(sums: ExactSums, values: Floats, weights: Ints, *, first_column: int = 0) -> None:
    """Add float64[n_rows, n_cutoffs], each value as often as it stands for one.

    Args:
        weights: of each value, at least 0; below 2^31 in each column together.
    """
    for begin in range(0, values.shape[0], 1 << 20):  # a value adds up to sixteen numbers
        some = slice(begin, begin + (1 << 20))
        sums.make_room(4 * values[some].shape[0])
        numbers = sums.limbs, sums.counts, sums.largest, sums.powers
        add_all(values[some], weights[some], first_column, *numbers)
