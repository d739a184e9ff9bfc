"""The index of past runs: SQLite over the runs' directories, made anew whenever it is lost."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TypeAlias

from evalkit.errors import EvalkitError, RequestError
from evalkit.report import Report
from evalkit.report.answer import answer_of
from evalkit.report.parquet import tidy_columns
from evalkit.report.record import finite, readable
from evalkit.report.shown import as_shown
from evalkit.runs import finished, load_numbers, set_aside
from evalkit.runs.history._find import read_tags
from evalkit.runs.history._truths import name_measure, name_truth

INDEX = "history.sqlite"
VERSION = 5
WAIT_SECONDS = 30.0

Value: TypeAlias = str | int | float | bytes | None

_TABLES = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, name TEXT, run_key TEXT, started TEXT, seconds REAL,
    cpu_seconds REAL, peak_bytes INTEGER, rows_per_second REAL, profile TEXT, evalkit TEXT,
    is_fine INTEGER, n_warnings INTEGER, variables TEXT, truth TEXT, measured TEXT,
    best_model TEXT, best_metric TEXT, best_value REAL, answer TEXT);
CREATE TABLE metrics (run_id TEXT, model TEXT, metric TEXT, name TEXT, cutoff INTEGER,
    segmentation TEXT, segment TEXT, value REAL, low REAL, high REAL, std_error REAL,
    n_users INTEGER, n_undefined INTEGER);
CREATE INDEX metrics_of_run ON metrics (run_id);
CREATE TABLE comparisons (run_id TEXT, baseline TEXT, candidate TEXT, metric TEXT, delta REAL,
    std_error REAL, low REAL, high REAL, p_value REAL, p_adjusted REAL, n_users INTEGER,
    verdict TEXT);
CREATE INDEX comparisons_of_run ON comparisons (run_id);
CREATE TABLE gates (run_id TEXT, metric TEXT, model TEXT, segmentation TEXT, segment TEXT,
    kind TEXT, bound REAL, value REAL, delta REAL, low REAL, high REAL, baseline TEXT,
    baseline_run TEXT, judged_by TEXT, n_users INTEGER, outcome TEXT, fails INTEGER, message TEXT);
CREATE INDEX gates_of_run ON gates (run_id);
CREATE TABLE counts (run_id TEXT, log TEXT, model TEXT, count TEXT, number INTEGER);
CREATE INDEX counts_of_run ON counts (run_id);
CREATE TABLE tags (tag TEXT PRIMARY KEY, run_id TEXT);
"""
_SCHEMA = {each.strip() for each in _TABLES.split(";") if each.strip()}
TABLES = ("runs", "metrics", "comparisons", "gates", "counts", "tags")
_OF_A_RUN = TABLES[:-1]
_OF_METRICS = (  # columns of that table, less the run's
    *("model", "metric", "name", "cutoff", "segmentation", "segment"),
    *("value", "low", "high", "std_error", "n_users", "n_undefined"),
)
_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_STEPS_BETWEEN_SIGNALS = 100_000


@dataclass(frozen=True, slots=True)
class QueryRows:
    """What a query gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@contextmanager
def open_index(
    folder: Path, *, anew: bool = False, fresh: Report | None = None
) -> Iterator[tuple[sqlite3.Connection, int]]:
    """The index, brought up to date with the runs, and how many of these cannot be read.

    A lost or damaged index is made anew. Where the folder cannot be written it is made in
    memory.

    Raises:
        RequestError: there is no folder of runs [missing-runs].
    """
    if not folder.is_dir():
        message = "there is no folder of runs"
        raise RequestError(message, code="missing-runs", at=str(folder), hint="name it with --out")
    if anew:
        _remove(folder)
    try:
        connection, damaged = _index_in(folder, fresh)
    except (OSError, sqlite3.DatabaseError):  # read-only folder, full disk
        connection, damaged = _up_to_date(Path(":memory:"), folder, fresh)
    try:
        yield connection, damaged
    finally:
        connection.close()


def _index_in(folder: Path, fresh: Report | None) -> tuple[sqlite3.Connection, int]:
    if not _is_ours(folder):
        _remove(folder)
    try:
        return _up_to_date(folder / INDEX, folder, fresh)
    except sqlite3.DatabaseError as error:
        is_damaged = "malformed" in str(error) or "not a database" in str(error)
        if not is_damaged and not isinstance(error, sqlite3.IntegrityError):
            raise
    _remove(folder)
    return _up_to_date(folder / INDEX, folder, fresh)


_SUFFIXES = ("", "-journal", "-wal", "-shm")


def _remove(folder: Path) -> None:
    for suffix in _SUFFIXES:
        (folder / f"{INDEX}{suffix}").unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    """Whether no file of the index is a link, which would lead elsewhere."""
    return not any((folder / f"{INDEX}{suffix}").is_symlink() for suffix in _SUFFIXES)


def _up_to_date(path: Path, folder: Path, fresh: Report | None) -> tuple[sqlite3.Connection, int]:
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        schema = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master") if sql}
        if version == VERSION and schema != _SCHEMA:  # triggers and views are somebody else's
            raise sqlite3.DatabaseError("malformed: these are not the tables of an index")
        if version != VERSION:
            if schema - _SCHEMA:
                raise sqlite3.DatabaseError("malformed: these are not the tables of an index")
            for table in TABLES:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        damaged = _synchronise(connection, folder, fresh)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection, damaged


def _synchronise(connection: sqlite3.Connection, folder: Path, fresh: Report | None) -> int:
    """Add what is new, remove what is gone; the number of runs that cannot be read.

    Args:
        fresh: a run that was just written and read back, which need not be read again.
    """
    known = {run_id for (run_id,) in connection.execute("SELECT run_id FROM runs")}
    there, damaged = set(), 0
    for path, manifest in finished(folder):
        if manifest.run_id not in known:
            connection.execute("SAVEPOINT run")
            try:
                is_fresh = fresh is not None and fresh.run_id == manifest.run_id
                report = fresh if fresh and is_fresh else load_numbers(path, manifest)
                _add(connection, report, is_fine=manifest.is_fine)
            except (EvalkitError, OverflowError) as error:
                connection.execute("ROLLBACK TO run")
                set_aside(str(path), str(getattr(error, "message", error)))
                damaged += 1
                continue
            finally:
                connection.execute("RELEASE run")
        there.add(manifest.run_id)
    for run_id in known - there:
        for table in _OF_A_RUN:
            connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608
    connection.execute("DELETE FROM tags")
    _insert(connection, "tags", read_tags(folder).items())
    return damaged


def _add(connection: sqlite3.Connection, report: Report, *, is_fine: bool) -> None:
    run_id, meta = report.run_id, report.meta
    described = (report.name, report.run_key, meta.started, meta.seconds, meta.cpu_seconds)
    cost = (meta.peak_bytes, meta.rows_per_second, report.profile, report.evalkit)
    given = (report.config or {}).get("variables")
    filled = given.items() if isinstance(given, dict) else ()
    variables = json.dumps({key: value for key, value in filled if isinstance(value, str)})
    end = (int(is_fine), len(report.warnings), variables, name_truth(report), name_measure(report))
    _insert(connection, "runs", [(run_id, *described, *cost, *end, *_best(report))])
    columns = tidy_columns(report)  # of very many rows, and as they are stored
    _insert_stored(connection, "metrics", zip(repeat(run_id), *map(columns.get, _OF_METRICS)))
    _insert(
        connection,
        "comparisons",
        [
            (
                *(run_id, each.baseline, each.candidate, each.metric),
                *map(finite, (each.delta, each.std_error, each.low, each.high)),
                *map(finite, (each.p_value, each.p_adjusted)),
                *(each.n_users, each.verdict),
            )
            for each in report.comparisons
            if each.segment is None
        ],
    )
    _insert(
        connection,
        "gates",
        [
            (
                *(run_id, each.metric, each.model, each.segmentation, each.segment, each.kind),
                *map(finite, (each.bound, each.value, each.delta, each.low, each.high)),
                *(each.baseline, each.baseline_run, each.judged_by, each.n_users),
                *(each.outcome, int(each.fails), each.message),
            )
            for each in report.gates
        ],
    )
    _insert(connection, "counts", list(_counts(report)))


def _best(report: Report) -> tuple[Value, ...]:
    """The best model by the metric that decides, that metric, its value, and the sentence."""
    shown = as_shown(report)
    answer = answer_of(shown)
    model = next(iter(answer.models), None)
    found = shown.estimate(model, answer.metric, None, None) if model is not None else None
    return model, answer.metric, finite(found.value) if found else None, answer.sentence


_MODEL_COUNTS = (
    *("rows", "rows_used", "users", "users_without_ranking", "users_without_truth"),
    *("duplicates", "seen_in_train", "bad_ranks", "ties", "depth"),
)


def _counts(report: Report) -> Iterator[tuple[Value, ...]]:
    truth = report.counts.truth
    names = ("rows", "rows_used", "users", "users_without_relevant", "pairs", "in_train")
    for name in names:
        yield report.run_id, "truth", None, name, getattr(truth, name)
    for reason, number in truth.rows_dropped.items():
        yield report.run_id, "truth", None, f"rows_dropped.{reason}", number
    for model, counts in report.counts.models.items():
        for name in _MODEL_COUNTS:
            yield report.run_id, "rankings", model, name, getattr(counts, name)
        for reason, number in counts.rows_dropped.items():
            yield report.run_id, "rankings", model, f"rows_dropped.{reason}", number


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[Value, ...]]) -> None:
    _insert_stored(connection, table, (tuple(map(_storable, row)) for row in rows))


def _insert_stored(
    connection: sqlite3.Connection, table: str, rows: Iterable[tuple[Value, ...]]
) -> None:
    if listed := list(rows):
        marks = ", ".join("?" * len(listed[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", listed)  # noqa: S608


def _storable(value: Value) -> Value:
    return readable(value) if isinstance(value, str) else value


def query(folder: Path, sql: str) -> QueryRows:
    """What one SELECT finds in the `TABLES`.

    It can change nothing and open nothing else.

    Raises:
        RequestError: the SQL is wrong, or would do more than read [bad-sql].
    """
    with open_index(folder) as (connection, _):
        connection.execute("PRAGMA query_only = ON")
        connection.set_authorizer(_allow_reading)
        connection.set_progress_handler(lambda: 0, _STEPS_BETWEEN_SIGNALS)  # signals come through
        try:
            cursor = connection.execute(sql)
            rows = tuple(tuple(row) for row in cursor)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise RequestError(
                f"the query cannot run: {error}",
                code="bad-sql",
                at=sql,
                hint="one SELECT over runs, metrics, comparisons, gates, counts, tags; "
                "such as: SELECT * FROM runs",
            ) from error
        return QueryRows(tuple(each[0] for each in cursor.description or ()), rows)


def _allow_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_unsafe = action == sqlite3.SQLITE_FUNCTION and second in ("load_extension", "fts3_tokenizer")
    return sqlite3.SQLITE_OK if action in _READING and not is_unsafe else sqlite3.SQLITE_DENY


def refresh(folder: Path, fresh: Report | None = None) -> None:
    """Bring the index up to date after a run; `fresh` is what it wrote.

    Where that fails, whoever reads it next brings it up to date.
    """
    with suppress(OSError, sqlite3.Error), open_index(folder, fresh=fresh):
        pass
