"""The floor: what decoding the columns costs when nothing is done with them but a sum."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from contestants import Answer, Call


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """Sums of all columns of the truth and of each model's rankings, streamed.

    Integers are widened, texts give their length in bytes, categories their number, lists the
    sum of their elements.
    """
    folders = [log / "truth", *sorted((log / "rankings").iterdir())]

    def call() -> Answer:
        for folder in folders:
            rows = pl.scan_parquet(folder / "*.parquet")
            sums = [add_up(pl.col(name), kind) for name, kind in rows.collect_schema().items()]
            rows.select(sums).collect(engine="streaming")
        return Answer({})

    return call


def add_up(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """The sum that needs every value of a column."""
    if isinstance(kind, pl.List):
        return column.list.sum().sum()
    if kind == pl.String:
        return column.str.len_bytes().cast(pl.Int64).sum()
    if kind == pl.Binary:
        return column.bin.size().cast(pl.Int64).sum()
    if kind == pl.Categorical:
        column = column.to_physical()
    return column.sum() if kind.is_float() else column.cast(pl.Int64).sum()
