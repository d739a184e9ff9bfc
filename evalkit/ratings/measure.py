"""Reads ratings and predictions, and adds their pairs up, model by model."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.kernels.threads import ordered_map
from evalkit.planning.ledger import input_of
from evalkit.ratings._drawing import Drawing, Edges
from evalkit.ratings._pairs import (
    Extremes,
    PairReader,
    PairShare,
    check_pairs,
    shares_of,
)
from evalkit.ratings._sums import PairSums, user_sums
from evalkit.ratings.conclude import measured, truth_counts, warnings_of
from evalkit.ratings.merge import RatingSums
from evalkit.report import Input, TruthCounts
from evalkit.rows.conclude import Models, inputs_of
from evalkit.rows.job import RowJob
from evalkit.rows.measure import RowRun, check_rows, warn_of_infinite
from evalkit.rows.passes import HeldRows, ModelRows
from evalkit.rows.reading import Reading
from evalkit.rows.room import room_beside
from evalkit.rows.segments import RowSegments
from evalkit.rows.tally import RowTally
from evalkit.rows.units import UnitSums
from evalkit.segments import ALL, Segment
from evalkit.sources import Table

COPIES = 3  # of rows in memory, where segments are: as they were read, joined, by segment


@dataclass
class RatingRun(RowRun):
    """A run of ratings, whose predictions stand beside them or in tables of their own."""

    def start(self) -> None:
        """Open the room for rows; read true ratings that are a table of their own."""
        job, rows = self.job, list(self.tables.rows)
        self.alone = not job.config.predictions
        named = [table for table in rows if "item" in table.frame.collect_schema()]
        self.item = self.group_by("item", named) if named else None
        smooth = [each.over_rows.smooth for each in job.over("rows")]
        numbers = [each for each in smooth if each is not None]
        models = [table for _, table in self.models]
        copies = COPIES if self.tables.sources.segments else 1
        room = room_beside(job, numbers, models, [self.user], copies=copies)
        reader = PairReader(job.config.policies, self.item)
        self.reading = Reading([self.user], job, reader, room, reader.mark, rows)
        self.truth: ModelRows | None = None
        self.held: bool | None = None

    @property
    def models(self) -> Models:
        """The tables with predictions."""
        config, rows = self.job.config, self.tables.rows
        if self.alone:
            names = [each.model for each in config.ratings]
            return list(zip(names, rows, strict=True))
        names = [each.model for each in config.predictions]
        return list(zip(names, rows[1:], strict=True))

    def rows_of(self, model: str | None, table: Table) -> Iterator[tuple[str, ModelRows]]:
        """The rows of each model of a table; true ratings are read before the first."""
        if not self.alone and self.truth is None:
            ratings, *predictions = self.tables.rows
            largest = max(predictions, key=lambda each: each.n_rows_hint() or 0)
            self.held = self.reading.holds([ratings, largest])
            ((_, self.truth),) = self.reading.models_of("", ratings, held=self.held)
        return self.reading.models_of(model, table, held=self.held)

    def measure(self, name: str, rows: ModelRows, table: Table) -> None:
        """Everything of one model."""
        joined = [rows] if self.truth is None else [self.truth, rows]
        shares = shares_of(joined, self.user, self.item)
        self._measure(name, shares, _extremes(joined), rows.tally, table)
        rows.forget()
        found = self.found
        found.warnings += check_rows(self.job.config, name, rows.tally, table.at)
        found.warnings += warnings_of(name, rows.tally)
        self.job.clock.stop("measure")

    def inputs(self) -> list[Input]:
        """Of ratings, of predictions, and of users."""
        sources = self.tables.sources
        if self.truth is None:
            return inputs_of("ratings", self.models, self.tallies, sources)
        first = input_of(self.tables.rows[0], self.truth.tally.rows, "ratings")
        return [first, *inputs_of("predictions", self.models, self.tallies, sources)]

    def truth_counts(self) -> TruthCounts:
        """Of the table of ratings; without one, the rated pairs of the model that has most."""
        truth = None if self.truth is None else self.truth.tally
        return truth_counts(truth, self.tallies, self.found)

    def _measure(
        self,
        name: str,
        shares: Iterator[PairShare],
        extremes: Extremes,
        tally: RowTally,
        table: Table,
    ) -> None:
        job, found = self.job, self.found
        edges = Edges.around(extremes)
        totals: dict[Segment, RatingSums] = {}
        for share in shares:
            for segment, users in self._split(share, tally, found.segments):
                for part in add_up(job, users, edges, is_drawn=segment == ALL):
                    if segment in totals:
                        totals[segment].merge(part)
                    else:
                        totals[segment] = part
        total = totals[ALL]
        tally.add(total.tally)
        check_pairs(tally, job.config.policies, table, joined=self.truth is not None)
        if tally.noted.pop("repeats", None) is not None:
            tally.noted["duplicates"] = 0  # or they were refused
        found.users[name] = total.users.n_units
        found.most_rows[name] = total.users.most_rows
        for segment, each in totals.items():
            found.measured.setdefault(segment, {})[name] = measured(job, each)
        found.warnings += warn_of_infinite(name, job.over("users"), total.users.means)
        if tally.rows_used and total.drawing is not None:
            found.distributions.append(total.drawing.histogram(name))
            found.graphs += total.drawing.graphs(name, level=job.config.statistics.level)

    def _split(
        self, share: PairShare, tally: RowTally, segments: RowSegments | None
    ) -> Iterator[tuple[Segment, PairShare]]:
        """All users of a share, and those of each segment."""
        if segments is None:
            yield ALL, share
            return
        store, found = share.join(threads=self.job.threads)
        tally.add(found)
        joined = HeldRows(RowTally(), {share.user.name: store}, self.job.threads)
        yield ALL, PairShare([store], share.user, None)
        for segment, rows in segments.split(joined, share.user, threads=self.job.threads):
            for own in rows.shares(share.user):
                yield segment, PairShare([own], share.user, None)


def add_up(job: RowJob, share: PairShare, edges: Edges, *, is_drawn: bool) -> Iterator[RatingSums]:
    """What the pairs of each part of some users add up to."""
    own, pooled = job.over("users"), job.over("rows")
    smooth = [each.over_rows.smooth for each in pooled if each.over_rows.smooth is not None]
    low, high = float(edges.ratings[0]), float(edges.ratings[-1])
    middle = (low + high) / 2.0 if math.isfinite(low) else 0.0

    def measure(part: int) -> RatingSums:
        pairs = share.part(part)
        rows = (pairs.starts, pairs.ratings, pairs.predictions)
        sums, sizes = PairSums(pooled), np.diff(pairs.starts)
        sums.add(pairs.ratings, pairs.predictions)
        values = [np.empty(sizes.size) for _ in own]
        for request, value in zip(own, values, strict=True):
            request.metric.kernel(*rows, *request.encoded, value)
        users = UnitSums.of(own, smooth)
        users.count(sizes.size, int(sizes.max(initial=0)))
        weights, terms = np.ones(sizes.size), user_sums(users.spread.terms, *rows, middle)
        users.add(pairs.keys, values, [weights for _ in own], terms, keep=job.keeps)
        drawing = None
        if is_drawn:
            drawing = Drawing(edges, bands=job.config.statistics.cluster is None)
            drawing.add(pairs)
        return RatingSums(sums, users, drawing, pairs.tally)

    return ordered_map(measure, range(share.n_parts), threads=job.threads)


def _extremes(tables: Sequence[ModelRows]) -> Extremes:
    total = Extremes.nothing()
    for each in tables:
        found = each.tally.marks.get("extremes")
        if isinstance(found, Extremes):
            total.merge(found)
    return total
