"""The order in which numba's argsort leaves equal scores, which no rule describes.

numba sorts by a quicksort that keeps no order among equals; up to 15 rows it inserts, which does.
"""

import os

import numpy as np
import numpy.typing as npt

from evalkit.metrics import kernel
from evalkit.ranks._records import Array


@kernel
def argsort_lists(codes, values, passes, backwards, orders):  # type: ignore[no-untyped-def]
    """Fill `orders` with each row's place in its list, which lies together by `codes`."""
    begin = 0
    while begin < codes.size:
        end = begin + 1
        while end < codes.size and codes[end] == codes[begin]:
            end += 1
        order = np.arange(end - begin)
        for _ in range(passes):
            order = order[np.argsort(values[begin:end][order])]
        for place in range(end - begin):
            last = end - begin - 1 - place
            orders[begin + order[place]] = last if backwards else place
        begin = end


def numba_order(codes: Array, scores: npt.NDArray[np.float64], ties: str) -> Array:
    """int64[n_rows], the place of each row in its list, which starts in the order of the log.

    Args:
        codes: int64[n_rows], the lists, each of them together.
        ties: numba, which sorts the negated scores and sorts the result once more; or
            numba-reversed, which sorts the scores and reads them backwards.
    """
    backwards = ties == "numba-reversed"
    values = scores if backwards else -scores
    orders = np.empty(codes.size, dtype=np.int64)
    if _has_compiler():
        argsort_lists(codes, values, 1 if backwards else 2, backwards, orders)
    else:
        _argsort_lists_plainly(codes, values, 1 if backwards else 2, backwards, orders)
    return orders


def _has_compiler() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def _argsort_lists_plainly(
    codes: Array, values: npt.NDArray[np.float64], passes: int, backwards: bool, orders: Array
) -> None:
    """The same by numba's own quicksort in plain Python: NumPy's argsort is another one."""
    from numba.misc.quicksort import make_py_quicksort

    sort = make_py_quicksort(is_argsort=True).run_quicksort  # type: ignore[no-untyped-call]
    ends = [*(np.flatnonzero(codes[1:] != codes[:-1]) + 1), codes.size]
    begin = 0
    for end in ends if codes.size else []:
        order = np.arange(end - begin)
        for _ in range(passes):
            order = order[np.asarray(sort(values[begin:end][order]), dtype=np.int64)]
        places = np.arange(end - begin)
        orders[begin + order] = places[::-1] if backwards else places
        begin = end
