"""Values as whole numbers of a grid, and what sums of their powers say."""

import math

import numpy as np

from evalkit.errors import DataError
from evalkit.kernels.arrays import Floats, Int32s, Ints

from ._draws import GRID_BITS, put_on_grid


def grid_exponent(largest: float) -> int:
    """The exponent of the smallest power of two that is at least `largest`."""
    fraction, exponent = math.frexp(largest)
    return exponent - (fraction == 0.5)


def to_grid(values: Floats, exponents: Ints) -> tuple[Floats, int]:
    """Values as whole numbers of the grid, and how many are NaN, which they stay.

    Raises:
        DataError: values are larger than their bound, or infinite [value-beyond-bound].
    """
    values = np.require(values, np.float64, ["C", "W"])  # others would be compiled for anew
    grid = np.empty(values.shape)
    n_beyond, n_undefined = put_on_grid(values, np.ldexp(1.0, GRID_BITS - exponents), grid)
    if n_beyond:
        message = f"{n_beyond:,} values are larger than the bound that was given for them"
        hint = "measure the largest value first, and give it as the bound"
        raise DataError(message, code="value-beyond-bound", hint=hint)
    return grid, n_undefined


def check_segments(segments: Int32s, n_segments: int) -> Int32s:
    """The codes as kernels take them; a code beyond them would be written beyond an array."""
    if segments.size and segments.max() >= n_segments:
        raise IndexError(f"segment {segments.max()} of {n_segments}")
    return np.require(segments, np.int32, ["C", "W"])


def spread_of(sums: Ints) -> int:
    """n^2 times the variance over n, in units of the 30-bit grid squared."""
    count, _, total, low, high = (int(each) for each in sums[:5])
    return count * (low + (high << 32)) - total * total


def skewness_of(sums: Ints) -> float:
    """The third central moment over the variance to the power 1.5, both over n.

    Args:
        sums: int64[MOMENTS] as kernels fill it.
    """
    count, _, total = (int(each) for each in sums[:3])
    limbs = [int(each) for each in sums[3:]]
    squares = limbs[0] + (limbs[1] << 32)
    cubes = limbs[2] + ((limbs[3] + limbs[4]) << 32) + (limbs[5] << 64)
    spread = spread_of(sums)
    if count < 2 or spread <= 0:
        return math.nan
    third = count * count * cubes - 3 * count * total * squares + 2 * total**3  # times n^3
    return third / math.sqrt(spread) ** 3
