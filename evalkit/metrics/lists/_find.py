# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Whether an item stands among a user's items that are in order of code."""

import numpy as np

from evalkit.metrics import Lists, kernel

NOBODY = Lists(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))


@kernel(allocates=False)
def stands_in(lists, user, item):
    """Whether the user has the item, of a history or of right answers."""
    low = lists.starts[user]
    high = low + lists.lengths[user]
    end = high
    while low < high:
        middle = (low + high) // 2
        if lists.items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low < end and lists.items[low] == item
