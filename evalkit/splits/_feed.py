"""What rules say of the rows that they read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalkit.kernels.arrays import Bytes
from evalkit.splits._filters import LogRows

ALL = np.iinfo(np.int32).max  # more codes of users than there are


@dataclass(slots=True)
class Assigned:
    """What a rule found out about rows, and how many users hang on ties.

    Args:
        decide: letters of the next rows for each fold; called for all batches, once.
        moments: the moments that the parts of each fold begin at, in the unit of the log.
        crossed: users whose boundary goes through equal times; known when all is decided.
        by_order: those of them whose parts hang on the order of rows.
        fewer: users who give fewer test rows than asked for.
    """

    decide: Callable[[LogRows], list[Bytes]]
    moments: list[dict[str, int]] = field(default_factory=list)
    crossed: Callable[[], tuple[int, int]] = lambda: (0, 0)
    fewer: int = 0

    def first_held(self) -> int:
        """The first moment of all: what is earlier is train in each fold; else never."""
        never: int = np.iinfo(np.int64).min
        if any("start" in each for each in self.moments):
            return never
        return min((moment for each in self.moments for moment in each.values()), default=never)


def fitted(values: Any, size: int, fill: int) -> Any:
    """The same values with room for more."""
    if size <= len(values):
        return values
    grown = np.full((max(size, 2 * len(values)), *values.shape[1:]), fill, dtype=values.dtype)
    grown[: len(values)] = values
    return grown
