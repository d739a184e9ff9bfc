"""Cells: the finest groups of users that every segment is made of whole ones of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalkit.aggregate.segments._buckets import without_gaps
from evalkit.aggregate.segments._users import UserSegments
from evalkit.errors import RequestError, raise_all
from evalkit.kernels.arrays import Int32s, Ints
from evalkit.statistics.exact import N_LIMBS

Segment: TypeAlias = tuple[str, str]  # segmentation, segment
ALL: Segment = ("", "")  # every user

BYTES_A_SUM = 8 * N_LIMBS
USUAL_BYTES = 256 << 20  # that the sums of cells may take
MOST_BYTES = 2 << 30
FEWEST_CELLS = 16


@dataclass(frozen=True, slots=True)
class CellSet:
    """A cell for each user, and the cells of each segment.

    Args:
        codes: int32[n_users], each user's cell.
        n_cells: how many there are.
        members: int64 cells of each segment that has users; of ALL in the first set.
    """

    codes: Int32s
    n_cells: int
    members: dict[Segment, Ints]

    @classmethod
    def of_one(cls, n_users: int, segment: Segment = ALL) -> "CellSet":
        """All users in one cell, which makes a segment."""
        return cls(np.zeros(n_users, dtype=np.int32), 1, {segment: np.arange(1)})


def make_cells(segmentations: Sequence[UserSegments], n_users: int, most: int) -> list[CellSet]:
    """Cells of all segmentations together; several sets where one would have more than `most`.

    One set, of one cell, where there is no segmentation. A segmentation of more than `most`
    segments has a set of its own.
    """
    sets: list[tuple[Int32s, int, list[UserSegments]]] = []
    codes, n_cells = np.zeros(n_users, dtype=np.int32), 1
    together: list[UserSegments] = []
    for segmentation in segmentations:
        joined, n_joined = _join(codes, n_cells, segmentation)
        if together and n_joined > most:
            sets.append((codes, n_cells, together))
            joined, n_joined = _join(np.zeros(n_users, dtype=np.int32), 1, segmentation)
            together = []
        codes, n_cells = joined, n_joined
        together = [*together, segmentation]
    sets.append((codes, n_cells, together))
    found = [CellSet(*each[:2], _members(*each)) for each in sets]
    found[0].members[ALL] = np.arange(found[0].n_cells)
    return found


def most_cells(n_segments: Mapping[str, int], n_sums: int) -> int:
    """How many cells one set may have, so that its sums stay small.

    Args:
        n_segments: of each segmentation.
        n_sums: sums that are held of each cell.
    Raises:
        RequestError: one segmentation alone takes too much memory [too-many-segments].
    """
    raise_all(
        [
            RequestError(
                f"the {n:,} segments of {name!r} would take {n * n_sums * BYTES_A_SUM >> 20:,} MiB "
                "of sums",
                code="too-many-segments",
                at=f"[segments]: {name}",
                hint="make buckets of a number, or measure fewer metrics",
            )
            for name, n in n_segments.items()
            if n * n_sums * BYTES_A_SUM > MOST_BYTES
        ]
    )
    return max(FEWEST_CELLS, USUAL_BYTES // (n_sums * BYTES_A_SUM))


def _join(codes: Int32s, n_cells: int, each: UserSegments) -> tuple[Int32s, int]:
    """Cells split by one more segmentation; those without a user are left out."""
    n_groups = len(each.groups.labels)
    both = codes.astype(np.int64) * n_groups + each.groups.codes
    present, joined = without_gaps(both, n_cells * n_groups)
    return joined, max(1, present.size)


def _members(
    codes: Int32s, n_cells: int, segmentations: Sequence[UserSegments]
) -> dict[Segment, Ints]:
    members: dict[Segment, Ints] = {}
    users = np.zeros(n_cells if codes.size else 0, dtype=np.int64)  # one of each cell
    users[codes] = np.arange(codes.size)
    for segmentation in segmentations:
        group_of_cell = segmentation.groups.codes[users]
        for group, label in enumerate(segmentation.groups.labels):
            cells = np.flatnonzero(group_of_cell == group)
            if cells.size:
                members[segmentation.name, label] = cells
    return members
