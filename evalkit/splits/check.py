"""The leaks of anybody's split: tables of train, validation and test, held against each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import DataError, EvalkitError, note, raise_all, warn
from evalkit.ids import as_array, plan_ids
from evalkit.sources import Guessing, Table, open_split, reading
from evalkit.splits._log import BATCH, Coder, Log, TwoIdsShareError, as_ticks, find_unit
from evalkit.splits.leakage import Side, Sizes, find_leaks, join_folds


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
    for seed in range(1, 100):
        try:
            return join_folds([_found(tables, section, seed)])
        except TwoIdsShareError:
            continue
    raise AssertionError("no seed tells these ids apart")


def _opened(
    parts: Mapping[str, object], section: SplitSection, guessing: Guessing
) -> dict[str, Table]:
    problems: list[EvalkitError] = []
    tables: dict[str, Table] = {}
    for name, given in parts.items():
        try:
            tables[name], _ = open_split(section, given, guessing)
        except EvalkitError as error:
            note(error, problems)
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
    sides = {
        name: _read_side(name, table, (of_users, of_items), has_times, section)
        for name, table in tables.items()
    }
    empty = [name for name, side in sides.items() if not side.n]
    if empty:
        raise DataError(
            f"{' and '.join(empty)} has no rows",
            code="empty-part",
            at=", ".join(tables[name].at for name in empty),
            hint="each part needs rows to be compared",
        )
    log = Log(tables["train"], tables["train"].frame)
    unit = find_unit(log, section, sides["train"].times)
    return find_leaks(sides, Sizes(of_users.n, of_items.n, unit))


def _read_side(
    name: str, table: Table, coders: Sequence[Coder], has_times: bool, section: SplitSection
) -> Side:
    of_users, of_items = coders
    columns = [*of_users.expressions("user"), *of_items.expressions("item")]
    if has_times:
        columns.append(pl.col("time"))
    needed = ["user_key", "item_key", *(["time"] if has_times else [])]
    users, items, times = [], [], []
    with reading(table):
        for batch in table.stream(columns, most=BATCH):
            n_null = batch.height - batch.drop_nulls(needed).height
            if n_null and section.null_ids == "error":
                raise DataError(
                    f"{n_null:,} rows have no user, item or time",
                    code="null-id",
                    at=table.at,
                    hint="--set split.null_ids=drop leaves them out",
                )
            kept = batch.drop_nulls(needed)
            users.append(of_users.encode(kept, "user"))
            items.append(of_items.encode(kept, "item"))
            if has_times:
                times.append(as_array(as_ticks(kept["time"])))
    none = np.zeros(0, dtype=np.int32)
    return Side(
        np.concatenate(users) if users else none,
        np.concatenate(items) if items else none,
        np.concatenate(times) if times else none.astype(np.int64),
    )
