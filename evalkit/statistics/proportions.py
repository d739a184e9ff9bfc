"""Two shares of the same users compared: McNemar's mid-p, and the limits that go with it.

Whatever is said of the difference follows from the users who differ and from how many there are:
Tango's score limits, whose quantile is stretched so that a limit is 0 at the level of the mid-p.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from evalkit.kernels.arrays import Floats, Ints

from ._root import root_of
from .distributions import Remembered, beta_halves, normal_quantile, normal_quantiles, normal_sf
from .intervals import NO_INTERVAL, Interval, check_level

NEAREST = 1e-3  # of a difference, that a limit is from 0 where the test alone tells them apart
MOST_COUNTED = 60  # users who differ, whose chances are added up as whole numbers
HALVINGS = 60  # of what a limit lies in: to the last bit


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided mid-p of "as many gain as lose"; 1 where nobody differs.

    Half of the chance of what was seen counts: the exact test errs seldomer than it says, this one
    as often (enumerated, at most 4.98 times in 100 at 0.05).

    Source:
        McNemar 1947, Psychometrika 12(2), 153-157; Fagerland, Lydersen and Laake 2013, The McNemar
        Test for Binary Matched-Pairs Data, BMC Medical Research Methodology 13, 91.
    Example:
        >>> mcnemar_p(4, 0), mcnemar_p(3, 3), round(mcnemar_p(21, 9), 4)
        (0.0625, 1.0, 0.0294)
    """
    return _mcnemar_p((gained, lost))


def find_mcnemar_ps(wanted: Iterable[tuple[int, int]]) -> None:
    """Find `mcnemar_p` of many counts at a time, to be asked for soon.

    Example:
        >>> find_mcnemar_ps([(4, 0), (21, 9)])
        >>> round(mcnemar_p(21, 9), 4)
        0.0294
    """
    _mcnemar_p.find(wanted)


def _mcnemar_ps(wanted: Sequence[tuple[int, int]]) -> list[float]:
    found = {}
    many = []
    for gained, lost in wanted:
        n, fewer = gained + lost, min(gained, lost)
        if gained == lost:
            found[gained, lost] = 1.0
        elif n <= MOST_COUNTED:
            below = sum(math.comb(n, k) for k in range(fewer))
            found[gained, lost] = float(Fraction(2 * below + math.comb(n, fewer), 2**n))
        else:
            many.append((gained, lost))
    ps = _twice_below([float(sum(each)) for each in many], [float(min(each)) for each in many])
    found.update(zip(many, ps, strict=True))
    return [found[each] for each in wanted]


_mcnemar_p = Remembered(_mcnemar_ps)


def _twice_below(ns: Sequence[float], fewer: Sequence[float]) -> list[float]:
    """P(X < k) + P(X <= k) of n throws of a coin each; numbers need not be whole."""
    pairs = [*zip(ns, fewer, strict=True)]
    below = beta_halves([(n - k + 1.0, k) for n, k in pairs if k > 0.0])
    upto = beta_halves([(n - k, k + 1.0) for n, k in pairs])
    left = iter(below)
    return [(next(left) if k > 0.0 else 0.0) + p for (_, k), p in zip(pairs, upto, strict=True)]


@lru_cache(maxsize=65536)
def _quantiles(gained: int, lost: int) -> tuple[float, float]:
    """The normal quantiles of the score test and of the mid-p; of as many, half a user apart."""
    n = gained + lost
    if not n:
        return 1.0, 1.0
    if gained == lost:
        return 1.0 / math.sqrt(n), -normal_quantile(0.5 * _twice_below([n], [0.5 * (n - 1)])[0])
    return abs(gained - lost) / math.sqrt(n), -normal_quantile(0.5 * mcnemar_p(gained, lost))


def stretched(z: float, gained: int, lost: int) -> float:
    """The quantile of score limits that hold 0 exactly where the mid-p is above that of `z`.

    At the quantile of the mid-p it is that of the score test; further in, what lies between these
    two counts by the square of the quantile, further out as it is.

    Example:
        >>> round(stretched(1.959964, 21, 9), 4), round(stretched(1.959964, 1, 0), 4)
        (1.9698, 2.2855)
    """
    score, own = _quantiles(gained, lost)
    if z >= own:
        return z + (score - own)
    return z * (1.0 + (score / own - 1.0) * (z / own) ** 2)


def _unstretched(score_z: float, gained: int, lost: int) -> float:
    """The quantile whose `stretched` is this."""
    score, own = _quantiles(gained, lost)
    if score_z <= 0.0:
        return score_z
    if score_z >= score:
        return score_z - (score - own)
    most = 2.0 * score_z if math.isinf(own) else own  # further in hardly anything is stretched
    return root_of(lambda z: stretched(z, gained, lost) - score_z, 0.0, most)


def paired_interval(both: int, gained: int, lost: int, neither: int, *, level: float) -> Interval:
    """Limits of the difference of two shares of the same users, within -1 and 1.

    Tango's score limits, made to say what McNemar's mid-p says: 0 is within them exactly where the
    test cannot tell the shares apart.

    Args:
        both: users who are 1 in both; `gained` in the candidate alone, `lost` in the baseline.
    Source:
        Tango 1998, Equivalence Test and Confidence Interval for the Difference in Proportions for
        the Paired-Sample Design, Statistics in Medicine 17(8), 891-908.
    Example:
        >>> limits = paired_interval(36, 12, 2, 0, level=0.95)
        >>> round(limits.low, 4), round(limits.high, 4)
        (0.0613, 0.3445)
    """
    check_level(level)
    n = both + gained + lost + neither
    if n < 2:
        return NO_INTERVAL
    b, c, ns = (np.array([each]) for each in (gained, lost, n))
    low, high = paired_limits(b, c, ns, np.array([level]))
    return Interval(float(low[0]), float(high[0]))


def paired_limits(gained: Ints, lost: Ints, ns: Ints, levels: Floats) -> tuple[Floats, Floats]:
    """`paired_interval` of each, at a level of its own; `ns` are all users, two at least.

    Example:
        >>> gained, lost, n = np.array([8]), np.array([2]), np.array([50])
        >>> low, high = paired_limits(gained, lost, n, np.array([0.95]))
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([-0.0088], [0.259])
    """
    errors = [0.5 * (1.0 - level) for level in levels.tolist()]
    quantiles = normal_quantiles(errors)
    plain = [-quantiles[error] for error in errors]
    zs = np.array([*map(stretched, plain, gained.tolist(), lost.tolist())])
    b, c, n = gained.astype(np.float64), lost.astype(np.float64), ns.astype(np.float64)
    return -_highest(c, b, n, zs), _highest(b, c, n, zs)


def _highest(b: Floats, c: Floats, n: Floats, zs: Floats) -> Floats:
    """The upper limit: where the score is -z, which falls as the difference rises."""
    low, high = (b - c) / n, np.ones(n.shape)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        excess, variance = _score(b, c, n, middle)
        is_inside = excess > -zs * np.sqrt(variance)
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return high


def _score(b: Floats, c: Floats, n: Floats, delta: Floats) -> tuple[Floats, Floats]:
    """What is seen less what a difference expects, and its variance there (Tango, equation 6)."""
    mixed = (2.0 * n - b + c) * delta - b - c
    inside = mixed * mixed + 8.0 * n * c * delta * (1.0 - delta)
    share = (np.sqrt(np.maximum(inside, 0.0)) - mixed) / (4.0 * n)
    variance = n * (2.0 * share + delta * (1.0 - delta))
    return b - c - n * delta, np.maximum(variance, 0.0)


def margin_p_values(
    both: int, gained: int, lost: int, neither: int, *, margin: float
) -> tuple[float, float]:
    """One-sided p of "the difference is not above -margin", and of "not below margin".

    p is half of 1 - level where a limit of that level is the margin.

    Example:
        >>> above, below = margin_p_values(36, 12, 2, 0, margin=0.05)
        >>> round(above, 4), round(below, 4)
        (0.0007, 0.982)
    """
    n = both + gained + lost + neither
    found = []
    for b, c in ((gained, lost), (lost, gained)):
        numbers = (np.array([float(each)]) for each in (b, c, n, -margin))
        excess, variance = (float(each[0]) for each in _score(*numbers))
        if margin >= 1.0 or not variance:
            found.append(0.0 if margin > 1.0 else 1.0)
            continue
        found.append(normal_sf(_unstretched(excess / math.sqrt(variance), b, c)))
    return found[0], found[1]
