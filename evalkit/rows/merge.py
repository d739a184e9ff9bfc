"""What a share of the users leaves behind: its rows, as they were read.

Many numbers of ratings and labels follow rows in the order of their scores, and are no sums over
users. So a partial keeps the rows of its users, with the columns that are needed: put together,
they are the tables that one run reads, in another order, which moves nothing, and are measured as
one run measures them. Merging takes the memory and the time of such a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Config, Segmentation, is_laid_out, of_share, with_paths
from evalkit.ids import USER_KEY, DrawnShare
from evalkit.planning.ledger import Clock, input_of
from evalkit.planning.tables import Given
from evalkit.planning.work import SEEDS, Kind, Left, Work, with_warnings
from evalkit.report import Input, Report, Warning_
from evalkit.rows.job import RowJob
from evalkit.rows.measure import RowsKind, run_rows
from evalkit.rows.open import RowTables, group_by, open_rows
from evalkit.rows.reading import BATCH_ROWS
from evalkit.rows.segments import UserSources
from evalkit.segments import SegmentTable
from evalkit.sources import Table, reading


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
class RowSums:
    """All tables of a run: those of ratings or labels, of segments, and of clusters."""

    rows: list[KeptTable]
    segments: list[KeptTable]
    clusters: list[KeptTable]

    @property
    def all(self) -> list[KeptTable]:
        """Every table."""
        return [*self.rows, *self.segments, *self.clusters]

    def merge(self, other: "RowSums") -> None:
        """Take over the rows of other shares."""
        for mine, theirs in zip(self.all, other.all, strict=True):
            mine.rows.update(theirs.rows)

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
        return RowTables(config, rows, UserSources(segments, next(iter(clusters), None)), inputs)


def kind_of_rows(kind: RowsKind) -> Kind:
    """What is done with a config of ratings or of labels."""

    def open_all(config: Config, given: Given) -> RowTables:
        return open_rows(kind.open, config, given)

    def run(config: Config, work: Work) -> Report:
        return run_rows(kind, RowJob.of(config, work))

    def measure(config: Config, work: Work) -> Left:
        return _measure(kind, RowJob.of(config, work), work.share)

    def conclude(left: Left, work: Work, told: Sequence[Warning_], clock: Clock | None) -> Report:
        tables = left.sums.tables(left.config, left.inputs)
        job = RowJob.of(left.config, work)
        job = job if clock is None else replace(job, clock=clock)
        return with_warnings(run_rows(kind, job, tables), told)

    return Kind(RowSums, open_all, run, measure, conclude, on_spark=True, leaves_rows=True)


def _measure(kind: RowsKind, job: RowJob, share: tuple[int, int]) -> Left:
    """The rows of one share of the users."""
    number, n_shares = share
    kind.check(job)
    laid_out = is_laid_out(job.config)
    opened = open_rows(kind.open, of_share(job.config, number), job.given)
    if job.opened is not None:
        job.opened(opened.all)
    job.clock.line.tables = opened.rows
    job.clock.start()
    sources = opened.sources
    clusters = [] if sources.cluster is None else [sources.cluster]
    plan = group_by("user", [*opened.rows, *sources.tables], SEEDS[0]).plan
    drawn = (
        None
        if laid_out or job.given.is_share or n_shares == 1
        else DrawnShare(number - 1, n_shares, plan)
    )
    n_rows: dict[int, int] = {}

    def keep(table: Table, names: tuple[str, ...] = ()) -> KeptTable:
        rules = [job.config.segments.named.get(name) for name in names]
        paths = [path for rule in rules if rule is not None for path in rule.path or ()]
        is_whole = laid_out and bool(paths) and not any("{share" in path for path in paths)
        frames = []
        with reading(table):
            for frame in table.stream([pl.all()], most=BATCH_ROWS):
                n_rows[id(table)] = n_rows.get(id(table), 0) + frame.height
                job.clock.line.advance(frame.height)
                frames.append(frame if drawn is None else frame.filter(_held(frame, drawn)))
        empty = pl.DataFrame(schema=table.frame.collect_schema())
        rows = {number: pl.concat([empty, *frames])}
        return KeptTable(table.role, table.at, table.user_names, table.model, names, is_whole, rows)

    body = RowSums(
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
    return Left(with_paths(opened.config, job.config), ids, inputs, body)


def _held(frame: pl.DataFrame, share: DrawnShare) -> pl.Series:
    """Which rows belong to a share of the users; those without a user are in the first."""
    ids = frame.select(share.plan.select(USER_KEY))
    known = ids[USER_KEY].is_not_null().to_numpy()
    held: npt.NDArray[np.bool_] = np.full(frame.height, share.is_first)
    held[known] = share.holds(ids.filter(known))
    return pl.Series(held)
