"""Limits of very many means, shares and ratios at a time: digit for digit those of `intervals`.

What NumPy rounds otherwise than Python's `math` (logarithms, powers) is left to the latter.
"""

import math

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Flags, Floats, Ints

from .distributions import find_t_quantiles, normal_quantile, t_quantile
from .intervals import check_level
from .skewness import LEAST, MORE_BY, MORE_FROM, MOST

Limits = tuple[Floats, Floats]  # low and high of each; NaN where there are none


def mean_limits(
    means: Floats, errors: Floats, ns: Ints, skewnesses: Floats, *, level: float
) -> Limits:
    """`mean_interval` of each; a standard error that is none is NaN.

    Example:
        >>> low, high = mean_limits(*map(np.array, ([0.4], [0.05], [30], [2.0])), level=0.95)
        >>> low.round(6), high.round(6)
        (array([0.307952]), array([0.552588]))
    """
    check_level(level)
    ts = -t_quantiles(0.5 * (1.0 - level), ns - 1)
    down, up = _reaches(ts, skewnesses, ns), _reaches(ts, -skewnesses, ns)
    return _where(ns >= 2, means - down * errors, means + up * errors)


def difference_limits(
    means: Floats, errors: Floats, ns: Ints, skewnesses: Floats, ts: Floats
) -> Limits:
    """`mean_interval` of each, `only_wider`, for Student's quantiles of their own.

    Example:
        >>> numbers = map(np.array, ([0.4], [0.05], [30], [2.0], [2.0452]))
        >>> low, high = difference_limits(*numbers)
        >>> low.round(4), high.round(4)
        (array([0.2977]), array([0.5587]))
    """
    down = _reaches(ts, skewnesses, ns, only_wider=True)
    up = _reaches(ts, -skewnesses, ns, only_wider=True)
    return means - down * errors, means + up * errors


def t_quantiles(p: float, dfs: npt.NDArray[np.generic]) -> Floats:
    """`t_quantile` of each number of degrees of freedom.

    Example:
        >>> t_quantiles(0.975, np.array([10, 20])).round(6)
        array([2.228139, 2.085963])
    """
    different, places = np.unique(dfs, return_inverse=True)
    listed = different.tolist()
    find_t_quantiles((p, df) for df in listed)
    found = np.array([t_quantile(p, df) for df in listed], dtype=np.float64)
    return found[places].reshape(dfs.shape)


def wilson_limits(successes: Ints, ns: Ints, *, level: float) -> Limits:
    """`wilson_interval` of each.

    Example:
        >>> low, high = wilson_limits(np.array([8]), np.array([10]), level=0.95)
        >>> low.round(6), high.round(6)
        (array([0.490162]), array([0.943318]))
    """
    check_level(level)
    square = normal_quantile(0.5 * (1.0 - level)) ** 2
    with np.errstate(all="ignore"):
        shares = successes / ns
        centres = (successes + 0.5 * square) / (ns + square)
        halves = np.sqrt(square * (ns * shares * (1.0 - shares) + 0.25 * square)) / (ns + square)
    low, high = centres - halves, centres + halves
    low[(successes == 0) | ~(low > 0.0)] = 0.0
    high[(successes == ns) | ~(high < 1.0)] = 1.0
    return _where(ns >= 2, low, high)


def relative_limits(
    baselines: Limits, deltas: Limits, candidate_errors: Floats, ts: Floats, limits: Limits
) -> Limits:
    """Limits of delta / baseline, means over the same users: Fieller's, from those of delta.

    The covariance of delta and baseline follows from the three standard errors, since the
    candidate is their sum. The set of ratios that the data allow is no interval where the
    baseline itself cannot be told from 0: then there are no limits. Where limits of delta are
    other than Student's, so are these, by as much on each side: they hold 0 where those do.

    Args:
        baselines, deltas: means and their standard errors.
        ts: Student's quantiles; NaN where there are fewer than two users.
        limits: of the deltas.
    Source:
        Fieller 1954, Journal of the Royal Statistical Society B 16(2), 175-185; Donner and Zou
        2012, Closed-Form Confidence Intervals for Functions of the Normal Mean and Standard
        Deviation, Statistical Methods in Medical Research 21(4), 347-359 (limits of a ratio).
    Example:
        >>> pairs = ([0.4], [0.02]), ([0.04], [0.01]), ([0.0], [0.06])
        >>> baselines, deltas, limits = (tuple(map(np.array, each)) for each in pairs)
        >>> ts = -t_quantiles(0.025, np.array([499]))
        >>> low, high = relative_limits(baselines, deltas, np.array([0.02]), ts, limits)
        >>> low.round(6), high.round(6)
        (array([0.]), array([0.155831]))
    """
    (baseline, baseline_error), (delta, delta_error) = baselines, deltas
    down, up = delta - limits[0], limits[1] - delta
    turned = baseline < 0.0  # of which delta is a share of the other sign
    baseline, delta = np.where(turned, -baseline, baseline), np.where(turned, -delta, delta)
    down, up = np.where(turned, up, down), np.where(turned, down, up)
    baseline_variance, delta_variance = _squares(baseline_error), _squares(delta_error)
    covariance = 0.5 * (_squares(candidate_errors) - baseline_variance - delta_variance)
    # the ratios r with (delta - r baseline)^2 <= what the errors of both allow on that side
    a = baseline * baseline - ts * ts * baseline_variance
    with np.errstate(all="ignore"):
        slope = np.where(delta_error > 0.0, ts * covariance / delta_error, 0.0)
        ends = []
        for reach, is_low in ((down, True), (up, False)):
            b, c = baseline * delta - slope * reach, delta * delta - reach * reach
            inside = b * b - a * c
            root = np.sqrt(np.where(inside > 0.0, inside, 0.0))
            root = root if is_low else -root
            ends.append(np.where(b > 0.0 if is_low else b < 0.0, c / (b + root), (b - root) / a))
    exists = (a > 0.0) & np.isfinite(delta_error) & np.isfinite(ts)
    return _where(exists, *ends)


def within(limits: Limits, least: Floats, most: Floats) -> Limits:
    """`Interval.within` of each.

    Example:
        >>> within((np.array([-0.1, 0.5]), np.array([0.2, 1.3])), np.array(0.0), np.array(1.0))
        (array([0. , 0.5]), array([0.2, 1. ]))
    """
    low, high = (np.where(each < least, least, each) for each in limits)
    return np.where(low > most, most, low), np.where(high > most, most, high)


def _reaches(ts: Floats, skewnesses: Floats, ns: Ints, *, only_wider: bool = False) -> Floats:
    """`reach` of each."""
    found = ts.copy()
    with np.errstate(all="ignore"):
        ks = skewnesses / np.sqrt(ns)
    rows = np.abs(ks) >= LEAST
    k, t = ks[rows], ts[rows]
    turn = k * (t - k / 6.0)
    near = turn > -0.5
    root = [
        math.expm1(math.log1p(each) / 3.0) if is_near else math.cbrt(1.0 + each) - 1.0
        for each, is_near in zip(turn.tolist(), near.tolist(), strict=True)
    ]
    hall = 3.0 / k * np.array(root)
    if only_wider:
        found[rows] = np.where(hall > t, hall, t)
        return found
    share = np.minimum(0.5 + MORE_BY * (-k - MORE_FROM), MOST)
    found[rows] = np.where(k >= -MORE_FROM, 0.5 * (t + hall), t + share * (hall - t))
    return found


def _squares(numbers: Floats) -> Floats:
    """As Python squares floats, which is not always the nearest float."""
    return np.array([each**2 for each in numbers.ravel().tolist()]).reshape(numbers.shape)


def _where(exists: Flags, low: Floats, high: Floats) -> Limits:
    return np.where(exists, low, np.nan), np.where(exists, high, np.nan)
