"""How far the points of curves may be off: each user's rows above every point, counted once more.

A point is a ratio of sums over users. Users are drawn at random, so its standard error needs the
sums of squares and products of what each user adds (Cochran 1977, Sampling techniques, 6.4).
They are whole multiples of one unit, so no order of users or threads can change them.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evalkit.kernels.arrays import Floats, Int32s, Ints
from evalkit.kinds.labels._kernels import Marks, SortedRows, add_up_bins, add_up_points
from evalkit.kinds.pointwise.store import Column, order_keys
from evalkit.statistics.distributions import t_quantile

N_PRODUCTS = 7  # of a point: rows with label 1 and 0 above it, and each by the user's own of both
CELL_BITS = 13  # of a table of cells that stays close to the core
UNIT_BITS = 60  # of the largest sum
LARGEST_EXPONENT = 1000  # 2^1000 is a float64

Mark = tuple[float, float]  # a score, and the share of rows with it that counts as above
Limits = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Ruler:
    """Where users' rows are counted, and in which unit.

    Args:
        marks: in the order of descending scores, of one score by ascending share.
        keys: turned-round order keys of their scores, which ascend; of the scores' width.
        shares: float64[n_marks].
        shift: bits of a key below those of its cell.
        table: int32[n_cells], the marks before each cell, from that of the first mark on.
        edges: keys of the lower edge of each bin, which ascend; empty without bins.
        factor: a power of two that weights are multiplied by; that of all rows then is below 1.
        scale: one that products of such weights are multiplied by, before they become whole.
    """

    marks: tuple[Mark, ...]
    keys: Column
    shares: Floats
    shift: np.uint64
    table: Int32s
    edges: Column
    factor: float
    scale: float

    @classmethod
    def make(
        cls, marks: Sequence[Mark], edges: Sequence[float], dtype: type, *, weight: float
    ) -> "Ruler":
        """A ruler for scores whose keys have `dtype`.

        Args:
            edges: lower edges of bins, which descend.
            weight: of all rows.
        """
        ordered = tuple(sorted(set(marks), key=lambda mark: (-mark[0], mark[1])))
        factor = 2.0 ** min(-math.frexp(weight)[1], LARGEST_EXPONENT)
        scale = 2.0 ** (UNIT_BITS - math.frexp(weight * factor)[1])
        keys = _turned([score for score, _ in ordered], dtype)
        return cls(
            ordered,
            keys,
            np.array([share for _, share in ordered], dtype=np.float64),
            *_table(keys),
            _turned(edges, dtype),
            factor,
            scale,
        )


def _turned(scores: Sequence[float], dtype: type) -> Column:
    """Keys of the least number of the scores' width that is not below each score."""
    wide = np.array(scores, dtype=np.float64)
    if dtype == np.uint32:
        small = wide.astype(np.float32)
        small = np.where(small < wide, np.nextafter(small, np.float32(np.inf)), small)
        return ~order_keys(small, np.zeros(2, dtype=np.int64))
    return ~order_keys(wide, np.zeros(2, dtype=np.int64))


def _table(keys: Column) -> tuple[np.uint64, Int32s]:
    """Width of cells of keys, and how many of these, which ascend, are before each cell."""
    if not keys.size:
        return np.uint64(0), np.zeros(1, dtype=np.int32)
    low, high = int(keys[0]), int(keys[-1])
    shift = max(0, (high - low).bit_length() - CELL_BITS)
    begins = [cell << shift for cell in range(low >> shift, (high >> shift) + 1)]
    table = np.searchsorted(keys, np.array(begins, dtype=keys.dtype)).astype(np.int32)
    return np.uint64(shift), table


@dataclass(frozen=True, slots=True)
class UserSpread:
    """Sums over users of squares and products; those of other users merge.

    Args:
        ruler: of all users.
        points: int64[n_marks, N_PRODUCTS], differences to the mark before.
        totals: int64[3], of the user's rows with label 1 and 0.
        bins: int64[n_bins, 3], of rows and rows with label 1 in a bin.
    """

    ruler: Ruler
    points: Ints
    totals: Ints
    bins: Ints

    @classmethod
    def of_nothing(cls, ruler: Ruler) -> "UserSpread":
        """The sums over nobody."""
        return cls(
            ruler,
            np.zeros((ruler.keys.size, N_PRODUCTS), dtype=np.int64),
            np.zeros(3, dtype=np.int64),
            np.zeros((ruler.edges.size, 3), dtype=np.int64),
        )

    def add(self, starts: Ints, keys: Column, labels: Column, weights: Floats) -> None:
        """Some users more: where the rows of each start, which ascend by key."""
        ruler = self.ruler
        rows = SortedRows(starts, keys, labels, weights * ruler.factor)
        marks = Marks(ruler.keys, ruler.shares, ruler.shift, ruler.table)
        add_up_points(rows, marks, ruler.scale, self.points, self.totals)
        if ruler.edges.size:
            add_up_bins(*rows, ruler.edges, ruler.scale, self.bins)

    def merge(self, other: "UserSpread") -> None:
        """Add the sums of other users."""
        for mine, theirs in (
            (self.points, other.points),
            (self.totals, other.totals),
            (self.bins, other.bins),
        ):
            mine += theirs


class NoBands:
    """Of users who vary together: clusters are cut by the parts in which users are counted."""

    def at(self, mark: Mark, value: Fraction, factors: Sequence[Fraction | int]) -> Limits:
        """No limits."""
        return None, None

    def of_bin(self, number: int, positives: Fraction, rows: Fraction) -> Limits:
        """No limits."""
        return None, None


class Bands:
    """Limits of ratios at the marks of a ruler.

    Args:
        n_users: who the sums stand on.
        level: of the intervals, above 0 and below 1.
    """

    def __init__(self, spread: UserSpread, n_users: int, *, level: float) -> None:
        self._places = {mark: place for place, mark in enumerate(spread.ruler.marks)}
        self._unit = Fraction(spread.ruler.scale) * Fraction(spread.ruler.factor) ** 2
        self._points = np.cumsum(spread.points, axis=0)
        self._totals = spread.totals
        self._bins = spread.bins
        self._n_users = n_users
        self._quantile = -t_quantile(0.5 * (1.0 - level), n_users - 1) if n_users > 1 else math.nan

    def at(self, mark: Mark, value: Fraction, factors: Sequence[Fraction | int]) -> Limits:
        """Limits of a share at a mark.

        Args:
            value: the share.
            factors: of what a user adds to it: times the user's rows above the mark with label 1
                and 0, and all of the user's rows with label 1 and 0.
        """
        aa, ab, bb, ap, an, bp, bn = (int(each) for each in self._points[self._places[mark]])
        pp, pn, nn = (int(each) for each in self._totals)
        products = ((aa, ab, ap, an), (ab, bb, bp, bn), (ap, bp, pp, pn), (an, bn, pn, nn))
        return self._limits(value, _square_sum(products, factors))

    def of_bin(self, number: int, positives: Fraction, rows: Fraction) -> Limits:
        """Limits of the share of rows with label 1 in a bin."""
        rr, rp, pp = (int(each) for each in self._bins[number])
        value = positives / rows
        return self._limits(value, _square_sum(((rr, rp), (rp, pp)), (-value / rows, 1 / rows)))

    def _limits(self, value: Fraction, squares: tuple[int, int]) -> Limits:
        """Limits on the scale of the log odds, so that they stay within 0 and 1.

        Whole numbers are divided once, which rounds as fractions do; these took a quarter of all
        the time of a small log.
        """
        n, part, whole = self._n_users, value.numerator, value.denominator
        if n < 2 or not 0 < part < whole:
            return None, None
        above = squares[0] * n * self._unit.denominator
        variance = above / (squares[1] * (n - 1) * self._unit.numerator)
        error = math.sqrt(max(0.0, variance))
        reach = self._quantile * error / (part * (whole - part) / (whole * whole))
        middle = math.log(part / whole) - math.log((whole - part) / whole)
        return _share_of(middle - reach), _share_of(middle + reach)


def _square_sum(
    products: Sequence[Sequence[int]], factors: Sequence[Fraction | int]
) -> tuple[int, int]:
    """The sum over users of the square of what they add: factors times products times factors, as
    a numerator and a denominator.
    """
    below = math.lcm(*(each.denominator for each in factors))
    wholes = [each.numerator * (below // each.denominator) for each in factors]
    rows = zip(wholes, products, strict=True)
    total = sum(one * sum(map(operator.mul, wholes, row)) for one, row in rows)
    return total, below * below


def _share_of(log_odds: float) -> float:
    if log_odds < 0:
        return math.exp(log_odds) / (1.0 + math.exp(log_odds))
    return 1.0 / (1.0 + math.exp(-log_odds))
