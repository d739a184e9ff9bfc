"""Where a function is 0."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.float64]"
Places: TypeAlias = "npt.NDArray[np.intp]"


def root_of(
    rising: Callable[[float], float], low: float, high: float, *, accuracy: float = 1e-14
) -> float:
    """Where a rising function is 0, by bisection and secants (Dowell and Jarratt 1971, Illinois).

    Args:
        accuracy: of the function's value.
    """
    below, above = rising(low), rising(high)
    side = 0
    here = high
    for _ in range(200):
        here = high - above * (high - low) / (above - below)
        value = rising(here)
        if value < 0.0:
            low, below = here, value
            above = 0.5 * above if side == 1 else above
            side = 1
        else:
            high, above = here, value
            below = 0.5 * below if side == -1 else below
            side = -1
        if abs(value) < accuracy or high - low <= 1e-14 * high:
            break
    return here


def roots_of(
    rising: Callable[[Places, Floats], Floats],
    low: Floats,
    high: Floats,
    *,
    accuracy: float = 1e-14,
) -> Floats:
    """`root_of` of many functions: `rising` has their places, and a number for each of them."""
    import numpy as np  # not by those who ask for one

    places, found = np.arange(low.size), high.copy()
    below, above, side = rising(places, low), rising(places, high), np.zeros(low.size)
    for _ in range(200):
        here = high - above * (high - low) / (above - below)
        value = rising(places, here)
        found[places] = here
        is_low = value < 0.0
        below, above = (
            np.where(is_low, value, np.where(side == -1, 0.5 * below, below)),
            np.where(is_low, np.where(side == 1, 0.5 * above, above), value),
        )
        low, high = np.where(is_low, here, low), np.where(is_low, high, here)
        side = np.where(is_low, 1, -1)
        left = ~((np.abs(value) < accuracy) | (high - low <= 1e-14 * high))
        if not left.any():
            break
        places, low, high = places[left], low[left], high[left]
        below, above, side = below[left], above[left], side[left]
    return found
