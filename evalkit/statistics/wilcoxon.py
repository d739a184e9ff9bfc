"""Wilcoxon's signed-rank test. Ranks do not merge: it needs the differences of all users at once.

Memory is 8 bytes a difference that is kept, and about 80 more a user who differs while it runs.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .distributions import normal_sf
from .paired import PairedTest

Values = npt.NDArray[np.float64]
MOST_EXACT = 50  # users that differ


@dataclass(frozen=True, slots=True)
class Outcomes:
    """In how many users the candidate is better, equal or worse.

    Example:
        >>> count_outcomes(np.array([0.5, 0.0, -0.25, 0.5, np.nan]))
        Outcomes(wins=2, ties=1, losses=1)
    """

    wins: int
    ties: int
    losses: int


def count_outcomes(differences: Values) -> Outcomes:
    """Wins, ties and losses of a candidate that higher values speak for; NaN is left out."""
    found = (differences > 0.0, differences == 0.0, differences < 0.0)
    return Outcomes(*(int(np.count_nonzero(each)) for each in found))


def wilcoxon_test(differences: Values) -> PairedTest:
    """Two-sided signed-rank test of "differences lie symmetrically around 0".

    The statistic is the smaller of the two rank sums. Equal sizes share their mean rank. It is
    that of SciPy, but for few users with ties, where the exact distribution of these very ranks
    is taken and SciPy takes the normal one: all signs are tried up to 50 users that differ.

    Args:
        differences: float64[n_users]; NaN are left out, as are users without a difference.
    Source:
        Wilcoxon 1945, Biometrics Bulletin 1(6), 80-83.
    Example:
        >>> round(wilcoxon_test(np.array([0.1, 0.3, -0.2, 0.5, 0.4, 0.6])).p_value, 6)
        0.09375
    """
    found = differences[~np.isnan(differences)]
    n_zeros = int(np.count_nonzero(found == 0.0))
    found = found[found != 0.0]
    if found.size == 0:
        return PairedTest(0.0, 1.0 if n_zeros else math.nan, 0)
    sizes = np.abs(found)
    _, place, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    twice = (2 * last - counts + 1)[place]  # twice the mean rank
    positive = int(twice[found > 0.0].sum())
    whole = int(twice.sum())
    smaller = min(positive, whole - positive)
    if found.size <= MOST_EXACT:
        p_value = _exact_p_value(twice, smaller)
    else:
        p_value = _normal_p_value(positive / 2, found.size, counts)
    return PairedTest(smaller / 2, p_value, found.size)


def _exact_p_value(twice: npt.NDArray[np.int64], smaller: int) -> float:
    ways = np.zeros(smaller + 1)
    ways[0] = 1.0
    for rank in twice.tolist():  # halves, so that nothing overflows: shares of all choices
        ways *= 0.5
        if rank <= smaller:
            ways[rank:] += ways[: ways.size - rank].copy()
    return min(1.0, 2.0 * float(ways.sum()))


def _normal_p_value(positive: float, n: int, counts: npt.NDArray[np.int64]) -> float:
    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1)
    tied = sum(count**3 - count for count in counts[counts > 1].tolist())
    distance = abs(positive - mean)
    return min(1.0, 2.0 * normal_sf(distance / math.sqrt((variance - tied / 2) / 24)))
