"""A config measured on Apache Spark: one shuffle by user, one partial a partition, one report."""

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from math import ceil, isqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from evalkit.config import Config, EngineSection, reads_catalogs
from evalkit.engines._around import ASKED_OF_CORE, check_around, is_here
from evalkit.engines._catalog import CatalogTable, fill_from_catalog
from evalkit.engines._columns import by_place, without_rows
from evalkit.engines._cut import CELLS, ROWS_OF_CUT, Cutter, make_loads
from evalkit.engines._global_stats import find_stats, survey_rows
from evalkit.engines._layout import LaidTable, Read, TablePart, read_of
from evalkit.engines._progress import telling
from evalkit.engines._proofs import open_errors, proof
from evalkit.engines._refusals import MOST_WHOLE, check_request, check_tables, refuse_large
from evalkit.engines._results import PartitionResults, refuse_unheld, take
from evalkit.engines._task import ROW, Task, cut_files, cut_frames, measure_rows, merge_rows
from evalkit.engines._values import values_of
from evalkit.errors import DataError, EvalkitError, MachineError, RequestError, install_hint
from evalkit.kinds import kind_named
from evalkit.metrics import pack_file
from evalkit.planning.leakage import check_splits
from evalkit.planning.partials import open_partials
from evalkit.planning.tables import Given, Tables
from evalkit.planning.work import MeasureOptions, Opened, ShareResult
from evalkit.report import Report
from evalkit.sources import Named, Piece, Table, is_spark

ROWS_OF_PARTITION = 1_500_000
PARTITIONS_OF_CORE = 3
BYTES_OF_ROW = 16  # of text, at least
MOST_COLLECTED = 64  # partials that the driver merges by itself
OF_SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
OF_ENGINE = {"master", "remote", "options"}
ON_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def run_on_spark(config: Config, work: MeasureOptions) -> Report:
    """The report of a config, with the same bytes as in one process but for its inputs and times.

    Args:
        work: `given` may hold DataFrames of Spark; what is not given is read from Parquet files.
    Raises:
        RequestError: it is wrong, or Spark cannot do it [not-on-spark].
        DataError: the data is wrong, as in one process.
        MachineError: Spark is not here [no-spark], or ended a job [spark-failed].
    """
    check_request(config, work)
    clock = work.started(None)
    kind, given = kind_named(config.kind), work.given
    with ExitStack() as stack:
        session, named = None, dict[int, CatalogTable]()
        if reads_catalogs(config):
            session = stack.enter_context(_session(config.engine, given))
            given, named = fill_from_catalog(session, config, given)
        opened = kind.open(config, _stand_ins(given, named))
        if work.opened is not None:
            work.opened(opened.all)
        read = read_of(opened)
        check_splits(read.logs, read.config)
        check_tables(read)
        refuse_unheld(read, keeps_users=bool(work.per_user))
        session = session or stack.enter_context(_session(config.engine, given))
        left, files = _left(session, opened, read, replace(work, given=given))
    work = replace(work, given=Given(), opened=None)
    folder, per_user = work.per_user_folder, work.per_user
    if folder is None or files is None:
        return kind.conclude(left, work, (), clock)
    report = kind.conclude(left, replace(work, per_user=False, per_user_folder=None), (), clock)
    values = values_of(folder, files, left.config, per_user, left.sums)
    return replace(report, per_user_values=values)


def open_catalogs(config: Config) -> Opened:
    """The tables of a config that names some of a catalog, opened as for a run.

    Raises:
        RequestError, DataError, MachineError: as `run_on_spark`, of what is seen without a row.
    """
    with _session(config.engine, Given()) as session:
        given, named = fill_from_catalog(session, config, Given())
        return kind_named(config.kind).open(config, _stand_ins(given, named))


def _left(
    session: Any, opened: Opened, read: Read, work: MeasureOptions
) -> tuple[ShareResult, Sequence[str] | None]:
    """What all users leave behind, and the files that their values went into, if they did."""
    frames = {
        number: by_place(frame, list(part.used))
        for number, part in enumerate(read.parts)
        if (frame := part.place.of(work.given)) is not None
    }
    n_partitions = read.config.engine.partitions or _count_partitions(session, read.parts, frames)
    task = replace(_task(read, work, frames, n_partitions), folder=_folder(session, read, work))
    read_with = partial(_read_with, session, read, task, frames, n_partitions)

    def cutting(parts: Sequence[int]) -> Any:
        return read_with(Cutter, CELLS, parts).repartitionById(n_partitions, "share")

    with telling(session, work.progress, n_partitions), TemporaryDirectory() as folder:
        if isinstance(opened, Tables):
            task = replace(task, known=find_stats(session, opened, task, cutting))
        task = replace(task, surveyed=survey_rows(session, task, read_with))
        own = task.measure(n_partitions + 1, {})  # nobody's: what the others must agree with
        own.write(Path(folder, "driver"))
        measured = _measured(cutting(range(len(read.parts))), task, read, n_partitions)
        for number, row in enumerate(measured):
            Path(folder, str(number)).write_bytes(row.partial)
        files = None if task.folder is None else [name for row in measured for name in row.files]
        measured.clear()  # rows of ratings are much
        sums = _merged(Path(folder), kind_named(read.config.kind).sums)
    return ShareResult(read.config, own.header.ids, read.inputs, sums, work.keep_parts), files


def _stand_ins(given: Given, named: Mapping[int, CatalogTable]) -> Given:
    """What is given with frames of no rows for DataFrames of Spark.

    Args:
        named: those of a catalog, by the identity of the DataFrame.
    """
    stood: dict[int, Named] = {}  # segments that share a table are read from it together

    def stand_in(table: Any, role: str) -> Any:
        if table is None:
            return None
        if not is_spark(table):
            message = f"{role} is in the memory of this process, and Spark reads elsewhere"
            hint = "give a DataFrame of Spark, or the path of Parquet files"
            raise RequestError(message, code="not-on-spark", at=role, hint=hint)
        if id(table) not in stood:
            empty = _without_rows(table)
            own = named.get(id(table))
            stood[id(table)] = (
                Named(empty, f"{role} (pyspark DataFrame)")
                if own is None
                else Named(empty, own.path, (own.path,), own.version)
            )
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


def _without_rows(table: Any) -> pl.DataFrame:
    from pyspark.errors import PySparkException

    try:
        return without_rows(table)
    except PySparkException as error:
        raise _failed(str(error)) from error


# ---------------------------------------------------------------- the session


@contextmanager
def _session(engine: EngineSection, given: Given) -> Iterator[Any]:
    """The session of the given DataFrames, the one that runs, or one that ends with this."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        message = f"Spark is not installed here: {error}"
        hint = install_hint("spark")
        raise RequestError(message, code="no-spark", at="[engine]", hint=hint) from error
    tables = [given.truth, given.train, given.weight, *given.rankings, *given.segments.values()]
    tables += [given.items, given.users, given.reference]
    (running, *_) = [*(each.sparkSession for each in tables if each is not None), None]  # type: ignore[attr-defined]
    running = running or SparkSession.getActiveSession()
    session = running
    try:
        session = session or new_session(SparkSession, **engine.model_dump(include=OF_ENGINE))
        with _in_own_python(session):
            yield session
    except (PySparkException, Py4JError) as error:
        raise _failed(str(error)) from error
    finally:
        if session is not None and running is None:
            session.stop()


@contextmanager
def _in_own_python(session: Any) -> Iterator[None]:
    """Executors of this machine run the Python that runs here, where nobody names another."""
    from pyspark.errors import PySparkException

    context = None
    with suppress(PySparkException, AttributeError):  # a session by Spark Connect has none
        context = session.sparkContext
    is_named = "PYSPARK_PYTHON" in os.environ
    is_named |= context is not None and context.getConf().contains("spark.pyspark.python")
    if context is None or is_named or not context.master.startswith("local"):
        yield
        return
    before, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


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
    if (remote or master or "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in (chosen | dict(options or {})).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except RuntimeError as error:
        raise _failed(str(error)) from error


def _failed(told: str) -> EvalkitError:
    """Why Spark ended a job."""
    lines = [line.strip(" \t:") for line in told.splitlines() if line.strip()]
    if "No module named 'evalkit'" in told:
        hint = "install this version of evalkit on every node, or send it: --archives env.tar.gz; "
        hint += "PYSPARK_PYTHON names the Python that executors run"
        return MachineError(
            "executors have no evalkit", code="spark-failed", at="[engine]", hint=hint
        )
    if "PACKAGE_NOT_INSTALLED" in told:
        hint = 'remote needs more: pip install "pyspark[connect]"'
        return RequestError(lines[0], code="no-spark", at="[engine]", hint=hint)
    if "JAVA_" in told:
        hint = (
            "install Java 17 or newer, and let JAVA_HOME name it; what it said is above, such as "
        )
        hint += "of options under [engine] that it does not take"
        return MachineError("Java did not start", code="spark-failed", at="[engine]", hint=hint)
    if "spark.driver.maxResultSize" in told:
        hint = 'raise it: options = { "spark.driver.maxResultSize" = "8g" } under [engine], and '
        hint += "the driver's memory; ratings and labels take some 20 bytes a row there"
        message = "what executors send is more than Spark lets the driver take"
        return MachineError(message, code="spark-failed", at="[engine]", hint=hint)
    if "stopped SparkContext" in told:
        hint = "is a Spark at the master's address? name it: master under [engine], or that of "
        hint += "spark-submit"
        message = "no session began, or it was stopped meanwhile"
        return MachineError(message, code="spark-failed", at="[engine]", hint=hint)
    named = [line for line in lines if "Error" in line or "Exception" in line]
    causes = [line for line in named if not line.endswith("awaitResult")] or named or lines
    message = f"Spark ended the job: {causes[0] if causes else 'no cause is told'}"[:500]
    hint = "the driver's log has the whole cause; where memory ran out, raise partitions"
    return MachineError(message, code="spark-failed", at="[engine]", hint=hint)


# ---------------------------------------------------------------- the job


def _task(read: Read, work: MeasureOptions, frames: Mapping[int, Any], n_partitions: int) -> Task:
    """What is done with each share, of which the driver has one more, without users."""
    kept = tuple(
        LaidTable(
            part.place,
            part.used,
            part.table.users,
            part.table.at,
            _whole(part, frames.get(number)) if part.is_whole else None,
        )
        for number, part in enumerate(read.parts)
    )
    settled = read.config.model_copy(update={"engine": EngineSection()})
    asked = (work.sample, work.per_user, work.keep_parts)
    files = {path: pack_file(path) for path in settled.metrics.files}
    return Task(settled, kept, n_partitions + 1, *asked, files=files)


def _folder(session: Any, read: Read, work: MeasureOptions) -> Path | None:
    """Where executors write values of users; None where they do not, or see no such folder.

    Raises:
        RequestError: executors do not see the files that this process sees [not-on-spark].
    """
    leaves_rows = kind_named(read.config.kind).leaves_rows(read.config, bool(work.per_user))
    folder = None if leaves_rows else work.per_user_folder
    folder = None if folder is None else folder.absolute()
    if is_here(session):
        return folder
    ends = {each for part in read.parts for each in (part.table.files[:1] + part.table.files[-1:])}
    paths = map(os.path.abspath, sorted(ends))
    is_shared = check_around(session, paths, folder, ASKED_OF_CORE * _cores(session))
    return folder if is_shared else None


def _read_with(
    session: Any,
    read: Read,
    task: Task,
    frames: Mapping[int, Any],
    n_partitions: int,
    made: Callable[..., Cutter],
    schema: str,
    parts: Sequence[int] | None = None,
) -> Any:
    """What a cutter gives of the rows of some tables, or of all, where they are read.

    Args:
        schema: of what it gives.
    """
    kept = tuple(each._replace(whole=None) for each in task.kept)
    cutter = made(kept, read.users, n_partitions, task.config.storage, proof())
    packed, pieces, found = pickle.dumps(cutter), list[tuple[int, Piece]](), []
    for number in range(len(read.parts)) if parts is None else parts:
        if read.parts[number].is_whole:
            continue
        if number in frames:
            cutting = partial(cut_frames, packed, number)
            found.append(frames[number].mapInArrow(cutting, schema))
        else:
            own = read.parts[number].table.pieces(ROWS_OF_CUT)
            pieces += [(number, piece) for piece in own]
    if pieces:
        loads = make_loads(pieces)
        cutting = partial(cut_files, pickle.dumps((cutter, loads)))
        numbers = session.range(0, len(loads), 1, len(loads))
        found.append(numbers.mapInArrow(cutting, schema))
    return reduce(lambda one, other: one.unionByName(other), found)


def _whole(part: TablePart, frame: Any | None) -> pl.DataFrame:
    """A table that every share takes whole."""
    if frame is not None:
        read = frame.limit(MOST_WHOLE + 1).toArrow().rename_columns(list(part.used))
        rows = pl.DataFrame(pl.from_arrow(read))
    else:
        pieces = part.table.pieces(MOST_WHOLE)
        read = (each for piece in pieces for each in piece.read(part.used))
        rows = pl.concat([pl.DataFrame(schema=part.used), *read])
    refuse_large(rows.height, f"{part.table.role} has", part.table.at)
    return rows.select([pl.col(name).cast(dtype) for name, dtype in part.used.items()])


def _count_partitions(session: Any, parts: Sequence[TablePart], frames: Mapping[int, Any]) -> int:
    counted = [
        frames[number].count() if number in frames else _count_rows(part.table)
        for number, part in enumerate(parts)
        if not part.is_whole
    ]
    return max(ceil(sum(counted) / ROWS_OF_PARTITION), PARTITIONS_OF_CORE * _cores(session), 1)


def _count_rows(table: Table) -> int:
    """The rows of files; where nobody has counted them, by their bytes."""
    known = table.n_rows_hint()
    if known is None:
        known = sum(map(os.path.getsize, filter(os.path.exists, table.files))) // BYTES_OF_ROW
    return known


def _cores(session: Any) -> int:
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect shows no context
        return int(session.conf.get("spark.default.parallelism", "4"))


def _measured(rows: Any, task: Task, read: Read, n_partitions: int) -> list[PartitionResults]:
    """What came of all shares; of very many, of several together.

    Raises:
        EvalkitError: what a share ended with; of several the first.
        MachineError: Spark read other rows than the files have [spark-failed].
    """
    from pyspark.sql.functions import lit, pmod

    found = rows.mapInArrow(partial(measure_rows, pickle.dumps(task)), ROW)
    leaves_rows = kind_named(task.config.kind).leaves_rows(task.config, bool(task.per_user))
    if n_partitions > MOST_COLLECTED and not leaves_rows:
        few = isqrt(n_partitions)
        found = found.repartition(few, pmod("part", lit(few))).mapInArrow(
            partial(merge_rows, task.config.kind), ROW
        )
    collected = take(found, read, keeps_users=bool(task.per_user))
    open_errors(row.partial for row in collected if row.is_error).tell()
    for part, counts in zip(
        read.parts, zip(*(row.n_rows for row in collected), strict=True), strict=True
    ):
        expected = part.table.n_rows_hint() if part.table.files and not part.is_whole else None
        if expected not in (None, sum(counts)):
            raise MachineError(
                f"executors read {sum(counts):,} rows of {part.table.role}, and its files have "
                f"{expected:,}",
                code="spark-failed",
                at=part.table.at,
                hint="they must open the same files, which nobody writes meanwhile",
            )
    return collected


def _merged(folder: Path, kind: type) -> Any:
    """The sums of all shares.

    Raises:
        MachineError: executors have another evalkit, or a share is missing [spark-failed].
    """
    try:
        return open_partials(sorted(folder.iterdir())).merged(kind).body
    except DataError as error:
        message = f"executors and driver do not agree: {error.message}"
        hint = "install the same versions of evalkit and its libraries on every node"
        raise MachineError(message, code="spark-failed", at="[engine]", hint=hint) from error
