"""Quantiles of units' values, or of events with units as clusters; differences of two."""

import math
from dataclasses import dataclass

import numpy as np

from evalkit.kernels.arrays import Flags, Floats, Ints

from .independent import Rules
from .intervals import NO_INTERVAL, Interval, difference_interval, reach_of_zero


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
        if self.n_units < 2 or not n or not math.isfinite(reach):
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
    left = np.sort(at_or_below - share * events)  # in an order that units do not decide
    return float(np.sqrt(np.var(left, ddof=1)) / events.mean())


def deviation_at(x: float, q: float, values: Floats, units: Ints, n_units: int) -> float:
    """`deviation_of` the share `q` of values; where many are the quantile `x`, by another share.

    A share p at or below x that is more than a rank beyond q, as where values are whole numbers,
    varies by another chance than that of q: its deviation counts sqrt(q (1 - q) / (p (1 - p)))
    times, and that of smaller values serves where x is the largest one.

    Args:
        values, units: float64[n] and of which unit each is, numbered from 0.
    Example:
        >>> values, units = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 2])
        >>> round(deviation_at(1.0, 0.6, values, units, 3), 6)
        0.367423
    """
    below: Flags = values <= x
    n_ranks = below.sum() - q * values.size
    if below.all():
        below = values < x
    events = np.bincount(units, minlength=n_units).astype(np.float64)
    of_units = np.bincount(units, weights=below, minlength=n_units).astype(np.float64)
    found = deviation_of(of_units, events)
    if n_ranks < 1.0:
        return found
    p = float(below.mean())
    if not 0.0 < p < 1.0:  # all values are the same, and may be so because units' own are alike
        return math.sqrt(q * (1.0 - q) * float((events * events).mean())) / float(events.mean())
    return found * math.sqrt(q * (1.0 - q) / (p * (1.0 - p)))


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


@dataclass(frozen=True, slots=True)
class Ordered:
    """Values of users who count by their weights and vary together in units.

    Args:
        values: float64[n], ascending.
        weights, units: of each value; units are numbered from 0.
        shares: of all weights, at or below each value's place.
    """

    values: Floats
    weights: Floats
    units: Ints
    shares: Floats

    @classmethod
    def of(cls, values: Floats, weights: Floats, units: Ints) -> "Ordered":
        """In order."""
        order = np.argsort(values, kind="stable")
        shares = np.cumsum(weights[order])
        return cls(values[order], weights[order], units[order], shares / shares[-1:])

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(np.unique(self.units).size)

    def quantile(self, q: float) -> float:
        """The smallest value with a share of at least `q` at or below."""
        place = int(np.searchsorted(self.shares, q - 1e-9))
        return float(self.values[min(place, self.values.size - 1)])

    def median(self) -> float:
        """The middle value, or the mean of the two in the middle."""
        return 0.5 * (self.quantile(0.5) + self.quantile(0.5 + 2e-9))

    def tied(self, q: float) -> int:
        """How many users have the value of the quantile."""
        ends = (np.searchsorted(self.values, self.quantile(q), side=s) for s in ("left", "right"))
        first, last = ends
        return int(last - first)

    def error_of_share(self, q: float) -> float:
        """The standard error of the share at or below the quantile, were it `q`; as units vary."""
        x = self.quantile(q)
        below = self.values <= x
        if below.all():
            below = self.values < x
        total = self.weights.sum()
        p = float(self.weights[below].sum() / total)
        of_units = np.bincount(self.units, self.weights * (below - p)) / total
        n = self.n_units
        variance = float((of_units * of_units).sum()) * n / (n - 1.0)
        if not 0.0 < p < 1.0:  # all values are the same
            sizes = np.bincount(self.units, self.weights) / total
            return math.sqrt(q * (1.0 - q) * float((sizes * sizes).sum()))
        return math.sqrt(q * (1.0 - q) * variance / (p * (1.0 - p)))

    def limits(self, q: float, reach: float, bounds: tuple[float, float]) -> Interval:
        """Values at the limits of the share at or below; `bounds` where no value is so far out.

        Source:
            Woodruff 1952, Confidence intervals for medians and other position measures, JASA 47,
            p. 635.
        Example:
            >>> one = Ordered.of(np.arange(100.0), np.ones(100), np.arange(100))
            >>> one.limits(0.5, 1.96, (0.0, 99.0))
            Interval(low=40.0, high=59.0)
        """
        if self.n_units < 2:
            return NO_INTERVAL
        half = reach * self.error_of_share(q)
        low = int(np.searchsorted(self.shares, q - half - 1e-9)) if half < q else -1
        high = int(np.searchsorted(self.shares, q + half + 1e-9, side="right"))
        found = Interval(
            float(self.values[low]) if low >= 0 else bounds[0],
            float(self.values[high]) if high < self.values.size else bounds[1],
        )
        return found if math.isfinite(found.low) and math.isfinite(found.high) else NO_INTERVAL

    def tail_terms(self, share: float, values: Floats) -> Floats:
        """What the mean of the lowest `share` is the mean of: q - max(0, q - value) / share.

        Source:
            Rockafellar and Uryasev 2000, Journal of Risk 2(3), 21-41.
        """
        q = self.quantile(share)
        return q - np.maximum(0.0, q - values) / share


def error_of_mean(terms: Floats, weights: Floats, units: Ints) -> float:
    """The standard error of a weighted mean, as units vary.

    Example:
        >>> error_of_mean(np.array([0.0, 1.0]), np.ones(2), np.arange(2))
        0.5
    """
    total = weights.sum()
    mean = float((weights * terms).sum() / total)
    of_units = np.bincount(units, weights * (terms - mean)) / total
    n = np.unique(units).size
    return math.sqrt(float((of_units * of_units).sum()) * n / (n - 1.0)) if n > 1 else math.nan


def skewness_of_mean(terms: Floats, weights: Floats, units: Ints) -> float:
    """The skewness of what units add to a weighted mean; NaN where all add the same.

    Example:
        >>> skewness_of_mean(np.array([0.0, 1.0]), np.ones(2), np.arange(2))
        0.0
    """
    mean = float((weights * terms).sum() / weights.sum())
    of_units = np.bincount(units, weights * (terms - mean))
    deviation = float(np.sqrt(np.mean(of_units**2)))
    return float(np.mean(of_units**3)) / deviation**3 if deviation else math.nan


def paired_error(
    baseline: Floats,
    candidate: Floats,
    weights: Floats,
    units: Ints,
    q: float,
    *,
    replicates: int,
    seed: int,
) -> float:
    """The standard error of the difference of two quantiles of the same users: units drawn anew.

    Example:
        >>> values, ones, users = np.arange(9.0), np.ones(9), np.arange(9)
        >>> paired_error(values, values + 1.0, ones, users, 0.5, replicates=20, seed=1)
        0.0
    """
    rng, n = np.random.default_rng(seed), int(units.max()) + 1
    orders = [np.argsort(each, kind="stable") for each in (baseline, candidate)]
    found = np.empty((replicates, 2))
    for row in range(replicates):
        drawn = weights * np.bincount(rng.integers(n, size=n), minlength=n)[units]
        for place, (each, order) in enumerate(zip((baseline, candidate), orders, strict=True)):
            shares = np.cumsum(drawn[order])
            at = np.searchsorted(shares, q * shares[-1] * (1.0 - 1e-12))
            found[row, place] = each[order[min(at, order.size - 1)]]
    return float(np.std(found[:, 1] - found[:, 0], ddof=1))
