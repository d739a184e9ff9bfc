"""Tails and quantiles of the normal, t, F, chi-squared and beta distributions.

Both tails are accurate relative to themselves, about 1e-13 as far as float64 reaches (1e-300), for
any degrees of freedom up to 1e9. NaN stands for arguments that are none. Plain Python, and the same
compiled where there are many: loading SciPy costs a scheduled job more than all its statistics.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from evalkit.kernels import kernel

from ._incomplete import beta_errors, beta_factor, beta_tail, beta_tails, gamma_tails

SQRT_HALF = 0.707106781186547524400844362105
SQRT_TWO_PI = 2.50662827463100050241576528481
LARGEST_LOG_T = 345.0  # 1e150, whose square float64 still holds
MOST_STEPS = 200
MANY = 64  # of which compiled code is worth its loading
MOST_KEPT = 1 << 18  # values of a function

Key = TypeVar("Key")


class Remembered(Generic[Key]):
    """A function that is found for many keys at a time, once each; threads may ask side by side.

    Args:
        of_many: what it gives of keys, each of which comes once.
    """

    def __init__(self, of_many: Callable[[Sequence[Key]], Sequence[float]]) -> None:
        self._of_many = of_many
        self._known: dict[Key, float] = {}

    def __call__(self, key: Key) -> float:
        found = self._known.get(key)
        return self._learn([key])[0] if found is None else found

    def find(self, wanted: Iterable[Key]) -> None:
        """Find values that will be asked for soon."""
        self._learn([each for each in dict.fromkeys(wanted) if each not in self._known])

    def _learn(self, keys: Sequence[Key]) -> Sequence[float]:
        if len(self._known) > MOST_KEPT:
            self._known = {}
        found = self._of_many(keys)
        self._known.update(zip(keys, found, strict=True))
        return found


def normal_cdf(x: float) -> float:
    """P(Z <= x) of a standard normal variable.

    Example:
        >>> round(normal_cdf(1.96), 6)
        0.975002
    """
    return 0.5 * math.erfc(-x * SQRT_HALF)


def normal_sf(x: float) -> float:
    """P(Z > x) of a standard normal variable.

    Example:
        >>> round(normal_sf(1.96), 6)
        0.024998
    """
    return 0.5 * math.erfc(x * SQRT_HALF)


def normal_density(x: float) -> float:
    """The density of a standard normal variable.

    Example:
        >>> round(normal_density(0.0), 6)
        0.398942
    """
    return math.exp(-0.5 * x * x) / SQRT_TWO_PI


@lru_cache(maxsize=1024)
def normal_quantile(p: float) -> float:
    """The x at which P(Z <= x) is `p`; infinite at 0 and 1.

    Example:
        >>> round(normal_quantile(0.975), 6)
        1.959964
    """
    if not 0.0 <= p <= 1.0:
        return math.nan
    tail = min(p, 1.0 - p)
    if tail == 0.0:
        return math.copysign(math.inf, p - 0.5)
    if tail > 0.25:
        centre = 1.0 - 2.0 * tail
        x = find_root(
            0.5 * SQRT_TWO_PI * centre,
            lambda x: (centre - math.erf(x * SQRT_HALF)) / (2.0 * normal_density(x)),
        )
    else:
        x = tail_of.plain(math.log(tail))
    return math.copysign(x, p - 0.5)


def normal_quantiles(ps: Iterable[float]) -> dict[float, float]:
    """`normal_quantile` of each.

    Example:
        >>> normal_quantiles([0.5, 0.5])
        {0.5: 0.0}
    """
    different = set(ps)
    tails = [p for p in different if 0.0 < min(p, 1.0 - p) <= 0.25]
    if len(tails) < MANY:
        return {p: normal_quantile(p) for p in different}
    import numpy as np

    found = np.array([math.log(min(p, 1.0 - p)) for p in tails])
    many_tails_of(found)
    known = {p: math.copysign(x, p - 0.5) for p, x in zip(tails, found.tolist(), strict=True)}
    return known | {p: normal_quantile(p) for p in different if p not in known}


@kernel(allocates=False)
def next_of(here, before, sign, count, move):  # type: ignore[no-untyped-def]
    """Where Newton's step leads (`find_root`), and what the next needs; count < 0: the end."""
    if math.isnan(move):
        return 0.5 * (here + before), before, sign, 0
    if count > 1 and move * sign <= 0.0:
        return here, before, sign, -1
    there = here + move
    return there, here, move, -1 if abs(move) <= 2e-16 * abs(there) else count + 1


@kernel(allocates=False)
def tail_of(log_tail):  # type: ignore[no-untyped-def]
    """The x with P(Z > x) = exp(log_tail) of at most a quarter, by `find_root`."""
    guess = -2.0 * log_tail - math.log(-4.0 * math.pi * log_tail)
    here = before = math.sqrt(max(guess, 0.25))
    sign, count = 0.0, 0
    for _ in range(MOST_STEPS):
        tail = 0.5 * math.erfc(here * SQRT_HALF)
        density = math.exp(-0.5 * here * here) / SQRT_TWO_PI
        move = -((log_tail - math.log(tail)) * tail / density) if tail > 0.0 else math.nan
        here, before, sign, count = next_of(here, before, sign, count, move)
        if count < 0:
            break
    return here


@kernel(allocates=False)
def many_tails_of(log_tails):  # type: ignore[no-untyped-def]
    """Each logarithm becomes its x."""
    for row in range(log_tails.size):
        log_tails[row] = tail_of(log_tails[row])


@lru_cache(maxsize=256)  # a test asks for both of its sides
def t_two_sided(t: float, df: float) -> float:
    """P(abs(T) > abs(t)) of Student's t with `df` > 0 degrees of freedom, infinity included.

    Example:
        >>> round(t_two_sided(2.5, 10), 6)
        0.031447
    """
    if math.isnan(t) or not df > 0:
        return math.nan
    if math.isinf(df):
        return math.erfc(abs(t) * SQRT_HALF)
    return float(t_tails.plain(t, df, *_errors_of(df)))


@lru_cache(maxsize=1024)  # metrics of one segment ask for the same
def _errors_of(df: float) -> tuple[float, float]:
    return beta_errors(0.5 * df, 0.5), beta_errors(0.5, 0.5 * df)


def t_sf(t: float, df: float) -> float:
    """P(T > t) of Student's t with `df` > 0 degrees of freedom, infinity included.

    Example:
        >>> round(t_sf(2.5, 10), 6)
        0.015723
    """
    both = t_two_sided(abs(t), df)
    return 0.5 * both if t >= 0 else 1.0 - 0.5 * both


def t_sf_of(t: Sequence[float], df: Sequence[float]) -> list[float]:
    """`t_sf` of each.

    Example:
        >>> [round(p, 6) for p in t_sf_of([2.5, 0.0], [10, 10])]
        [0.015723, 0.5]
    """
    if len(t) < MANY:
        return [*map(t_sf, t, df)]
    import numpy as np  # not by those who ask for few

    both, dfs = np.array(t, dtype=np.float64), np.array(df, dtype=np.float64)
    usual = np.isfinite(both) & np.isfinite(dfs) & (dfs > 0)
    own = both[usual]
    errors = [_errors_of(each) for each in dfs[usual].tolist()]
    many_tails(own, dfs[usual], np.array(errors).reshape(-1, 2))
    both[usual] = own
    return [
        (0.5 * p if x >= 0 else 1.0 - 0.5 * p) if is_usual else t_sf(x, each)
        for x, each, p, is_usual in zip(t, df, both.tolist(), usual.tolist(), strict=True)
    ]


@kernel(allocates=False)
def t_tails(t, df, errors, swapped):  # type: ignore[no-untyped-def]
    """P(abs(T) > abs(t)); `errors` of Stirling's form, `swapped` with its arguments swapped."""
    square = t * t
    if math.isinf(square):
        return 0.0
    a, x, y = 0.5 * df, df / (df + square), square / (df + square)
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    if 0.5 * x > a * y:
        return 1.0 - beta_tail(0.5, a, y, x, swapped)
    return beta_tail(a, 0.5, x, y, errors)


@kernel(allocates=False)
def many_tails(t, df, errors):  # type: ignore[no-untyped-def]
    """Each t becomes P(abs(T) > abs(t))."""
    for row in range(t.size):
        t[row] = t_tails(t[row], df[row], errors[row, 0], errors[row, 1])


@kernel(allocates=False)
def log_t_of(start, df, log_tail, errors, swapped):  # type: ignore[no-untyped-def]
    """log t with P(T > t) = exp(log_tail), by `find_root` from where that is concave."""
    here = before = start
    sign, count = 0.0, 0
    for _ in range(MOST_STEPS):
        t = math.exp(here)
        tail = 0.5 * t_tails(t, df, errors, swapped)
        square = t * t
        x, y = df / (df + square), square / (df + square)
        if math.isinf(square):
            x, y = 0.0, 1.0
        move = math.nan
        if tail > 0.0:
            move = -((log_tail - math.log(tail)) * tail / beta_factor(0.5 * df, 0.5, x, y, errors))
        here, before, sign, count = next_of(here, before, sign, count, move)
        if count < 0:
            break
    return here


@kernel(allocates=False)
def many_log_t(starts, df, log_tails, errors):  # type: ignore[no-untyped-def]
    """Each start becomes log t."""
    for row in range(starts.size):
        starts[row] = log_t_of(starts[row], df[row], log_tails[row], errors[row, 0], errors[row, 1])


def t_quantile(p: float, df: float) -> float:
    """The t at which P(T <= t) is `p`, with `df` > 0 degrees of freedom.

    Infinite at 0, at 1 and where it would be beyond 1e150.
    Example:
        >>> round(t_quantile(0.975, 10), 6)
        2.228139
    """
    return _t_quantile((p, df))


def find_t_quantiles(wanted: Iterable[tuple[float, float]]) -> None:
    """Find `t_quantile` of many (p, df) at a time, to be asked for soon.

    Example:
        >>> find_t_quantiles([(0.975, 10), (0.975, 20)])
        >>> round(t_quantile(0.975, 20), 6)
        2.085963
    """
    _t_quantile.find(wanted)


def _t_quantiles(wanted: Sequence[tuple[float, float]]) -> list[float]:
    found: dict[tuple[float, float], float] = {}
    tails: dict[tuple[float, float], tuple[float, float, float]] = {}
    quantiles = normal_quantiles(p for p, _ in wanted)
    for p, df in wanted:
        z = quantiles[p]
        if math.isnan(z) or not df > 0:
            found[p, df] = math.nan
        elif math.isinf(z) or math.isinf(df) or z == 0.0:
            found[p, df] = z
        elif min(p, 1.0 - p) > 0.25:
            found[p, df] = math.copysign(_central_quantile(p, df, _guess(abs(z), df)), p - 0.5)
        elif (start := _log_start(abs(z), df)) > LARGEST_LOG_T:
            found[p, df] = math.copysign(math.inf, p - 0.5)
        else:
            tails[p, df] = start, df, math.log(min(p, 1.0 - p))
    if len(tails) < MANY:
        log_ts = [log_t_of.plain(*each, *_errors_of(each[1])) for each in tails.values()]
    else:
        import numpy as np

        starts, dfs, log_tails = np.array([*tails.values()], dtype=np.float64).T.copy()
        many_log_t(starts, dfs, log_tails, np.array([_errors_of(df) for _, df in tails]))
        log_ts = starts.tolist()
    for (p, df), log_t in zip(tails, log_ts, strict=True):
        found[p, df] = math.copysign(math.exp(log_t), p - 0.5)
    return [found[each] for each in wanted]


_t_quantile = Remembered(_t_quantiles)


def _guess(z: float, df: float) -> float:
    """Abramowitz and Stegun 1964, 26.7.5, where it holds; elsewhere anything above 0 will do."""
    return z + (z**3 + z) / (4.0 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96.0 * df * df)


def _log_start(z: float, df: float) -> float:
    ratio = z * z / df
    if ratio < 0.1:
        return math.log(_guess(z, df))
    return 0.5 * (math.log(df) + (ratio if ratio > 30.0 else math.log(math.expm1(ratio))))


def _central_quantile(p: float, df: float, guess: float) -> float:
    centre, a = 1.0 - 2.0 * min(p, 1.0 - p), 0.5 * df

    def step(t: float) -> float:
        square = t * t
        x, y = df / (df + square), square / (df + square)
        factor = beta_factor.plain(a, 0.5, x, y, beta_errors(a, 0.5))
        return float((centre - beta_tails(a, 0.5, x, y)[1]) * t / (2.0 * factor))

    return find_root(min(guess, 2.0 * abs(normal_quantile(p))), step)


@kernel(allocates=False)
def many_beta_halves(a, b, errors):  # type: ignore[no-untyped-def]
    """Each a becomes I_x(a, b) at one half; `errors` of the larger of both, then the other."""
    for row in range(a.size):
        if b[row] > a[row]:
            a[row] = 1.0 - beta_tail(b[row], a[row], 0.5, 0.5, errors[row])
        else:
            a[row] = beta_tail(a[row], b[row], 0.5, 0.5, errors[row])


def beta_halves(parameters: Sequence[tuple[float, float]]) -> list[float]:
    """I_x(a, b) at one half, of each (a, b) above 0.

    Example:
        >>> [round(each, 6) for each in beta_halves([(2.0, 1.0), (1.0, 2.0)])]
        [0.25, 0.75]
    """
    if len(parameters) < MANY:
        return [beta_tails(a, b, 0.5, 0.5)[0] for a, b in parameters]
    import numpy as np

    a, b = np.array(parameters).T.copy()
    errors = np.array([beta_errors(max(each), min(each)) for each in parameters])
    many_beta_halves(a, b, errors)
    return [*a.tolist()]


def f_sf(f: float, df_1: float, df_2: float) -> float:
    """P(F > f) of the F distribution with `df_1` over `df_2` degrees of freedom.

    Example:
        >>> round(f_sf(4.0, 2, 30), 6)
        0.028845
    """
    if math.isnan(f) or not (df_1 > 0 and df_2 > 0):
        return math.nan
    if f <= 0.0:
        return 1.0
    whole = df_2 + df_1 * f
    if math.isinf(whole):
        return 0.0
    return beta_tails(0.5 * df_2, 0.5 * df_1, df_2 / whole, df_1 * f / whole)[0]


def f_quantile(upper: float, df_1: float, df_2: float) -> float:
    """The value that an F variable passes with probability `upper`, by bisection on its log.

    Example:
        >>> round(f_quantile(0.05, 3, 20), 4)
        3.0984
    """
    low, high = -60.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        if f_sf(math.exp(middle), df_1, df_2) > upper:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def chi_squared_sf(x: float, df: float) -> float:
    """P(X > x) of the chi-squared distribution with `df` degrees of freedom.

    Example:
        >>> round(chi_squared_sf(3.84, 1), 6)
        0.050044
    """
    if math.isnan(x) or not df > 0:
        return math.nan
    return gamma_tails(0.5 * df, 0.5 * x)[1]


def find_root(start: float, step: Callable[[float], float]) -> float:
    """The root that Newton's steps lead to.

    Every function here is concave in its variable, so that from the second point on all steps
    have one sign; where rounding turns one around they end. A step off the range of float64,
    NaN, is halved.

    Example:
        >>> round(find_root(1.0, lambda x: (2.0 - x * x) / (2.0 * x)), 12)
        1.414213562373
    """
    here = before = start
    sign, count = 0.0, 0
    for _ in range(MOST_STEPS):
        here, before, sign, count = next_of.interpret(here, before, sign, count, step(here))
        if count < 0:
            break
    return here
