# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Whether an item stands among a user's items that are in order of code."""

import numpy as np

from evalkit.metrics import Lists, kernel

NOBODY = Lists(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))


@kernel(allocates=False)
def place_in(lists, user, item):
    """Where the user has the item, of a history or of right answers; -1 where it lacks it."""
    low = lists.starts[user]
    high = low + lists.lengths[user]
    end = high
    while low < high:
        middle = (low + high) // 2
        if lists.items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low if low < end and lists.items[low] == item else -1


@kernel(allocates=False)
def stands_in(lists, user, item):
    """Whether the user has the item, of a history or of right answers."""
    return place_in(lists, user, item) >= 0
