"""Confidence limits of means, shares and differences.

Of fewer than two users there are none: both limits are NaN. Where all users have one value, the
standard error is 0 and both limits are that value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from evalkit.errors import RequestError

from .distributions import f_quantile, normal_quantile, t_quantile
from .skewness import reach


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

    def around(self, other: "Interval") -> "Interval":
        """The least limits that hold both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, bounds: tuple[float, float]) -> "Interval":
        """The same limits, none beyond what a value can be."""
        least, most = bounds
        if not self.exists or (least <= self.low <= most and least <= self.high <= most):
            return self
        return Interval(min(max(self.low, least), most), min(max(self.high, least), most))


NO_INTERVAL = Interval(math.nan, math.nan)


def check_level(level: float) -> None:
    """Raise unless `level` is a confidence level.

    Raises:
        RequestError: it is not above 0 and below 1 [level-out-of-range].
    """
    if not 0.0 < level < 1.0:
        message = f"level is {level!r}, not above 0 and below 1"
        hint = "level = 0.95 gives intervals that hold the true value 19 times in 20"
        raise RequestError(message, code="level-out-of-range", hint=hint)


def mean_interval(
    mean: float,
    std_error: float | None,
    n: int,
    *,
    level: float,
    skewness: float = math.nan,
    df: float | None = None,
    only_wider: bool = False,
) -> Interval:
    """The interval of a mean: Student's, mended for skewness (`skewness`) where that is known.

    It serves paired differences as well: their mean, its standard error, number and skewness.
    Metrics are 0 for most users and large for a few. Student's interval then lies too low: of
    1,000 users of whom one in twenty has a hit, its 95 % limits of RR hold 92 times in 100.

    Args:
        mean: of the values.
        std_error: s / sqrt(n) with n - 1 in the variance; None below two values.
        n: how many values, or clusters of them.
        level: above 0 and below 1.
        skewness: of the values; NaN where unknown, which gives Student's interval.
        df: degrees of freedom, n - 1 by default.
        only_wider: limits are Student's, or wider (`skewness`).
    Raises:
        RequestError: `level` is not above 0 and below 1 [level-out-of-range].
    Source:
        Student 1908, Biometrika 6(1), 1-25; Hall 1992, JRSS B 54(1), 221-228.
    Example:
        >>> limits = mean_interval(0.4, 0.05, 30, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.297739, 0.502261)
        >>> limits = mean_interval(0.4, 0.05, 30, level=0.95, skewness=2.0)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.307952, 0.552588)
    """
    check_level(level)
    if n < 2 or std_error is None:
        return NO_INTERVAL
    t = -t_quantile(0.5 * (1.0 - level), n - 1 if df is None else df)
    down = reach(t, skewness, n, only_wider=only_wider)
    up = reach(t, -skewness, n, only_wider=only_wider)
    return Interval(mean - down * std_error, mean + up * std_error)


def difference_interval(one: float, its: Interval, other: float, others: Interval) -> Interval:
    """The interval of `one - other`, of two estimates that do not hang together, by their limits.

    What skewness, shares and few users do to the limits of each, they do to those of the
    difference: of two shares with Wilson's limits these are Newcombe's.

    Args:
        its, others: limits of each at the level of the interval.
    Source:
        Zou and Donner 2008, Construction of Confidence Limits About Effect Measures, Statistics in
        Medicine 27(10), 1693-1702; Newcombe 1998, Statistics in Medicine 17(8), 873-890, method 10.
    Example:
        >>> limits = difference_interval(0.5, Interval(0.4, 0.6), 0.2, Interval(0.2, 0.3))
        >>> round(limits.low, 4), round(limits.high, 4)
        (0.1586, 0.4)
    """
    low = math.hypot(one - its.low, others.high - other)
    high = math.hypot(its.high - one, other - others.low)
    return Interval(one - other - low, one - other + high)


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
    half = -normal_quantile(0.5 * (1.0 - level)) * std_error
    return Interval(mean - half, mean + half)


def rare_interval(
    rate: float, variance: float, unseen: float, *, level: float, df: float
) -> Interval:
    """Limits of a sum of rare events that count differently, each as a Poisson count has them.

    Half of an event more stands for the half of the chance of what was seen; of no event, a whole.

    Args:
        rate: the sum of what the events count, at least 0.
        variance: the sum of the squares.
        unseen: what one more event would count.
        df: degrees of freedom of the quantile.
    Source:
        Fay and Feuer 1997, Statistics in Medicine 16(7), 791-801; Tiwari, Clegg and Zou 2006,
        Statistical Methods in Medical Research 15(6), 547-569 (events not seen are of average
        size); Breslow and Day 1987, section 2.3 (Byar's approximation of Poisson tails).
    Example:
        >>> limits = rare_interval(10.0, 10.0, 1.0, level=0.95, df=1e6)
        >>> round(limits.low, 3), round(limits.high, 3)
        (5.134, 17.74)
    """
    check_level(level)
    if not rate > 0.0 and not unseen > 0.0:
        return Interval(0.0, 0.0)
    t = -t_quantile(0.5 * (1.0 - level), df)
    more = 0.5 if rate > 0.0 else 1.0
    total = rate + more * unseen
    events = total * total / (variance + more * unseen * unseen)
    low, high = (
        total * max(1.0 - 1.0 / (9.0 * events) + each / (3.0 * math.sqrt(events)), 0.0) ** 3
        for each in (-t, t)
    )
    return Interval(low if rate > 0.0 else 0.0, high)


def wilson_interval(successes: float, n: float, *, level: float) -> Interval:
    """Wilson's score interval of a share: within 0 and 1, and never of no width.

    Args:
        successes: how many of the `n` values are 1, the others being 0; of users who vary together,
            `n` may be a number between.
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
    half = math.sqrt(square * (n * share * (1.0 - share) + 0.25 * square)) / (n + square)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low, high)


def exact_interval(successes: float, n: float, *, level: float) -> Interval:
    """The limits of a share that no share errs from more often than they say, each on its side.

    Source:
        Clopper and Pearson 1934, Biometrika 26(4), 404-413; as quantiles of F: Brown, Cai and
        DasGupta 2001, Statistical Science 16(2), 101-133, section 4.2.1.
    Example:
        >>> limits = exact_interval(1, 50, level=0.95)
        >>> round(limits.low, 6), round(limits.high, 6)
        (0.000506, 0.10647)
    """
    check_level(level)
    if n < 2:
        return NO_INTERVAL
    error, others, low, high = 0.5 * (1.0 - level), n - successes, 0.0, 1.0
    if successes > 0:
        f = f_quantile(1.0 - error, 2.0 * successes, 2.0 * (others + 1.0))
        low = successes * f / (successes * f + others + 1.0)
    if others > 0:
        f = f_quantile(error, 2.0 * (successes + 1.0), 2.0 * others)
        high = (successes + 1.0) * f / ((successes + 1.0) * f + others)
    return Interval(low, high)


def reach_of_zero(limits: Callable[[float], Interval], delta: float) -> float:
    """How many standard errors limits reach out when one of them is 0, with the sign of delta.

    Example:
        >>> round(reach_of_zero(lambda reach: Interval(2.0 - reach, 2.0 + reach), 2.0), 6)
        2.0
    """
    if math.isnan(delta):
        return math.nan
    inside, outside = 0.0, 8.0
    for _ in range(60):
        middle = 0.5 * (inside + outside)
        found = limits(middle)
        if found.low <= 0.0 <= found.high:
            outside = middle
        else:
            inside = middle
    return math.copysign(inside, delta) if delta else 0.0
