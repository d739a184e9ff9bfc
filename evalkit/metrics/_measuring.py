"""Kernels of metrics of lists, called."""

from typing import TYPE_CHECKING, Any

from ._declare import Request, _frozen
from ._lists import Lists

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray


def measure_lists(
    request: Request,
    lists: Lists,
    cutoffs: "NDArray[int64]",
    tables: tuple[Any, ...],
    out: "NDArray[float64]",
) -> None:
    """Fill `out` by the kernel of a request of the families `users` or `sums`."""
    import numpy as np

    within = np.minimum(lists.lengths[:, None], cutoffs)
    request.metric.kernel(
        frozen(lists), frozen(within), frozen(cutoffs), *map(frozen, tables), *request.encoded, out
    )


def frozen(table: Any) -> Any:
    """A read-only view of an array, or of each of a named tuple: kernels compile once."""
    if isinstance(table, tuple):
        each = map(frozen, table)
        return type(table)(*each) if hasattr(table, "_fields") else tuple(each)
    return _frozen(table) if hasattr(table, "flags") else table
