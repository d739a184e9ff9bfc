"""What the pairs of some users add up to; that of other users merges into it."""

from dataclasses import dataclass

from evalkit.kinds.pointwise.counts import RowOutcomes
from evalkit.kinds.pointwise.units import UnitSums
from evalkit.kinds.ratings._graphs import Drawing
from evalkit.kinds.ratings._sums import ErrorSums


@dataclass(slots=True)
class RatingSums:
    """What the pairs of some users of one model add up to.

    Args:
        pairs: over all of them.
        users: over users.
        drawing: of errors; None of a segment.
        row_counts: what became of rows that lay together.
    """

    pairs: ErrorSums
    users: UnitSums
    drawing: Drawing | None
    row_counts: RowOutcomes

    def merge(self, other: "RatingSums") -> None:
        """Take over what the pairs of other users add up to."""
        self.pairs.merge(other.pairs)
        self.users.merge(other.users)
        if self.drawing is not None and other.drawing is not None:
            self.drawing.merge(other.drawing)
        self.row_counts.add(other.row_counts)
