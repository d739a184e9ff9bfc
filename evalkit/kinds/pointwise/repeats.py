"""Rows that are there twice."""

from collections.abc import Sequence

import polars as pl

from evalkit.kinds.pointwise.passes import MemoryBudget
from evalkit.sources import Table, reading

BYTES_A_ROW, BYTES_OF_A_TEXT = 110, 50  # of a group-by in which every row is a group of its own


def find_repeats(table: Table, names: Sequence[str], budget: MemoryBudget) -> dict[str | None, int]:
    """How many rows of each model have a user and columns that another one had before.

    Rows are brought together by a hash of theirs in memory: all of them, or one share after the
    other, each in a pass over the table.

    Args:
        names: of the columns beside the user's.
        budget: that the search may take, while nothing else is held.
    Returns:
        One number for None where the rows name no model.
    """
    schema = table.frame.collect_schema()
    ids = [name for name in schema if name.startswith("user_")]
    keys = [*ids, *names, *(["model"] if "model" in schema else [])]
    n_texts = sum(not (schema[key].is_numeric() or schema[key].is_temporal()) for key in keys)
    n_passes = 1
    if budget.limit is not None:
        n_passes = budget.passes(_count_rows(table), BYTES_A_ROW + n_texts * BYTES_OF_A_TEXT)
    found: dict[str | None, int] = {}
    for number in range(n_passes):
        rows = table.frame.drop_nulls(ids)
        if n_passes > 1:
            rows = rows.filter(pl.struct(keys).hash() % n_passes == number)
        for model, extra in _repeats_among(rows, keys, table):
            found[model] = found.get(model, 0) + extra
    return found if "model" in schema else {None: found.get(None, 0)}


def _repeats_among(
    rows: pl.LazyFrame, keys: Sequence[str], table: Table
) -> list[tuple[str | None, int]]:
    model = ["model"] if "model" in keys else []
    counted = rows.group_by(keys).len().filter(pl.col("len") > 1)
    extra = (pl.col("len").cast(pl.Int64) - 1).sum().alias("extra")
    found = counted.group_by(model).agg(extra) if model else counted.select(extra)
    with reading(table):
        total = found.collect(engine="streaming")
    if not model:
        return [(None, int(total.item() or 0))]
    return [(str(name), int(number)) for name, number in total.select("model", "extra").rows()]


def _count_rows(table: Table) -> int:
    hint = table.n_rows_hint()
    if hint is not None:
        return hint
    with reading(table):
        return int(table.frame.select(pl.len()).collect(engine="streaming").item())
