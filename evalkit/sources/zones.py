"""Times in zones that have no name, as `+05:30` and `Z`: the same moments in UTC."""

import os
import re
from collections.abc import Mapping

import polars as pl

# Polars takes a file with such a zone for damaged, wherever the column stands, unless told so
os.environ.setdefault("POLARS_IGNORE_TIMEZONE_PARSE_ERROR", "1")

_OFFSET = re.compile(r"Z|[+-]\d{2}:?\d{2}")


def in_utc(types: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The same types, those of times in zones that are no names, as `+05:30`, in UTC."""
    return {
        name: pl.Datetime(dtype.time_unit, "UTC")
        if isinstance(dtype, pl.Datetime) and _OFFSET.fullmatch(dtype.time_zone or "")
        else dtype
        for name, dtype in types.items()
    }


def times_in_utc(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The rows, times of such zones in UTC."""
    types = dict(frame.collect_schema())
    casts = [
        pl.col(name).cast(dtype) for name, dtype in in_utc(types).items() if dtype != types[name]
    ]
    return frame.with_columns(casts) if casts else frame
