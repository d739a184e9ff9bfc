"""Fieller's limits of one ratio, in plain Python."""

import math

from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.intervals import NO_INTERVAL, Interval


def relative_interval(
    baseline: float,
    baseline_error: float | None,
    delta: float,
    delta_error: float | None,
    candidate_error: float | None,
    n: int,
    *,
    level: float,
    limits: Interval | None = None,
) -> Interval:
    """Limits of delta / baseline from those of delta, Student's where none are given."""
    if n < 2 or baseline_error is None or delta_error is None or candidate_error is None:
        return NO_INTERVAL
    t = -t_quantile(0.5 * (1.0 - level), n - 1)
    if limits is None:
        limits = Interval(delta - t * delta_error, delta + t * delta_error)
    down, up = delta - limits.low, limits.high - delta
    if baseline < 0.0:  # of which delta is a share of the other sign
        baseline, delta, down, up = -baseline, -delta, up, down
    baseline_variance, delta_variance = baseline_error**2, delta_error**2
    covariance = 0.5 * (candidate_error**2 - baseline_variance - delta_variance)
    # the ratios r with (delta - r baseline)^2 <= what the errors of both allow on that side
    a = baseline * baseline - t * t * baseline_variance
    slope = t * covariance / delta_error if delta_error > 0.0 else 0.0
    if not a > 0.0:
        return NO_INTERVAL
    b, c = baseline * delta - slope * down, delta * delta - down * down
    root = math.sqrt(max(0.0, b * b - a * c))
    low = c / (b + root) if b > 0.0 else (b - root) / a  # the same, without cancellation
    b, c = baseline * delta - slope * up, delta * delta - up * up
    root = math.sqrt(max(0.0, b * b - a * c))
    high = c / (b - root) if b < 0.0 else (b + root) / a
    return Interval(low, high)
