"""Confidence limits of means, shares, differences and relative differences.

Of fewer than two users there are none: both limits are NaN. Where all users have one value, the
standard error is 0 and both limits are that value.
"""

import math
from dataclasses import dataclass

from evalkit.errors import RequestError

from .distributions import beta_quantile, normal_quantile, t_quantile


@dataclass(frozen=True, slots=True)
class Interval:
    """Confidence limits, `low <= high` in the unit of the estimate; NaN where there are none."""

    low: float
    high: float

    @property
    def exists(self) -> bool:
        """Whether there are limits, be they infinite."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def holds(self, value: float) -> bool:
        """Whether a value is within the limits."""
        return self.low <= value <= self.high


NO_INTERVAL = Interval(math.nan, math.nan)


def check_level(level: float) -> None:
    """Raise unless `level` is a confidence level.

    Raises:
        RequestError: it is not above 0 and below 1 [level-out-of-range].
    """
    if not 0.0 < level < 1.0:
        raise RequestError(
            f"level is {level!r}, not above 0 and below 1",
            code="level-out-of-range",
            hint="level = 0.95 gives intervals that hold the true value 19 times in 20",
        )


def mean_interval(mean: float, std_error: float | None, n: int, *, level: float) -> Interval:
    """Student's t interval of a mean, with n - 1 degrees of freedom.

    It serves paired differences as well: their mean, its standard error and their number.

    Args:
        mean: of the values.
        std_error: s / sqrt(n) with n - 1 in the variance; None below two values.
        n: how many values.
        level: above 0 and below 1.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Student 1908, Biometrika 6(1), 1-25.
    Example:
        >>> limits = mean_interval(0.4, 0.05, 30, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.297739, 0.502261)
    """
    check_level(level)
    if n < 2 or std_error is None:
        return NO_INTERVAL
    return _around(mean, std_error, -t_quantile(0.5 * (1.0 - level), n - 1))


def skewed_interval(
    mean: float, std_error: float | None, n: int, skewness: float, *, level: float
) -> Interval:
    """The interval of a mean of skewed values: halfway between Student's and Hall's.

    Metrics are 0 for most users and large for a few. Student's interval then lies too low: of
    1,000 users of whom one in twenty has a hit, its 95 % limits of RR hold 92 times in 100. Hall's
    turns t by a cubic that takes its skewness away; as the sample's skewness is uncertain itself,
    Hall's whole correction is too much for few users, and half of it was nearest to the level in
    simulations (docs/statistics.md). Both have the same limit, and so has what lies between.

    Args:
        mean: of the values.
        std_error: s / sqrt(n) with n - 1 in the variance; None below two values.
        n: how many values.
        skewness: of the values; NaN where unknown, which gives Student's interval.
        level: above 0 and below 1.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Hall 1992, On the Removal of Skewness by Transformation, JRSS B 54(1), 221-228.
    Example:
        >>> limits = skewed_interval(0.4, 0.05, 30, 2.0, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.307952, 0.530506)
    """
    plain = mean_interval(mean, std_error, n, level=level)
    if math.isnan(skewness) or not std_error or not plain.exists:
        return plain
    k = skewness / math.sqrt(n)
    if abs(k) < 1e-9:
        return plain
    t = -t_quantile(0.5 * (1.0 - level), n - 1)
    turned = [3.0 / k * (math.cbrt(1.0 + k * (x - k / 6.0)) - 1.0) for x in (t, -t)]
    low, high = (mean - std_error * each for each in turned)
    return Interval(0.5 * (plain.low + low), 0.5 * (plain.high + high))


def normal_interval(mean: float, std_error: float | None, *, level: float) -> Interval:
    """The interval of an estimate that is normal with a known standard error.

    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Example:
        >>> limits = normal_interval(0.4, 0.05, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.302002, 0.497998)
    """
    check_level(level)
    if std_error is None:
        return NO_INTERVAL
    return _around(mean, std_error, -normal_quantile(0.5 * (1.0 - level)))


def _around(mean: float, std_error: float, quantile: float) -> Interval:
    reach = quantile * std_error
    return Interval(mean - reach, mean + reach)


def wilson_interval(successes: int, n: int, *, level: float) -> Interval:
    """Wilson's score interval of a share: within 0 and 1, and never of no width.

    Args:
        successes: how many of the `n` values are 1, the others being 0.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Wilson 1927, JASA 22(158), 209-212; Brown, Cai and DasGupta 2001, Statistical Science
        16(2), 101-133, equation 4.
    Example:
        >>> limits = wilson_interval(8, 10, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.490162, 0.943318)
    """
    check_level(level)
    if n < 2:
        return NO_INTERVAL
    square = normal_quantile(0.5 * (1.0 - level)) ** 2
    share = successes / n
    centre = (successes + 0.5 * square) / (n + square)
    reach = math.sqrt(square * (n * share * (1.0 - share) + 0.25 * square)) / (n + square)
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    high = 1.0 if successes == n else min(1.0, centre + reach)
    return Interval(low, high)


def exact_interval(successes: int, n: int, *, level: float) -> Interval:
    """Clopper and Pearson's interval of a share, which holds it at least as often as it says.

    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Clopper and Pearson 1934, Biometrika 26(4), 404-413.
    Example:
        >>> limits = exact_interval(8, 10, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.443905, 0.974789)
    """
    check_level(level)
    if n < 2:
        return NO_INTERVAL
    tail = 0.5 * (1.0 - level)
    failures = n - successes
    low = 0.0 if successes == 0 else beta_quantile(tail, successes, failures + 1)
    high = 1.0 if failures == 0 else 1.0 - beta_quantile(tail, failures, successes + 1)
    return Interval(low, high)


def relative_interval(
    baseline: float,
    baseline_error: float | None,
    delta: float,
    delta_error: float | None,
    candidate_error: float | None,
    n: int,
    *,
    level: float,
) -> Interval:
    """Fieller's interval of delta / baseline, both means over the same users.

    The covariance of delta and baseline follows from the three standard errors, since the
    candidate is their sum. The set of ratios that the data allow is no interval where the
    baseline itself cannot be told from 0: then there are no limits.

    Args:
        baseline: mean of the baseline.
        baseline_error: its standard error.
        delta: mean of candidate - baseline.
        delta_error: its standard error.
        candidate_error: standard error of the candidate's mean.
        n: users.
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Fieller 1954, Journal of the Royal Statistical Society B 16(2), 175-185.
    Example:
        >>> limits = relative_interval(0.4, 0.02, 0.04, 0.01, 0.02, 500, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.049448, 0.154937)
    """
    check_level(level)
    if n < 2 or baseline_error is None or delta_error is None or candidate_error is None:
        return NO_INTERVAL
    square = t_quantile(0.5 * (1.0 - level), n - 1) ** 2
    baseline_variance, delta_variance = baseline_error**2, delta_error**2
    covariance = 0.5 * (candidate_error**2 - baseline_variance - delta_variance)
    # the ratios r with (delta - r baseline)^2 <= t^2 var(delta - r baseline)
    a = baseline * baseline - square * baseline_variance
    b = baseline * delta - square * covariance
    c = delta * delta - square * delta_variance
    if not a > 0.0:
        return NO_INTERVAL
    root = math.sqrt(max(0.0, b * b - a * c))
    one, other = (b - root) / a, (b + root) / a
    if b > 0.0:
        one = c / (b + root)  # the same, without cancellation
    elif b < 0.0:
        other = c / (b - root)
    return Interval(min(one, other), max(one, other))
