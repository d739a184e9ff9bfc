"""What does not work on Spark: refused by name, all of it at once, before a job starts."""

import re
from collections.abc import Iterator

from evalkit.aggregate.user_values.gather import rules_of
from evalkit.config import Config
from evalkit.engines._layout import Read
from evalkit.errors import EvalkitError, RequestError, raise_all
from evalkit.kinds import kind_named
from evalkit.kinds.rankings.kind import RankingTask
from evalkit.planning.tables import Tables
from evalkit.planning.work import GlobalStats, MeasureOptions

MOST_WHOLE = 5_000_000  # items that every share takes
INSTEAD = {
    'test = "wilcoxon"': 'test by sums: "t", or "permutation"',
    "per_user": "write runs into a folder that executors share with this process",
}
IN_PROCESS = "measure in this process: --engine local"
HERE = f"leave it out, or {IN_PROCESS}"
MASTER = 'write master = "local[*]" under [engine], or spark://host:7077, k8s://host or yarn'
_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(, ?\d+)?\]|-cluster\[.+\])?|(spark|k8s)://.+|yarn")
ORDERED = "name the column that says their order, columns.order of this table, or give files"


def check_request(config: Config, work: MeasureOptions) -> None:
    """Refuse what can be seen before a table is opened.

    Raises:
        RequestError: all that does not work on Spark [not-on-spark].
    """
    refused = [_refusal(what, at) for what, at in _of_request(config, work)]
    master = config.engine.master
    if master is not None and not _MASTER.fullmatch(master):
        at = config.at("engine", "master")
        refused.append(_refusal(f"{master!r} is named as master", at, MASTER))
    raise_all(refused)


def check_tables(read: Read) -> None:
    """Refuse what hangs on how tables are written.

    Raises:
        RequestError: all that does not work on Spark [not-on-spark].
    """
    ordered = [_refusal(what, at, ORDERED) for what, at in _of_order(read)]
    raise_all([*(_refusal(what, at) for what, at in _of_parts(read)), *ordered])


def refuse_large(n_rows: int, what: str, at: str) -> None:
    """Refuse a table that every share would take whole.

    Args:
        what: has so many rows, `items has`.
    Raises:
        RequestError: they are too many [not-on-spark].
    """
    if n_rows > MOST_WHOLE:
        message = f"{what} more than {MOST_WHOLE:,} items, and every share needs all"
        hint = f"give it fewer items, or {IN_PROCESS}"
        raise RequestError(message, code="not-on-spark", at=at, hint=hint)


def refuse_many(task: RankingTask, tables: Tables, known: GlobalStats, most: int) -> None:
    """Refuse more numbers of single users than the driver takes.

    Raises:
        RequestError: they are too many [not-on-spark].
    """
    sample = task.options.sample
    n_users = round(known.n_users * (1.0 if sample is None else sample))
    named = sum(len(each) for each in known.models.values())
    n_models = named + sum(number not in known.models for number in range(len(tables.rankings)))
    for what, n_numbers in task.numbers_of_user(n_models).items():
        if n_numbers * n_users > most:
            raise RequestError(
                f"{what} takes {n_numbers:,} numbers of each of {n_users:,} users to the driver, "
                f"which takes {most:,} in all",
                code="not-on-spark",
                at="[engine]",
                hint='raise it by options = { "spark.driver.maxResultSize" = "8g" } under '
                f"[engine], and the driver's memory, or {INSTEAD.get(what, HERE)}",
            )


def _refusal(what: str, at: str, hint: str = HERE) -> EvalkitError:
    return RequestError(f"{what}, which Spark cannot do", code="not-on-spark", at=at, hint=hint)


def _of_request(config: Config, work: MeasureOptions) -> Iterator[tuple[str, str]]:
    if config.engine.master and config.engine.remote:
        yield "master and remote are both named", config.at("engine", "remote")
    if work.memory_limit is not None:
        yield "a limit of memory is held", "--memory-limit"
    if not kind_named(config.kind).on_spark:
        yield f"{config.kind} are measured", config.at(config.kind)
    if config.kind == "rankings":
        yield from _of_rankings(config)


def _of_rankings(config: Config) -> Iterator[tuple[str, str]]:
    for request in config.requests:
        values = dict(request.parameters)
        if values.get("head") == "first":
            yield (
                f"{request.label} looks at the order of all of train",
                config.at("metrics", "names"),
            )


def _of_parts(read: Read) -> Iterator[tuple[str, str]]:
    for part in read.parts:
        table, name = part.table, part.table.role
        for column, dtype in part.used.items():
            if not table.files and "time_unit='ns'" in str(dtype):
                yield f"{name} has nanoseconds in {column}", table.at


def _of_order(read: Read) -> Iterator[tuple[str, str]]:
    """What looks at the order of rows, which files have; DataFrames where a column says it."""
    config = read.config
    for table in read.logs:
        if table.files or table.made is not None or "order" in table.columns:
            continue
        for request in config.requests:
            if table.role == "train" and dict(request.parameters).get("history") == "weighted":
                yield f"{request.label} looks at the order of rows", table.at
        if table.role == "truth" and config.policies.truth_duplicates == "last":
            yield "the last row of a pair of the truth stays", table.at
        if table.role != "rankings":
            continue
        schema = table.frame.collect_schema()
        has = {"has_rank": "rank" in schema, "has_score": "score" in schema}
        if not table.is_list and not any(has.values()):
            yield f"{table.role} are in the order of their rows", table.at
        for request in config.requests:
            rules = rules_of(request, config.policies, **has)
            if rules.ties == "input" or rules.ties.startswith("numba"):
                yield f'ties = "{rules.ties}" looks at the order of rows', table.at
            if rules.duplicates in ("first", "last"):
                yield f'duplicates = "{rules.duplicates}" looks at the order of rows', table.at
