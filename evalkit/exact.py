"""Sums of float64 values that no order, split or thread can change by a bit.

Every finite float64 is an integer mantissa times a power of two. Kernels add mantissas into one
integer bin an exponent; `ExactSum` puts the bins together without rounding and rounds once.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from evalkit.metrics import kernel

SCALE = 1 << 1074  # every finite float64 is a whole multiple of 1 / SCALE
N_BINS = 2048  # one an exponent
ADDS_BEFORE_CARRY = 1 << 30  # a bin's low half takes 2^31 adds

Bins = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExactSum:
    """Number and exact sum of float64 values; no order, split or engine can change a bit."""

    count: int = 0
    scaled: int = 0  # the sum times SCALE

    def merge(self, other: "ExactSum") -> "ExactSum":
        """The sum over both parts."""
        return ExactSum(self.count + other.count, self.scaled + other.scaled)

    @property
    def total(self) -> float:
        """The correctly rounded sum, equal to `math.fsum`."""
        return float(Fraction(self.scaled, SCALE))

    @property
    def mean(self) -> float:
        """The correctly rounded mean; NaN of nothing."""
        return float(Fraction(self.scaled, SCALE * self.count)) if self.count else math.nan


class BinnedSums:
    """Exact sums of several columns of values while they are being filled by kernels.

    Args:
        n_columns: columns that are summed side by side.
    """

    def __init__(self, n_columns: int) -> None:
        self.bins: Bins = np.zeros((n_columns, 2, N_BINS), dtype=np.int64)
        self.counts = np.zeros((n_columns, 3), dtype=np.int64)  # finite, NaN, infinite
        self._adds = 0

    def add(self, values: npt.NDArray[np.float64], *, first_column: int = 0) -> None:
        """Add float64[n_users, n_cutoffs]; NaN is counted, not added."""
        n_users, n_columns = values.shape
        if n_users == 0 or n_columns == 0:
            return
        self._adds += n_users
        if self._adds > ADDS_BEFORE_CARRY:
            carry(self.bins)
            self._adds = n_users
        end = first_column + n_columns
        add_to_bins(
            values.view(np.int64), self.bins[first_column:end], self.counts[first_column:end]
        )

    def merge(self, other: "BinnedSums") -> None:
        """Take over another thread's sums."""
        carry(self.bins)
        carry(other.bins)
        self.bins += other.bins
        self.counts += other.counts

    def take(self, columns: npt.NDArray[np.int64]) -> "BinnedSums":
        """The same sums with columns in another order."""
        taken = BinnedSums(0)
        taken.bins, taken.counts = self.bins[columns], self.counts[columns]
        taken._adds = self._adds
        return taken

    def n_undefined(self, column: int) -> int:
        """Values that were NaN."""
        return int(self.counts[column, 1])

    def n_infinite(self, column: int) -> int:
        """Values that were infinite, which no sum holds."""
        return int(self.counts[column, 2])

    def sum_of(self, column: int) -> ExactSum:
        """The exact sum of a column's finite values."""
        low, high = self.bins[column]
        scaled = 0
        for exponent in np.flatnonzero(low | high).tolist():
            mantissas = int(low[exponent]) + (int(high[exponent]) << 32)
            scaled += mantissas << (exponent - 1)
        return ExactSum(int(self.counts[column, 0]), scaled)


@kernel(allocates=False)
def add_to_bins(bits, bins, counts):  # type: ignore[no-untyped-def]
    """Add float64 values, given as int64 bits, to their exponents' bins."""
    for column in range(bits.shape[1]):
        n_finite = 0
        for row in range(bits.shape[0]):
            value = bits[row, column]
            exponent = (value >> 52) & 0x7FF
            mantissa = value & 0xFFFFFFFFFFFFF
            if exponent == 0x7FF:
                counts[column, 1 if mantissa != 0 else 2] += 1
                continue
            n_finite += 1
            if exponent == 0:
                if mantissa == 0:
                    continue
                exponent = 1
            else:
                mantissa |= 0x10000000000000
            if value < 0:
                mantissa = -mantissa
            bins[column, 0, exponent] += mantissa & 0xFFFFFFFF
            bins[column, 1, exponent] += mantissa >> 32
        counts[column, 0] += n_finite


@kernel(allocates=False)
def carry(bins):  # type: ignore[no-untyped-def]
    """Move what the low halves hold above 32 bits into the high halves."""
    for column in range(bins.shape[0]):
        for exponent in range(bins.shape[2]):
            low = bins[column, 0, exponent]
            bins[column, 0, exponent] = low & 0xFFFFFFFF
            bins[column, 1, exponent] += low >> 32
