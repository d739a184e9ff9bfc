"""Rows that are there twice."""

from collections.abc import Sequence

import polars as pl

from evalkit.sources import Table, reading


def find_repeats(table: Table, names: Sequence[str]) -> dict[str | None, int]:
    """How many rows of each model have a user and columns that another one had before.

    Args:
        names: of the columns beside the user's.
    Returns:
        One number for None where the rows name no model.
    """
    schema = table.frame.collect_schema()
    ids = [name for name in schema if name.startswith("user_")]
    model = ["model"] if "model" in schema else []
    with reading(table):
        counted = table.frame.group_by([*ids, *names, *model]).len().filter(pl.col("len") > 1)
        extra = (pl.col("len").cast(pl.Int64) - 1).sum().alias("extra")
        found = counted.group_by(model).agg(extra) if model else counted.select(extra)
        rows = found.collect(engine="streaming")
    if not model:
        return {None: int(rows.item() or 0)}
    return {str(name): int(number) for name, number in rows.select("model", "extra").rows()}
