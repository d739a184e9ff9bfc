"""What is read of very many exact sums, of all at once: the floats that `ExactSum` gives of each.

Means and variances are made with twice the digits of a float64. Where what is left out could turn
the last rounding round, which is hardly ever so, `ExactSum` says what is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.statistics.exact._kernels import (
    LEAST_SPREAD,
    LIMB_BITS,
    SCALE_BITS,
    SQUARE_LIMBS,
    SUM_LIMBS,
)
from evalkit.statistics.exact._sums import ExactSums, skewness

MANTISSA = 1 << 53
LIMBS_READ = 5  # from the first that is not 0: at least 129 bits
UNSURE = 2.0**-95  # relative; the arithmetic below is a few bits better
FAR = 400  # exponents of sums beyond which products leave the range of a float64
SPLITTER = 2.0**27 + 1.0


class Double(NamedTuple):
    """Numbers as sums of two floats, the second at most half of the first's last digit."""

    high: Floats
    low: Floats

    def __neg__(self) -> "Double":
        return Double(-self.high, -self.low)

    def plus(self, other: "Double") -> "Double":
        """The sums."""
        high, low = _two_sum(self.high, other.high)
        more, rest = _two_sum(self.low, other.low)
        high, low = _two_sum(high, low + more)
        return Double(*_two_sum(high, low + rest))

    def times(self, other: "Double") -> "Double":
        """The products."""
        high, low = _two_product(self.high, other.high)
        low = low + (self.high * other.low + self.low * other.high)
        return Double(*_two_sum(high, low))

    def over(self, other: "Double") -> "Double":
        """The quotients."""
        one = _plain(self.high / other.high)
        rest = self.plus(-other.times(one))
        two = _plain(rest.high / other.high)
        three = rest.plus(-other.times(two)).high / other.high
        return Double(*_two_sum(one.high, two.high)).plus(_plain(three))

    def is_sure(self, error: Floats) -> Flags:
        """Whether the first float is the number rounded, which is known but for an error."""
        up, down = self.high + (self.low + error), self.high + (self.low - error)
        sure: Flags = (up == self.high) & (down == self.high)
        return sure


def _two_sum(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)


def _two_product(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    (a, b), (c, d) = map(_halves, (one, other))
    product = one * other
    return product, ((a * c - product) + a * d + b * c) + b * d


def _halves(number: Floats) -> tuple[Floats, Floats]:
    large = SPLITTER * number
    high = large - (large - number)
    return high, number - high


def _plain(numbers: npt.ArrayLike) -> Double:
    high = np.asarray(numbers, dtype=np.float64)
    return Double(high, np.zeros_like(high))


def _of_wholes(wholes: Ints) -> Double:
    """Integers of any size that int64 holds."""
    low = wholes & 0xFFFFFFFF
    return Double(*_two_sum((wholes - low).astype(np.float64), low.astype(np.float64)))


@dataclass(frozen=True, slots=True)
class Summaries:
    """What is read of columns of sums: one row each `ExactSums`, one column each of its own.

    Args:
        counts: int64[n_sums, n_columns], as the arrays below.
        means: float64, NaN of nothing.
        errors: float64, of the means; NaN where there is none.
        skewnesses: float64, as `ExactSums.skewness_of`.
        wholes, squares: int64, sums and sums of squares, where both are integers (`are_whole`).
    """

    counts: Ints
    means: Floats
    errors: Floats
    skewnesses: Floats
    wholes: Ints
    squares: Ints
    are_whole: Flags

    def rows(self, begin: int, end: int) -> "Summaries":
        """Those of some of the sums."""
        return Summaries(*(getattr(self, each.name)[begin:end] for each in fields(self)))

    def are_shares(self, bounds: Floats) -> Flags:
        """Of which every value is 0 or 1: no other within 0 and 1 is its own square.

        Args:
            bounds: float64[n_columns, 2], what values can be.
        """
        is_bounded: Flags = (bounds == (0.0, 1.0)).all(axis=1)
        are_shares: Flags = self.are_whole & (self.wholes == self.squares) & is_bounded
        return are_shares


def summarize(sums: Sequence[ExactSums], n_columns: int) -> Summaries:
    """What is read of the first columns of many sums, each of one cell.

    Example:
        >>> sums = ExactSums(1)
        >>> _ = sums.add(np.array([[0.25], [0.75]]))
        >>> found = summarize([sums], 1)
        >>> found.means, found.errors
        (array([[0.5]]), array([[0.25]]))
    """
    shape = len(sums), n_columns
    groups: dict[bytes, list[int]] = {}
    for row, each in enumerate(sums):
        groups.setdefault(each.used_limbs()[1].tobytes(), []).append(row)
    counts = _stacked([each.counts[:n_columns, 0] for each in sums], shape)
    means, errors = np.empty(shape), np.empty(shape)
    wholes, squares = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    are_whole, are_sure = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    with np.errstate(all="ignore"):
        for rows in groups.values():
            limbs = np.concatenate([sums[row].used_limbs()[0][:n_columns] for row in rows])
            total, square = _totals(limbs, sums[rows[0]].used_limbs()[1])
            some = _read(total.number, square.number, counts[rows].ravel())
            is_sure, is_whole = some[2] & ~total.is_far & ~square.is_far, total.is_whole
            own = len(rows), n_columns
            means[rows], errors[rows] = some[0].reshape(own), some[1].reshape(own)
            are_sure[rows] = is_sure.reshape(own)
            are_whole[rows] = (is_whole & square.is_whole).reshape(own)
            wholes[rows], squares[rows] = total.whole.reshape(own), square.whole.reshape(own)
        for row, column in zip(*np.nonzero(~are_sure & (counts > 0)), strict=True):
            exact = sums[row].sum_of(int(column))
            error = exact.std_error
            means[row, column] = exact.mean
            errors[row, column] = np.nan if error is None else error
        powers = _stacked([each.powers[:n_columns] for each in sums], (*shape, 6))
        skewnesses = _skewnesses(counts.ravel(), powers.reshape(-1, 6)).reshape(shape)
    return Summaries(counts, means, errors, skewnesses, wholes, squares, are_whole)


def _stacked(arrays: Sequence[Ints], shape: tuple[int, ...]) -> Ints:
    return np.array(arrays, dtype=np.int64).reshape(shape)


class _Totals(NamedTuple):
    """Numbers; which are too far from 1 to be reckoned with; as integers, where they are some."""

    number: Double
    is_far: Flags
    whole: Ints
    is_whole: Flags


def _totals(limbs: Ints, places: Ints) -> tuple[_Totals, _Totals]:
    """Sums and sums of squares: `limbs` int64[n, n_used] of settled sums."""
    split = int(np.searchsorted(places, SUM_LIMBS))
    return (
        _numbers(limbs[:, :split], places[:split], SUM_LIMBS, SCALE_BITS),
        _numbers(limbs[:, split:], places[split:] - SUM_LIMBS, SQUARE_LIMBS, 2 * SCALE_BITS),
    )


def _read(total: Double, square: Double, counts: Ints) -> tuple[Floats, Floats, Flags]:
    """Means, their errors, and whether both are sure."""
    n = _of_wholes(counts)
    mean = total.over(n)
    largest = n.times(square)
    spread = largest.plus(-total.times(total))  # n (n - 1) times the variance
    divisor = n.times(n).times(_of_wholes(counts - 1))
    variance = spread.over(divisor)  # of the mean
    doubt = UNSURE * np.abs(2.0 * largest.high / divisor.high)
    is_known = variance.is_sure(doubt) & (variance.high > 0.0)
    is_zero = square.high == 0.0
    errors = np.where(is_zero, 0.0, np.sqrt(variance.high))
    errors[counts < 2] = np.nan
    means = np.where(is_zero, 0.0, mean.high)
    means[counts == 0] = np.nan
    is_sure = mean.is_sure(np.abs(mean.high) * UNSURE) & (is_known | (counts < 2)) | is_zero
    return means, errors, is_sure


def _numbers(limbs: Ints, places: Ints, n_limbs: int, scale_bits: int) -> _Totals:
    """The numbers in rows of limbs times 2^-scale_bits; integers are those that a float64 holds."""
    n = limbs.shape[0]
    first = min(int(places[0]) if places.size else 0, scale_bits // LIMB_BITS)
    last = max(int(places[-1]) if places.size else 0, scale_bits // LIMB_BITS + 2)
    digits = np.zeros((last + 1 - first, n), dtype=np.int64)
    digits[places - first] = limbs.T
    is_negative = digits[-1] < 0 if last == n_limbs - 1 else np.zeros(n, dtype=bool)
    if is_negative.any():
        digits[:, is_negative] = _negated(digits[:, is_negative])
    has_any = digits != 0
    top = digits.shape[0] - 1 - np.argmax(has_any[::-1], axis=0)
    high, low = np.zeros(n), np.zeros(n)
    for step in range(LIMBS_READ):
        digit = digits[np.maximum(top - step, 0), np.arange(n)] * (top >= step)
        high, rest = _two_sum(high, np.ldexp(digit.astype(np.float64), -LIMB_BITS * step))
        low += rest
    exponent = LIMB_BITS * (top + first) - scale_bits
    exponent[high == 0.0] = 0
    sign = np.where(is_negative, -1.0, 1.0)
    high, low = (sign * np.ldexp(each, exponent) for each in _two_sum(high, low))
    one, bits = divmod(scale_bits, LIMB_BITS)
    one -= first
    is_whole = ~has_any[:one].any(axis=0) & (digits[one] & ((1 << bits) - 1) == 0)
    is_whole &= np.abs(high) < MANTISSA
    wholes = np.where(is_whole, high, 0.0).astype(np.int64)
    return _Totals(Double(high, low), np.abs(exponent) > FAR, wholes, is_whole)


def _negated(digits: Ints) -> Ints:
    """Minus the numbers in columns of limbs, the lowest first."""
    found, borrowed = np.empty_like(digits), np.zeros(digits.shape[1], dtype=np.int64)
    for place, digit in enumerate(digits):
        less = -digit - borrowed
        found[place] = less & ((1 << LIMB_BITS) - 1)
        borrowed = -(less >> LIMB_BITS)
    return found


def _skewnesses(counts: Ints, powers: Ints) -> Floats:
    """As `_skewness` of each: `powers` int64[n, 6]."""
    n, total = powers[:, 0], powers[:, 1]
    squares, cubes = (
        _of_wholes(powers[:, low]).plus(
            Double(*(each * 2.0**30 for each in _of_wholes(powers[:, low + 1])))
        )
        for low in (2, 4)
    )
    rows, sums = _of_wholes(n), _of_wholes(total)
    of_squares = rows.times(squares)
    spread = of_squares.plus(-sums.times(sums))
    terms = [
        rows.times(rows).times(cubes),
        -_plain(3.0 * np.ones(n.size)).times(of_squares).times(sums),
        _plain(2.0 * np.ones(n.size)).times(sums).times(sums).times(sums),
    ]
    third = terms[0].plus(terms[1]).plus(terms[2])
    doubt = sum((np.abs(each.high) for each in terms), np.zeros(n.size)) * UNSURE
    is_sure = third.is_sure(doubt) & spread.is_sure(2.0 * np.abs(of_squares.high) * UNSURE)
    least = (LEAST_SPREAD * n.astype(np.float64)) ** 2
    is_sure &= np.abs(spread.high - least) > 1e-9 * least
    is_none = (n < counts) | (n < 2)
    found = np.full(n.size, np.nan)
    usual = is_sure & ~is_none & (spread.high >= least)
    deviation = np.sqrt(spread.high[usual]).tolist()
    found[usual] = [x / y**3 for x, y in zip(third.high[usual].tolist(), deviation, strict=True)]
    for row in np.flatnonzero(~is_sure & ~is_none):
        found[row] = skewness(int(counts[row]), powers[row].tolist())
    return found
