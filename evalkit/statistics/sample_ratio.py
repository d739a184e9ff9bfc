"""Whether units arrived in the shares that were declared."""

import math
from collections.abc import Sequence

from ._incomplete import beta_tails
from .distributions import chi_squared_sf

ALARM = 0.001
FEWEST = 1000  # units of two variants, below which the binomial test serves
CONCENTRATION = 10_000.0  # units that the prior of the shares is worth


def sample_ratio_p(counts: Sequence[int], shares: Sequence[float], method: str = "auto") -> float:
    """p of "units came in these shares", of all variants at once; NaN without a unit.

    Args:
        method: chi-squared, exact (binomial, of two variants), or auto: exact below 1,000 units.
    Source:
        Fabijan et al. 2019, Diagnosing Sample Ratio Mismatch in Online Controlled Experiments,
        KDD; Pearson 1900, Philosophical Magazine 50(302), 157-175.
    Example:
        >>> round(sample_ratio_p([5021, 4979], [1, 1]), 6), round(sample_ratio_p([3, 9], [1, 1]), 6)
        (0.674485, 0.145996)
    """
    n, whole = sum(counts), math.fsum(shares)
    if not n:
        return math.nan
    if len(counts) == 2 and (method == "exact" or (method == "auto" and n < FEWEST)):
        return binomial_p(counts[1], n, shares[1] / whole)
    expected = [n * share / whole for share in shares]
    squares = [(own - e) ** 2 / e for own, e in zip(counts, expected, strict=True)]
    return chi_squared_sf(math.fsum(squares), len(counts) - 1)


def binomial_p(k: int, n: int, share: float) -> float:
    """Exact two-sided p of k of n: all outcomes that are no likelier.

    Source:
        Clopper and Pearson 1934, Biometrika 26(4), 404-413; outcomes ordered by their chance.
    Example:
        >>> round(binomial_p(42, 63, 0.5), 12)
        0.011141407415
    """

    def log_chance(x: int) -> float:
        choose = math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1)
        return choose + x * math.log(share) + (n - x) * math.log1p(-share)

    if n == 0:
        return 1.0
    if not 0.0 < share < 1.0:  # of a share that rounds to all
        return float(k == n * share)
    at = log_chance(k) + 1e-7
    mode = min(n, math.floor((n + 1) * share))
    if k == mode or log_chance(mode) <= at:  # two outcomes may be the likeliest
        return 1.0
    if k < mode:
        low, high = mode, n + 1  # the first on the other side that is no likelier
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if log_chance(middle) <= at else (middle, high)
        return min(1.0, at_most(k, n, share) + at_least(high, n, share))
    low, high = -1, mode
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if log_chance(middle) <= at else (low, middle)
    return min(1.0, at_least(k, n, share) + at_most(low, n, share))


def at_least(k: int, n: int, share: float) -> float:
    """P(X >= k) of a binomial variable.

    Example:
        >>> import numpy as np
        >>> round(at_least(8, 10, 0.5), 6)
        0.054687
    """
    if k <= 0:
        return 1.0
    return 0.0 if k > n else float(beta_tails(k, n - k + 1, share, 1.0 - share)[0])


def at_most(k: int, n: int, share: float) -> float:
    """P(X <= k) of a binomial variable.

    Example:
        >>> import numpy as np
        >>> round(at_most(2, 10, 0.5), 6)
        0.054687
    """
    return at_least(n - k, n, 1.0 - share)


def sequential_ratio_p(counts: Sequence[int], shares: Sequence[float]) -> float:
    """p of "units came in these shares" that holds at any number of looks; of 1 at most.

    One over the Bayes factor of multinomial shares around the declared ones, whose prior is worth
    10,000 units.

    Source:
        Lindon and Malek 2022, Anytime-Valid Inference for Multinomial Count Data, NeurIPS,
        equation 5.
    Example:
        >>> sequential_ratio_p([5021, 4979], [1, 1])
        1.0
        >>> round(sequential_ratio_p([10000, 10600], [1, 1]), 6)
        0.004875
    """
    n, whole = sum(counts), math.fsum(shares)
    log = math.lgamma(CONCENTRATION) - math.lgamma(CONCENTRATION + n)
    for count, share in zip(counts, shares, strict=True):
        prior = CONCENTRATION * share / whole
        log += math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(share / whole)
    return min(1.0, math.exp(min(0.0, -log)))
