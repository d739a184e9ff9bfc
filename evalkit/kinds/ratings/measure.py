"""Reads ratings and predictions, and adds their pairs up, model by model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.aggregate.segments import ALL, Segment
from evalkit.aggregate.sums import add_to
from evalkit.errors import MachineError
from evalkit.kernels.arrays import Floats
from evalkit.kernels.memory import fits, room_to_compile
from evalkit.kernels.threads import ordered_map
from evalkit.kinds.pointwise.conclude import Models, inputs_of
from evalkit.kinds.pointwise.counts import RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.measure import RowRun, SourceTable
from evalkit.kinds.pointwise.memory import budget_beside
from evalkit.kinds.pointwise.passes import ModelRows, RowsInMemory
from evalkit.kinds.pointwise.read import Reading
from evalkit.kinds.pointwise.segments import RowSegments
from evalkit.kinds.pointwise.units import UnitSums
from evalkit.kinds.ratings import read
from evalkit.kinds.ratings._graphs import Edges, ErrorDrawing
from evalkit.kinds.ratings._sums import ErrorSums, mean_losses, user_sums
from evalkit.kinds.ratings.conclude import conclude_model, measured, truth_counts
from evalkit.kinds.ratings.merge import RatingSums, made_of, smooth_of
from evalkit.metrics import OfSums, Request
from evalkit.planning.counters import input_of
from evalkit.report import Input, TruthCounts
from evalkit.sources import Table

BYTES_IN_ORDER = 120  # of a pair, while all are put in order and crossed
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
        self.room = budget_beside(job, numbers, models, [self.user], copies=copies)
        reader = read.PairReader(job.config.policies, self.item)
        self.reading = Reading([self.user], job, reader, self.room, reader.mark, rows)
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
        edges = Edges.around(self._extremes(name, joined, table))
        totals = self._add_up(joined, rows.row_counts, edges)
        rows.forget()
        rows.row_counts.add(totals[ALL].row_counts)
        if self.is_share:
            self._leave(name, totals)
        else:
            place = SourceTable(table.role, table.at, self.truth is not None)
            conclude_model(self.job, self.found, name, totals, rows.row_counts, place)
        self.job.clock.stop("measure")

    def _leave(self, name: str, totals: Mapping[Segment, RatingSums]) -> None:
        """Sums of a share, for others to merge."""
        found, users = self.found, totals[ALL].users
        found.users[name], found.most_rows[name] = users.n_units, users.most_rows
        for segment, each in totals.items():
            found.measured.setdefault(segment, {})[name] = measured(self.job, each)
            found.sums[segment, name] = each.users
            found.row_sums[segment, name] = each.kept()

    def inputs(self) -> list[Input]:
        """Of ratings, of predictions, and of users."""
        sources = self.tables.sources
        if self.truth is None:
            return inputs_of("ratings", self.models, self.counts_by_model, sources)
        first = input_of(self.tables.rows[0], self.truth.row_counts.rows, "ratings")
        return [first, *inputs_of("predictions", self.models, self.counts_by_model, sources)]

    def truth_counts(self) -> TruthCounts:
        """Of the table of ratings; without one, the rated pairs of the model that has most."""
        return truth_counts(self.truth_outcomes, self.counts_by_model, self.found)

    @property
    def truth_outcomes(self) -> RowOutcomes | None:
        """Of the table of ratings."""
        return None if self.truth is None else self.truth.row_counts

    def _extremes(self, name: str, joined: Sequence[ModelRows], table: Table) -> read.Extremes:
        """Between what all ratings and predictions lie, of a share of the users too."""
        if self.surveyed is not None:
            (place,) = (n for n, each in enumerate(self.tables.rows) if each is table)
            tables = [place] if self.truth is None else [0, place]
            model = pl.col("model").is_null() | (pl.col("model") == name)
            return read.Extremes.of_survey(
                self.surveyed.filter(pl.col("table").is_in(tables), model)
            )
        total = read.Extremes.nothing()
        for mark in (each.row_counts.marks.get("extremes") for each in joined):
            if isinstance(mark, read.Extremes):
                total.merge(mark)
        return total

    def _add_up(
        self, joined: Sequence[ModelRows], row_counts: RowOutcomes, edges: Edges
    ) -> dict[Segment, RatingSums]:
        """What all pairs add up to, and those of each segment."""
        job, found = self.job, self.found
        totals: dict[Segment, RatingSums] = {}
        made = self._made(joined, row_counts.rows)
        for share in read.shares_of(joined, self.user, self.item):
            for segment, users in self._split(share, row_counts, found.segments):
                own = made.get(segment, {})
                for part in add_up(job, users, edges, own, is_drawn=segment == ALL):
                    add_to(totals, segment, part)
        return totals

    def _made(
        self, joined: Sequence[ModelRows], n_rows: int
    ) -> dict[Segment, dict[Request, OfSums]]:
        """The sums of numbers that hang on the order of all pairs, which are looked at first.

        Raises:
            MachineError: these pairs do not fit into the memory [memory-limit].
        """
        job, segments = self.job, self.found.segments
        ordered = {each: made for each in job.over("rows") if (made := each.over_rows.made)}
        if not ordered:
            return {}
        n_sets = 1 if segments is None else 1 + len(self.tables.sources.segments)
        needed = self.room.taken(n_rows) + n_rows * BYTES_IN_ORDER * n_sets
        if self.room.limit is not None and not fits(needed, self.room.limit):
            needed += room_to_compile()
            names = ", ".join(request.label for request in ordered)
            raise MachineError(
                f"{names} needs all of {n_rows:,} pairs together, {needed >> 20:,} MiB; the limit "
                f"is {self.room.limit >> 20:,} MiB",
                code="memory-limit",
                hint=f"give --memory-limit {(needed >> 20) + 64}MiB, or leave these metrics out",
            )
        pairs: dict[Segment, list[tuple[Floats, Floats]]] = {}
        for share in read.shares_of(joined, self.user, self.item):
            for segment, users in self._split(share, RowOutcomes(), segments):
                parts = ordered_map(users.part, range(users.n_parts), threads=job.threads)
                pairs.setdefault(segment, []).extend(
                    (part.ratings, part.predictions) for part in parts
                )
        found = {}
        for segment, parts_of_pairs in pairs.items():
            both = [np.concatenate(columns) for columns in zip(*parts_of_pairs, strict=True)]
            order = np.lexsort((both[1], both[0]))
            ratings, predictions = (values[order] for values in both)
            with np.errstate(over="ignore", invalid="ignore"):  # of errors that no float holds
                own = {each: made(ratings, predictions) for each, made in ordered.items()}
            found[segment] = own
        return found

    def _split(
        self, share: read.PairShare, row_counts: RowOutcomes, segments: RowSegments | None
    ) -> Iterator[tuple[Segment, read.PairShare]]:
        """All users of a share, and those of each segment."""
        if segments is None:
            yield ALL, share
            return
        store, found = share.join(threads=self.job.threads)
        row_counts.add(found)
        joined = RowsInMemory(RowOutcomes(), {share.user.name: store}, self.job.threads)
        yield ALL, read.PairShare([store], share.user, None)
        for segment, rows in segments.split(joined, share.user, threads=self.job.threads):
            for own in rows.shares(share.user):
                yield segment, read.PairShare([own], share.user, None)


def add_up(
    job: RowJob,
    share: read.PairShare,
    edges: Edges,
    known: Mapping[Request, OfSums],
    *,
    is_drawn: bool,
) -> Iterator[RatingSums]:
    """What the pairs of each part of some users add up to.

    Args:
        known: what requests are made of, where that was not known before.
    """
    own, made = job.over("users"), made_of(job, known)
    smooth = smooth_of(job, made)
    low, high = float(edges.ratings[0]), float(edges.ratings[-1])
    middle = (low + high) / 2.0 if math.isfinite(low) else 0.0

    def measure(part: int) -> RatingSums:
        pairs = share.part(part)
        rows = (pairs.starts, pairs.ratings, pairs.predictions)
        sums, sizes = ErrorSums(made), np.diff(pairs.starts)
        sums.add(pairs.ratings, pairs.predictions)
        values = [np.empty(sizes.size) for _ in own]
        for request, value in zip(own, values, strict=True):
            if request.metric.is_loss:
                mean_losses(request, *rows, value)
            else:
                request.call(*rows, *request.encoded, value)
            value[:] = request.averaged(value)
        users = UnitSums.of(own, smooth)
        users.count(sizes.size, int(sizes.max(initial=0)))
        weights, terms = np.ones(sizes.size), user_sums(users.spread.terms, *rows, middle)
        users.add(pairs.keys, values, [weights for _ in own], terms, keep=job.keeps)
        drawing = None
        if is_drawn:
            drawing = ErrorDrawing(edges, bands=job.config.statistics.cluster is None)
            drawing.add(pairs)
        return RatingSums(sums, users, drawing, pairs.row_counts)

    return ordered_map(measure, range(share.n_parts), threads=job.threads)


def survey(frame: pl.DataFrame) -> pl.DataFrame:
    """Between what all ratings and predictions of a frame lie, by model where a column has it.

    Returns:
        `model`, null without that column, and `low_` and `high_` of either value.
    """
    ids = [name for name in frame.columns if name == "item" or name.startswith("user_")]
    rows = frame.drop_nulls(ids)
    if "model" not in frame.columns:
        return read.Extremes.in_frame(rows).to_frame(None)
    by_model = rows.drop_nulls("model").partition_by("model", as_dict=True)
    own = [read.Extremes.in_frame(each).to_frame(str(name)) for (name,), each in by_model.items()]
    return pl.concat([read.Extremes.nothing().to_frame("").clear(), *own])
