"""Tails and quantiles of the normal, t, F, chi-squared and beta distributions.

Both tails are accurate relative to themselves, about 1e-13 as far as float64 reaches (1e-300), for
any degrees of freedom up to 1e9. NaN stands for arguments that are none. Plain Python: loading
SciPy costs a scheduled job more than all its statistics.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from ._incomplete import beta_factor, beta_tails, gamma_tails

SQRT_HALF = 0.707106781186547524400844362105
SQRT_TWO_PI = 2.50662827463100050241576528481
LARGEST_LOG_T = 345.0  # 1e150, whose square float64 still holds
MOST_STEPS = 200


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
        x = _newton(
            0.5 * SQRT_TWO_PI * centre,
            lambda x: (centre - math.erf(x * SQRT_HALF)) / (2.0 * normal_density(x)),
        )
    else:
        log_tail = math.log(tail)

        def step(x: float) -> float:
            here = normal_sf(x)
            return -_gap(here, log_tail, normal_density(x))

        guess = -2.0 * log_tail - math.log(-4.0 * math.pi * log_tail)
        x = _newton(math.sqrt(max(guess, 0.25)), step)
    return math.copysign(x, p - 0.5)


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
    return beta_tails(0.5 * df, 0.5, *_t_places(t, df))[0]


def t_sf(t: float, df: float) -> float:
    """P(T > t) of Student's t with `df` > 0 degrees of freedom, infinity included.

    Example:
        >>> round(t_sf(2.5, 10), 6)
        0.015723
    """
    both = t_two_sided(t, df)
    return 0.5 * both if t >= 0 else 1.0 - 0.5 * both


def _t_places(t: float, df: float) -> tuple[float, float]:
    square = t * t
    if math.isinf(square):
        return 0.0, 1.0
    return df / (df + square), square / (df + square)


@lru_cache(maxsize=8192)
def t_quantile(p: float, df: float) -> float:
    """The t at which P(T <= t) is `p`, with `df` > 0 degrees of freedom.

    Infinite at 0, at 1 and where it would be beyond 1e150.
    Example:
        >>> round(t_quantile(0.975, 10), 6)
        2.228139
    """
    z = normal_quantile(p)
    if math.isnan(z) or not df > 0:
        return math.nan
    if math.isinf(z) or math.isinf(df) or z == 0.0:
        return z
    tail = min(p, 1.0 - p)
    a = 0.5 * df
    z = abs(z)
    # Abramowitz and Stegun 1964, 26.7.5, where it holds; elsewhere anything above 0 will do
    guess = z + (z**3 + z) / (4.0 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96.0 * df * df)
    if tail > 0.25:
        centre = 1.0 - 2.0 * tail

        def central_step(t: float) -> float:
            x, y = _t_places(t, df)
            return (centre - beta_tails(a, 0.5, x, y)[1]) * t / (2.0 * beta_factor(a, 0.5, x, y))

        return math.copysign(_newton(min(guess, 2.0 * z), central_step), p - 0.5)
    log_tail = math.log(tail)

    def step(log_t: float) -> float:
        x, y = _t_places(math.exp(log_t), df)
        here = 0.5 * beta_tails(a, 0.5, x, y)[0]
        return -_gap(here, log_tail, beta_factor(a, 0.5, x, y))

    ratio = z * z / df
    start = 0.5 * (math.log(df) + (ratio if ratio > 30.0 else math.log(math.expm1(ratio))))
    if ratio < 0.1:
        start = math.log(guess)
    if start > LARGEST_LOG_T:
        return math.copysign(math.inf, p - 0.5)
    return math.copysign(math.exp(_newton(start, step)), p - 0.5)


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


def chi_squared_sf(x: float, df: float) -> float:
    """P(X > x) of the chi-squared distribution with `df` degrees of freedom.

    Example:
        >>> round(chi_squared_sf(3.84, 1), 6)
        0.050044
    """
    if math.isnan(x) or not df > 0:
        return math.nan
    return gamma_tails(0.5 * df, 0.5 * x)[1]


def _gap(here: float, log_wanted: float, factor: float) -> float:
    """Newton's step for log `here` = `log_wanted`; NaN where the tail is too small to be seen."""
    return (log_wanted - math.log(here)) * here / factor if here > 0.0 else math.nan


def _newton(start: float, step: Callable[[float], float]) -> float:
    """The root that Newton's steps lead to.

    Every function here is concave in its variable, so that from the second point on all steps
    have one sign; where rounding turns one around they end. A step off the range of float64,
    NaN, is halved.
    """
    here = before = start
    sign, count = 0.0, 0
    for _ in range(MOST_STEPS):
        move = step(here)
        if math.isnan(move):
            here, count = 0.5 * (here + before), 0
            continue
        if count > 1 and move * sign <= 0.0:
            break
        before, sign, count = here, move, count + 1
        here += move
        if abs(move) <= 2e-16 * abs(here):
            break
    return here
