"""Arrays and tensors of any library as NumPy's: none of the libraries is imported."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

_IN_MEMORY = (1, 3)  # kDLCPU and kDLCUDAHost of dlpack.h


def array_of(given: Any) -> npt.NDArray[Any]:
    """NumPy, lists, or what `__dlpack__` or `__array__` give: torch, JAX, CuPy, on any device.

    The array may share its memory with what was given.
    """
    if isinstance(given, np.ndarray):
        return given
    if hasattr(given, "detach"):  # torch exports nothing that needs gradients
        given = given.detach()
    if not hasattr(given, "__dlpack__"):
        return np.asarray(given)
    if given.__dlpack_device__()[0] not in _IN_MEMORY:
        if not hasattr(given, "cpu"):
            return np.asarray(given)
        given = given.cpu()
    try:
        return np.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError):  # of types that NumPy lacks, as bfloat16
        found = np.asarray(given.float() if hasattr(given, "float") else given)
        return found.astype(np.float32) if found.dtype.name == "bfloat16" else found


def ids_of(given: Any) -> pl.Series:
    """Ids as a column of their own memory; all whole numbers below 2^63 have one type."""
    if isinstance(given, pl.Series):
        return given.cast(pl.Int64) if given.dtype.is_integer() else given
    array = given if isinstance(given, list | tuple) else array_of(given).reshape(-1)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
        return pl.Series(array.astype(np.int64))
    return pl.Series(
        list(array) if isinstance(array, list | tuple) else array.tolist(), strict=True
    )
