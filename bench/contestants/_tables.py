"""What peers are given: columns read by Polars, under the names and in the types they ask for.

Only a log with rank and integer ids is read; a score is the rank with its sign turned.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

if TYPE_CHECKING:
    import pandas as pd

Nested: TypeAlias = dict[str, dict[str, float]]

SCORE = -pl.col("rank").cast(pl.Float64)


class Stopwatch:
    """Seconds of the stages of one call."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, stage: str) -> None:
        """Give the time since the last stop to a stage."""
        now = time.perf_counter()
        self.stages[stage] = now - self._last
        self._last = now


def read_rankings(log: Path, **columns: str | pl.Expr) -> pl.DataFrame:
    """Every row of the rankings, with these columns."""
    return pl.read_parquet(log / "rankings" / "model-1" / "*.parquet").select(**columns)


def read_truth(log: Path, **columns: str | pl.Expr) -> pl.DataFrame:
    """Every row of the truth, with these columns."""
    return pl.read_parquet(log / "truth" / "*.parquet").select(**columns)


def to_pandas(rows: pl.DataFrame) -> "pd.DataFrame":
    """The same columns in pandas, which takes their arrays over as they are."""
    import pandas as pd

    return pd.DataFrame({name: rows[name].to_numpy() for name in rows.columns})


def nest(rows: pl.DataFrame) -> Nested:
    """user -> item -> value of a frame with these three columns; users in ascending order."""
    rows = rows.sort("user")
    groups = rows.group_by("user", maintain_order=True).len()
    items, values = rows["item"].to_list(), rows["value"].to_list()
    ends = groups["len"].cum_sum().to_list()
    return {
        user: dict(zip(items[start:end], values[start:end], strict=True))
        for user, start, end in zip(groups["user"].to_list(), [0, *ends[:-1]], ends, strict=True)
    }


def read_nested(log: Path, clock: Stopwatch) -> tuple[Nested, Nested]:
    """Truth and rankings as nested dictionaries with text ids."""
    ids = {"user": pl.col("user").cast(pl.String), "item": pl.col("item").cast(pl.String)}
    truth = read_truth(log, **ids, value=pl.col("relevance").cast(pl.Int64))
    rankings = read_rankings(log, **ids, value=SCORE)
    clock.stop("load")
    return nest(truth), nest(rankings)
