"""Reads and measures rows, model by model: what ratings and labels share of a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from evalkit.aggregate.accumulators.resampling import resamples
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
from evalkit.metrics import Request, over
from evalkit.planning.work import try_seeds
from evalkit.report import (
    Input,
    Report,
    TruthCounts,
    Warning_,
)
from evalkit.sources import Table
from evalkit.sources.ids import hashes_of_keys


class SumsReading(NamedTuple):
    """What is told of counts alone, where a share of the users leaves sums.

    Args:
        warnings: of the config, a model, its counts, and where its table stands.
        truth: counts of what is true, of those of all models.
    """

    warnings: Callable[[Config, str, RowOutcomes, str], list[Warning_]]
    truth: Callable[[Mapping[str, RowOutcomes], Findings], TruthCounts]


@dataclass(frozen=True, slots=True)
class RowsKind:
    """Ratings or labels.

    Args:
        open: gives the tables of rows, in the order of the inputs, and the config with the
            columns that they are read by.
        check: refuses what cannot be asked.
        run: measures the rows.
        of_sums: what is told of the sums of shares, where these may leave sums.
    """

    open: OpenTables
    check: Callable[[RowJob], None]
    run: "type[RowRun]"
    of_sums: SumsReading | None = None


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
    if job.work.keep_users:
        names = tables.rows[0].user_names
        keeping = Keeping.of(job.requests, names, job.work.per_user_folder, job.work.keep_users)
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
                    raise DataError(
                        f"two tables have rows of {name!r}", code="duplicate-model", at=table.at
                    )
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
