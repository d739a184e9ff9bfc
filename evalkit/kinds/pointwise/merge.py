"""What a share of the users leaves behind: sums over its users, or its rows, as they were read.

Means over users, and over pairs of a rating and a prediction, are sums, which merge. But many
numbers follow rows in the order of their scores, or draw users whom one share does not know, and
are no such sums: then a partial keeps the rows of its users, with the columns that are needed. Put
together, they are the tables that one run reads, in another order, which moves nothing, and are
measured as one run measures them; merging takes the memory and the time of such a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl

from evalkit.aggregate.accumulators.resampling import resamples
from evalkit.aggregate.segments import SeenValues, SegmentTable
from evalkit.aggregate.sums import GrandTotals, add_all
from evalkit.config import (
    Config,
    LabelsTable,
    PredictionsTable,
    RatingsTable,
    Segmentation,
    is_laid_out,
    of_share,
    with_paths,
)
from evalkit.errors import Errors, EvalkitError, Faults
from evalkit.kernels.arrays import Flags
from evalkit.kinds.pointwise._comparing import add_pairs
from evalkit.kinds.pointwise.conclude import Findings, conclude_rows
from evalkit.kinds.pointwise.counts import CODES
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.measure import (
    ModelSums,
    RowRun,
    RowsKind,
    SourceTable,
    SumsReading,
    run_rows,
)
from evalkit.kinds.pointwise.open import RowTables, group_by, open_rows
from evalkit.kinds.pointwise.read import BATCH_ROWS
from evalkit.kinds.pointwise.segments import UserSources, refuse_many
from evalkit.metrics import is_drawn, is_ordered
from evalkit.planning.counters import Clock, input_of
from evalkit.planning.tables import Given
from evalkit.planning.work import Kind, MeasureOptions, ShareResult, with_warnings
from evalkit.report import Input, Report, Warning_
from evalkit.sources import ChosenColumns, Table, reading
from evalkit.sources.ids import SEEDS, USER_KEY, DrawnShare, Sample, try_seeds


@dataclass(slots=True)
class KeptTable:
    """The rows of some shares of one table.

    Args:
        names: of the segmentations that it is for; empty of ratings and labels.
        is_whole: every share has all of it.
        rows: by share, from 1.
    """

    role: str
    at: str
    user_names: tuple[str, ...]
    model: str | None
    names: tuple[str, ...]
    is_whole: bool
    rows: dict[int, pl.DataFrame]

    @property
    def table(self) -> Table:
        """The table of all shares together."""
        shares = sorted(self.rows)[:1] if self.is_whole else sorted(self.rows)
        rows = pl.concat([self.rows[share] for share in shares])
        found = Table(self.role, rows.lazy(), self.user_names, self.at, model=self.model)
        return found.with_frame(rows.lazy(), rows.height)


@dataclass(slots=True)
class UserTotals:
    """Sums of values of users, instead of rows.

    Args:
        models: in the order of the config; by name where a column has them.
        truth: counts of the rows of a table of what is true.
        totals: of pairs of models, and the segments.
        n_lonely: users who have rows of some models alone.
        seen_values: that make a segment each.
        faults: of the rows, which are told of all users together.
    """

    models: dict[str, ModelSums] = field(default_factory=dict)
    truth: ModelSums | None = None
    totals: GrandTotals = field(default_factory=GrandTotals)
    n_lonely: int = 0
    seen_values: SeenValues = field(default_factory=SeenValues)
    faults: Faults = field(default_factory=Faults)

    @classmethod
    def of(cls, job: RowJob, run: RowRun) -> "UserTotals":
        """Of users whose rows are read now."""
        try:
            run.read_all()
        except EvalkitError as error:
            faulty = cls()
            for problem in error.errors if isinstance(error, Errors) else (error,):
                order = CODES.index(problem.code) if problem.code in CODES else -1
                faulty.faults.note(problem, run.step, order)
            return faulty
        found, models = run.found, dict[str, ModelSums]()
        if found.segments is not None:
            found.segments.note(found.totals, found.measured)
        args = (job.config, job.requests, found.measured, found.totals, job.threads)
        n_lonely = add_pairs(*args)
        for name, row_counts in run.counts_by_model.items():
            own = {segment: each for (segment, model), each in found.sums.items() if model == name}
            models[name] = ModelSums(
                name,
                row_counts.rows,
                row_counts.dropped,
                row_counts.noted,
                found.most_rows[name],
                {segment: each.n_units for segment, each in own.items()},
                {segment: each.means for segment, each in own.items()},
                {place: each for (place, model), each in found.row_sums.items() if model == name},
            )
        truth = run.truth_outcomes
        rows_of_truth = (
            None if truth is None else ModelSums("", truth.rows, truth.dropped, truth.noted)
        )
        return cls(models, rows_of_truth, found.totals, n_lonely, found.seen_values)

    def merge(self, other: "UserTotals") -> None:
        """Take over the sums of other users."""
        add_all(self.models, other.models)
        if self.truth is None:
            self.truth = other.truth
        elif other.truth is not None:
            self.truth.merge(other.truth)
        self.totals.merge(other.totals)
        self.n_lonely += other.n_lonely
        self.seen_values.merge(other.seen_values)
        self.faults.merge(other.faults)

    def in_order(self, config: Config) -> dict[str, ModelSums]:
        """The models as one run has them: a share may know of some alone."""
        names = [table.model for table in _tables_of(config) if table.model is not None]
        if len(names) < len(_tables_of(config)):
            names = sorted(self.models)
        return {name: self.models[name] for name in names if name in self.models}

    def findings(
        self, job: RowJob, of_sums: SumsReading, tables: Sequence["KeptTable"]
    ) -> Findings:
        """What one run finds in the rows of all users.

        Raises:
            DataError: what is wrong with rows of any share.
        """
        self.faults.tell()
        config, found = job.config, Findings(totals=self.totals)
        for name in self.seen_values.by_name:
            self.seen_values.check(name)
        for name, n_segments in self.totals.n_segments.items():
            refuse_many(config, name, n_segments)
        own_tables = tables if self.truth is None else tables[1:]
        for number, own in enumerate(self.in_order(config).values()):
            table = own_tables[min(number, len(own_tables) - 1)]  # all in one, or each in its own
            place = SourceTable(table.role, table.at, self.truth is not None)
            of_sums.conclude(job, found, own, place)
        for segment in self.totals.users:
            n_users = max(each.n_users for each in found.measured[segment].values())
            self.totals.users[segment] = n_users
        return found


@dataclass(slots=True)
class KeptTables:
    """All tables of a run: those of ratings or labels, of segments, and of clusters.

    Args:
        users: sums in place of the rows of all tables, where they say everything.
    """

    rows: list[KeptTable]
    segments: list[KeptTable]
    clusters: list[KeptTable]
    users: UserTotals | None = None

    @property
    def all(self) -> list[KeptTable]:
        """Every table."""
        return [*self.rows, *self.segments, *self.clusters]

    def merge(self, other: "KeptTables") -> None:
        """Take over the rows of other shares."""
        for mine, theirs in zip(self.all, other.all, strict=True):
            mine.rows.update(theirs.rows)
        if self.users is not None and other.users is not None:
            self.users.merge(other.users)

    def tables(self, config: Config, inputs: Sequence[Input]) -> RowTables:
        """The tables of all shares together."""
        named = config.segments.named
        segments = [
            SegmentTable(each.table, each.names, tuple(named[name] for name in each.names))
            for each in self.segments
        ]
        by = (Segmentation(by=config.statistics.cluster or ""),)
        clusters = [SegmentTable(each.table, each.names, by) for each in self.clusters]
        rows = [each.table for each in self.rows]
        for place, read in enumerate(inputs[: len(rows)]):  # which hints name columns by
            rows[place] = replace(rows[place], chosen=ChosenColumns(read.columns))
        return RowTables(config, rows, UserSources(segments, next(iter(clusters), None)), inputs)


def kind_of_rows(kind: RowsKind) -> Kind:
    """What is done with a config of ratings or of labels."""

    def open_all(config: Config, given: Given) -> RowTables:
        return open_rows(kind.open, config, given)

    def run(config: Config, work: MeasureOptions) -> Report:
        return run_rows(kind, RowJob(config, work, work.clock()))

    def measure(config: Config, work: MeasureOptions) -> ShareResult:
        return _measure(kind, RowJob(config, work, work.clock()), work.share)

    def conclude(
        left: ShareResult, work: MeasureOptions, told: Sequence[Warning_], clock: Clock | None
    ) -> Report:
        job = RowJob(left.config, work, work.clock() if clock is None else clock)
        if left.sums.users is not None:
            return with_warnings(_conclude(kind, job, left.sums, left.inputs), told)
        tables = left.sums.tables(left.config, left.inputs)
        return with_warnings(run_rows(kind, job, tables), told)

    def leaves_rows(config: Config, keeps_users: bool) -> bool:
        return not _leaves_sums(kind, config, keeps_users=keeps_users)

    def survey(config: Config, work: MeasureOptions) -> pl.DataFrame:
        opened = open_rows(kind.open, config, work.given)
        surveying = _Surveying(kind, opened, work.sample)
        for table in opened.rows:
            with reading(table):
                for frame in table.stream([pl.all()], most=BATCH_ROWS):
                    surveying.add(table, frame)
        return surveying.found()

    return Kind(
        KeptTables,
        open_all,
        run,
        measure,
        conclude,
        on_spark=True,
        leaves_rows=leaves_rows,
        survey=None if kind.of_sums.survey is None else survey,
    )


class _Surveying:
    """What a share has to know of all rows, table by table."""

    def __init__(self, kind: RowsKind, opened: RowTables, sample: float | None) -> None:
        self.survey = kind.of_sums.survey
        self.tables = opened.rows
        plan = group_by("user", [*opened.rows, *opened.sources.tables], SEEDS[0]).plan
        self.sample = None if sample is None else Sample(sample, plan)
        self.frames: list[pl.DataFrame] = []
        for table in self.tables:  # which may have no rows
            self.add(table, pl.DataFrame(schema=table.frame.collect_schema()))

    def add(self, table: Table, frame: pl.DataFrame) -> None:
        """Some rows of a table more; those of segments are none."""
        places = [place for place, each in enumerate(self.tables) if each is table]
        if self.survey is not None and places:
            rows = frame if self.sample is None else frame.filter(_held(frame, self.sample))
            self.frames.append(self.survey(rows).with_columns(table=pl.lit(places[0], pl.Int64)))

    def found(self) -> pl.DataFrame:
        """Rows of `survey`, with the number of their `table`."""
        return pl.concat(self.frames)


def _measure(kind: RowsKind, job: RowJob, share: tuple[int, int]) -> ShareResult:
    """The rows of one share of the users."""
    number, n_shares = share
    kind.check(job)
    laid_out = is_laid_out(job.config)
    opened = open_rows(kind.open, of_share(job.config, number), job.work.given)
    if job.work.opened is not None:
        job.work.opened(opened.all)
    job.clock.line.tables = opened.rows
    job.clock.start()
    sources = opened.sources
    clusters = [] if sources.cluster is None else [sources.cluster]
    plan = group_by("user", [*opened.rows, *sources.tables], SEEDS[0]).plan
    drawn = (
        None
        if laid_out or job.work.given.is_share or n_shares == 1
        else DrawnShare(number - 1, n_shares, plan)
    )
    n_rows: dict[int, int] = {}
    leaves_sums = not laid_out
    leaves_sums &= _leaves_sums(kind, opened.config, keeps_users=bool(job.work.per_user))
    surveying = _Surveying(kind, opened, job.work.sample)
    surveys = leaves_sums and surveying.survey is not None and job.work.surveyed is None

    def keep(table: Table, names: tuple[str, ...] = ()) -> KeptTable:
        rules = [job.config.segments.named.get(name) for name in names]
        paths = [path for rule in rules if rule is not None for path in rule.path or ()]
        is_whole = laid_out and bool(paths) and not any("{share" in path for path in paths)
        frames = []
        with reading(table):
            for frame in table.stream([pl.all()], most=BATCH_ROWS):
                n_rows[id(table)] = n_rows.get(id(table), 0) + frame.height
                job.clock.line.advance(frame.height)
                if surveys:
                    surveying.add(table, frame)
                frames.append(frame if drawn is None else frame.filter(_held(frame, drawn)))
        empty = pl.DataFrame(schema=table.frame.collect_schema())
        rows = {number: pl.concat([empty, *frames])}
        return KeptTable(table.role, table.at, table.user_names, table.model, names, is_whole, rows)

    body = KeptTables(
        [keep(table) for table in opened.rows],
        [keep(each.table, each.names) for each in sources.segments if each.table is not None],
        [keep(each.table, each.names) for each in clusters if each.table is not None],
    )
    inputs = [
        input_of(each, n_rows.get(id(each), 0), each.role.partition(".")[0], each.model)
        for each in opened.rows
    ]
    inputs += [input_of(each, each.count_rows(), "segments") for each in sources.inputs]
    ids = {"user": tuple(str(each) for each in plan.dtypes)}
    if leaves_sums:
        surveyed = surveying.found() if surveys else job.work.surveyed
        run = partial(_read_share, kind, replace(job, config=opened.config), body, surveyed)
        body = replace(body, users=try_seeds(run))
        for each in body.all:
            each.rows = {}
    return ShareResult(with_paths(opened.config, job.config), ids, inputs, body)


def _tables_of(config: Config) -> Sequence[LabelsTable | RatingsTable | PredictionsTable]:
    """The tables with scores of models."""
    return config.labels or config.predictions or config.ratings


def _held(frame: pl.DataFrame, share: DrawnShare | Sample) -> pl.Series:
    """Which rows belong to a share of the users; those without a user are in the first."""
    ids = frame.select(share.plan.select(USER_KEY))
    known = ids[USER_KEY].is_not_null().to_numpy()
    is_first = isinstance(share, DrawnShare) and share.is_first
    held: Flags = np.full(frame.height, is_first)
    held[known] = share.holds(ids.filter(known))
    return pl.Series(held)


def _leaves_sums(kind: RowsKind, config: Config, *, keeps_users: bool) -> bool:
    """Whether sums say everything: of means over users or pairs, with what a share knows of them.

    Rows are left where numbers stand on the order of rows or of users, or are over sessions; where
    weighted means are compared, or models that a column names; where users are drawn or kept, or
    vary together; where all users together make the segments; and where two shares of a log that
    is laid out may have rows of one user.
    """
    compares = config.statistics.baseline is not None or config.statistics.pairs == "all"
    rules = config.segments.named.values()
    by_column = any(table.model is None for table in _tables_of(config))
    return (
        not (keeps_users or resamples(config.statistics))
        and config.statistics.cluster is None
        and config.segments.min_users == 1
        and all(rule.quantiles is None for rule in rules)
        and all(is_drawn(each) or not compares for each in config.requests)
        and not any(map(is_ordered, config.requests))
        and all(map(kind.of_sums.adds_up, config.requests))
        and (not by_column or (len(_tables_of(config)) == 1 and not compares))
    )


def _read_share(
    kind: RowsKind, job: RowJob, body: KeptTables, surveyed: pl.DataFrame | None, seed: int
) -> UserTotals:
    """The sums of one share, whose rows are all in memory."""
    tables = body.tables(job.config, ())
    run = kind.run(job, tables, None, seed, is_share=True, surveyed=surveyed)
    return UserTotals.of(job, run)


def _conclude(kind: RowsKind, job: RowJob, body: KeptTables, inputs: Sequence[Input]) -> Report:
    """The report of the sums of all shares."""
    assert body.users is not None
    if not job.clock.is_running:
        job.clock.start()
    found = body.users.findings(job, kind.of_sums, body.rows)
    counts_by_model = {
        name: each.row_counts for name, each in body.users.in_order(job.config).items()
    }
    rows = {name: each.rows for name, each in counts_by_model.items()}
    total = sum(rows.values())
    models = iter(_tables_of(job.config))
    is_truth = body.users.truth is not None
    read = []
    for source in inputs:
        source = replace(
            source, role=source.role.partition(".")[0]
        )  # Spark names the segmentation too
        if is_truth and body.users.truth is not None:
            source, is_truth = replace(source, rows=body.users.truth.rows), False
        elif source.role != "segments" and (table := next(models, None)) is not None:
            n_rows = rows.get(table.model or "", total)
            source = replace(source, model=table.model, rows=n_rows)
        elif source.role != "segments":
            source = replace(source, rows=rows.get(source.model or "", total))
        read.append(source)
    return conclude_rows(
        job,
        found,
        counts_by_model,
        lambda keys: keys,  # nobody is drawn
        inputs=read,
        truth=kind.of_sums.truth(
            None if body.users.truth is None else body.users.truth.row_counts,
            counts_by_model,
            found,
        ),
        keeping=None,
        n_lonely=body.users.n_lonely,
    )
