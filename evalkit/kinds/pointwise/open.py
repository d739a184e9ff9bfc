"""Opens the tables of ratings or labels, and of what is said of users; no row is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from evalkit.config import Config
from evalkit.errors import EvalkitError, RequestError, noting, raise_all
from evalkit.kinds.pointwise._comparing import check_resampled
from evalkit.kinds.pointwise.counts import Grouping
from evalkit.kinds.pointwise.segments import UserSources, open_user_sources
from evalkit.metrics import Request, Term, over
from evalkit.planning.leakage import check_splits
from evalkit.planning.tables import Given
from evalkit.report import Input
from evalkit.sources import Table
from evalkit.sources.ids import plan_ids

# the tables of rows, in the order of the inputs, and the config with the columns that are read
OpenTables: TypeAlias = Callable[[Config, Given], tuple[Config, list[Table]]]


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


def open_rows(open_tables: OpenTables, config: Config, given: Given) -> RowTables:
    """Open every table; all that is wrong with any of them at once.

    Raises:
        RequestError: values of users are asked for, and no metric has any.
        DataError: a table, or a column of one, is not there.
    """
    config, rows = open_tables(config, given)
    check_resampled(config)
    if not given.is_share:  # whoever made shares has looked
        check_splits(rows, config)
    own = config.labels or config.ratings
    held = [*given.rankings, *([None] * len(own))]
    sources = open_user_sources(config, list(zip(own, held, strict=False)), given.segments)
    return RowTables(config, rows, sources)


def open_all(actions: Sequence[Callable[[], Table]]) -> list[Table]:
    """Every table, opened; all that is wrong with any of them at once."""
    problems: list[EvalkitError] = []
    opened: list[Table] = []
    for action in actions:
        with noting(problems):
            opened.append(action())
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
    for request in requests:
        if over(request) == "rows":
            made = request.over_rows
            unknown = [term for term in made.terms if not has_sum(term)]
            smooth = () if made.smooth is None else made.smooth.terms
            unknown += [term for term in smooth if not has_part(term)]
            if unknown:
                raise RequestError(
                    f"{request.label} is made of {unknown[0]!r}, and "
                    f"{request.metric.kind} have no such sum",
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


def float_column(name: str, dtype: pl.DataType) -> pl.Expr:
    """A number column as float32 where it holds no more, else as float64."""
    return pl.col(name).cast(pl.Float32 if dtype in (pl.Float16, pl.Float32) else pl.Float64)
