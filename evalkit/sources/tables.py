"""Opens the tables of a config: truth, rankings, training log, joined log."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import polars as pl

from evalkit.config import (
    LabelsTable,
    LogTable,
    PredictionsTable,
    RankingsTable,
    RatingsTable,
    Segmentation,
    TrainTable,
    TruthTable,
)
from evalkit.errors import masked
from evalkit.sources.columns import Plan, Wanted, check_columns, plan_columns
from evalkit.sources.failures import mapped
from evalkit.sources.memory import describe_given, open_given
from evalkit.sources.paths import File, find_files
from evalkit.sources.scan import FileScan, Use, open_files
from evalkit.sources.table import Table
from evalkit.sources.trec import Kind

_TEXT = (pl.String, pl.Categorical, pl.Enum)


class _Located(Protocol):
    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def format(self) -> str | None: ...
    @property
    def where(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Source:
    """What a table is read from: files, or a frame."""

    at: str
    names: tuple[str, ...]
    scan: FileScan | None
    given: pl.LazyFrame | None
    n_rows: int | None
    paths: tuple[str, ...]

    @property
    def files(self) -> tuple[File, ...]:
        return self.scan.files if self.scan is not None else ()

    @property
    def is_trec(self) -> bool:
        return bool(self.files) and all(file.format == "trec" for file in self.files)

    def frame(self, uses: Mapping[str, Use]) -> pl.LazyFrame:
        if self.scan is not None:
            return self.scan.frame(uses)
        assert self.given is not None
        return self.given


def open_truth(table: TruthTable, given: object | None = None) -> Table:
    """The held-out interactions, lazily; `given` stands in for the paths.

    Raises:
        DataError: what `read_schema` raises, and missing-column, bad-sql, schema-differs,
            float-id, not-a-number, bad-type.
    """
    source = _open_source("truth", table, given, kind="qrels")
    columns = table.columns
    relevance = columns.relevance
    if source.is_trec and relevance is None:
        relevance = "relevance"
    wanted = [*_ids(columns.user, columns.item), *_optional(relevance=relevance)]
    return _open("truth", source, wanted, table.where, columns.user)


def open_rankings(table: RankingsTable, given: object | None = None) -> Table:
    """The rankings, lazily; raises as `open_truth` does. TREC runs are ordered by their score."""
    source = _open_source("rankings", table, given, kind="run")
    columns = table.columns
    score = columns.score
    if source.is_trec and score is None and columns.rank is None:
        score = "score"
    wanted = [
        *_ids(columns.user, columns.item),
        *_optional(rank=columns.rank, score=score, model=columns.model),
    ]
    return _open("rankings", source, wanted, table.where, columns.user)


def open_train(table: TrainTable, given: object | None = None) -> Table:
    """What the models had seen, lazily; raises as `open_truth` does."""
    source = _open_source("train", table, given, kind="qrels")
    wanted = _ids(table.columns.user, table.columns.item)
    return _open("train", source, wanted, table.where, table.columns.user)


def open_values(
    name: str,
    table: Segmentation,
    bys: Sequence[str],
    user: Sequence[str],
    given: object | None = None,
) -> Table:
    """Values of users, or of items, lazily: ids and `value_0`, `value_1`, ...

    Args:
        name: of the first segmentation that reads the table, for messages.
        table: its path and id columns.
        bys: for each value a column or SQL expression.
        user: the user columns of the truth, unless the table names its own.
        given: a table in memory, in place of the path.
    """
    assert table.path is not None
    source = _open_source("segments", _Bare(table.path, table.format), given, kind="qrels")
    values = [Wanted("by", f"value_{place}", text) for place, text in enumerate(bys)]
    users = table.user if table.user is not None else user
    ids = _groups("user", users) if table.item is None else [Wanted("item", "item", table.item)]
    opened = _open("segments", source, [*ids, *values], table.where, users)
    return replace(opened, role=f"segments.{name}")


OwnTable: TypeAlias = TruthTable | LogTable | RatingsTable | LabelsTable


def open_own_values(table: OwnTable, bys: Sequence[str], given: object) -> Table:
    """Values of users that stand in the truth, or in rows: user columns and `value_0`, ..."""
    kind: Kind = "run" if isinstance(table, LogTable) else "qrels"
    role = _OWN_ROLES.get(type(table), "truth")
    source = _open_source(role, table, given, kind=kind)
    values = [Wanted("by", f"value_{place}", text) for place, text in enumerate(bys)]
    wanted = [*_groups("user", table.columns.user), *values]
    return _open(role, source, wanted, table.where, table.columns.user)


_OWN_ROLES = {RatingsTable: "ratings", LabelsTable: "labels"}


def open_log(table: LogTable, given: object | None = None) -> tuple[Table, Table]:
    """A joined log as truth and rankings over the same rows; raises as `open_truth` does.

    Rows whose label says that they are not relevant stay in the truth, as judged.
    """
    source = _open_source("log", table, given, kind="run")
    columns = table.columns
    ids = _ids(columns.user, columns.item)
    label = Wanted("label", "relevance", columns.label)
    order = _optional(rank=columns.rank, score=columns.score, model=columns.model)
    both = _open("log", source, [*ids, label, *order], table.where, columns.user)
    names = [each.output for each in ids]
    truth = both.frame.select([*names, "relevance"])
    rankings = both.frame.select([*names, *(each.output for each in order)])
    return replace(both, role="truth", frame=truth), replace(both, role="rankings", frame=rankings)


def open_ratings(table: RatingsTable, given: object | None = None, *, alone: bool) -> Table:
    """True ratings, lazily; `alone` where no table of predictions is to be joined.

    Columns `user_0`, ..., `rating` and, alone, `prediction`; `item` where it is read. Raises as
    `open_truth` does.
    """
    source = _open_source("ratings", table, given, kind="qrels")
    columns = table.columns
    prediction = (columns.prediction or "prediction") if alone else None
    item = columns.item if alone else columns.item or "item"
    wanted = [
        *_groups("user", columns.user),
        *_optional(item=item, rating=columns.rating, prediction=prediction, model=columns.model),
    ]
    return _open("ratings", source, wanted, table.where, columns.user)


def open_predictions(table: PredictionsTable, given: object | None = None) -> Table:
    """Predicted ratings, lazily; raises as `open_truth` does."""
    source = _open_source("predictions", table, given, kind="qrels")
    columns = table.columns
    wanted = [
        *_ids(columns.user, columns.item),
        *_optional(prediction=columns.prediction, model=columns.model),
    ]
    return _open("predictions", source, wanted, table.where, columns.user)


def open_labels(table: LabelsTable, given: object | None = None) -> Table:
    """Scored rows with labels, lazily; raises as `open_truth` does."""
    source = _open_source("labels", table, given, kind="qrels")
    columns = table.columns
    wanted = [
        *_groups("user", columns.user),
        *_groups("session", columns.session),
        *_optional(item=columns.item, time=columns.time),
        *_optional(
            score=columns.score, label=columns.label, weight=columns.weight, model=columns.model
        ),
    ]
    opened = _open("labels", source, wanted, table.where, columns.user)
    return opened if columns.time is None else _with_times(opened, table.session_every)


_A_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _with_times(table: Table, every: str | None) -> Table:
    """Times as whole numbers; where `every` is given, sessions of a user and such a span."""
    dtype = table.frame.collect_schema()["time"]
    time, a_second = pl.col("time"), 1
    if isinstance(dtype, pl.Date):
        time, dtype = time.cast(pl.Datetime("us")), pl.Datetime("us")
    if isinstance(dtype, pl.Datetime):
        time, a_second = time.dt.epoch(dtype.time_unit), _A_SECOND[dtype.time_unit]
    frame = table.frame.with_columns(time=time.cast(pl.Int64))
    if every is None:
        return replace(table, frame=frame)
    seconds = int(every[:-1]) * {"m": 60, "h": 3600, "d": 86400}[every[-1]]
    users = [name for name in frame.collect_schema() if name.startswith("user_")]
    keys = [pl.col(name).alias(f"session_{place}") for place, name in enumerate(users)]
    span = pl.col("time").floordiv(seconds * a_second).alias(f"session_{len(users)}")
    return replace(table, frame=frame.with_columns(*keys, span))


def read_schema(
    paths: Sequence[str], format: str | None = None, given: object | None = None, *, role: str
) -> dict[str, pl.DataType]:
    """Names and types of all columns; those of CSV files are text. What `guess_columns` takes.

    Raises:
        DataError: path-not-found, no-files, unknown-format, unreadable-file.
    """
    kind: Kind = "run" if role in ("rankings", "log") else "qrels"
    source = _open_source(role, _Bare(tuple(paths), format), given, kind=kind)
    if source.scan is not None:
        merged: dict[str, pl.DataType] = {}
        for schema in reversed(source.scan.schemas):
            merged |= schema
        return {name: merged[name] for name in source.names}
    with mapped(source.at, lambda error: None):
        return dict(source.frame({}).collect_schema())


@dataclass(frozen=True, slots=True)
class _Bare:
    path: tuple[str, ...]
    format: str | None
    where: str | None = None


def _open_source(role: str, table: _Located, given: object | None, *, kind: Kind) -> _Source:
    paths = table.path
    if isinstance(given, (str, os.PathLike)):
        given = [given]
    if isinstance(given, (list, tuple)) and all(
        isinstance(each, (str, os.PathLike)) for each in given
    ):
        paths, given = tuple(os.fspath(each) for each in given), None
    if given is None:
        files = find_files(paths, table.format, role=role)
        scan = open_files(files, kind)
        return _Source(_spell_paths(paths), scan.names, scan, None, None, paths)
    frame, n_rows = open_given(given, role)
    at = describe_given(given, role)
    with mapped(at, lambda error: None):
        names = tuple(frame.collect_schema().names())
    return _Source(at, names, None, frame, n_rows, ())


def _spell_paths(paths: Sequence[str], limit: int = 3) -> str:
    more = f", ... ({len(paths)} paths)" if len(paths) > limit else ""
    return ", ".join(paths[:limit]) + more


def _groups(name: str, texts: Sequence[str]) -> list[Wanted]:
    return [Wanted(name, f"{name}_{place}", text) for place, text in enumerate(texts)]


def _versioned(source: _Source) -> tuple[str, ...]:
    """The paths as given; those of tables with the version that is read."""
    if not any(file.version for file in source.files):
        return source.paths
    return tuple(
        f"{file.path} ({file.format} version {file.version.number})" if file.version else file.path
        for file in source.files
    )


def _ids(user: Sequence[str], item: str) -> list[Wanted]:
    return [*_groups("user", user), Wanted("item", "item", item)]


def _optional(**texts: str | None) -> list[Wanted]:
    return [Wanted(key, key, text) for key, text in texts.items() if text is not None]


def _open(
    role: str, source: _Source, wanted: Sequence[Wanted], where: str | None, user: Sequence[str]
) -> Table:
    plan = plan_columns(role, wanted, where, source.names, at=source.at)
    frame = source.frame(plan.uses)
    with mapped(source.at, lambda error: None):
        schema = frame.collect_schema()
    is_list = check_columns(plan, schema)
    return Table(
        role=role,
        frame=_settle(plan, plan.apply(frame)),
        user_names=tuple(user),
        at=source.at,
        is_list=is_list,
        paths=tuple(map(masked, _versioned(source))),
        files=tuple(file.path for file in source.files),
        _parts=source.files,
        _kind=source.scan.kind if source.scan is not None else "qrels",
        _n_rows=source.n_rows,
        _used=tuple(plan.uses),
    )


def _settle(plan: Plan, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Model names as text, lists as lists."""
    schema = frame.collect_schema()
    casts = []
    for name, dtype in schema.items():
        if isinstance(dtype, pl.Array):
            casts.append(pl.col(name).cast(pl.List(dtype.inner)))
        elif name == "model" and dtype.base_type() not in _TEXT:
            casts.append(pl.col(name).cast(pl.String))
    return frame.with_columns(casts) if casts else frame
