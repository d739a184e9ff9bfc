"""Ratios of sums over clusters: means over users who vary together, or count differently."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from evalkit.kernels.arrays import Floats
from evalkit.statistics.exact import SCALE_BITS, ExactSum, ExactSums

LEAST_SPREAD = Fraction(1, 10**8)
EPSILON = 2.0**-53  # of a float, what rounding moves it by at most
N_TERMS = 7  # columns of sums that one ratio takes


def terms_of(values: Floats, weights: Floats) -> Floats:
    """What is added up of each cluster: float64[n_clusters, n_columns * N_TERMS].

    Args:
        values: float64[n_clusters, n_columns], sums of weight times value, NaN of nobody.
        weights: of the same shape, sums of weights.
    Example:
        >>> terms_of(np.array([[3.0]]), np.array([[2.0]])).tolist()
        [[3.0, 2.0, 5.0, 27.0, 18.0, 12.0, 8.0]]
    """
    squares = weights * weights
    terms = (
        values,
        weights,
        values + weights,  # whose squares give the mixed products
        values * values * values,
        values * values * weights,
        values * squares,
        weights * squares,
    )
    return np.stack(terms, axis=2).reshape(values.shape[0], -1)


@dataclass(frozen=True)  # no slots: what is read again and again is found once
class RatioSum:
    """A ratio of two sums over clusters, and how it varies when clusters are drawn.

    Args:
        terms: exact sums of the columns of `terms_of`.
        n_zero: clusters whose values add up to 0.
        is_whole: every cluster stands in one of the sums; otherwise they have no known error.
    """

    terms: tuple[ExactSum, ...]
    is_whole: bool = True
    n_zero: int = 0

    @classmethod
    def of(cls, sums: ExactSums, column: int, *, is_whole: bool = True) -> "RatioSum":
        """One of the ratios that stand side by side."""
        first = N_TERMS * column
        terms = tuple(sums.sum_of(first + place) for place in range(N_TERMS))
        return cls(terms, is_whole, sums.n_zero(first))

    @property
    def count(self) -> int:
        """Clusters with a value."""
        return self.terms[0].count

    @property
    def mean(self) -> float:
        """The weighted mean, rounded once; NaN where no value has a weight."""
        values, weights = self.terms[0].scaled, self.terms[1].scaled
        return float(Fraction(values, weights)) if weights else math.nan

    @property
    def std_error(self) -> float | None:
        """Of the ratio, by linearisation; None below two clusters, or where some are cut.

        What is left of a large cluster is too small, as it pulls the mean towards itself. So
        squares are over 1 - leverage, a cluster's share of the weight, on average over what is
        left: Bell and McCaffrey's CR2 where all clusters weigh alike.

        Source:
            Cochran 1977, Sampling Techniques, 3rd edition, equation 6.13; Bell and McCaffrey 2002,
            Bias Reduction in Standard Errors for Linear Regression, Survey Methodology 28(2).
        """
        weights, squares, by_weight, _ = self._residuals
        n = self.count
        if n < 2 or not weights or not self.is_whole or self._is_of_one:
            return None
        if squares <= self._rounding:
            return 0.0
        leverage = by_weight / (weights * squares) if self._is_spread else Fraction(1, n)
        return math.sqrt(squares / (1 - leverage)) / float(weights) if leverage < 1 else None

    @property
    def skewness(self) -> float:
        """Of what clusters leave; NaN where they hardly differ.

        Where few have most of the weight, little is seen of how the others lean: it counts for more
        by the fourth root of clusters over those that vary freely, `df` + 1 (docs/statistics.md).
        """
        _, squares, _, cubes = self._residuals
        if not self._is_spread or self.terms[3].count < self.count:
            return math.nan
        found = math.copysign(math.sqrt(cubes**2 * self.count / squares**3), cubes)
        return found * math.pow(self.count / (self.df + 1.0), 0.25)

    @property
    def _is_spread(self) -> bool:
        """Whether clusters leave more than the rounding of the products."""
        return self._residuals[1] > LEAST_SPREAD * self._square(0)

    @cached_property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom, one less than the clusters where all weigh alike.

        With h a cluster's share of the weight, 1 / (sum h^2 + sum over pairs of clusters of
        a_c a_d), where a = h^2 / (1 - h), if users vary alone.

        Source:
            Bell and McCaffrey 2002; Imbens and Kolesar 2016, Review of Economics and Statistics
            98(4), 701-712.
        """
        weights = self._total(1)
        if self.count < 2 or not weights or self._is_of_one:
            return math.nan
        second, third = self._square(1) / weights**2, self._total(6) / weights**3
        room = 1 - third / second
        found = second + (second**2 - third**2 / second) / room**2
        return max(1.0, float(1 / found))

    @property
    def _is_of_one(self) -> bool:
        """Whether one cluster has all the weight, so that nothing is known of others."""
        return self._square(1) == self._total(1) ** 2

    @property
    def _rounding(self) -> Fraction:
        """What rounding of the mixed products alone may leave in the squares."""
        mean = self._total(0) / self._total(1)
        return 4 * Fraction(EPSILON) * abs(mean) * self._square(2)

    def _total(self, place: int) -> Fraction:
        return Fraction(self.terms[place].scaled, 1 << SCALE_BITS)

    def _square(self, place: int) -> Fraction:
        return Fraction(self.terms[place].squares, 1 << 2 * SCALE_BITS)

    @cached_property
    def _residuals(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """The weight; sums of squares of what clusters leave, of these times weight, of cubes."""
        weights = self._total(1)
        if not weights:
            return weights, weights, weights, weights
        mean = self._total(0) / weights
        of_values, of_weights = self._square(0), self._square(1)
        mixed = self._square(2) - of_values - of_weights  # twice
        squares = of_values - mean * mixed + mean**2 * of_weights
        cubes, by_one, by_two, by_three = (self._total(place) for place in range(3, N_TERMS))
        by_weight = by_one - 2 * mean * by_two + mean**2 * by_three
        thirds = cubes - 3 * mean * by_one + 3 * mean**2 * by_two - mean**3 * by_three
        return weights, max(Fraction(0), squares), by_weight, thirds


def by_shares(left: Floats, shares: Floats) -> tuple[float | None, float]:
    """Degrees of freedom of a ratio, and what its variance over n - 1 is multiplied by.

    Args:
        left: float64[n], what clusters leave of it; in any order.
        shares: float64[n], of the weight.
    Returns:
        As `RatioSum` has them; None and NaN where one cluster has all the weight.
    Source:
        Bell and McCaffrey 2002, Survey Methodology 28(2); Imbens and Kolesar 2016, Review of
        Economics and Statistics 98(4), 701-712.
    Example:
        >>> df, factor = by_shares(np.array([1.0, -1.0, 0.0, 0.0]), np.full(4, 0.25))
        >>> round(df, 9), factor
        (3.0, 1.0)
    """
    n, sums = left.size, ExactSums(4)
    sums.add(np.column_stack([left**2, left**2 * shares, shares**2, shares**3]))
    squares, by_weight, second, third = (sums.sum_of(column).total for column in range(4))
    leverage = by_weight / squares if squares > 0.0 else 1.0 / n
    if leverage >= 1.0 or second >= 1.0:
        return None, math.nan
    room = 1.0 - third / second
    df = max(1.0, 1.0 / (second + (second**2 - third**2 / second) / room**2))
    return df, (n - 1) / (n * (1.0 - leverage))


def users_carrying(added: Floats, shares: Floats) -> float:
    """How many users carry the variance of a number: Satterthwaite's degrees of freedom, and one.

    What a user adds varies with the user's share of the rounds, where rounds vary alone, and with
    the square of it, where they vary together; both parts are fitted by moments.

    Args:
        added: float64[n_users], what users add to the number, whose mean is 0.
        shares: float64[n_users], of the rounds.
    Example:
        >>> users_carrying(np.array([1.0, -1.0, 1.0, -1.0]), np.full(4, 0.25))
        4.0
    """
    sums = ExactSums(5)
    squares = added**2
    sums.add(np.column_stack([squares, squares * shares, shares**2, shares**3, shares**4]))
    whole, by_share, second, third, fourth = (sums.sum_of(column).total for column in range(5))
    room = third - second * second
    if not (whole > 0.0 and room > EPSILON):
        return float(added.size)
    alone = max(third * whole - second * by_share, 0.0)
    together = max(by_share - second * whole, 0.0)
    total = alone + together * second
    return total**2 / (alone**2 * second + 2.0 * alone * together * third + together**2 * fourth)
