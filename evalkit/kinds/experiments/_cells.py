"""Units in cells of variant, stratum and segments, of which everything is made."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.segments import ALL, Segment
from evalkit.kernels.arrays import Flags, Int32s, Ints

from ._asked import ExperimentRequest
from ._units import Units

CodedUnits = tuple[npt.NDArray[Any], int, int]  # codes, the least one, and how many there may be

MOST_CODES = 1 << 62
TRIGGERED: Segment = ("triggered", "triggered")


class Cellular:
    """Units in cells of variant, stratum and segments, of which everything is made.

    Args:
        cells: int32[n_units]; `arms`, `strata`: of each cell.
        members: which cells a segment has.
    """

    def __init__(self, units: Units, asked: ExperimentRequest) -> None:
        columns: list[CodedUnits] = [(units.variants, 0, len(units.names))]
        listed = [units.groups[each] for each in (*asked.statistics.strata, *asked.segments)]
        columns += [(each.codes, -1, len(each.names) + 1) for each in listed]
        if units.triggered is not None:
            columns.append((units.triggered, 0, 2))
        cells, digits = cells_of(columns)
        sizes = [size for _, _, size in columns]
        self.cells: Int32s = cells.astype(np.int32)
        self.arms, self.n_cells = digits[0], digits[0].size
        n_strata = len(asked.statistics.strata)
        self.strata = np.zeros(self.n_cells, dtype=np.int64)
        for size, own in zip(sizes[1 : 1 + n_strata], digits[1 : 1 + n_strata], strict=True):
            self.strata = self.strata * size + own
        self.members: dict[Segment, Flags] = {ALL: np.ones(self.n_cells, dtype=np.bool_)}
        for place, name in enumerate(asked.segments, 1 + n_strata):
            for code, text in enumerate(units.groups[name].names, 1):
                self.members[name, text] = digits[place] == code
        if units.triggered is not None:
            self.members[TRIGGERED] = digits[-1] == 1

    def units_of(self, segment: Segment) -> Flags:
        return self.members[segment][self.cells]


def cells_of(columns: Sequence[CodedUnits]) -> tuple[Ints, list[Ints]]:
    """The cell of each unit, and what of each column every cell is.

    Example:
        >>> cells, codes = cells_of([(np.array([0, 1, 1]), 0, 2), (np.array([1, -1, -1]), -1, 3)])
        >>> cells.tolist(), [each.tolist() for each in codes]
        ([0, 1, 1], [[0, 1], [2, 0]])
    """
    if math.prod(size for _, _, size in columns) > MOST_CODES:  # of which int64 holds the product
        before, digits = cells_of(columns[:-1])
        cells, (places, own) = cells_of([(before, 0, digits[0].size), columns[-1]])
        return cells, [*(each[places] for each in digits), own]
    codes = np.zeros(columns[0][0].size, dtype=np.int64)
    for values, least, size in columns:
        codes = codes * size + values - least
    found, cells = np.unique(codes, return_inverse=True)
    digits = []
    for _, _, size in reversed(columns):
        digits.append(found % size)
        found = found // size
    return cells, digits[::-1]
