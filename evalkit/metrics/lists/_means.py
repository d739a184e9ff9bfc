# mypy: disable-error-code="no-untyped-def"
"""Means over the items of a list."""

import math

from evalkit.metrics import kernel


@kernel(allocates=False)
def mean_over_list(lists, within, numbers, out):
    """Fill `out` with the mean of each list's items' numbers, up to each cutoff.

    Args:
        numbers: float64[n_items]; NaN for an item that is left out.
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
            out[user, column] = total / n if n > 0 else math.nan
