"""The leaks of anybody's split: tables of train, validation and test, held against each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import DataError, EvalkitError, noting, raise_all, warn
from evalkit.sources import Guessing, Table, open_split, reading
from evalkit.sources.ids import as_array, plan_ids, try_seeds
from evalkit.splits._codes import Coder
from evalkit.splits._filters import LogRows
from evalkit.splits._source import BATCH, Log
from evalkit.splits._units import as_ticks, find_unit, sample_times
from evalkit.splits.leakage import Leaks, join_folds


def check_parts(
    parts: Mapping[str, object], section: SplitSection, guessing: Guessing
) -> dict[str, Any]:
    """What parts that anybody made give away, as `leakage.json` has it.

    Args:
        parts: `train`, and `validation` or `test` or both, to paths or tables in memory.
        section: which columns they have, and how nulls and times are read.
    Raises:
        DataError: what `open_split` raises, ids or times that no other part's can be compared
            with [id-kind, time-kind], nulls [null-id, null-time], an empty part [empty-part].
    """
    tables = _opened(parts, section, guessing)
    _same_times(tables)
    return join_folds([try_seeds(lambda seed: _found(tables, section, seed))])


def _opened(
    parts: Mapping[str, object], section: SplitSection, guessing: Guessing
) -> dict[str, Table]:
    problems: list[EvalkitError] = []
    tables: dict[str, Table] = {}
    for name, given in parts.items():
        with noting(problems):
            tables[name], _ = open_split(section, given, guessing)
    raise_all(problems)
    return tables


def _same_times(tables: Mapping[str, Table]) -> None:
    """Times are compared where all parts have them, and of one kind."""
    types = {name: each.frame.collect_schema().get("time") for name, each in tables.items()}
    kinds = {name: _kind(dtype) for name, dtype in types.items()}
    if None in kinds.values() and any(kinds.values()):
        lacking = ", ".join(name for name, kind in kinds.items() if kind is None)
        warn(
            "no-times",
            f"{lacking} has no time, so nobody looks at what is later than what",
            hint="--time COLUMN names it, or --set split.columns.time=...",
        )
    elif len(set(kinds.values())) > 1:
        told = ", ".join(f"{name} {dtype}" for name, dtype in types.items())
        raise DataError(
            f"times of the parts cannot be compared: {told}",
            code="time-kind",
            at=", ".join(each.at for each in tables.values()),
            hint="give all of them one type, such as whole seconds",
        )


def _kind(dtype: pl.DataType | None) -> str | None:
    """Whole numbers of any width are one kind."""
    if isinstance(dtype, pl.Datetime):
        return f"times of unit {dtype.time_unit}"
    return None if dtype is None else "whole numbers" if dtype.is_integer() else str(dtype)


def _found(tables: Mapping[str, Table], section: SplitSection, seed: int) -> dict[str, Any]:
    schemas = {name: dict(each.frame.collect_schema()) for name, each in tables.items()}
    users = [
        (name, tables[name].at, {key: dtype for key, dtype in schema.items() if key[:5] == "user_"})
        for name, schema in schemas.items()
    ]
    items = [(name, tables[name].at, {"item": schema["item"]}) for name, schema in schemas.items()]
    of_users = Coder(plan_ids("user", users, seed=seed))
    of_items = Coder(plan_ids("item", items, seed=seed))
    has_times = all("time" in schema for schema in schemas.values())
    log = Log(tables["train"], tables["train"].frame)
    unit = find_unit(log, section, sample_times(log) if has_times else np.zeros(0, np.int64))
    leaks = Leaks(unit, has_times)
    empty = []
    for name in sorted(tables, key=("validation", "test", "train").index):
        n_rows = 0
        if name == "train":
            leaks.lay()
        for batch in _batches(tables[name], (of_users, of_items), has_times, section):
            n_rows += batch.users.size
            if name == "train":
                leaks.add_train(batch, np.ones(batch.users.size, dtype=np.uint8))
            else:
                leaks.hold(name, batch.users, batch.items, batch.times)
        if not n_rows:
            empty.append(name)
            break
    if empty:
        message = f"{empty[0]} has no rows"
        hint = "each part needs rows to be compared"
        raise DataError(message, code="empty-part", at=tables[empty[0]].at, hint=hint)
    if leaks.needs_times:
        for batch in _batches(tables["train"], (of_users, of_items), has_times, section):
            leaks.add_times(batch.times, np.ones(batch.times.size, dtype=np.uint8))
    return leaks.told()


def _batches(
    table: Table, coders: Sequence[Coder], has_times: bool, section: SplitSection
) -> Iterator[LogRows]:
    of_users, of_items = coders
    columns = [*of_users.expressions("user"), *of_items.expressions("item")]
    if has_times:
        columns.append(pl.col("time"))
    needed = ["user_key", "item_key", *(["time"] if has_times else [])]
    with reading(table):
        for batch in table.stream(columns, most=BATCH):
            kept = batch.drop_nulls(needed)
            n_null = batch.height - kept.height
            if n_null and section.null_ids == "error":
                message = f"{n_null:,} rows have no user, item or time"
                hint = "--set split.null_ids=drop leaves them out"
                raise DataError(message, code="null-id", at=table.at, hint=hint)
            users, items = of_users.encode(kept, "user"), of_items.encode(kept, "item")
            times = as_array(as_ticks(kept["time"])) if has_times else np.zeros(0, np.int64)
            yield LogRows(users, items, times, of_users.n, of_items.n)
