"""Sums of few values at a time, each rounded once: whatever their order, the same float64."""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints

MOST_PARTS = 64  # floats whose bits do not overlap, of which 40 cover every exponent


@kernel(allocates=False)
def sum_run(values, column, begin, end, parts):  # type: ignore[no-untyped-def]
    """The sum of one column from `begin` to `end`, rounded once; plainly, where one is infinite."""
    n, plain = 0, 0.0
    for row in range(begin, end):
        value = values[row, column]
        plain += value
        n_left = 0
        for place in range(n):
            part = parts[place]
            high = value + part
            if abs(value) < abs(part):
                low = value - (high - part)
            else:
                low = part - (high - value)
            if low != 0.0:
                parts[n_left] = low
                n_left += 1
            value = high
        parts[n_left] = value
        n = n_left + 1
    if n == 0 or not np.isfinite(plain):
        return plain
    high, low = parts[n - 1], 0.0
    n -= 1
    while n > 0 and low == 0.0:
        n -= 1
        part, before = parts[n], high
        high = before + part
        low = part - (high - before)
    if n > 0 and ((low < 0.0 and parts[n - 1] < 0.0) or (low > 0.0 and parts[n - 1] > 0.0)):
        twice = 2.0 * low  # a half that was rounded to even, though something lies beyond it
        if (high + twice) - high == twice:
            high += twice
    return high


@kernel(allocates=False)
def add_runs(values, firsts, parts, sums):  # type: ignore[no-untyped-def]
    """Fill `sums`, float64[n_runs, n_columns], with the sums of runs that begin at `firsts`."""
    for run in range(firsts.size):
        end = firsts[run + 1] if run + 1 < firsts.size else values.shape[0]
        for column in range(values.shape[1]):
            sums[run, column] = sum_run(values, column, firsts[run], end, parts)


def sums_of_runs(values: Floats, firsts: Ints) -> Floats:
    """float64[n_runs, n_columns], each equal to `math.fsum` of its run of rows.

    Args:
        values: float64[n_rows, n_columns].
        firsts: int64[n_runs], ascending, the row that each run begins with.
    Source:
        Shewchuk 1997, Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric
        Predicates, Discrete and Computational Geometry 18, 305-363.
    Example:
        >>> values = np.array([[1e100], [1.0], [-1e100], [0.1], [0.2]])
        >>> sums_of_runs(values, np.array([0, 3])).tolist()
        [[1.0], [0.30000000000000004]]
    """
    sums = np.empty((firsts.size, values.shape[1]))
    add_runs(np.ascontiguousarray(values), firsts, np.empty(MOST_PARTS), sums)
    return sums
