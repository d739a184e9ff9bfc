"""Incomplete beta and gamma functions, both tails, accurate relative to the smaller one.

What multiplies the fractions and series, x^a (1 - x)^b / B(a, b) and x^a e^-x / Gamma(a), is taken
from Loader's saddle-point form, in which large terms never cancel.
"""

import math
from functools import lru_cache

from evalkit.kernels import kernel

TINY = 1e-300
EPSILON = 2.0**-53
MOST_TERMS = 200_000
STIRLING_FROM = 10.0
HALF_LOG_TWO_PI = 0.918938533204672741780329736406


def stirling_error(x: float) -> float:
    """log Gamma(x + 1) less Stirling's (x + 1/2) log x - x + log sqrt(2 pi); x > 0.

    Source:
        Loader 2000, Fast and Accurate Computation of Binomial Probabilities, section 2.
    """
    if x < STIRLING_FROM:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - HALF_LOG_TWO_PI
    square = x * x
    series = 1 / 1188 - (691 / 360360) / square
    for term in (1 / 1680, 1 / 1260, 1 / 360, 1 / 12):
        series = term - series / square
    return series / x


@kernel(allocates=False)
def deviance(x, expected, excess):  # type: ignore[no-untyped-def]
    """x log(x / expected) + expected - x, without cancellation; `excess` is expected - x.

    Source:
        Loader 2000, section 3 (there `bd0`).
    """
    if expected == 0.0:
        return math.inf
    if abs(excess) > 0.1 * (x + expected):
        return x * math.log(x / expected) + excess
    ratio = -excess / (x + expected)
    total = -excess * ratio
    term = 2.0 * x * ratio
    square = ratio * ratio
    for odd in range(3, 1000, 2):
        term *= square
        before = total
        total += term / odd
        if total == before:
            break
    return total


@lru_cache(maxsize=8192)
def beta_errors(a: float, b: float) -> float:
    """What Stirling's form of 1 / B(a, b) lacks; a, b > 0."""
    return stirling_error(a + b) - stirling_error(a) - stirling_error(b)


@kernel(allocates=False)
def beta_factor(a, b, x, y, errors):  # type: ignore[no-untyped-def]
    """x^a y^b / B(a, b) with y = 1 - x; a, b > 0; `errors` are `beta_errors(a, b)`."""
    if x <= 0.0 or y <= 0.0:
        return 0.0
    n = a + b
    excess = b * x - a * y  # n x - a, and a y - b x = n y - b
    exponent = errors - (deviance(a, n * x, excess) + deviance(b, n * y, -excess))
    return math.sqrt(a * b / n) * math.exp(exponent - HALF_LOG_TWO_PI)


@kernel(allocates=False)
def beta_tail(a, b, x, y, errors):  # type: ignore[no-untyped-def]
    """I_x(a, b) where it is the smaller tail: b x <= a y."""
    factor = beta_factor(a, b, x, y, errors)
    return 0.0 if factor == 0.0 else min(1.0, factor / beta_fraction(a, b, x, y))


def beta_tails(a: float, b: float, x: float, y: float) -> tuple[float, float]:
    """The regularised incomplete beta function I_x(a, b), and 1 - I_x(a, b).

    Args:
        a: above 0.
        b: above 0.
        x: from 0 to 1.
        y: 1 - x, given apart because either may be tiny.
    Source:
        Didonato and Morris 1992, ACM TOMS 18(3), 360-373, equation 9.
    """
    if x <= 0.0:
        return 0.0, 1.0
    if y <= 0.0:
        return 1.0, 0.0
    if b * x > a * y:
        upper = beta_tail.plain(b, a, y, x, beta_errors(b, a))
        return 1.0 - upper, upper
    lower = beta_tail.plain(a, b, x, y, beta_errors(a, b))
    return lower, 1.0 - lower


@kernel(allocates=False)
def beta_fraction(a, b, x, y):  # type: ignore[no-untyped-def]
    """The continued fraction whose inverse times x^a y^b / B(a, b) is I_x(a, b), by Lentz."""
    start = a * y - b * x + 1.0
    value = a * start / (a + 1.0)
    c, d = value, 0.0
    for m in range(1, MOST_TERMS):
        width = a + 2 * m
        before = m * (b - m) * x / (width - 1.0)
        numerator = (a + m - 1) * (a + b + m - 1) * x * before / (width - 1.0)
        term = m + before + (a + m) * (start + m * (1.0 + y)) / (width + 1.0)
        d = term + numerator * d
        d = 1.0 / (d if d != 0.0 else TINY)
        c = term + numerator / c
        c = c if c != 0.0 else TINY
        step = c * d
        value *= step
        if abs(step - 1.0) < 4 * EPSILON:
            break
    return value


def gamma_factor(a: float, x: float) -> float:
    """x^a e^-x / Gamma(a); a > 0."""
    if x <= 0.0 or math.isinf(x):
        return 0.0
    exponent = -stirling_error(a) - deviance.plain(a, x, x - a)
    return math.sqrt(a) * math.exp(exponent - HALF_LOG_TWO_PI)


def gamma_tails(a: float, x: float) -> tuple[float, float]:
    """The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).

    Source:
        Press et al. 2007, Numerical Recipes, 3rd edition, 6.2.
    """
    if x <= 0.0:
        return 0.0, 1.0
    factor = gamma_factor(a, x)
    if x < a + 1.0:
        total = term = 1.0 / a
        for n in range(1, MOST_TERMS):
            term *= x / (a + n)
            total += term
            if term < EPSILON * total:
                break
        lower = min(1.0, factor * total)
        return lower, 1.0 - lower
    if factor == 0.0:
        return 1.0, 0.0
    b = x + 1.0 - a
    c, d = 1.0 / TINY, 1.0 / b
    value = d
    for n in range(1, MOST_TERMS):
        numerator = -n * (n - a)
        b += 2.0
        d = b + numerator * d
        d = 1.0 / (d if d != 0.0 else TINY)
        c = b + numerator / c
        c = c if c != 0.0 else TINY
        step = c * d
        value *= step
        if abs(step - 1.0) < 4 * EPSILON:
            break
    upper = min(1.0, factor * value)
    return 1.0 - upper, upper
