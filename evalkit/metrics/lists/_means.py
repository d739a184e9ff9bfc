# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Means over the items of a list."""

import math

from evalkit.metrics import NO_CUTOFF, choice, kernel

DEN = choice(
    "den",
    {"n": "the items that are shown", "k": "the cutoff, however short the list is"},
    doc="What the sum over the list is divided by.",
)
OVER_K = 1


@kernel(allocates=False)
def mean_over_list(lists, within, cutoffs, numbers, den, out):
    """Fill `out` with the mean of each list's items' numbers, up to each cutoff.

    Args:
        numbers: float64[n_items]; NaN for an item that is left out.
        den: `DEN`; a list without cutoff is divided by its own length.
    """
    for user in range(out.shape[0]):
        begin = lists.starts[user]
        total, n, place = 0.0, 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                number = numbers[lists.items[begin + place]]
                if not math.isnan(number):
                    total += number
                    n += 1
                place += 1
            below = n
            if den == OVER_K and place > 0:
                below = place if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            out[user, column] = total / below if below > 0 else math.nan
