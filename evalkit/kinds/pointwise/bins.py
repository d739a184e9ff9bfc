"""Edges of bins that people can read, and exact counts between them."""

import math

import numpy as np
import numpy.typing as npt

STEPS = (1.0, 2.0, 5.0, 10.0)
SMALLEST_STEP = 1e-11  # of a value: edges have twelve digits


def nice_edges(low: float, high: float, most: int) -> npt.NDArray[np.float64]:
    """Multiples of 1, 2 or 5 times a power of ten around [low, high], at most about `most` bins."""
    if not high - low > SMALLEST_STEP * most * abs(low):
        high = low + (abs(low) * 2.0**-20 or 1.0)
    wanted = high / most - low / most
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(each * power for each in STEPS if each * power >= wanted * (1 - 1e-9))
    first, last = math.floor(low / step), math.ceil(high / step)
    edges = np.array([_multiple(step, number) for number in range(first, last + 1)])
    while edges[0] > low:  # a quotient was rounded
        edges = np.concatenate([[_multiple(step, first := first - 1)], edges])
    while edges[-1] < high:
        edges = np.concatenate([edges, [_multiple(step, last := last + 1)]])
    return edges


def _multiple(step: float, number: int) -> float:
    return float(f"{step * number:.12g}")  # 0.30000000000000004 is meant as 0.3


def bin_of(values: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """The bin of each value: from its edge up to the next; the last edge belongs inside."""
    found = np.searchsorted(edges, values, side="right") - 1
    return np.minimum(found, edges.size - 2)
