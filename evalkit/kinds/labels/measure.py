"""Reads scored rows and looks through them, model by model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.aggregate.segments import ALL
from evalkit.aggregate.sums import add_to
from evalkit.errors import CountedError, DataError
from evalkit.kernels.arrays import Flags
from evalkit.kinds.labels._bands import Ruler
from evalkit.kinds.labels._chosen import is_chosen, placeholder, smooth_at
from evalkit.kinds.labels._graphs import ScoreDrawing
from evalkit.kinds.labels._groups import measure_groups
from evalkit.kinds.labels._parts import Leading, ScoreParts
from evalkit.kinds.labels._placements import Placements, is_area, place_rows
from evalkit.kinds.labels._pooled import Pooled
from evalkit.kinds.labels._walk import terms_of
from evalkit.kinds.labels.conclude import LabelResults, truth_counts, warnings_of
from evalkit.kinds.labels.merge import LabelSums
from evalkit.kinds.labels.read import LabelReader, mark_scores
from evalkit.kinds.pointwise.conclude import Models, inputs_of
from evalkit.kinds.pointwise.counts import Grouping, RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.measure import RowRun, count_lost
from evalkit.kinds.pointwise.memory import budget_beside
from evalkit.kinds.pointwise.passes import MemoryBudget, ModelRows
from evalkit.kinds.pointwise.read import Reading
from evalkit.kinds.pointwise.repeats import find_repeats
from evalkit.metrics import Request, Smooth, Term
from evalkit.report import Input, TruthCounts
from evalkit.sources import Table
from evalkit.sources.hints import turn_column


@dataclass
class LabelRun(RowRun):
    """A run of labels."""

    def start(self) -> None:
        """Sessions are grouped where metrics are over these."""
        job, rows = self.job, self.tables.rows
        self.groupings = [self.user]
        if job.over("sessions"):
            self.groupings.append(self.group_by("session", rows))
        pooled = job.over("rows")
        smooth = [each.over_rows.smooth or placeholder(each) for each in pooled]
        numbers = [each for each in smooth if each is not None]
        copies = 2 if self.tables.sources.segments else 1
        self.room = budget_beside(job, numbers, rows, self.groupings, copies=copies)
        self._given = list(zip(job.config.labels, rows, strict=True))
        thresholds = {id(table): each.threshold for each, table in self._given}
        probable = [each for each in job.requests if each.metric.of_probabilities]
        users = [] if set(probable) & set(pooled) else probable  # those are checked by their ends
        names = ", ".join(each.label for each in users)
        self.reader = LabelReader(job.config.policies, thresholds, names)
        self.reading = Reading(
            self.groupings, job, self.reader, self.room, mark_scores if pooled else None
        )

    @property
    def models(self) -> Models:
        """The tables of the config."""
        return [(each.model, table) for each, table in self._given]

    def rows_of(self, model: str | None, table: Table) -> Iterator[tuple[str, ModelRows]]:
        """The rows of each model of a table, whose repeats are found first."""
        self.repeats = self._find_repeats(table, self.room)
        return self.reading.models_of(model, table)

    def inputs(self) -> list[Input]:
        """Of labels, and of users."""
        return inputs_of("labels", self.models, self.counts_by_model, self.tables.sources)

    def _find_repeats(self, table: Table, room: MemoryBudget) -> dict[str | None, int] | None:
        """How many rows of each model are there again; None where rows name no items."""
        if "item" not in table.frame.collect_schema():
            return None
        return find_repeats(table, ["item", "time"], room)

    def _note_repeats(self, name: str, table: Table, row_counts: RowOutcomes) -> None:
        """Rows of a user, an item and a time that are there again: refused, or counted."""
        repeats = self.repeats
        if repeats is None:
            return
        number = repeats.get(name, 0) if None not in repeats else repeats[None]
        row_counts.noted["duplicates"] = number
        if number and self.job.config.policies.duplicates == "error":
            message = "{n} rows list an item of a user and a time again"
            hint = 'write duplicates = "count" under [policies] to keep them'
            raise CountedError(message, number, code="duplicate-row", at=table.at, hint=hint)

    def measure(self, name: str, rows: ModelRows, table: Table) -> None:
        """Everything of one model: its segments first, then all users, whose rows are forgotten."""
        job, found, row_counts = self.job, self.found, rows.row_counts
        self._note_repeats(name, table, row_counts)
        row_counts.noted["users_without_rows"] = count_lost(rows, self.user)
        if not self.is_share:
            found.warnings += warnings_of(job.config, name, row_counts, table.at)
        measurer = Measurer(job, self.reader.dtypes(table))
        leading = row_counts.marks.pop("scores", Leading.nothing())
        assert isinstance(leading, Leading)
        _check_probabilities(leading, measurer, table)
        if found.segments is not None:
            for segment, part in found.segments.split(rows, self.user, threads=job.threads):
                seen = measurer.look(part, [self.user], Leading.of_all(part))
                found.measured.setdefault(segment, {})[name] = seen.measured(job)
                found.sums[segment, name] = seen.users
            job.clock.stop("segments")
        seen = measurer.look(rows, self.groupings, leading, name)
        rows.forget()
        found.warnings += seen.warnings(name, job.requests)
        found.graphs += seen.graphs(level=job.config.statistics.level)
        found.users[name], found.most_rows[name] = seen.users.n_units, seen.users.most_rows
        found.pairs[name] = row_counts.noted.get("positives", 0)
        found.measured.setdefault(ALL, {})[name] = seen.measured(job)
        found.sums[ALL, name] = seen.users

    def truth_counts(self) -> TruthCounts:
        """The labels of the model that has most rows; models have their own counts too."""
        return truth_counts(self.counts_by_model, self.found)


def _check_probabilities(leading: Leading, measurer: "Measurer", table: Table) -> None:
    low, high = leading.score_range(measurer.dtypes["score"])
    names = [each.label for each in measurer.job.over("rows") if each.metric.of_probabilities]
    if names and not (low >= 0.0 and high <= 1.0) and not math.isnan(low):
        message = f"{', '.join(names)} needs scores from 0 to 1, these go from {low!r} to {high!r}"
        hint = f"if they are logits: {turn_column(table, 'score', '1 / (1 + exp(-{}))')}"
        raise DataError(message, code="not-a-probability", at=table.at, hint=hint)


@dataclass(frozen=True, slots=True)
class Measurer:
    """Measures the metrics of a job.

    Args:
        dtypes: of the columns of rows.
    """

    job: RowJob
    dtypes: Mapping[str, type]

    def look(
        self,
        rows: ModelRows,
        groupings: Sequence[Grouping],
        leading: Leading,
        drawn: str | None = None,
    ) -> LabelResults:
        """Look through rows for all that numbers are made of, and curves of a model that is named.

        Args:
            rows: of one model, or of a segment of its users.
            leading: of their scores.
        """
        pooled, dtypes, threads = self.job.over("rows"), self.dtypes, self.job.threads
        pool = walked = placements = drawing = ruler = None
        if pooled:
            half = 1 << 8 * np.dtype(dtypes["score"]).itemsize - 1  # a label beside it has room
            parts = ScoreParts.of(leading, rows, apart=None if "weight" in dtypes else half)
            pool = Pooled(rows, dtypes, parts, threads=threads)
            walked = pool.walk(terms_of(pooled))
            if "weight" not in dtypes:
                placements = self._place(rows, leading)
        if drawn is not None and pool is not None and walked is not None:
            drawing = ScoreDrawing(drawn, pool.totals, walked, pool.score_range[0], pooled)
        if drawing is not None and pool is not None and self.job.config.statistics.cluster is None:
            ruler = Ruler.make(
                drawing.marks(), drawing.edges(), dtypes["score"], weight=pool.totals.rows
            )
        self.job.clock.stop("scores")
        smooth = _smooth(pooled, placements)
        if walked is not None and pool is not None:
            for request in filter(is_chosen, pooled):
                if (found := smooth_at(request, walked, pool.totals)) is not None:
                    smooth[request] = found
        by_kind: dict[str, LabelSums] = {}
        for grouping in groupings:
            kind = f"{grouping.name}s"
            for store in rows.shares(grouping):
                results = measure_groups(
                    store,
                    grouping,
                    self.job.over(kind),
                    smooth if kind == "users" else {},
                    placements=placements,
                    keep=self.job.keeps,
                    ruler=ruler if kind == "users" else None,
                    threads=threads,
                )
                add_to(by_kind, kind, results)
        self.job.clock.stop("users")
        return LabelResults(by_kind, smooth, pool, walked, drawing)

    def _place(self, rows: ModelRows, leading: Leading) -> Placements | None:
        """What rows do to areas; None where nobody asks."""
        terms = [term for each in self.job.over("rows") for term in _terms(each) if is_area(term)]
        areas = list(dict.fromkeys(terms))

        def find_mixed() -> Flags:
            return leading.find_mixed(rows)

        return place_rows(leading.first, leading.shift, leading.counts, areas, find_mixed)


def _terms(request: Request) -> tuple[Term, ...]:
    smooth = request.over_rows.smooth
    return () if smooth is None else smooth.terms


def _smooth(pooled: Sequence[Request], placements: Placements | None) -> dict[Request, Smooth]:
    """The requests over all rows that have a standard error."""
    return {
        request: request.over_rows.smooth
        for request in pooled
        if request.over_rows.smooth is not None
        and (placements is not None or not any(map(is_area, _terms(request))))
    }
