"""Averages over the scale s = sqrt(chi-squared / df) that an estimated deviation brings in."""

import math
from collections.abc import Callable

from ._incomplete import gamma_factor

NEGLIGIBLE = 1e-18
WIDEST_STEP = 0.065  # in log s, where the range of 100 means rises within 0.12


def average_over_scale(value: Callable[[float], float], df: float, *, start: float = 0.0) -> float:
    """The mean of value(s), a function >= 0 that is smooth in s.

    The trapezoidal rule in log s, whose error falls exponentially for such functions, from the
    middle outwards until nothing is added.

    Args:
        df: degrees of freedom; infinite gives value(1).
        start: log s near which density times value is largest.
    Source:
        Trefethen and Weideman 2014, SIAM Review 56(3), 385-458.
    """
    if math.isinf(df):
        return value(1.0)
    step = min(WIDEST_STEP, 0.5 / math.sqrt(2.0 * df))
    factor = 2.0 * gamma_factor(0.5 * df, 0.5 * df) * step

    def term(log_s: float) -> float:
        density = math.exp(df * (log_s - 0.5 * math.expm1(2.0 * log_s)))
        return density * value(math.exp(log_s)) if density > 0.0 else 0.0

    return factor * sum_outwards(term, start, step)


def sum_outwards(term: Callable[[float], float], start: float, step: float) -> float:
    """The sum of term(start + i step) over all whole i, for terms that rise and then fall."""
    total = term(start)
    for direction in (-step, step):
        count = 1
        while True:
            here = term(start + count * direction)
            total += here
            count += 1
            if here <= NEGLIGIBLE * total:
                break
    return total
