"""Limits over nights that hold however often they are looked at."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

TIGHTEST = 10.0  # times the variance of the first night: where limits are tightest
_AT = -2.0 * math.log(0.05)
PRIOR = TIGHTEST / (_AT + math.log(_AT) + 1.0)  # over that variance


@dataclass(frozen=True, slots=True)
class SoFar:
    """What the nights up to one say of the mean difference of them all.

    Args:
        mean: over users and nights.
        low, high: None where no user has differed yet.
        p_value: the smallest so far of "no night has a difference".
    """

    mean: float
    low: float | None
    high: float | None
    p_value: float


def follow_nights(
    deltas: Sequence[float],
    errors: Sequence[float],
    n_users: Sequence[int],
    *,
    level: float,
    disjoint: bool,
) -> list[SoFar]:
    """A confidence sequence of the mean difference over users and nights.

    With chance `level` all of its limits hold at once, night by night the mean of the true
    differences of the nights so far, which may differ: so it may be looked at every night and
    ended at any. It is the mixture of normal likelihood ratios over a normal prior, by which a
    p-value is had as well; both suppose that the mean of one night is normal.

    The variance of the sum over nights is the sum of variances where nights share no users. Users
    who come back are alike from night to night, and nobody knows how much: then the sum of
    standard errors, squared, is above it. Limits hold for any such likeness: a sum whose later
    steps lean the way it went already crosses a limit no sooner than one of free steps (Slepian),
    and limits only grow with the variance.

    Args:
        deltas: the mean difference of each night; errors: its standard error.
        n_users: the users of each night, by which it counts.
        level: of the limits.
        disjoint: no user is measured on two nights.
    Source:
        Robbins 1970, Annals of Mathematical Statistics 41(5), 1397-1409; Howard, Ramdas, McAuliffe
        and Sekhon 2021, Annals of Statistics 49(2), 1055-1080, equation 3.7 (the boundary);
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, Annals of Statistics 52(6), 2613-2640
        (means that are only asymptotically normal and differ); Slepian 1962, Bell System Technical
        Journal 41(2), 463-501.
    Example:
        >>> (found,) = follow_nights([0.5], [0.1], [100], level=0.95, disjoint=True)
        >>> round(found.low, 4), round(found.high, 4), round(found.p_value, 6)
        (0.1237, 0.8763, 0.003968)
    """
    total = weight = variance = prior = 0.0
    smallest = 1.0
    found = []
    for delta, error, n in zip(deltas, errors, n_users, strict=True):
        total += n * delta
        weight += n
        own = n * error
        variance = variance + own**2 if disjoint else (math.sqrt(variance) + own) ** 2
        prior = prior or PRIOR * variance
        if prior == 0.0:
            found.append(SoFar(total / weight, None, None, 1.0))
            continue
        grown = math.log1p(variance / prior)
        spread = variance + prior
        smallest = min(smallest, math.exp(min(0.0, 0.5 * (grown - total**2 / spread))))
        half = math.sqrt(spread * (grown - 2.0 * math.log1p(-level))) / weight
        mean = total / weight
        found.append(SoFar(mean, mean - half, mean + half, smallest))
    return found
