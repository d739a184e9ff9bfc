"""A config measured on Apache Spark: one shuffle by user, one partial a partition, one report."""

import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, reduce
from math import ceil, isqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from evalkit.config import Config, EngineSection, reads_catalogs
from evalkit.engines._catalog import fill_from_catalog
from evalkit.engines._known import find_known
from evalkit.engines._layout import PART, Kept, Part, Read, assign_slots, read_of, type_of_ids
from evalkit.engines._refusals import MOST_WHOLE, check_request, check_tables, refuse_large
from evalkit.engines._task import ROW, Task, measure_rows, merge_rows
from evalkit.errors import (
    DataError,
    EvalkitError,
    MachineError,
    RequestError,
    install_hint,
)
from evalkit.ids import IdPlan
from evalkit.kinds import kind_named
from evalkit.partials import open_partials
from evalkit.planning.leakage import check_splits
from evalkit.planning.tables import Given, Tables
from evalkit.planning.work import Left, Opened, Work
from evalkit.report import Report
from evalkit.sources import Named, is_spark

ROWS_OF_PARTITION = 1_500_000
PARTITIONS_OF_CORE = 3
MOST_COLLECTED = 64  # partials that the driver merges by itself
OF_SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
OF_ENGINE = {"master", "remote", "options"}
ON_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def run_on_spark(config: Config, work: Work) -> Report:
    """The report of a config, with the same bytes as in one process but for its inputs and times.

    Args:
        work: `given` may hold DataFrames of Spark; what is not given is read from Parquet files.
    Raises:
        RequestError: it is wrong, or Spark cannot do it [not-on-spark].
        DataError: the data is wrong, as in one process.
        MachineError: Spark is not here [no-spark], or ended a job [spark-failed].
    """
    check_request(config, work)
    clock = work.clock()
    clock.start()
    kind, given = kind_named(config.kind), work.given
    with ExitStack() as stack:
        session, paths = None, dict[int, str]()
        if reads_catalogs(config):
            session = stack.enter_context(_session(config.engine, given))
            given, paths = fill_from_catalog(session, config, given)
        opened = kind.open(config, _stand_ins(given, paths))
        if work.opened is not None:
            work.opened(opened.all)
        read = read_of(opened)
        check_splits(read.logs, read.config)
        check_tables(read)
        session = session or stack.enter_context(_session(config.engine, given))
        left = _left(session, opened, read, replace(work, given=given))
    return kind.conclude(left, replace(work, given=Given(), opened=None), (), clock)


def _left(session: Any, opened: Opened, read: Read, work: Work) -> Left:
    """What all users leave behind."""
    task, rows, n_partitions = _plan(session, read, work)
    if isinstance(opened, Tables):
        task = replace(task, known=find_known(opened, task, rows))
    with TemporaryDirectory() as folder:
        own = task.measure(n_partitions + 1, None)  # nobody's: what the others must agree with
        own.write(Path(folder, "driver"))
        for number, content in enumerate(_measured(rows, task, read.parts, n_partitions)):
            Path(folder, str(number)).write_bytes(content)
        sums = _merged(Path(folder), kind_named(read.config.kind).sums)
    return Left(read.config, own.header.ids, read.inputs, sums, work.keep_parts)


def _stand_ins(given: Given, paths: Mapping[int, str]) -> Given:
    """What is given with frames of no rows for DataFrames of Spark.

    Args:
        paths: of those of a catalog, by the identity of the DataFrame.
    """
    stood: dict[int, Named] = {}  # segments that share a table are read from it together

    def stand_in(table: Any, role: str) -> Any:
        if table is None:
            return None
        if not is_spark(table):
            raise RequestError(
                f"{role} is in the memory of this process, and Spark reads elsewhere",
                code="not-on-spark",
                at=role,
                hint="give a DataFrame of Spark, or the path of Parquet files",
            )
        if id(table) not in stood:
            empty = pl.from_arrow(table.limit(0).toArrow())
            assert isinstance(empty, pl.DataFrame)
            path = paths.get(id(table))
            at = f"{role} (pyspark DataFrame)" if path is None else path
            stood[id(table)] = Named(empty, at, () if path is None else (path,))
        return stood[id(table)]

    return replace(
        given,
        truth=stand_in(given.truth, "truth"),
        rankings=[stand_in(each, "rankings") for each in given.rankings],
        train=stand_in(given.train, "train"),
        segments={name: stand_in(each, "segments") for name, each in given.segments.items()},
        weight=stand_in(given.weight, "weight"),
        items=stand_in(given.items, "items"),
        users=stand_in(given.users, "users"),
        reference=stand_in(given.reference, "reference"),
        earlier={place: stand_in(each, "earlier") for place, each in given.earlier.items()},
    )


# ---------------------------------------------------------------- the session


@contextmanager
def _session(engine: EngineSection, given: Given) -> Iterator[Any]:
    """The session of the given DataFrames, the one that runs, or one that ends with this."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise RequestError(
            f"Spark is not installed here: {error}",
            code="no-spark",
            at="[engine]",
            hint=install_hint("spark"),
        ) from error
    tables = [given.truth, given.train, given.weight, *given.rankings, *given.segments.values()]
    tables += [given.items, given.users, given.reference]
    (running, *_) = [*(each.sparkSession for each in tables if each is not None), None]  # type: ignore[attr-defined]
    running = running or SparkSession.getActiveSession()
    session = running
    try:
        session = session or new_session(SparkSession, **engine.model_dump(include=OF_ENGINE))
        yield session
    except PySparkException as error:
        raise _failed(str(error)) from error
    finally:
        if session is not None and running is None:
            session.stop()


def new_session(
    kind: Any,
    master: str | None = None,
    remote: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """A session as `[engine]` asks for it; `kind` is pyspark's class."""
    chosen = dict(OF_SESSION)
    builder = kind.builder.appName("evalkit")
    if remote is not None:
        builder = builder.remote(remote)
        chosen = {name: each for name, each in chosen.items() if name.startswith("spark.sql.")}
    elif master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            chosen |= ON_LOOPBACK
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in (chosen | dict(options or {})).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except RuntimeError as error:
        raise _failed(str(error)) from error


def _failed(told: str) -> EvalkitError:
    """Why Spark ended a job."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    if "No module named 'evalkit'" in told:
        hint = "install this version of evalkit on every node, or send it: --archives env.tar.gz"
        return MachineError(
            "executors have no evalkit", code="spark-failed", at="[engine]", hint=hint
        )
    if "PACKAGE_NOT_INSTALLED" in told:
        hint = 'remote needs more: pip install "pyspark[connect]"'
        return RequestError(lines[0], code="no-spark", at="[engine]", hint=hint)
    if "JAVA_" in told:
        hint = "install Java 17 or newer, and let JAVA_HOME name it"
        return MachineError("Java did not start", code="spark-failed", at="[engine]", hint=hint)
    causes = [line for line in lines if "Error" in line or "Exception" in line] or lines
    return MachineError(
        f"Spark ended the job: {causes[0] if causes else 'no cause is told'}"[:500],
        code="spark-failed",
        at="[engine]",
        hint="the driver's log has the whole cause; where memory ran out, raise partitions",
    )


# ---------------------------------------------------------------- the job


def _plan(session: Any, read: Read, work: Work) -> tuple[Task, Any, int]:
    """The task of each share, the rows of all tables by share, and how many shares there are."""
    parts = read.parts
    frames = [each.place.of(work.given) for each in parts]
    frames = [
        session.read.parquet(*part.table.files) if frame is None else frame
        for part, frame in zip(parts, frames, strict=True)
    ]
    frames = [
        frame.select([_column(name) for name in part.used])
        for part, frame in zip(parts, frames, strict=True)
    ]
    n_partitions = read.config.engine.partitions or _count_partitions(session, parts, frames)
    kept, chosen, keys = [], [], []
    for number, (part, frame) in enumerate(zip(parts, frames, strict=True)):
        types = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
        slots = assign_slots([*part.used], types)
        columns = {name: (slots[name], dtype) for name, dtype in part.used.items()}
        whole = _whole(part, frame) if part.is_whole else None
        kept.append(Kept(part.place, columns, part.table.at, whole))
        if whole is None:
            chosen.append(_tagged(number, frame, slots))
            keys.append((number, [slots[name] for name in part.table.user_names]))
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), chosen)
    rows = rows.repartition(n_partitions, *_keys(keys, read.users))
    settled = read.config.model_copy(update={"engine": EngineSection()})
    asked = (work.sample, work.keep_users, work.keep_parts)
    task = Task(settled, tuple(kept), n_partitions + 1, *asked)
    return task, rows, n_partitions


def _column(name: str) -> Any:
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def _tagged(number: int, frame: Any, slots: dict[str, str]) -> Any:
    from pyspark.sql.functions import lit

    named = [_column(name).alias(slot) for name, slot in slots.items()]
    return frame.select(lit(number).cast("int").alias(PART), *named)


def _keys(keys: Sequence[tuple[int, list[str]]], users: IdPlan) -> list[Any]:
    """The users of all tables as columns of one type each, so that equal ones come together."""
    from pyspark.sql.functions import coalesce, when

    found = []
    for place, dtype in enumerate(users.dtypes):
        slots: dict[str, list[int]] = {}
        for number, names in keys:
            slots.setdefault(names[place], []).append(number)
        if len(slots) == 1:
            found.append(_column(next(iter(slots))))
            continue
        kind = type_of_ids(dtype)
        parts = [
            when(_column(PART).isin(numbers), _column(slot).cast(kind))
            for slot, numbers in slots.items()
        ]
        found.append(coalesce(*parts))
    return found


def _whole(part: Part, frame: Any) -> pl.DataFrame:
    """A table that every share takes whole."""
    rows = pl.from_arrow(frame.limit(MOST_WHOLE + 1).toArrow())
    assert isinstance(rows, pl.DataFrame)
    refuse_large(rows.height, f"{part.table.role} has", part.table.at)
    return rows.select([pl.col(name).cast(dtype) for name, dtype in part.used.items()])


def _count_partitions(session: Any, parts: Sequence[Part], frames: Sequence[Any]) -> int:
    counted = [
        (part.table.n_rows_hint() if part.table.files else None) or frame.count()
        for part, frame in zip(parts, frames, strict=True)
        if not part.is_whole
    ]
    return max(ceil(sum(counted) / ROWS_OF_PARTITION), PARTITIONS_OF_CORE * _cores(session), 1)


def _cores(session: Any) -> int:
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect shows no context
        return int(session.conf.get("spark.default.parallelism", "4"))


def _measured(rows: Any, task: Task, parts: Sequence[Part], n_partitions: int) -> list[bytes]:
    """The partials of all shares; of very many, those of several together.

    Raises:
        EvalkitError: what a share ended with; of several the first.
        MachineError: Spark read other rows than the files have [spark-failed].
    """
    from pyspark.sql.functions import lit, pmod

    found = rows.mapInArrow(partial(measure_rows, pickle.dumps(task)), ROW)
    if n_partitions > MOST_COLLECTED:
        few = isqrt(n_partitions)
        found = found.repartition(few, pmod(PART, lit(few))).mapInArrow(
            partial(merge_rows, task.config.kind), ROW
        )
    collected = found.collect()
    errors = [pickle.loads(bytes(row.partial)) for row in collected if row.is_error]  # noqa: S301
    if errors:
        raise min(errors, key=str)
    for part, counts in zip(
        parts, zip(*(row.n_rows for row in collected), strict=True), strict=True
    ):
        expected = part.table.n_rows_hint() if part.table.files and not part.is_whole else None
        if expected not in (None, sum(counts)):
            raise MachineError(
                f"Spark read {sum(counts):,} rows of {part.table.role}, and its files have "
                f"{expected:,}",
                code="spark-failed",
                at=part.table.at,
                hint="Spark passes over files whose names begin with _ or ., and reads *?[]{} as "
                "patterns: give them other names",
            )
    return [bytes(row.partial) for row in collected]


def _merged(folder: Path, kind: type) -> Any:
    """The sums of all shares.

    Raises:
        MachineError: executors have another evalkit, or a share is missing [spark-failed].
    """
    try:
        return open_partials(sorted(folder.iterdir())).merged(kind).body
    except DataError as error:
        raise MachineError(
            f"executors and driver do not agree: {error.message}",
            code="spark-failed",
            at="[engine]",
            hint="install the same versions of evalkit and its libraries on every node",
        ) from error
