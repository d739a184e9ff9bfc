"""All that the pairs of one model, or of a segment of its users, say."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evalkit.kernels.threads import ordered_map
from evalkit.metrics import over
from evalkit.ratings._drawing import Drawing, Edges
from evalkit.ratings._pairs import PairShare
from evalkit.ratings._sums import PairSums, user_sums
from evalkit.rows.job import RowJob
from evalkit.rows.means import WeightedMean
from evalkit.rows.numbers import KeptParts, Measured, Number
from evalkit.rows.spread import TermSums
from evalkit.rows.tally import RowTally


@dataclass(slots=True)
class Part:
    """What one part of the users gives."""

    sums: PairSums
    means: list[WeightedMean]  # of requests over users
    spread: TermSums
    kept: KeptParts
    drawing: Drawing | None
    n_users: int
    most_rows: int
    tally: RowTally

    def merge(self, other: "Part") -> None:
        """Take over what other users give."""
        self.sums.merge(other.sums)
        for mine, theirs in zip(self.means, other.means, strict=True):
            mine.merge(theirs)
        self.spread.merge(other.spread)
        self.kept.merge(other.kept)
        if self.drawing is not None and other.drawing is not None:
            self.drawing.merge(other.drawing)
        self.n_users += other.n_users
        self.most_rows = max(self.most_rows, other.most_rows)
        self.tally.add(other.tally)


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures the metrics of a job."""

    job: RowJob

    def add_up(self, share: PairShare, edges: Edges, *, is_drawn: bool) -> Iterator[Part]:
        """What each part of some users gives."""
        own = self.job.over("users")
        pooled = self.job.over("rows")
        smooth = [each.over_rows.smooth for each in pooled]
        low, high = float(edges.ratings[0]), float(edges.ratings[-1])
        middle = (low + high) / 2.0 if math.isfinite(low) else 0.0

        def measure(part: int) -> Part:
            pairs = share.part(part)
            starts, ratings, predictions = pairs.starts, pairs.ratings, pairs.predictions
            sums = PairSums(pooled)
            sums.add(ratings, predictions)
            sizes = np.diff(starts)
            values, means = np.empty((sizes.size, len(own))), [WeightedMean() for _ in own]
            for place, (request, mean) in enumerate(zip(own, means, strict=True)):
                value = np.empty(sizes.size)
                request.metric.kernel(starts, ratings, predictions, *request.encoded, value)
                mean.add(value, np.ones(sizes.size))
                values[:, place] = value
            spread, kept = TermSums([each for each in smooth if each is not None]), KeptParts()
            terms = user_sums(spread.terms, starts, ratings, predictions, middle)
            spread.add(terms)
            if self.job.keeps:
                kept.add(pairs.keys, values, np.ones(values.shape), terms)
            drawing = None
            if is_drawn:
                drawing = Drawing(edges, bands=self.job.config.statistics.cluster is None)
                drawing.add(pairs)
            most = int(sizes.max(initial=0))
            return Part(sums, means, spread, kept, drawing, sizes.size, most, pairs.tally)

        return ordered_map(measure, range(share.n_parts), threads=self.job.threads)

    def measured(self, total: Part) -> Measured:
        """Numbers in the order of the requests, and columns of users where they are needed."""
        level, means = self.job.config.statistics.level, iter(total.means)
        numbers = []
        for request in self.job.requests:
            if over(request) == "users":
                numbers.append(Number.of_mean(request, next(means), level=level))
                continue
            value, smooth = total.sums.value(request), request.over_rows.smooth
            error = None if smooth is None else total.spread.std_error(smooth)
            numbers.append(Number.of_rows(value, error, total.n_users, level=level))
        if not self.job.keeps:
            return Measured(numbers, total.n_users)
        own = self.job.over("users")
        rows = [each.over_rows.smooth for each in self.job.over("rows")]
        columns = total.kept.columns(list(zip(own, total.means, strict=True)), total.spread, rows)
        return Measured(numbers, total.n_users, {"users": columns})
