"""Sums of float64 values and of their squares that no order, split or thread can change by a bit.

Every finite float64 is an integer times a power of two. Kernels add such integers into the limbs
of one wide fixed-point number a column; nothing is rounded until the end, and then once.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.metrics import kernel
from evalkit.native import float_bits, square_error

SCALE_BITS = 1074  # every finite float64 is a whole multiple of 2^-1074
LIMB_BITS = 32
SUM_LIMBS = 70  # 2^1074 times 2^1024 times 2^64 values, and a sign
SQUARE_LIMBS = 136
N_LIMBS = SUM_LIMBS + SQUARE_LIMBS
ADDS_BEFORE_CARRY = 1 << 26  # a limb takes 2^30 numbers of 33 bits, a value adds at most eight

# a value below 1 is cut into multiples of 2^-48 and 2^-97, its square also into one of 2^-146
GRID_1, GRID_2, GRID_3 = 1.5 * 2.0**4, 1.5 * 2.0**-45, 1.5 * 2.0**-94
BITS_1, BITS_2, BITS_3 = -48, -97, -146
TOGETHER = 1 << 13  # values whose cuts, of 48 bits each, an int64 takes
WIDEST = 400  # exponents that fit the grids with their squares
SMALLEST = (1023 - 500) << 52  # bits of 2^-500: smaller values might vanish when scaled
ABSOLUTE = 0x7FFFFFFFFFFFFFFF
INFINITY = 0x7FF0000000000000

Limbs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExactSum:
    """Number, sum and sum of squares of float64 values, all of them exact.

    Args:
        count: how many values.
        scaled: their sum times 2^1074.
        squares: the sum of their squares times 2^2148.
    """

    count: int = 0
    scaled: int = 0
    squares: int = 0

    def merge(self, other: "ExactSum") -> "ExactSum":
        """The sums over both parts."""
        return ExactSum(
            self.count + other.count, self.scaled + other.scaled, self.squares + other.squares
        )

    @property
    def total(self) -> float:
        """The correctly rounded sum, equal to `math.fsum`."""
        return self.scaled / (1 << SCALE_BITS)

    @property
    def mean(self) -> float:
        """The correctly rounded mean; NaN of nothing."""
        return self.scaled / (self.count << SCALE_BITS) if self.count else math.nan

    @property
    def std_error(self) -> float | None:
        """Standard error of the mean, s / sqrt(n) with n - 1 in the variance; None below two."""
        n = self.count
        if n < 2:
            return None
        spread = n * self.squares - self.scaled * self.scaled  # n (n - 1) times the variance
        return math.sqrt(spread / (n * n * (n - 1) << 2 * SCALE_BITS))


class ExactSums:
    """Exact sums of several columns of values while they are being filled by kernels.

    Args:
        n_columns: columns that are summed side by side.
    """

    def __init__(self, n_columns: int) -> None:
        self.limbs: Limbs = np.zeros((n_columns, N_LIMBS), dtype=np.int64)
        self.counts = np.zeros((n_columns, 3), dtype=np.int64)  # finite, NaN, infinite
        self._room = np.empty(TOGETHER)
        self._adds = 0

    def add(self, values: npt.NDArray[np.float64], *, first_column: int = 0) -> None:
        """Add float64[n_users, n_cutoffs]; NaN is counted, not added."""
        n_users, n_columns = values.shape
        if n_users == 0 or n_columns == 0:
            return
        self._adds += n_users
        if self._adds > ADDS_BEFORE_CARRY:
            carry(self.limbs)
            self._adds = n_users
        end = first_column + n_columns
        limbs, counts = self.limbs[first_column:end], self.counts[first_column:end]
        add_columns(values, self._room, limbs, counts)

    def merge(self, other: "ExactSums") -> None:
        """Take over another thread's sums."""
        carry(self.limbs)
        carry(other.limbs)
        self.limbs += other.limbs
        self.counts += other.counts
        self._adds = 1

    def take(self, columns: npt.NDArray[np.int64]) -> "ExactSums":
        """The same sums with columns in another order."""
        taken = ExactSums(0)
        taken.limbs, taken.counts = self.limbs[columns], self.counts[columns]
        taken._adds = self._adds
        return taken

    def n_undefined(self, column: int) -> int:
        """Values that were NaN."""
        return int(self.counts[column, 1])

    def n_infinite(self, column: int) -> int:
        """Values that were infinite, which no sum holds."""
        return int(self.counts[column, 2])

    def sum_of(self, column: int) -> ExactSum:
        """The exact sums of a column's finite values."""
        limbs = self.limbs[column]
        total, squares = _whole(limbs[:SUM_LIMBS]), _whole(limbs[SUM_LIMBS:])
        return ExactSum(int(self.counts[column, 0]), total, squares)


def _whole(limbs: Limbs) -> int:
    used = np.flatnonzero(limbs)
    return sum(int(limbs[place]) << (LIMB_BITS * int(place)) for place in used)


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
def add_columns(values, room, limbs, counts):  # type: ignore[no-untyped-def]
    """Add float64[n_values, n_columns] to the limbs of the columns."""
    for column in range(values.shape[1]):
        for first in range(0, values.shape[0], TOGETHER):
            n = min(TOGETHER, values.shape[0] - first)
            for row in range(n):
                room[row] = values[first + row, column]
            add_some(room[:n], limbs[column], counts[column])


@kernel(allocates=False)
def add_some(values, limbs, counts):  # type: ignore[no-untyped-def]
    """Add a few thousand values.

    They are cut along fixed grids into integers, which are added many at a time; where something
    is left over, because the values differ too much in size, they are added one by one.
    """
    n_nan = 0
    largest = np.int64(0)
    for row in range(values.size):
        bits = float_bits(values[row]) & ABSOLUTE
        is_nan = bits > INFINITY
        n_nan += is_nan
        largest = max(largest, np.int64(0) if is_nan else bits)
    counts[0] += values.size - n_nan
    counts[1] += n_nan
    if largest == 0:
        return
    exponent = (largest >> 52) - 1022  # every value is below 2^exponent
    if -WIDEST < exponent < WIDEST and add_in_grid(values, exponent, limbs):
        return
    for row in range(values.size):
        bits = float_bits(values[row]) & ABSOLUTE
        if bits == INFINITY:
            counts[0] -= 1
            counts[2] += 1
        elif bits < INFINITY and bits != 0:
            add_value(limbs, values[row])


@kernel(allocates=False)
def add_in_grid(values, exponent, limbs):  # type: ignore[no-untyped-def]
    """Add values below 2^exponent and their squares, or none of them and give False."""
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
    if left_over != 0:
        return False
    place = SCALE_BITS + exponent
    add_shifted(limbs, sum_1, place + BITS_1)
    add_shifted(limbs, sum_2, place + BITS_2)
    place = 2 * (SCALE_BITS + exponent)
    add_shifted(limbs[SUM_LIMBS:], square_1, place + BITS_1)
    add_shifted(limbs[SUM_LIMBS:], square_2, place + BITS_2)
    add_shifted(limbs[SUM_LIMBS:], square_3, place + BITS_3)
    return True


@kernel(allocates=False)
def carry(limbs):  # type: ignore[no-untyped-def]
    """Bring every limb but the last of each number into 32 bits; the rest moves up."""
    for column in range(limbs.shape[0]):
        for limb in range(limbs.shape[1] - 1):
            if limb != SUM_LIMBS - 1:
                over = limbs[column, limb] >> LIMB_BITS
                limbs[column, limb] -= over << LIMB_BITS
                limbs[column, limb + 1] += over
