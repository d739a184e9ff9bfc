"""Memory that one block of users after the other is measured in."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Bytes


class BufferPool:
    """Memory that one block after the other stands in: new memory costs as much as its values."""

    def __init__(self) -> None:
        self._parts: list[Bytes] = []  # one for each array of a block
        self._n_taken = 0

    def take(self, shape: tuple[int, ...], dtype: type[np.generic]) -> npt.NDArray[Any]:
        """An array that nothing else stands in until the room is cleared; what it holds is open."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if self._n_taken == len(self._parts):
            self._parts.append(np.empty(0, dtype=np.uint8))
        if self._parts[self._n_taken].size < n_bytes:  # a little more, as blocks differ
            self._parts[self._n_taken] = np.empty(n_bytes + n_bytes // 16, dtype=np.uint8)
        part = self._parts[self._n_taken]
        self._n_taken += 1
        return part[:n_bytes].view(dtype).reshape(shape)

    def clear(self) -> None:
        """All that was taken may be written over."""
        self._n_taken = 0
