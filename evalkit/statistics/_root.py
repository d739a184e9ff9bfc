"""Where a function is 0."""

from collections.abc import Callable


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
