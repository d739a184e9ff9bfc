"""Two independent groups of units compared: differences, relative differences, margins.

A group is one sum of parts (strata) whose estimates are normal with known errors. All of it is
estimate - t baseline, of which the variance is a quadratic in t: t = 0 is the difference, the
roots are Fieller's limits, t = -margin the test against a relative margin.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from evalkit.kernels.arrays import Floats

from .distributions import normal_quantile, normal_sf, t_quantile, t_sf, t_two_sided
from .intervals import NO_INTERVAL, Interval, check_level
from .moments import Linear, scale_to_one
from .skewness import MOST_LEANING, OF_SAMPLES, quantile_of, reaches_of_leaning
from .spending import Sequential, bounds_of
from .unseen import Seen

Alternative = Literal["two-sided", "greater", "less"]
Relative = Literal["fieller", "delta", "log", "fixed"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How two groups are compared.

    Args:
        is_normal: quantiles of the normal distribution, not of Student's.
        is_pooled: one variance of both groups.
        spending: how the error is spent, and the shares of the final information at which somebody
            looked: limits are at the bound of the last look. No share: all of it was spent before.
        counts_lean: tests against a margin count the skewness of what units add, where it is known.
    """

    level: float = 0.95
    is_normal: bool = False
    is_pooled: bool = False
    relative: Relative = "fieller"
    alternative: Alternative = "two-sided"
    sequential: Sequential | None = None
    spending: tuple[str, tuple[float, ...]] | None = None
    counts_lean: bool = False

    def __post_init__(self) -> None:
        """Raises RequestError: the level is not above 0 and below 1 [level-out-of-range]."""
        check_level(self.level)

    @property
    def error(self) -> float:
        """The two-sided error at which limits are taken."""
        return (1.0 - self.level) * (1.0 if self.alternative == "two-sided" else 2.0)

    def reach(self, df: float, n: float, error: float | None = None) -> float:
        """Standard errors from an estimate to its limits."""
        error = self.error if error is None else error
        if self.spending is not None:
            spending, shares = self.spending
            return bounds_of(shares, spending, error=error)[-1] if shares else math.inf
        if self.sequential is not None:
            return self.sequential.reach(error, n)
        return -(normal_quantile(0.5 * error) if self.is_normal else t_quantile(0.5 * error, df))

    def p_above(self, z: float, df: float, n: float) -> float:
        """One-sided p of "what z measures is not above 0"."""
        if math.isnan(z):
            return math.nan
        if self.sequential is not None:
            return 0.5 * self.sequential.p_value(z, n) if z > 0.0 else 1.0
        if self.spending is not None:
            return 0.5 * self._spent_by(z) if z > 0.0 else 1.0
        return normal_sf(z) if self.is_normal else t_sf(z, df)

    def p_value(self, z: float, df: float, n: float) -> float:
        """Of the test whose inverse the limits are."""
        if math.isnan(z):
            return math.nan
        if self.alternative != "two-sided":
            return self.p_above(z if self.alternative == "greater" else -z, df, n)
        if self.sequential is not None:
            return self.sequential.p_value(z, n)
        if self.spending is not None:
            return self._spent_by(z)
        return 2.0 * normal_sf(abs(z)) if self.is_normal else t_two_sided(z, df)

    def _spent_by(self, z: float) -> float:
        """The error at which the bound of this look is |z|, between those that are usual."""
        assert self.spending is not None
        if not self.spending[1]:
            return 1.0
        bounds, logs = error_by_bound(*self.spending, 1.0 - self.level)
        return math.exp(float(np.interp(abs(z), bounds, logs)))

    def opened(self, limits: Interval) -> Interval:
        """Limits with the open side at infinity."""
        if not limits.exists or self.alternative == "two-sided":
            return limits
        if self.alternative == "greater":
            return Interval(limits.low, math.inf)
        return Interval(-math.inf, limits.high)


@lru_cache(maxsize=256)
def error_by_bound(
    spending: str, fractions: tuple[float, ...], error: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds of the last look, rising, and the logarithms of the errors that they spend."""
    errors = sorted({error, *(10.0 ** (-0.25 * step) for step in range(1, 33))}, reverse=True)
    found = [(bounds_of(fractions, spending, error=each)[-1], math.log(each)) for each in errors]
    known = [(0.0, 0.0), *(each for each in found if math.isfinite(each[0]))]
    return tuple(bound for bound, _ in known), tuple(log for _, log in known)


@dataclass(frozen=True, slots=True)
class Part:
    """A group's units of one stratum, which has this share of all units."""

    share: float
    linear: Linear
    df: float | None = None  # of its error, where units are clusters: n - 1 otherwise
    inflation: float = 1.0  # of its variance, for clusters of unequal size
    n_carrying: float = math.inf  # clusters that carry its variance, as far as that was seen


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What covariates take away: theta times their distance from the joint means."""

    theta: Floats
    joint: Floats

    @property
    def slopes(self) -> Floats:
        return np.concatenate([[1.0], -self.theta])


NONE = Adjustment(np.zeros(0), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Group:
    """All units of a variant.

    Args:
        parts: strata; one without.
        weight: share of the joint means of the covariates that is this group's, a covariate.
    """

    parts: tuple[Part, ...]
    weight: Floats

    @property
    def n(self) -> int:
        """Its units."""
        return sum(part.linear.n for part in self.parts)

    def value(self, by: Adjustment) -> float:
        """The estimate, adjusted."""
        away = [
            part.share
            * (part.linear.estimates[0] - by.theta @ (part.linear.estimates[1:] - by.joint))
            for part in self.parts
        ]
        return math.fsum(away)

    def variances(self, slopes: Floats) -> list[tuple[float, float]]:
        """Of the estimates with these weights: each part's, with its degrees of freedom."""
        found = []
        for part in self.parts:
            n = part.linear.n
            df = n - 1.0 if part.df is None else part.df
            own = part.linear.variance(slopes) if n > 1 else math.nan
            found.append((part.share**2 * part.inflation * own / n if n else math.nan, df))
        return found

    def std_error(self, by: Adjustment) -> float:
        """Of the estimate; NaN below two units."""
        return math.sqrt(math.fsum(own for own, _ in self.variances(by.slopes)))

    def df(self, by: Adjustment) -> float:
        """Satterthwaite's, over the parts."""
        return satterthwaite(self.variances(by.slopes))


def satterthwaite(variances: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of estimates with these variances and degrees of freedom.

    Source:
        Satterthwaite 1946, Biometrics Bulletin 2(6), 110-114; Welch 1947, Biometrika 34, 28-35.
    Example:
        >>> round(satterthwaite([(0.2, 9.0), (0.1, 19.0)]), 4)
        18.1059
    """
    largest = max((own for own, _ in variances), default=0.0)
    if math.isnan(sum(own for own, _ in variances)) or largest == 0.0:
        return math.nan
    scaled = [(own / largest, df) for own, df in variances]
    return math.fsum(own for own, _ in scaled) ** 2 / math.fsum(own**2 / df for own, df in scaled)


@dataclass(frozen=True, slots=True)
class BoundedValues:
    """What was seen of values that are bounded: units above and below the joint mean.

    Args:
        widest: what a unit's value can differ by; `is_of_seen`: those seen do, for what decides.
        above, below: units of the baseline and of the candidate.
    """

    widest: float
    above: tuple[int, int]
    below: tuple[int, int]
    is_of_seen: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What two groups differ by; NaN where undefined, infinite on an open side."""

    value_baseline: float
    value_candidate: float
    delta: float
    std_error: float
    df: float
    statistic: float
    p_value: float
    limits: Interval
    relative: float
    relative_limits: Interval


class Contrast:
    """Two groups of an experiment, and what is asked of them.

    Args:
        others: further variants, whose units move the joint means of covariates, too.
        seen: where values are bounded: tests against a margin count units that were not seen.
        skewness: of what units of the baseline and of the candidate add, NaN where unknown.
    """

    def __init__(
        self,
        baseline: Group,
        candidate: Group,
        rules: Rules,
        by: Adjustment = NONE,
        others: Sequence[Group] = (),
        seen: BoundedValues | None = None,
        skewness: tuple[float, float] = (math.nan, math.nan),
    ) -> None:
        self.baseline, self.candidate, self.rules, self.by = baseline, candidate, rules, by
        self.others, self.seen, self.skewness = others, seen, skewness
        self.n = baseline.n + candidate.n
        self.of_baseline, self.of_candidate = baseline.value(by), candidate.value(by)
        self.delta = self.of_candidate - self.of_baseline
        self._variances: dict[float, tuple[float, float]] = {}

    def variance(self, t: float) -> tuple[float, float]:
        """Of candidate - (1 + t) baseline, and its degrees of freedom."""
        if t not in self._variances:
            self._variances[t] = self._variance(t)
        return self._variances[t]

    def _variance(self, t: float) -> tuple[float, float]:
        """The joint means of covariates take part in it unless t is 0: a unit of the baseline moves
        what every variant is adjusted to.
        """
        theta = self.by.theta
        groups = [
            (self.candidate, np.concatenate([[1.0], -theta * (1.0 + t * self.candidate.weight)])),
            (
                self.baseline,
                np.concatenate(
                    [[-(1.0 + t)], theta * (1.0 + t) - theta * t * self.baseline.weight]
                ),
            ),
        ]
        others: list[tuple[float, float]] = []
        for other in self.others if theta.any() and t else ():
            others += other.variances(np.concatenate([[0.0], -theta * t * other.weight]))
        if self.rules.is_pooled:
            total, df = _pooled(groups)
            return math.fsum([total, *(own for own, _ in others)]), df
        found = [each for group, slopes in groups for each in group.variances(slopes)] + others
        return math.fsum(own for own, _ in found), satterthwaite(found)

    def by_rules(self, rules: Rules) -> "Contrast":
        """The same groups, otherwise compared."""
        groups = self.baseline, self.candidate
        return Contrast(*groups, rules, self.by, self.others, self.seen, self.skewness)

    def difference(self) -> Difference:
        """Its estimate, limits and test."""
        variance, df = self.variance(0.0)
        error = math.sqrt(variance) if variance >= 0.0 else math.nan
        limits, p_value, statistic = NO_INTERVAL, math.nan, math.nan
        if error > 0.0:
            statistic = self.delta / error
            reach = self.rules.reach(df, self.n)
            limits = Interval(self.delta - reach * error, self.delta + reach * error)
            p_value = self.rules.p_value(statistic, df, self.n)
        relative, its = self.relative(df)
        return Difference(
            self.of_baseline,
            self.of_candidate,
            self.delta,
            error,
            df,
            statistic,
            p_value,
            self.rules.opened(limits),
            relative,
            its,
        )

    def relative(self, df: float) -> tuple[float, Interval]:
        """The difference over the baseline's value, with limits.

        Source:
            Fieller 1954, Journal of the Royal Statistical Society B 16(2), 175-185.
        """
        base, new = self.of_baseline, self.of_candidate
        if not base > 0.0:
            return math.nan, NO_INTERVAL
        relative = self.delta / base
        if not self.variance(0.0)[0] > 0.0:
            return relative, NO_INTERVAL
        own, other = self.baseline.std_error(self.by), self.candidate.std_error(self.by)
        way = self.rules.relative
        if way == "fixed":
            half = self.rules.reach(df, self.n) * math.sqrt(self.variance(0.0)[0]) / base
            limits = Interval(relative - half, relative + half)
        elif way == "fieller":
            limits = self._fieller(self.rules.reach(df, self.n))
        else:
            error, log_df = self._relative_error(own, other, is_log=way == "log")
            df = log_df if way == "log" else df
            half = self.rules.reach(df, self.n) * error
            limits = Interval(relative - half, relative + half)
            if way == "log":
                if not new > 0.0:
                    return relative, NO_INTERVAL
                limits = Interval(new / base * math.exp(-half) - 1, new / base * math.exp(half) - 1)
        return relative, self.rules.opened(limits)

    def _relative_error(self, own: float, other: float, *, is_log: bool) -> tuple[float, float]:
        """Standard error of the ratio, or of its logarithm, to the first order, and its df."""
        scale = scale_to_one(self.of_baseline)
        base, new, own, other = (
            each * scale for each in (self.of_baseline, self.of_candidate, own, other)
        )
        if not is_log:
            return math.hypot(other / base, new * own / base**2), math.nan
        terms = [
            ((other / new) ** 2 if new else math.nan, self.candidate.df(self.by)),
            ((own / base) ** 2, self.baseline.df(self.by)),
        ]
        if self.rules.is_pooled:
            ns, df = (self.candidate.n, self.baseline.n), terms[0][1] + terms[1][1]
            one = math.fsum(v * n * d for (v, d), n in zip(terms, ns, strict=True)) / df
            return math.sqrt(one * sum(ns) / math.prod(ns)), df
        return math.sqrt(math.fsum(each for each, _ in terms)), satterthwaite(terms)

    def _fieller(self, reached: float) -> Interval:
        square, scale = reached**2, scale_to_one(self.of_baseline)
        at_0, at_1, at_minus = (self.variance(t)[0] * scale * scale for t in (0.0, 1.0, -1.0))
        second, first = 0.5 * (at_1 + at_minus) - at_0, 0.5 * (at_1 - at_minus)
        base, delta = self.of_baseline * scale, self.delta * scale
        a = base**2 - square * second
        b = base * delta + 0.5 * square * first
        c = delta * delta - square * at_0
        if not a > 0.0:
            return NO_INTERVAL
        root = math.sqrt(max(0.0, b * b - a * c))
        low, high = (b - root) / a, (b + root) / a
        if b > 0.0:
            low = c / (b + root)  # the same, without cancellation
        elif b < 0.0:
            high = c / (b - root)
        return Interval(min(low, high), max(low, high))

    def margin_p(self, margin: float, *, is_relative: bool) -> tuple[float, float]:
        """One-sided p of "candidate is not above baseline - margin", and of "not below + margin".

        A relative margin is one of the linear combination candidate - (1 - margin) baseline: the
        baseline's error counts.

        Source:
            Blackwelder 1982, Controlled Clinical Trials 3(4), 345-353.
        """
        found = []
        for sign in (-1.0, 1.0):
            t = sign * margin if is_relative else 0.0
            variance, df = self.variance(t)
            excess = self.delta - (t * self.of_baseline if is_relative else sign * margin)
            z = -sign * excess / math.sqrt(variance) if variance > 0.0 else math.nan
            p_value = self.rules.p_above(z, df, self.n)
            if self.rules.counts_lean and not math.isnan(p_value):
                lean = -sign * OF_SAMPLES * self._lean(t, math.sqrt(variance))
                z = -math.inf if math.isinf(lean) else quantile_of(z, lean, 1)
                p_value = max(p_value, self.rules.p_above(z, df, self.n))
            if not math.isnan(p_value):
                for n, n_against, squares in self._against(sign < 0.0, self.rules.counts_lean):
                    seen = Seen(self._widest, n, n_against, squares)
                    p_value = max(p_value, seen.p_at_least(-sign * excess))
            found.append(p_value)
        return found[0], found[1]

    def _lean(self, t: float, whole: float) -> float:
        """Skewness of candidate - (1 + t) baseline, whose error is `whole`, where few values are
        large; infinite where too few units make it.

        Of samples it is too small, as the largest values were not drawn yet; with
        `OF_SAMPLES` of it up to 6 or 7 in 100 are wrong at 5 % (docs/experiments.md).
        """
        leans = [
            skewness * (times * group.std_error(self.by) / whole) ** 3 / math.sqrt(group.n)
            for group, skewness, times in (
                (self.baseline, self.skewness[0], -(1.0 + t)),
                (self.candidate, self.skewness[1], 1.0),
            )
            if skewness == skewness
        ]
        if math.fsum(map(abs, leans)) > MOST_LEANING:
            return math.inf
        return math.fsum(leans)

    def margin_limits(self, error: float, *, counts_lean: bool = False) -> Interval:
        """Two-sided limits at an error, as tests against a margin have them."""
        variance, df = self.variance(0.0)
        if not variance > 0.0:
            return NO_INTERVAL
        own, plain = math.sqrt(variance), self.rules.reach(df, self.n, error)
        reaches = reaches_of_leaning(plain, self._lean(0.0, own) if counts_lean else 0.0, 1)
        down, up = (
            max(
                (
                    Seen(self._widest, n, against, squares).reach_at_least(0.5 * error)
                    for n, against, squares in self._against(is_above=is_above, of_seen=counts_lean)
                ),
                default=0.0,
            )
            for is_above in (True, False)
        )
        down, up = max(down, own * reaches[0]), max(up, own * reaches[1])
        return Interval(self.delta - down, self.delta + up)

    def relative_within(self, limits: Interval) -> Interval:
        """Fieller's, as many standard errors away as these limits of the difference are."""
        variance, _ = self.variance(0.0)
        if not (self.of_baseline > 0.0 and limits.exists and variance > 0.0):
            return NO_INTERVAL
        low = self._fieller((self.delta - limits.low) / math.sqrt(variance)).low
        return Interval(low, self._fieller((limits.high - self.delta) / math.sqrt(variance)).high)

    @property
    def _widest(self) -> float:
        return math.inf if self.seen is None else self.seen.widest

    def _against(self, is_above: bool, of_seen: bool) -> Iterator[tuple[float, int, float]]:
        """Of each group its units, those that speak against the difference being above (below) a
        null, and the squares of all: what was not seen may hide in either one.
        """
        if self.seen is None or (self.seen.is_of_seen and not of_seen):
            return
        above, below = self.seen.above, self.seen.below
        against = (above[0], below[1]) if is_above else (below[0], above[1])
        for group, n_against in zip((self.baseline, self.candidate), against, strict=True):
            squares = math.fsum(
                (part.linear.n - 1) * float(part.linear.covariances[0, 0])
                for part in group.parts
                if part.linear.n > 1
            )
            yield float(group.n), n_against, squares


def _pooled(groups: Sequence[tuple[Group, Floats]]) -> tuple[float, float]:
    """Of sums whose units have one variance in all groups, stratum by stratum."""
    total, degrees = 0.0, 0.0
    by_slopes = [[group.variances(slopes) for group, _ in groups] for _, slopes in groups]
    for place, parts in enumerate(zip(*(group.parts for group, _ in groups), strict=True)):
        if not all(part.linear.n for part in parts):
            return math.nan, math.nan
        terms = []
        for part, of_groups in zip(parts, by_slopes, strict=True):
            rows = [
                (variances[place][0] * other.linear.n / other.share**2, variances[place][1])
                for variances, other in zip(of_groups, parts, strict=True)
            ]
            df = math.fsum(own for _, own in rows)
            one = math.fsum(own * each for each, own in rows) / df if df else math.nan
            terms.append(part.share**2 * one / part.linear.n)
        total += math.fsum(terms)
        degrees += df
    return total, degrees
