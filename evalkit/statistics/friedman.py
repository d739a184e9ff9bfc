"""Models over several data sets: mean ranks, Friedman's test, Nemenyi's differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .distributions import chi_squared_sf
from .studentised_range import range_quantile, range_sf

FEWEST_SETS = 6  # below it the smallest two-sided p-value of signed ranks is above 0.05


@dataclass(frozen=True, slots=True)
class Friedman:
    """Friedman's test of "the models rank alike".

    Args:
        mean_ranks: of each model, 1 the best.
        statistic: chi squared, with equal values at their mean rank; NaN where all are equal.
        p_value: of chi squared with one degree of freedom less than models.
    """

    mean_ranks: tuple[float, ...]
    statistic: float
    p_value: float


def ranks_of(values: Sequence[float]) -> list[float]:
    """1 for the largest; equal values share their mean rank.

    Example:
        >>> ranks_of([0.3, 0.1, 0.3])
        [1.5, 3.0, 1.5]
    """
    return [
        sum(other > value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def friedman_test(rows: Sequence[Sequence[float]]) -> Friedman:
    """Friedman's test of models over data sets.

    Args:
        rows: for each data set the value of each model, the larger the better.
    Source:
        Friedman 1937, JASA 32(200), 675-701; Conover 1999, Practical Nonparametric Statistics,
        5.8, for ties; Demsar 2006, JMLR 7, 1-30, for models over data sets.
    Example:
        >>> found = friedman_test([[0.3, 0.2, 0.1], [0.5, 0.4, 0.1], [0.2, 0.3, 0.1]])
        >>> [round(each, 3) for each in found.mean_ranks], round(found.statistic, 6)
        ([1.333, 1.667, 3.0], 4.666667)
    """
    n, k = len(rows), len(rows[0])
    ranked = [ranks_of(row) for row in rows]
    sums = [math.fsum(ranks[place] for ranks in ranked) for place in range(k)]
    ties = sum(row.count(value) ** 3 - row.count(value) for row in ranked for value in set(row))
    spread = 1 - ties / (n * (k**3 - k)) if k > 1 else 0.0
    means = tuple(each / n for each in sums)
    if spread <= 0.0:
        return Friedman(means, math.nan, math.nan)
    squares = math.fsum(each * each for each in sums)
    statistic = (12 / (n * k * (k + 1)) * squares - 3 * n * (k + 1)) / spread
    return Friedman(means, statistic, chi_squared_sf(statistic, k - 1))


def critical_difference(n_models: int, n_sets: int, *, level: float) -> float:
    """So much two mean ranks must differ, for all pairs at once.

    Source:
        Nemenyi 1963, Distribution-free Multiple Comparisons, Princeton; Demsar 2006, 3.2.2.
    Example:
        >>> round(critical_difference(5, 30, level=0.95), 4)
        1.1136
    """
    quantile = range_quantile(level, n_models, math.inf) / math.sqrt(2)
    return quantile * math.sqrt(n_models * (n_models + 1) / (6 * n_sets))


def nemenyi_p(difference: float, n_models: int, n_sets: int) -> float:
    """The p-value of a difference of mean ranks, adjusted for all pairs.

    Example:
        >>> round(nemenyi_p(1.2, 5, 30), 4)
        0.0272
    """
    error = math.sqrt(n_models * (n_models + 1) / (12 * n_sets))
    return range_sf(abs(difference) / error, n_models, math.inf)
