"""What the pairs of some users add up to; that of other users merges into it."""

from collections.abc import Mapping
from dataclasses import dataclass

from evalkit.kinds.pointwise.counts import RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.means import WeightedMean
from evalkit.kinds.pointwise.units import RowSums, UnitSums
from evalkit.kinds.ratings._graphs import ErrorDrawing
from evalkit.kinds.ratings._sums import ErrorSums
from evalkit.metrics import OfSums, Request, Smooth


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
    drawing: ErrorDrawing | None
    row_counts: RowOutcomes

    def merge(self, other: "RatingSums") -> None:
        """Take over what the pairs of other users add up to."""
        self.pairs.merge(other.pairs)
        self.users.merge(other.users)
        if self.drawing is not None and other.drawing is not None:
            self.drawing.merge(other.drawing)
        self.row_counts.add(other.row_counts)

    def kept(self) -> RowSums:
        """What of them is over pairs, for others to merge."""
        drawn = None if self.drawing is None else self.drawing.kept()
        pairs = self.pairs
        return RowSums(pairs.n_rows, pairs.sums, pairs.ends, self.users.spread.sums, drawn)

    @classmethod
    def of_kept(
        cls, job: RowJob, kept: RowSums, means: list[WeightedMean], n_users: int
    ) -> "RatingSums":
        """Read back, of so many users."""
        made = made_of(job, {})
        pairs, users = ErrorSums(made), UnitSums.of(job.over("users"), smooth_of(job, made))
        pairs.n_rows, pairs.sums, pairs.ends = kept.n_rows, kept.sums, kept.ends
        users.means, users.spread.sums, users.n_units = means, kept.spread, n_users
        drawing = None if kept.drawn is None else ErrorDrawing.of_kept(kept.drawn)
        return cls(pairs, users, drawing, RowOutcomes())


def made_of(job: RowJob, known: Mapping[Request, OfSums]) -> dict[Request, OfSums]:
    """The sums that numbers over pairs are made of, and domains are checked by."""
    in_domains = [request.ungrouped for request in job.over("users") if request.metric.domain]
    return {each: known.get(each, each.over_rows) for each in (*job.over("rows"), *in_domains)}


def smooth_of(job: RowJob, made: Mapping[Request, OfSums]) -> dict[Request, Smooth]:
    """Those that have a standard error."""
    own = {each: made[each].smooth for each in job.over("rows")}
    return {request: smooth for request, smooth in own.items() if smooth is not None}
