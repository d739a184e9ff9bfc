"""Errors of a mean over users whose values add up over items, where both are drawn."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from evalkit.exact import SCALE_BITS, ExactSum

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TwoWaySum:
    """A mean over users, and how it varies when users and items are drawn.

    A pair of a user and a relevant item adds a part of the user's value, and holds a share of the
    user: one over the user's relevant items. What it leaves is its part less the mean times its
    share, so that a user's pairs together leave the value less the mean.

    Args:
        users: of the values.
        pairs: of the parts, of the shares, and of the sums of both, whose squares give the mixed
            products.
        parts, shares: float64[n_items], sums over an item's pairs.
    """

    users: ExactSum
    pairs: tuple[ExactSum, ExactSum, ExactSum]
    parts: Values
    shares: Values

    @property
    def count(self) -> int:
        """Users or items, whichever are fewer."""
        return min(self.users.count, self.parts.size)

    @property
    def mean(self) -> float:
        """Over users, rounded once; NaN of nobody."""
        return self.users.mean

    @property
    def variance(self) -> float:
        """Of the mean: over users, and over items, less what both count, the single pairs.

        NaN below two users or items; below 0 where items add next to nothing. What popular items
        leave is too small, as they pull the mean towards themselves: as over clusters, squares are
        over 1 - leverage, an item's share of the users, on average over what items leave.

        Source:
            Cameron, Gelbach and Miller 2011, Robust Inference With Multiway Clustering, Journal of
            Business & Economic Statistics 29(2), equation 2.11; Bell and McCaffrey 2002, Bias
            Reduction in Standard Errors for Linear Regression, Survey Methodology 28(2).
        """
        n, n_pairs, over_users = self.users.count, self.pairs[0].count, self.users.std_error
        if over_users is None or self.parts.size < 2:
            return math.nan
        mean = Fraction(self.users.scaled, n << SCALE_BITS)
        parts, shares, both = (Fraction(each.squares, 1 << 2 * SCALE_BITS) for each in self.pairs)
        by_pair = float(parts - mean * (both - parts - shares) + mean**2 * shares)
        left = self.parts - self.mean * self.shares
        by_item = math.fsum((left * left).tolist())
        if by_item > 0.0:
            by_item /= 1.0 - math.fsum((left * left * self._weights).tolist()) / by_item
        return over_users**2 + (by_item - by_pair * n_pairs / (n_pairs - 1)) / n**2

    @property
    def std_error(self) -> float | None:
        """None where the variance is not above 0, or unknown."""
        variance = self.variance
        return math.sqrt(variance) if variance > 0.0 else None

    @property
    def skewness(self) -> float:
        """Not known."""
        return math.nan

    @property
    def df(self) -> float:
        """One less than users, or Satterthwaite's of the items, whichever are fewer.

        Source:
            as of `RatioSum.df`.
        """
        if self.count < 2:
            return math.nan
        weights = self._weights
        second, third = (math.fsum((weights**power).tolist()) for power in (2, 3))
        found = second + (second**2 - third**2 / second) / (1.0 - third / second) ** 2
        return max(1.0, min(self.users.count - 1.0, 1.0 / found))

    @property
    def _weights(self) -> Values:
        """float64[n_items], how much of the users is an item's."""
        weights: Values = self.shares / math.fsum(self.shares.tolist())
        return weights
