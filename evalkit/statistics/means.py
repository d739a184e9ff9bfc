"""Confidence limits of a mean of users, from its exact sum."""

import math

from evalkit.statistics.exact import SCALE_BITS, ExactSum, ExactSums

from .distributions import normal_sf, t_quantile
from .intervals import NO_INTERVAL, Interval, exact_interval, mean_interval, wilson_interval
from .skewness import reach, skewness_of_largest
from .unseen import FEWEST_CARRYING, Seen

OF_SKEWNESS = 2.0  # of that of a sample, whose largest values were not drawn yet
MOST_SKEWED = 0.25  # skewness / sqrt(n), before too few values make the mean
MANY_CARRYING = 200  # users, of whom all is seen


def interval_of(
    total: ExactSum, skewness: float, bounds: tuple[float, float], *, level: float
) -> Interval:
    """Limits of a mean: Wilson's where every value is 0 or 1, otherwise Student's.

    They are moved by the values' skewness, which is known where all are from -1 to 1.
    Example:
        >>> half = ExactSum(2, 1 << SCALE_BITS, 1 << 2 * SCALE_BITS)  # of the values 0 and 1
        >>> limits = interval_of(half, 0.0, (0.0, 1.0), level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.094531, 0.905469)
    """
    if is_share(total, bounds):
        return wilson_interval(total.scaled >> SCALE_BITS, total.count, level=level)
    n, error = total.count, total.std_error
    return mean_interval(total.mean, error, n, level=level, skewness=skewness).within(bounds)


def is_share(total: ExactSum, bounds: tuple[float, float]) -> bool:
    """Whether every value is 0 or 1: no other within these bounds is its own square."""
    return bounds == (0.0, 1.0) and total.is_own_square


def gate_interval(
    shown: Interval,
    value: float,
    std_error: float | None,
    n: int,
    *,
    level: float,
    skewness: float,
    widest: float = 0.0,
    df: float | None = None,
) -> Interval:
    """Limits that gates go by where nobody knows how far a value can lie; they hold those shown.

    They count twice the skewness; where too few values make the mean, nothing is known on their
    side. Where values hardly vary, one that was not seen is as far away as the mean from 0, or as
    the largest (`statistics.unseen`). The constants were chosen by simulation (docs/statistics.md).

    Args:
        skewness: NaN where unknown, which gives those shown.
        widest: the largest value that was seen.
    Example:
        >>> limits = gate_interval(Interval(0.8, 1.2), 1.0, 0.1, 300, level=0.95, skewness=3.0)
        >>> round(limits.low, 4), round(limits.high, 4)
        (0.8, 1.2874)
    """
    widest = max(widest, abs(value))
    if not (shown.exists and widest > 0.0) or std_error is None or math.isnan(skewness):
        return NO_INTERVAL
    error, df = 0.5 * (1.0 - level), n - 1.0 if df is None else df
    t, more = -t_quantile(error, df), OF_SKEWNESS * skewness
    reaches = [reach(t, each, n, only_wider=True) for each in (more, -more)]
    if abs(skewness) > MOST_SKEWED * math.sqrt(n):
        reaches[skewness > 0.0] = float(n)
    squares = df * (df + 1.0) * std_error**2
    down, up = (
        max(
            each * std_error,
            Seen(widest, df + 1.0, n, squares, mean=mean).reach_at_least(error),
        )
        for each, mean in zip(reaches, (-value, value), strict=True)
    )
    return shown.around(Interval(value - down, value + up))


def gate_interval_of(shown: Interval, sums: ExactSums, column: int, *, level: float) -> Interval:
    """Those of the mean of a column; where values lie beyond 1, skewness is told by the largest.

    Example:
        >>> import numpy as np
        >>> sums = ExactSums(1)
        >>> _ = sums.add(np.array([[1.0], [2.0], [4.0], [9.0]] * 75))
        >>> limits = gate_interval_of(Interval(3.65, 4.35), sums, 0, level=0.95)
        >>> round(limits.low, 4), round(limits.high, 4)
        (3.6492, 4.3508)
    """
    total, skewness, widest = sums.sum_of(column), sums.skewness_of(column), sums.largest_of(column)
    mean, error, n = total.mean, total.std_error, total.count
    if error == 0.0:
        skewness = 0.0
    elif math.isnan(skewness) and error is not None:
        away = (widest - abs(mean)) / (error * math.sqrt(n))
        skewness = math.copysign(skewness_of_largest(away, n), mean)
    return gate_interval(shown, mean, error, n, level=level, skewness=skewness, widest=widest)


def carried_interval(
    shown: Interval, value: float, std_error: float | None, n: float, *, level: float
) -> Interval:
    """Limits that gates go by of a number from 0 to 1 that few users carry; they hold those shown.

    They are Wilson's of as many values as its error has, at Student's quantile of these users; of
    fewer than four nothing is known, and of many the limits shown stand.

    Args:
        n: users who carry it, as those with a positive row do an AUC.
    Example:
        >>> limits = carried_interval(Interval(0.7, 0.9), 0.8, 0.05, 12, level=0.95)
        >>> round(limits.low, 4), round(limits.high, 4)
        (0.6643, 0.9)
    """
    if not shown.exists or std_error is None or n >= MANY_CARRYING:
        return NO_INTERVAL
    if n < FEWEST_CARRYING:
        return Interval(0.0, 1.0)
    room, square = value * (1.0 - value), std_error**2 * n / (n - 1.0)
    if not (square > 0.0 and room > 2.0 * square):  # all alike, or as far apart as can be
        return shown.around(exact_interval(value * n, n, level=level))
    reached = 1.0 - 2.0 * normal_sf(-t_quantile(0.5 * (1.0 - level), n - 1.0))
    return shown.around(wilson_interval(value * room / square, room / square, level=reached))
