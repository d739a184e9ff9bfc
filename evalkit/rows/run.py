"""What ratings and labels share of a run: tables, groupings, counts, the report."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl

from evalkit.config import Config
from evalkit.errors import DataError, EvalkitError, RequestError, note, raise_all
from evalkit.ids import hashes_of_keys, plan_ids
from evalkit.looks.resampling import resamples
from evalkit.metrics import Request, Term, over
from evalkit.planning.leakage import check_splits
from evalkit.planning.ledger import input_of, versions
from evalkit.planning.record import Found, make_report
from evalkit.planning.tables import Given
from evalkit.planning.work import try_seeds
from evalkit.report import (
    Counts,
    Distribution,
    Graph,
    Input,
    ModelCounts,
    Report,
    TruthCounts,
    Warning_,
)
from evalkit.rows._clusters import Clusters
from evalkit.rows._comparing import check_resampled, conclude
from evalkit.rows._kept import Keeping, without_values
from evalkit.rows.job import RowJob
from evalkit.rows.means import WeightedMean
from evalkit.rows.numbers import Measured
from evalkit.rows.passes import ModelRows
from evalkit.rows.segments import RowSegments, RowUsers, UserSources, open_user_sources
from evalkit.rows.tally import Grouping, Lost, RowTally
from evalkit.segments import ALL, Segment
from evalkit.sources import Table
from evalkit.sums import GrandTotals
from evalkit.values.checks import convention_warnings

Models = Sequence[tuple[str | None, Table]]


@dataclass(frozen=True, slots=True)
class RowsKind:
    """Ratings or labels.

    Args:
        open: gives the tables of rows, in the order of the inputs, and the config with the
            columns that they are read by.
        check: refuses what cannot be asked.
        run: measures the rows.
    """

    open: Callable[[Config, Given], tuple[Config, list[Table]]]
    check: Callable[[RowJob], None]
    run: "type[RowRun]"


@dataclass(frozen=True, slots=True)
class RowTables:
    """All tables of a run, opened but not read.

    Args:
        config: with the columns that are read.
        rows: the tables of rows.
        sources: what says something of users.
        inputs: what was read of all tables, where that was elsewhere.
    """

    config: Config
    rows: Sequence[Table]
    sources: UserSources
    inputs: Sequence[Input] = ()

    @property
    def all(self) -> list[Table]:
        """Those with rows of their own."""
        return [*self.rows, *self.sources.inputs]


def open_rows(kind: RowsKind, config: Config, given: Given) -> RowTables:
    """Open every table; all that is wrong with any of them at once.

    Raises:
        RequestError: values of users are asked for, and no metric has any.
        DataError: a table, or a column of one, is not there.
    """
    config, rows = kind.open(config, given)
    check_resampled(config)
    if not given.is_share:  # whoever made shares has looked
        check_splits(rows, config)
    own = config.labels or config.ratings
    held = [*given.rankings, *([None] * len(own))]
    sources = open_user_sources(config, list(zip(own, held, strict=False)), given.segments)
    return RowTables(config, rows, sources)


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
    tables = tables or open_rows(kind, job.config, job.given)
    job = replace(job, config=tables.config)
    keeping = None
    if job.per_user:
        names = tables.rows[0].user_names
        keeping = Keeping.of(job.requests, names, job.per_user_folder, job.per_user)
    if job.opened is not None:
        job.opened(tables.all)
    job.clock.line.tables = list(tables.rows)
    if not job.clock.is_running:
        job.clock.start()
    return try_seeds(lambda seed: kind.run(job, tables, keeping, seed).report())


@dataclass(slots=True)
class Findings:
    """Everything that a run of rows found."""

    measured: dict[Segment, dict[str, Measured]] = field(default_factory=dict)
    segments: RowSegments | None = None
    clusters: Clusters | None = None
    row_users: RowUsers | None = None
    totals: GrandTotals = field(default_factory=GrandTotals)
    graphs: list[Graph] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)
    warnings: list[Warning_] = field(default_factory=list)
    users: dict[str, int] = field(default_factory=dict)  # by model
    most_rows: dict[str, int] = field(default_factory=dict)  # of one user, by model
    pairs: dict[str, int] = field(default_factory=dict)  # labels 1, or rated pairs, by model


def open_all(actions: Sequence[Callable[[], Table]]) -> list[Table]:
    """Every table, opened; all that is wrong with any of them at once."""
    problems: list[EvalkitError] = []
    opened: list[Table] = []
    for action in actions:
        try:
            opened.append(action())
        except EvalkitError as error:
            note(error, problems)
    raise_all(problems)
    return opened


def check_sums(
    requests: Sequence[Request], has_sum: Callable[[Term], bool], has_part: Callable[[Term], bool]
) -> None:
    """The sums that metrics over all rows are made of are there.

    Args:
        has_sum: whether there is a sum over all rows.
        has_part: whether it is known what each user adds to it.
    Raises:
        RequestError: one is not, of a metric of a user's own [unknown-sum].
    """
    for each in requests:
        if over(each) == "rows":
            made = each.over_rows
            unknown = [term for term in made.terms if not has_sum(term)]
            smooth = () if made.smooth is None else made.smooth.terms
            unknown += [term for term in smooth if not has_part(term)]
            if unknown:
                raise RequestError(
                    f"{each.label} is made of {unknown[0]!r}, and {each.metric.kind} have no such "
                    "sum",
                    code="unknown-sum",
                    at="over_rows",
                    hint="docs/adding-a-metric.md lists the sums; is_smooth=False leaves the "
                    "standard error out",
                )


def group_by(name: str, tables: Sequence[Table], seed: int) -> Grouping:
    """How the rows of all tables are grouped by `user`, `session` or `item`."""
    described = [
        (
            table.role,
            table.at,
            {
                column: dtype
                for column, dtype in table.frame.collect_schema().items()
                if column == name or column.startswith(f"{name}_")
            },
        )
        for table in tables
    ]
    return Grouping(name, plan_ids(name, described, seed=seed))


def check_rows(
    config: Config, models: Mapping[str, ModelRows], at: Mapping[str, str]
) -> list[Warning_]:
    """Tables without rows are refused, or told."""
    problems: list[EvalkitError] = []
    warnings = []
    for name, rows in models.items():
        if rows.tally.rows_used:
            continue
        had = rows.tally.rows
        message = f"the table of {name!r} has no rows" + (" left" if had else "")
        if config.policies.empty_input == "error":
            hint = 'write empty_input = "warn" under [policies] if that can be'
            problems.append(DataError(message, code="empty-input", at=at.get(name, ""), hint=hint))
        else:
            warnings.append(Warning_("empty-input", message, name))
    raise_all(problems)
    return warnings


def count_lost(rows: ModelRows, user: Grouping) -> int:
    """Users all of whose rows were left out."""
    lost = rows.tally.marks.pop("lost", None)
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
    found: Findings = field(default_factory=Findings)
    tallies: dict[str, RowTally] = field(default_factory=dict)

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

    def report(self) -> Report:
        """Read, measure and report.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        self._find_users()
        for model, table in self.models:  # one after the other: only one is in memory
            for name, rows in self.rows_of(model, table):
                self.job.clock.stop("read")
                if name in self.tallies:
                    raise DataError(
                        f"two tables have rows of {name!r}", code="duplicate-model", at=table.at
                    )
                self.tallies[name] = rows.tally
                self.measure(name, rows, table)
        inputs = self.inputs()
        for place, known in enumerate(self.tables.inputs):
            mine = inputs[place]
            rows_read = known.rows if mine.role == "segments" else mine.rows
            inputs[place] = replace(known, role=mine.role, model=mine.model, rows=rows_read)
        counts = self.truth_counts()
        return self._conclude(inputs, counts)

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
            found.row_users = RowUsers.of(self.tables.rows, user.plan, job.sample)
        if sources.segments and found.row_users is not None:
            found.segments = RowSegments.of(config, sources.segments, found.row_users, job.threads)
        if sources.cluster is not None and found.row_users is not None:
            found.clusters = Clusters.read(sources.cluster, found.row_users)
        job.clock.stop("segments")

    def _conclude(self, inputs: Sequence[Input], truth: TruthCounts) -> Report:
        job, found, keeping = self.job, self.found, self.keeping
        config, requests, clock = job.config, job.requests, job.clock
        if job.sample is not None:
            message = f"numbers stand on a sample of {job.sample:.2%} of the users"
            found.warnings.append(Warning_("sample", message))
        found.warnings += convention_warnings(config, requests)
        if found.segments is not None:
            found.segments.note(found.totals, found.measured)
        inference = conclude(
            config,
            requests,
            found.measured,
            found.totals,
            clusters=found.clusters,
            hash_users=partial(hashes_of_keys, plan=self.user.plan)
            if found.row_users is None
            else found.row_users.hashes_of,
            threads=job.threads,
        )
        kept = None
        if keeping is not None and found.row_users is not None:
            kept = keeping.keep(requests, found.measured.get(ALL, {}), found.row_users)
            found.warnings += without_values(requests)
        clock.stop("aggregate")
        told = Found(
            counts=Counts(
                truth,
                {name: _model_counts(name, tally, found) for name, tally in self.tallies.items()},
            ),
            inference=inference,
            warnings=(*found.warnings, *inference.warnings),
            graphs=found.graphs,
            distributions=found.distributions,
            per_user_values=kept,
        )
        meta = clock.meta(sum(each.rows for each in inputs), job.threads, versions())
        return make_report(config, told, inputs, meta, clock=clock, sample=job.sample)


def _model_counts(name: str, tally: RowTally, found: Findings) -> ModelCounts:
    return ModelCounts(
        rows=tally.rows,
        rows_used=tally.rows_used,
        rows_dropped=dict(tally.dropped),
        users=found.users.get(name, 0),
        users_without_ranking=tally.noted.get("users_without_prediction", 0),
        users_without_truth=tally.noted.get("users_without_rating", 0),
        duplicates=tally.noted.get("duplicates", 0),
        duplicates_searched="all" if "duplicates" in tally.noted else "none",
        seen_in_train=None,
        bad_ranks=0,
        ties=0,
        depth=found.most_rows.get(name, 0),
    )


def inputs_of(
    role: str, models: Models, tallies: Mapping[str, RowTally], sources: UserSources
) -> list[Input]:
    """A record of every table that was read."""
    found = []
    for model, table in models:
        rows = (
            sum(tally.rows for tally in tallies.values()) if model is None else tallies[model].rows
        )
        found.append(input_of(table, rows, role, model))
    found += [input_of(table, table.count_rows(), "segments") for table in sources.inputs]
    return found


def float_column(name: str, dtype: pl.DataType) -> pl.Expr:
    """A number column as float32 where it is one, else as float64."""
    column = pl.col(name)
    if dtype == pl.Float32:
        return column
    if dtype in (pl.Float16,):
        return column.cast(pl.Float32)
    return column.cast(pl.Float64)
