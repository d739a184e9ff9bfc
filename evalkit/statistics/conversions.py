"""Two independent shares of few units: Newcombe's limits, and the tests whose inverse they are."""

import math

from .independent import Rules
from .intervals import NO_INTERVAL, Interval, difference_interval, reach_of_zero, wilson_interval

FEWEST_UNITS = 1000  # of both variants, below which Newcombe's limits serve shares
FEWEST_CONVERSIONS = 10


def newcombe(
    ones: tuple[int, int], ns: tuple[int, int], rules: Rules, *, times: float = 1.0, at: float = 0.0
) -> tuple[Interval, float, float]:
    """Limits of the difference of two independent shares less `at`, the p whose inverse they are,
    and how many standard errors it is from 0.

    Args:
        ones: units that are 1, of the baseline and of the candidate; `ns` of all.
        times: what the baseline counts.
    Source:
        Newcombe 1998, Statistics in Medicine 17(8), 873-890, method 10.
    Example:
        >>> limits, p_value, z = newcombe((2, 4), (8, 8), Rules())
        >>> round(limits.low, 6), round(limits.high, 6), round(p_value, 3), round(z, 3)
        (-0.194067, 0.586112, 0.3, 1.036)
    """
    if min(ns) < 2:
        return NO_INTERVAL, math.nan, math.nan
    base, new = times * ones[0] / ns[0], ones[1] / ns[1]

    def limits(reach: float) -> Interval:
        level = math.erf(reach * math.sqrt(0.5))
        side, other = (
            wilson_interval(one, n, level=level) for one, n in zip(ones, ns, strict=True)
        )
        found = difference_interval(new, other, base, Interval(times * side.low, times * side.high))
        return Interval(found.low - at, found.high - at)

    n = sum(ns)
    own = rules.reach(math.inf, n)
    z = reach_of_zero(lambda reach: limits(min(reach, 38.0)), new - base - at)
    return rules.opened(limits(min(own, 8.0))), rules.p_value(z, math.inf, n), z
