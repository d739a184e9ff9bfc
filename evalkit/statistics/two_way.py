"""Errors of a mean over users whose values add up over items, where both are drawn."""

import math
from dataclasses import dataclass
from fractions import Fraction

from evalkit.kernels.arrays import Floats
from evalkit.statistics.exact import SCALE_BITS, ExactSum
from evalkit.statistics.ratios import EPSILON

ROUNDING = 1e-12  # of a variance, below which its sign says nothing


@dataclass(frozen=True, slots=True)
class TwoWay:
    """A mean over users, and how it varies when users and items are drawn.

    Args:
        count: users or items, whichever are fewer.
        mean: over users, rounded once; NaN of nobody.
        variance: of the mean; NaN below two users or items; below 0 where items add next to
            nothing.
        df: of users or items, whichever are fewer.
    """

    count: int
    mean: float
    variance: float
    df: float

    @classmethod
    def of(
        cls,
        users: ExactSum,
        pairs: tuple[ExactSum, ExactSum, ExactSum],
        parts: Floats,
        shares: Floats,
    ) -> "TwoWay":
        """The variance over users, and over items, less what both count, the single pairs.

        A pair of a user and a relevant item adds a part of the user's value, and holds a share of
        the user: one over the user's relevant items. What it leaves is its part less the mean
        times its share, so that a user's pairs together leave the value less the mean.

        What popular items leave is too small, as they pull the mean towards themselves: as over
        clusters, squares are over 1 - leverage, an item's share of the users, on average over what
        items leave; and degrees of freedom are Satterthwaite's, as of `RatioSum`.

        Args:
            users: of the values.
            pairs: of the parts, of the shares, and of the sums of both, whose squares give the
                mixed products.
            parts, shares: float64[n_items], sums over an item's pairs.

        Source:
            Cameron, Gelbach and Miller 2011, Robust Inference With Multiway Clustering, Journal of
            Business & Economic Statistics 29(2), equation 2.11; Bell and McCaffrey 2002, Bias
            Reduction in Standard Errors for Linear Regression, Survey Methodology 28(2).
        """
        n, n_pairs, over_users = users.count, pairs[0].count, users.std_error
        count = min(n, parts.size)
        if over_users is None or count < 2:
            return cls(count, users.mean, math.nan, math.nan)
        left = parts - users.mean * shares
        squares, weights = left * left, shares / math.fsum(shares.tolist())
        by_item = math.fsum(squares.tolist())
        if by_item > 0.0:
            by_item /= 1.0 - math.fsum((squares * weights).tolist()) / by_item
        by_pair = _by_pair(users, pairs) * n_pairs / (n_pairs - 1)
        variance = over_users**2 + (by_item - by_pair) / n**2
        of_both = float(Fraction(pairs[2].squares, 1 << 2 * SCALE_BITS))
        rounding = 4.0 * EPSILON * abs(users.mean) * of_both  # of the mixed products, as of ratios
        if abs(variance) <= (ROUNDING * (by_item + by_pair) + rounding) / n**2:
            variance = 0.0
        return cls(count, users.mean, variance, min(n - 1.0, _df_of(weights)))

    @property
    def std_error(self) -> float | None:
        """None where the variance is below 0, or unknown."""
        return math.sqrt(self.variance) if self.variance >= 0.0 else None

    @property
    def skewness(self) -> float:
        """Not known."""
        return math.nan


def _by_pair(users: ExactSum, pairs: tuple[ExactSum, ExactSum, ExactSum]) -> float:
    """The sum of squares of what single pairs leave."""
    mean = Fraction(users.scaled, users.count << SCALE_BITS)
    parts, shares, both = (Fraction(each.squares, 1 << 2 * SCALE_BITS) for each in pairs)
    return float(parts - mean * (both - parts - shares) + mean**2 * shares)


def _df_of(weights: Floats) -> float:
    second, third = (math.fsum((weights**power).tolist()) for power in (2, 3))
    if third >= second:  # one item alone has users
        return 1.0
    found = second + (second**2 - third**2 / second) / (1.0 - third / second) ** 2
    return max(1.0, 1.0 / found)
