"""Reads and measures rows, model by model: what ratings and labels share of a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from evalkit.aggregate.accumulators.resampling import resamples
from evalkit.aggregate.segments import Segment
from evalkit.aggregate.sums import add_all
from evalkit.config import Config
from evalkit.errors import DataError
from evalkit.kinds.pointwise._clusters import Clusters
from evalkit.kinds.pointwise._kept import Keeping
from evalkit.kinds.pointwise.conclude import Findings, Models, conclude_rows
from evalkit.kinds.pointwise.counts import Grouping, Lost, RowOutcomes
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.means import WeightedMean
from evalkit.kinds.pointwise.open import OpenTables, RowTables, group_by, open_rows
from evalkit.kinds.pointwise.passes import ModelRows
from evalkit.kinds.pointwise.segments import RowSegments, RowUsers
from evalkit.kinds.pointwise.units import RowSums
from evalkit.metrics import Request, over
from evalkit.report import Input, Report, TruthCounts, Warning_
from evalkit.sources import Table
from evalkit.sources.ids import hashes_of_keys, try_seeds

Counted = TypeVar("Counted")


class SourceTable(NamedTuple):
    """A table, as messages speak of it; `is_joined` to one of what is true."""

    role: str
    at: str
    is_joined: bool = False


class SumsReading(NamedTuple):
    """How the sums are read that shares of the users left.

    Args:
        adds_up: whether a number is made of sums.
        conclude: finds what one run finds of a model.
        truth: counts of what is true: of its own table, if there is one, and of all models.
        survey: what a share has to know of all rows of a table, found of some of them: rows with
            `model`, null where no column names these.
    """

    adds_up: Callable[[Request], bool]
    conclude: Callable[[RowJob, Findings, "ModelSums", SourceTable], None]
    truth: Callable[[RowOutcomes | None, Mapping[str, RowOutcomes], Findings], TruthCounts]
    survey: Callable[[pl.DataFrame], pl.DataFrame] | None = None


@dataclass(slots=True)
class ModelSums:
    """What the rows of one model left of some users.

    Args:
        rows, dropped, noted: counts of rows, as those of `RowOutcomes`.
        most_rows: of one user.
        n_users: who have rows, by segment.
        means: of each segment, one a request over users.
        row_sums: of each segment, where numbers are over rows.
    """

    name: str
    rows: int
    dropped: dict[str, int]
    noted: dict[str, int]
    most_rows: int = 0
    n_users: dict[Segment, int] = field(default_factory=dict)
    means: dict[Segment, list[WeightedMean]] = field(default_factory=dict)
    row_sums: dict[Segment, RowSums] = field(default_factory=dict)

    @property
    def row_counts(self) -> RowOutcomes:
        """What became of the rows."""
        return RowOutcomes(self.rows, dict(self.dropped), dict(self.noted))

    def merge(self, other: "ModelSums") -> None:
        """Take over what the rows of other users left."""
        self.rows += other.rows
        self.dropped = _added(self.dropped, other.dropped)
        self.noted = _added(self.noted, other.noted)
        self.n_users = _added(self.n_users, other.n_users)
        self.most_rows = max(self.most_rows, other.most_rows)
        for segment, means in other.means.items():
            if segment not in self.means:
                self.means[segment] = means
                continue
            for mean, more in zip(self.means[segment], means, strict=True):
                mean.merge(more)
        add_all(self.row_sums, other.row_sums)


def _added(one: Mapping[Counted, int], other: Mapping[Counted, int]) -> dict[Counted, int]:
    both = dict.fromkeys([*one, *other])
    return {what: one.get(what, 0) + other.get(what, 0) for what in both}


@dataclass(frozen=True, slots=True)
class RowsKind:
    """Ratings or labels.

    Args:
        open: gives the tables of rows, in the order of the inputs, and the config with the
            columns that they are read by.
        check: refuses what cannot be asked.
        run: measures the rows.
        of_sums: what is told of the sums of shares, where these leave sums.
    """

    open: OpenTables
    check: Callable[[RowJob], None]
    run: "type[RowRun]"
    of_sums: SumsReading


def run_rows(kind: RowsKind, job: RowJob, tables: RowTables | None = None) -> Report:
    """The report of a config with [ratings] or [labels].

    Args:
        tables: opened already.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: the rows do not fit into the memory [memory-limit].
    """
    kind.check(job)
    tables = tables or open_rows(kind.open, job.config, job.work.given)
    job = replace(job, config=tables.config)
    keeping = None
    if job.work.per_user:
        names = tables.rows[0].user_names
        keeping = Keeping.of(job.requests, names, job.work.per_user_folder, job.work.per_user)
    if job.work.opened is not None:
        job.work.opened(tables.all)
    job.clock.line.tables = list(tables.rows)
    if not job.clock.is_running:
        job.clock.start()
    return try_seeds(lambda seed: kind.run(job, tables, keeping, seed).report())


def check_rows(config: Config, name: str, row_counts: RowOutcomes, at: str) -> list[Warning_]:
    """A table without rows is refused, or told."""
    if row_counts.rows_used:
        return []
    message = f"the table of {name!r} has no rows" + (" left" if row_counts.rows else "")
    if config.policies.empty_input == "error":
        hint = 'write empty_input = "warn" under [policies] if that can be'
        raise DataError(message, code="empty-input", at=at, hint=hint)
    return [Warning_("empty-input", message, name)]


def count_lost(rows: ModelRows, user: Grouping) -> int:
    """Users all of whose rows were left out."""
    lost = rows.row_counts.marks.pop("lost", None)
    if not isinstance(lost, Lost):
        return 0
    users, has_rows = lost.users, np.zeros(lost.users.size, dtype=np.bool_)
    for found in rows.look(lambda columns: np.isin(users, columns[user.key])):
        has_rows |= found
    return int(np.count_nonzero(~has_rows))


def warn_of_lost(model: str, n_users: int) -> list[Warning_]:
    """Users all of whose rows were left out."""
    if not n_users:
        return []
    message = f"{n_users:,} users have no row left, and count nowhere: all of theirs were dropped"
    return [Warning_("users-without-rows", message, model)]


def warn_of_infinite(
    model: str, requests: Sequence[Request], means: Sequence[WeightedMean]
) -> list[Warning_]:
    """Users, or sessions, whose values make a mean infinite."""
    found = []
    for request, mean in zip(requests, means, strict=True):
        if mean.n_infinite:
            message = f"{request.label} is infinite for {mean.n_infinite:,} {over(request)}"
            found.append(Warning_("infinite-value", message, model))
    return found


@dataclass
class RowRun(ABC):
    """One run under one seed of the hashes of ids."""

    job: RowJob
    tables: RowTables
    keeping: Keeping | None
    seed: int
    is_share: bool = False
    surveyed: pl.DataFrame | None = None  # of all users, where a share has to know it
    found: Findings = field(default_factory=Findings)
    counts_by_model: dict[str, RowOutcomes] = field(default_factory=dict)
    step: tuple[int, ...] = (-1,)  # how far it has come, of which table

    def __post_init__(self) -> None:
        self.user = self.group_by("user", [*self.tables.rows, *self.tables.sources.tables])
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Get ready to read."""

    @property
    @abstractmethod
    def models(self) -> Models:
        """The tables of models; without a name where a column has it."""

    @abstractmethod
    def rows_of(self, model: str | None, table: Table) -> Iterator[tuple[str, ModelRows]]:
        """The rows of each model of a table."""

    @abstractmethod
    def measure(self, name: str, rows: ModelRows, table: Table) -> None:
        """Everything of one model, whose rows are forgotten then."""

    @abstractmethod
    def truth_counts(self) -> TruthCounts:
        """What is true, whatever models say; after all of them."""

    @property
    def truth_outcomes(self) -> RowOutcomes | None:
        """What became of the rows of a table of what is true, where there is one."""
        return None

    @abstractmethod
    def inputs(self) -> list[Input]:
        """A record of every table that was read."""

    def read_all(self) -> None:
        """Read and measure all models.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        self._find_users()
        for number, (model, table) in enumerate(self.models):  # only one is in memory at a time
            self.step = (number, 0)
            for name, rows in self.rows_of(model, table):
                self.step = (number, 1)
                self.job.clock.stop("read")
                if name in self.counts_by_model:
                    message, hint = f"two tables have rows of {name!r}", "leave out or rename one"
                    raise DataError(message, code="duplicate-model", at=table.at, hint=hint)
                self.counts_by_model[name] = rows.row_counts
                self.measure(name, rows, table)

    def report(self) -> Report:
        """Read, measure and report; raises as `read_all`."""
        self.read_all()
        inputs = self.inputs()
        for place, known in enumerate(self.tables.inputs):
            mine = inputs[place]
            rows_read = known.rows if mine.role == "segments" else mine.rows
            inputs[place] = replace(known, role=mine.role, model=mine.model, rows=rows_read)
        counts = self.truth_counts()
        return conclude_rows(
            self.job,
            self.found,
            self.counts_by_model,
            partial(hashes_of_keys, plan=self.user.plan)
            if self.found.row_users is None
            else self.found.row_users.hashes_of,
            inputs=inputs,
            truth=counts,
            keeping=self.keeping,
        )

    def group_by(self, name: str, tables: Sequence[Table]) -> Grouping:
        """How the rows of all tables are grouped by `user`, `session` or `item`."""
        return group_by(name, tables, self.seed)

    def _find_users(self) -> None:
        """Read the users of the tables, where something is to be said of single ones.

        Segments, clusters and values to keep go by their ids, and so do draws where keys are
        hashes.
        """
        job, sources, found = self.job, self.tables.sources, self.found
        config, user = job.config, self.user
        draws = resamples(config.statistics) and user.plan.hashed
        if sources.tables or draws or self.keeping is not None:
            found.row_users = RowUsers.of(self.tables.rows, user.plan, job.work.sample)
        if sources.segments and found.row_users is not None:
            known = (found.row_users, job.threads, found.seen_values)
            found.segments = RowSegments.of(config, sources.segments, *known)
        if sources.cluster is not None and found.row_users is not None:
            found.clusters = Clusters.read(sources.cluster, found.row_users)
        job.clock.stop("segments")
