"""The distribution of the studentised range: the largest difference of m means over its scale.

Two integrals by the trapezoidal rule. The tail is integrated as it is, never as 1 less the rest,
so that it stays accurate where it is small: about 1e-11 of itself down to 1e-100, for 2 to 100
means (SciPy, its oracle in the tests, integrates 1 less the tail).
"""

import math
from functools import lru_cache

from ._root import root_of
from ._scale import average_over_scale, sum_outwards
from .distributions import normal_cdf, normal_density, t_quantile, t_two_sided

SQRT_2 = math.sqrt(2.0)
DEGREE = 18  # of polynomials over a width of 1
WIDEST = 50  # from here on tails are below 1e-270


@lru_cache(maxsize=4096)
def range_sf(q: float, n_means: int, df: float) -> float:
    """P(Q > q) of the range of `n_means` normal means over an independent standard error.

    Args:
        q: at least 0.
        n_means: at least 2.
        df: degrees of freedom of the standard error, above 0; may be infinite.
    Source:
        Tukey 1953, The Problem of Multiple Comparisons; Lund and Lund 1983, Algorithm AS 190,
        Applied Statistics 32(2), 204-210 (the integrals).
    Example:
        >>> round(range_sf(3.5, 3, 20.0), 6)
        0.055892
    """
    if math.isnan(q) or n_means < 2 or not df > 0:
        return math.nan
    if q <= 0.0:
        return 1.0
    if n_means == 2:
        return t_two_sided(q / SQRT_2, df)
    if math.isinf(q):
        return 0.0
    start = -0.5 * math.log1p(0.5 * q * q / df)
    return min(1.0, average_over_scale(lambda s: _tail_near(q * s, n_means), df, start=start))


def _tail_near(width: float, n_means: int) -> float:
    """`_range_tail`, its logarithm interpolated between points that are kept."""
    piece = int(width)
    if piece >= WIDEST:
        return _range_tail(width, n_means)
    # the barycentric formula (Berrut and Trefethen 2004, SIAM Review 46(3), equation 5.4)
    above = below = 0.0
    for point, weight, value in _tail_points(piece, n_means):
        away = width - point
        if away == 0.0:
            return math.exp(value)
        share = weight / away
        above += share * value
        below += share
    return math.exp(above / below)


@lru_cache(maxsize=4096)
def _tail_points(piece: int, n_means: int) -> tuple[tuple[float, float, float], ...]:
    """Chebyshev points of widths from `piece` to the next whole number, weights, log tails."""
    points = []
    for k in range(DEGREE + 1):
        width = piece + 0.5 - 0.5 * math.cos(math.pi * k / DEGREE)
        weight = (-1.0) ** k * (0.5 if k in (0, DEGREE) else 1.0)
        points.append((width, weight, math.log(min(1.0, _range_tail(width, n_means)))))
    return tuple(points)


def _range_tail(width: float, n_means: int) -> float:
    """P(range > width) of independent standard normal variables.

    The largest is at z with density m phi(z) Phi(z)^(m - 1); the range is larger unless all others
    are within `width` below it.
    """
    others = n_means - 1

    def term(z: float) -> float:
        below = normal_cdf(z)
        if below == 0.0:
            return 0.0
        share = min(1.0, normal_cdf(z - width) / below)
        tail = -math.expm1(others * math.log1p(-share)) if share < 1.0 else 1.0
        return normal_density(z) * below**others * tail

    step = 2.0 * math.pi / math.sqrt(76.0 * n_means)
    return n_means * step * sum_outwards(term, max(0.5 * width, 0.5), step)


@lru_cache(maxsize=256)
def range_quantile(p: float, n_means: int, df: float) -> float:
    """The q at which P(Q <= q) is `p`, above 0 and below 1.

    It lies between the quantiles of one difference of two means and of all of them by
    Bonferroni's bound.
    Example:
        >>> round(range_quantile(0.95, 3, 20.0), 6)
        3.577935
    """
    if not 0.0 < p < 1.0 or n_means < 2 or not df > 0:
        return math.nan
    tail = 1.0 - p
    n_pairs = n_means * (n_means - 1) // 2
    low = -SQRT_2 * t_quantile(0.5 * tail, df)
    if n_pairs == 1:
        return low
    high = -SQRT_2 * t_quantile(0.5 * tail / n_pairs, df)
    log_tail = math.log(tail)
    return root_of(
        lambda q: log_tail - math.log(range_sf(q, n_means, df)), low, high, accuracy=1e-13
    )
