"""Quantiles of units' values, or of events with units as clusters; differences of two."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .independent import Rules
from .intervals import NO_INTERVAL, Interval, difference_interval, reach_of_zero

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sorted:
    """Values in order, float64[n], and how far the share at or below one varies.

    Args:
        n_units: that they are of.
        deviations: of units' counts at or below the quantile less its share of their events, over
            the mean of events a unit; None where every value is a unit.
    """

    values: Floats
    n_units: int
    deviation: float | None = None

    def at(self, rank: int) -> float:
        """The value of a rank, from 1."""
        return float(self.values[rank - 1])

    def quantile(self, q: float) -> float:
        """The smallest value with a share of at least `q` at or below."""
        n = self.values.size
        return self.at(min(n, max(1, math.ceil(q * n - 1e-9)))) if n else math.nan

    def limits(self, q: float, reach: float) -> Interval:
        """Order statistics at n q -+ reach times the error of the share at or below.

        Source:
            Deng, Knoblich and Lu 2018, Applying the Delta Method in Metric Analytics, KDD,
            section 4.
        """
        n = self.values.size
        if self.n_units < 2 or not n:
            return NO_INTERVAL
        one = math.sqrt(q * (1.0 - q)) if self.deviation is None else self.deviation
        half = reach * one * n / math.sqrt(self.n_units)
        low, high = math.floor(n * q - half), math.ceil(n * q + half) + 1
        if low < 1 or high > n:
            return NO_INTERVAL
        return Interval(self.at(low), self.at(high))


def deviation_of(at_or_below: Floats, events: Floats) -> float:
    """Of units: sqrt(var(c - F m)) / mean(m), F the share of all events at or below.

    Example:
        >>> round(deviation_of(np.array([1.0, 0.0, 2.0]), np.array([1.0, 1.0, 2.0])), 6)
        0.496078
    """
    share = at_or_below.sum() / events.sum()
    return float(np.sqrt(np.var(at_or_below - share * events, ddof=1)) / events.mean())


def quantile_difference(
    baseline: Sorted, candidate: Sorted, q: float, rules: Rules
) -> tuple[float, Interval, float]:
    """The difference of two quantiles, its limits by those of each, and the p of these.

    Source:
        Zou and Donner 2008, Statistics in Medicine 27(10), 1693-1702.
    Example:
        >>> one = Sorted(np.arange(100.0), 100)
        >>> other = Sorted(np.arange(100.0) + 5, 100)
        >>> quantile_difference(one, other, 0.5, Rules())[0]
        5.0
    """
    one, other = candidate.quantile(q), baseline.quantile(q)
    n = baseline.n_units + candidate.n_units

    def limits(reach: float) -> Interval:
        its, others = candidate.limits(q, reach), baseline.limits(q, reach)
        if not (its.exists and others.exists):
            return Interval(-math.inf, math.inf)
        return difference_interval(one, its, other, others)

    found = limits(rules.reach(math.inf, n))
    if math.isinf(found.low):
        return one - other, NO_INTERVAL, math.nan
    z = reach_of_zero(limits, one - other)
    return one - other, rules.opened(found), rules.p_value(z, math.inf, n)
