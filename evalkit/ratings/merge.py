"""What the pairs of some users add up to; that of other users merges into it."""

from dataclasses import dataclass

from evalkit.ratings._drawing import Drawing
from evalkit.ratings._sums import PairSums
from evalkit.rows.tally import RowTally
from evalkit.rows.units import UnitSums


@dataclass(slots=True)
class RatingSums:
    """What the pairs of some users of one model add up to.

    Args:
        pairs: over all of them.
        users: over users.
        drawing: of errors; None of a segment.
        tally: what became of rows that lay together.
    """

    pairs: PairSums
    users: UnitSums
    drawing: Drawing | None
    tally: RowTally

    def merge(self, other: "RatingSums") -> None:
        """Take over what the pairs of other users add up to."""
        self.pairs.merge(other.pairs)
        self.users.merge(other.users)
        if self.drawing is not None and other.drawing is not None:
            self.drawing.merge(other.drawing)
        self.tally.add(other.tally)
