"""What past experiments say of offline metrics, from effects and errors on both sides."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.kernels.arrays import Floats, Ints

from .distributions import normal_quantile, t_quantile
from .intervals import NO_INTERVAL, Interval, wilson_interval

FEWEST = 10  # experiments, below which nothing is said of true effects


@dataclass(frozen=True, slots=True)
class Past:
    """Effects of past experiments: float64[n] each, with their standard errors."""

    offline: Floats
    offline_error: Floats
    online: Floats
    online_error: Floats

    def without(self, place: int) -> "Past":
        """All but one."""
        columns = (self.offline, self.offline_error, self.online, self.online_error)
        return Past(*(np.delete(each, place) for each in columns))

    @property
    def n(self) -> int:
        """Experiments."""
        return int(self.offline.size)


@dataclass(frozen=True, slots=True)
class TrueEffects:
    """How effects without their errors hang together; NaN where that cannot be told.

    Args:
        slope: of true online effects on true offline ones; `slope_naive` on measured ones.
        reliability_offline, reliability_online: share of the variance that is no error.
        residual: deviation of true online effects around what measured offline ones say.
    """

    correlation: float
    slope: float
    slope_naive: float
    reliability_offline: float
    reliability_online: float
    intercept: float
    residual: float


def true_effects(past: Past, *, fewest: int = FEWEST) -> TrueEffects:
    """Covariances less the mean squared standard errors: the method of moments.

    The correlation is not cut at 1, beyond which errors of either side may bring it.

    Args:
        fewest: experiments, below which correlation and slope are undefined.
    Source:
        Fuller 1987, Measurement Error Models, section 1.2; Spearman 1904, American Journal of
        Psychology 15(1), 72-101 (correlation without errors).
    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> type(true_effects(past)).__name__
        'TrueEffects'
    """
    nan = math.nan
    if past.n < 2:
        return TrueEffects(nan, nan, nan, nan, nan, nan, nan)
    both = np.cov(past.offline, past.online)
    own = both[0, 0] - float(np.mean(past.offline_error**2))
    other = both[1, 1] - float(np.mean(past.online_error**2))
    mixed, x = float(both[0, 1]), float(both[0, 0])
    naive = mixed / x if x > 0.0 else nan
    is_known = past.n >= fewest and own > 0.0 and other > 0.0
    correlation = mixed / math.sqrt(own * other) if is_known else nan
    left = other - naive * mixed
    return TrueEffects(
        correlation,
        mixed / own if past.n >= fewest and own > 0.0 else nan,
        naive,
        own / x if x > 0.0 else nan,
        other / float(both[1, 1]) if both[1, 1] > 0.0 else nan,
        float(past.online.mean()) - naive * float(past.offline.mean()),
        math.sqrt(left) if left > 0.0 else 0.0,
    )


def pearson(past: Past) -> tuple[float, Interval]:
    """The correlation of measured effects, with Fisher's limits.

    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> round(pearson(past)[0], 6)
        1.0
    """
    if past.n < 4 or not (past.offline.std() > 0.0 and past.online.std() > 0.0):
        return math.nan, NO_INTERVAL
    r = float(np.corrcoef(past.offline, past.online)[0, 1])
    if abs(r) >= 1.0:
        return r, NO_INTERVAL
    half = normal_quantile(0.975) / math.sqrt(past.n - 3)
    return r, Interval(math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half))


def correlation_limits(past: Past) -> Interval:
    """Of the correlation of true effects: those of measured ones over the root of reliabilities.

    Source:
        Hunter and Schmidt 2004, Methods of Meta-Analysis, 2nd edition, chapter 3.
    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> correlation_limits(past).exists  # of four nobody can tell
        False
    """
    (r, limits), found = pearson(past), true_effects(past).correlation
    if not limits.exists or math.isnan(found) or not r:
        return NO_INTERVAL
    return Interval(max(-1.0, limits.low * found / r), min(1.0, limits.high * found / r))


def kendall(past: Past) -> float:
    """Kendall's tau-b of measured effects; NaN where one side does not vary.

    Source:
        Kendall 1945, Biometrika 33(3), 239-251.
    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> round(kendall(past), 6)
        1.0
    """
    x = np.sign(past.offline[:, None] - past.offline[None, :])
    y = np.sign(past.online[:, None] - past.online[None, :])
    size = math.sqrt(float((x**2).sum()) * float((y**2).sum()))
    return float((x * y).sum()) / size if size > 0.0 else math.nan


def jackknifed(past: Past, of: Callable[[Past], float], *, level: float = 0.95) -> Interval:
    """Limits of a number over experiments, by leaving out one at a time.

    Source:
        Miller 1974, The Jackknife, Biometrika 61(1), 1-15.
    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> value = jackknifed(past, lambda some: float(some.online.mean()))
        >>> round(value.low, 4), round(value.high, 4)
        (-0.7338, 1.9838)
    """
    value, n = of(past), past.n
    if n < 4 or math.isnan(value):
        return NO_INTERVAL
    found = np.array([of(past.without(place)) for place in range(n)])
    if not np.isfinite(found).all():
        return NO_INTERVAL
    error = math.sqrt((n - 1) / n * float(((found - found.mean()) ** 2).sum()))
    half = -t_quantile(0.5 * (1.0 - level), n - 1) * error
    return Interval(value - half, value + half)


def decided(effects: Floats, errors: Floats, level: float = 0.95) -> Ints:
    """-1, 0 or 1: worse, unclear or better at the level.

    Example:
        >>> decided(np.array([1.0, 0.1, -1.0]), np.full(3, 0.2)).tolist()
        [1, 0, -1]
    """
    reach = -normal_quantile(0.5 * (1.0 - level)) * errors
    return (effects > reach).astype(np.int64) - (effects < -reach)


def agreement(past: Past, *, is_clear: bool = False) -> tuple[float, Interval]:
    """Share of experiments whose effects have one sign; of those with a clear online effect.

    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> agreement(past)[0]
        1.0
    """
    keep = decided(past.online, past.online_error) != 0 if is_clear else np.ones(past.n, np.bool_)
    n = int(keep.sum())
    if not n:
        return math.nan, NO_INTERVAL
    alike = int((np.sign(past.offline) * np.sign(past.online) > 0)[keep].sum())
    return alike / n, wilson_interval(alike, n, level=0.95)


def sign_trusted_from(found: TrueEffects, level: float = 0.95) -> float:
    """The offline difference from which on the online effect has its sign with this chance.

    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> sign_trusted_from(true_effects(past))  # of four nobody can tell
        nan
    """
    if not found.slope_naive > 0.0 or math.isnan(found.correlation):
        return math.nan
    reach = normal_quantile(level) * found.residual
    return max(reach - found.intercept, reach + found.intercept, 0.0) / found.slope_naive


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a gate `max_drop` did over past experiments.

    Args:
        stopped_winners: clear online gains that it stopped; `passed_losers` clear losses that not.
        cost: the online effect that its decisions lost.
    """

    winners: int
    stopped_winners: int
    losers: int
    passed_losers: int
    cost: float


def lowest(past: Past, level: float) -> Floats:
    """The lower limit of every offline difference, which a gate holds against `max_drop`: of
    two-sided limits, as in `runs.gates`.

    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> lowest(past, 0.95).round(3).tolist()
        [0.804, 1.804, 2.804, -1.196]
    """
    return past.offline + normal_quantile(0.5 * (1.0 - level)) * past.offline_error


def replay(
    past: Past, max_drop: float | Floats, *, level: float = 0.95, is_lenient: bool = False
) -> Replayed:
    """What the gate would have done: it stops what may have dropped by more.

    Args:
        max_drop: of all, or of each.
        is_lenient: it stops what surely dropped by more alone (`unclear = "pass"`).
    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> type(replay(past, 0.5)).__name__
        'Replayed'
    """
    limit = lowest(past, level)
    if is_lenient:
        limit = 2.0 * past.offline - limit
    passes, clear = limit >= -max_drop, decided(past.online, past.online_error)
    lost = np.where(passes, np.maximum(-past.online, 0.0), np.maximum(past.online, 0.0))
    return Replayed(
        int((clear > 0).sum()),
        int(((clear > 0) & ~passes).sum()),
        int((clear < 0).sum()),
        int(((clear < 0) & passes).sum()),
        math.fsum(lost),
    )


def drops_of(past: Past, *, level: float = 0.95) -> list[float]:
    """Every `max_drop` at which a gate changes what it does.

    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> [round(float(each), 3) for each in drops_of(past)]
        [0.0, 1.196]
    """
    return sorted({0.0, *(max(0.0, -float(each)) for each in lowest(past, level))})


def best_drop(past: Past, *, level: float = 0.95) -> tuple[float, float]:
    """The cheapest `max_drop`, and its cost when each experiment is judged by all the others.

    Source:
        Stone 1974, JRSS B 36(2), 111-147 (leaving one out).
    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> tuple(round(float(each), 6) for each in best_drop(past))
        (0.0, 0.0)
    """

    drops = drops_of(past, level=level)
    passes = lowest(past, level) >= -np.array(drops)[:, None]
    costs = np.where(passes, np.maximum(-past.online, 0.0), np.maximum(past.online, 0.0))
    found = [
        costs[int(np.delete(costs, place, axis=1).sum(axis=1).argmin()), place]
        for place in range(past.n)
    ]
    return drops[int(costs.sum(axis=1).argmin())], math.fsum(found)


def table_of_decisions(past: Past) -> Sequence[Sequence[int]]:
    """3 x 3 counts: rows offline, columns online, worse, unclear and better.

    Example:
        >>> effects = np.array([1.0, 2.0, 3.0, -1.0])
        >>> past = Past(effects, np.full(4, 0.1), effects / 2, np.full(4, 0.2))
        >>> [list(map(int, row)) for row in table_of_decisions(past)]
        [[1, 0, 0], [0, 0, 0], [0, 0, 3]]
    """
    one, other = decided(past.offline, past.offline_error), decided(past.online, past.online_error)
    signs = (-1, 0, 1)
    return [[int(((one == row) & (other == column)).sum()) for column in signs] for row in signs]
