"""What skewness does to t: limits and p-values are mended by one rule, so that they agree.

Where few values are large, mean and variance go wrong together, and t leans. Hall turns it by a
cubic that takes the lean away. The sample's skewness is uncertain itself: half of the correction
was nearest to the level for means of users' values (docs/statistics.md). A limit that it moves away
from the mean has more of it where few values make the mean: the larger ones were not drawn yet. For
tests against a margin and for clusters all of it is made, but where it would bring a limit nearer:
most users differ by 0, the others to both sides, and their skewness may be chance alone.

Source:
    Hall 1992, On the Removal of Skewness by Transformation, JRSS B 54(1), 221-228.
"""

import math
from collections.abc import Sequence

from .distributions import t_sf, t_sf_of

LEAST = 1e-9  # skewness / sqrt(n) below which Student's t stands as it is
FARTHEST = 1e100  # whose cube is a number
MORE_FROM, MORE_BY, MOST = 0.3, 6.0, 1.5  # more than half of it beyond that skewness / sqrt(n)
OF_SAMPLES = 1.5  # of their skewness, in what decides: the largest values were not drawn yet
MOST_LEANING = 0.4  # skewness / sqrt(n), before too few values make the mean


def reach(t: float, skewness: float, n: int, *, only_wider: bool = False) -> float:
    """How many standard errors the lower limit is below the mean, for Student's quantile `t`.

    The upper limit is above it by as many for the opposite skewness.

    Args:
        skewness: of the `n` values, NaN where unknown.
        only_wider: make all of the correction that takes a limit away from the mean, and no other.
    Example:
        >>> round(reach(1.96, 2.0, 100), 4), round(reach(1.96, -2.0, 100), 4)
        (1.8408, 2.1496)
    """
    k = skewness / math.sqrt(n)
    if not abs(k) >= LEAST:
        return t
    turn = k * (t - k / 6.0)
    near = turn > -0.5  # where the difference of cubic roots would lose digits
    root = math.expm1(math.log1p(turn) / 3.0) if near else math.cbrt(1.0 + turn) - 1.0
    hall = 3.0 / k * root
    if only_wider:
        return max(t, hall)
    if k >= -MORE_FROM:
        return 0.5 * (t + hall)
    return t + min(0.5 + MORE_BY * (-k - MORE_FROM), MOST) * (hall - t)


def reaches_of_leaning(t: float, skewness: float, n: int) -> tuple[float, float]:
    """Standard errors to both limits of what decides; infinite where too few values make the mean.

    Example:
        >>> [round(each, 4) for each in reaches_of_leaning(1.96, 2.0, 100)]
        [1.96, 2.6504]
    """
    if abs(skewness) > MOST_LEANING * math.sqrt(n):
        return math.inf, math.inf
    more = OF_SAMPLES * skewness
    return reach(t, more, n, only_wider=True), reach(t, -more, n, only_wider=True)


def skewness_of_largest(away: float, n: int) -> float:
    """What skewness the largest of `n` values tells of: how much further away than of normal ones.

    Of exponential values, whose skewness is 2, the largest of 200 lies 5.3 deviations away.

    Args:
        away: from the mean, in standard deviations.
    Example:
        >>> round(skewness_of_largest(5.3, 200), 2), skewness_of_largest(2.8, 200)
        (2.04, 0.0)
    """
    return max(0.0, away - math.sqrt(2.0 * math.log(n)))


def quantile_of(reached: float, skewness: float, n: int) -> float:
    """Student's quantile with that reach, of limits that are only wider.

    Example:
        >>> round(quantile_of(2.0, 0.0, 100), 4), round(quantile_of(2.0, -2.0, 100), 4)
        (2.0, 1.7119)
    """
    k = skewness / math.sqrt(n) if n else math.nan
    if not abs(k) >= LEAST or not abs(reached) < FARTHEST:
        return reached
    return min(reached, reached + k * reached**2 / 3.0 + k**2 * reached**3 / 27.0 + k / 6.0)


def p_above(t: float, df: float, skewness: float, n: int) -> float:
    """One-sided p of "the difference is not above 0"; of "not below" for the opposite of both.

    Example:
        >>> round(p_above(1.7, 99, 0.0, 100), 4), round(p_above(1.7, 99, -2.0, 100), 4)
        (0.0461, 0.0709)
    """
    return t_sf(quantile_of(t, skewness, n), df)


def p_two_sided_of(
    ts: Sequence[float], dfs: Sequence[float], skewnesses: Sequence[float], ns: Sequence[int]
) -> list[float]:
    """Two-sided p of "the difference is 0": at level 1 - p one of the limits is 0.

    Example:
        >>> [round(p, 4) for p in p_two_sided_of([2.0, 2.0], [99, 99], [0.0, -2.0], [100, 100])]
        [0.0482, 0.0901]
    """
    above = t_sf_of([*map(quantile_of, ts, skewnesses, ns)], dfs)
    turned = [-t for t in ts], [-skewness for skewness in skewnesses], ns
    below = t_sf_of([*map(quantile_of, *turned)], dfs)
    return [
        math.nan if math.isnan(t) else min(1.0, 2.0 * min(sides))
        for t, *sides in zip(ts, above, below, strict=True)
    ]
