"""Two shares of the same users compared: exact where few users differ."""

import math

from .intervals import NO_INTERVAL, Interval, check_level, wilson_interval

FEWEST_DIFFERING = 30  # users who differ, below whom a t test says more than it knows
NEAREST = (
    1e-3  # of a difference, that a limit is from 0 where the exact test alone tells them apart
)


def mcnemar_p(gained: int, lost: int) -> float:
    """Exact two-sided p of "as many gain as lose"; 1 where nobody differs.

    Source:
        McNemar 1947, Psychometrika 12(2), 153-157; Fay 2010, Biostatistics 11(2), 373-374.
    Example:
        >>> mcnemar_p(4, 0), mcnemar_p(3, 3)
        (0.125, 1.0)
    """
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2.0 * tail / 2.0**n)


def paired_interval(both: int, gained: int, lost: int, neither: int, *, level: float) -> Interval:
    """Limits of the difference of two shares of the same users, within -1 and 1.

    Newcombe's, of both shares' Wilson limits and their correlation; moved to 0 where McNemar's
    exact test, which is more careful, cannot tell the shares apart, so that both say the same.

    Args:
        both: users who are 1 in both; `gained` in the candidate alone, `lost` in the baseline.
    Source:
        Newcombe 1998, Improved Confidence Intervals for the Difference Between Binomial
        Proportions Based on Paired Data, Statistics in Medicine 17(22), 2635-2650, method 10.
    Example:
        >>> limits = paired_interval(36, 12, 2, 0, level=0.95)
        >>> round(limits.low, 4), round(limits.high, 4)
        (0.0569, 0.3404)
    """
    check_level(level)
    n = both + gained + lost + neither
    if n < 2:
        return NO_INTERVAL
    new, old = both + gained, both + lost
    delta = (gained - lost) / n
    reaches = []
    for share, limits in (
        (successes / n, wilson_interval(successes, n, level=level)) for successes in (new, old)
    ):
        reaches.append((share - limits.low, limits.high - share))
    (new_down, new_up), (old_down, old_up) = reaches
    product = new * (n - new) * old * (n - old)
    mixed = both * neither - gained * lost
    mixed_less = max(0.0, mixed - 0.5 * n) if mixed > 0 else float(mixed)
    phi = mixed_less / math.sqrt(product) if product else 0.0
    down = new_down**2 - 2.0 * phi * new_down * old_up + old_up**2
    up = new_up**2 - 2.0 * phi * new_up * old_down + old_down**2
    low, high = delta - math.sqrt(max(0.0, down)), delta + math.sqrt(max(0.0, up))
    if mcnemar_p(gained, lost) > 1.0 - level:
        low, high = min(low, 0.0), max(high, 0.0)
    elif delta > 0.0:
        low = max(low, NEAREST * delta)
    else:
        high = min(high, NEAREST * delta)
    return Interval(max(-1.0, low), min(1.0, high))


def margin_p_values(
    both: int, gained: int, lost: int, neither: int, *, margin: float
) -> tuple[float, float]:
    """One-sided p of "the difference is not above -margin", and of "not below margin".

    p is half of 1 - level where a limit of that level is the margin.

    Example:
        >>> above, below = margin_p_values(36, 12, 2, 0, margin=0.05)
        >>> round(above, 4), round(below, 4)
        (0.0006, 1.0)
    """
    found = []
    for counts in ((both, gained, lost, neither), (both, lost, gained, neither)):
        inside, outside = 0.0, 1.0  # levels whose lower limit is above -margin, or is not
        if paired_interval(*counts, level=2.0**-40).low <= -margin:
            found.append(1.0)
            continue
        for _ in range(40):
            level = 0.5 * (inside + outside)
            if paired_interval(*counts, level=level).low > -margin:
                inside = level
            else:
                outside = level
        found.append(0.5 * (1.0 - inside))
    return found[0], found[1]
