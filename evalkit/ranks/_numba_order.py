"""The order in which numba's argsort leaves equal scores, which no rule describes.

numba sorts by a quicksort that keeps no order among equals; up to 15 rows it inserts, which does.
It is written out here (numba 0.68, `numba/misc/quicksort.py`), so that no other version changes it.
"""

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints

SMALL = 15  # rows that are inserted
MOST_PARTITIONS = 100  # that wait; fewer than the bits of a number of rows, as the larger one waits


@kernel(allocates=False)
def insert_rows(values, order, low, high):  # type: ignore[no-untyped-def]
    """Sort `order[low : high + 1]` by the values, equal ones as they stand."""
    for place in range(low + 1, high + 1):
        row = order[place]
        free = place
        while free > low and values[row] < values[order[free - 1]]:
            order[free] = order[free - 1]
            free -= 1
        order[free] = row


@kernel(allocates=False)
def swap_descending(values, order, first, second):  # type: ignore[no-untyped-def]
    """Swap two places unless the second one's value is as large as the first one's."""
    if values[order[second]] < values[order[first]]:
        order[first], order[second] = order[second], order[first]


@kernel(allocates=False)
def partition_rows(values, order, low, high):  # type: ignore[no-untyped-def]
    """Part `order[low : high + 1]` at the median of three values; gives its place."""
    middle = (low + high) >> 1
    swap_descending(values, order, low, middle)
    swap_descending(values, order, middle, high)
    swap_descending(values, order, low, middle)
    pivot = values[order[middle]]
    order[high], order[middle] = order[middle], order[high]
    left, right = low, high - 1
    while True:
        while left < high and values[order[left]] < pivot:
            left += 1
        while right >= low and pivot < values[order[right]]:
            right -= 1
        if left >= right:
            break
        order[left], order[right] = order[right], order[left]
        left += 1
        right -= 1
    order[left], order[high] = order[high], order[left]
    return left


@kernel(allocates=False)
def sort_rows(values, order, waiting):  # type: ignore[no-untyped-def]
    """Sort `order` by the values of its rows, as numba's argsort does."""
    waiting[0, 0], waiting[0, 1] = 0, order.size - 1
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        low, high = waiting[n_waiting, 0], waiting[n_waiting, 1]
        while high - low >= SMALL:
            middle = partition_rows(values, order, low, high)
            if high - middle > middle - low:
                waiting[n_waiting, 0], waiting[n_waiting, 1] = middle + 1, high
                n_waiting += high > middle
                high = middle - 1
            else:
                waiting[n_waiting, 0], waiting[n_waiting, 1] = low, middle - 1
                n_waiting += middle > low
                low = middle + 1
        insert_rows(values, order, low, high)


@kernel
def argsort_lists(codes, values, passes, backwards, orders):  # type: ignore[no-untyped-def]
    """Fill `orders` with each row's place in its list, which lies together by `codes`."""
    waiting = np.empty((MOST_PARTITIONS, 2), dtype=np.int64)
    begin = 0
    while begin < codes.size:
        end = begin + 1
        while end < codes.size and codes[end] == codes[begin]:
            end += 1
        own = values[begin:end]
        order = np.arange(end - begin)
        sort_rows(own, order, waiting)
        if passes > 1:
            sorted_values = own[order]
            again = np.arange(end - begin)
            sort_rows(sorted_values, again, waiting)
            order = order[again]
        for place in range(end - begin):
            last = end - begin - 1 - place
            orders[begin + order[place]] = last if backwards else place
        begin = end


def numba_order(codes: Ints, scores: Floats, ties: str) -> Ints:
    """int64[n_rows], the place of each row in its list, which starts in the order of the log.

    Args:
        codes: int64[n_rows], the lists, each of them together.
        ties: numba, which sorts the negated scores and sorts the result once more; or
            numba-reversed, which sorts the scores and reads them backwards.
    """
    backwards = ties == "numba-reversed"
    values = scores if backwards else -scores
    orders = np.empty(codes.size, dtype=np.int64)
    argsort_lists(codes, values, 1 if backwards else 2, backwards, orders)
    return orders
