"""evalkit with intervals, three segmentations of the users and a comparison of two models."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from contestants import Call
from contestants.evalkit_call import prepare as prepare_call


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """As `evalkit_call`, with a table of users whose columns make the segments."""
    users = pl.scan_parquet(log / "truth" / "*.parquet").select("user").unique().sort("user")
    place = pl.int_range(pl.len())
    table = users.with_columns(
        age=(place % 5).cast(pl.String), country=(place % 12).cast(pl.String), score=place % 1000
    ).collect()
    path = log / "users.parquet"
    table.write_parquet(path)
    rules = {"age": {}, "country": {}, "score": {"quantiles": 4}}
    segments = {name: {"path": str(path), "by": name, **more} for name, more in rules.items()}
    models = sorted(each.name for each in (log / "rankings").iterdir())
    statistics = {"baseline": models[0]}
    return prepare_call(log, labels, threads, segments=segments, statistics=statistics)
