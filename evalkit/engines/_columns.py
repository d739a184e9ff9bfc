"""Columns of a DataFrame of Spark, by their places: Spark takes names for more than names."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import polars as pl


def by_place(frame: Any, names: Sequence[str]) -> Any:
    """Some columns of a DataFrame, in this order and named `c0`, `c7`, ... by where they stood.

    A name may hold dots and backticks, which `mapInArrow` cannot read, or differ from another one
    in capitals alone.
    """
    places = [f"c{frame.columns.index(name)}" for name in names]
    return frame.toDF(*(f"c{place}" for place in range(len(frame.columns)))).select(places)


def without_rows(frame: Any) -> pl.DataFrame:
    """No rows, of those columns of a DataFrame that one name names and that Arrow can hold."""
    from pyspark.errors import PySparkTypeError

    names = [name for name in frame.columns if frame.columns.count(name) == 1]
    with suppress(PySparkTypeError):
        return _read_nothing(frame, names)
    found = [pl.DataFrame()]
    for name in names:
        with suppress(PySparkTypeError):
            found.append(_read_nothing(frame, [name]))
    return pl.concat(found, how="horizontal")


def _read_nothing(frame: Any, names: Sequence[str]) -> pl.DataFrame:
    table = by_place(frame, names).limit(0).toArrow().rename_columns(list(names))
    return pl.DataFrame(pl.from_arrow(table))
