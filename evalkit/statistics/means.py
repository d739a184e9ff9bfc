"""Confidence limits of a mean of users, from its exact sum."""

from evalkit.statistics.exact import SCALE_BITS, ExactSum

from .intervals import Interval, mean_interval, wilson_interval


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
