"""Times: in zones that have no name, as whole numbers, in sessions."""

import os
import re
from collections.abc import Mapping

import polars as pl

from evalkit.errors import DataError

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


_A_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


_DATES = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # by the digits
_SECONDS = range(-62_135_596_800, 253_402_300_800)  # of the years 1 to 9999


def newest_second(frame: pl.LazyFrame, column: object, at: str) -> int | None:
    """The newest time of some rows, in whole seconds since 1970 in UTC; None where none has any.

    Args:
        column: what `time` is read from, for hints.
    Raises:
        DataError: numbers that are no seconds [bad-time].
    """
    dtype = frame.collect_schema()["time"]
    time, a_second = _whole_times(dtype)
    ends = frame.select(oldest=time.min(), newest=time.max()).collect(engine="streaming")
    newest: int | None = ends["newest"].item()
    if dtype.is_integer():
        refuse_dates(pl.Series([ends["oldest"].item(), newest]), column, at)
    seconds = newest if newest is None else newest // a_second
    if seconds is not None and seconds not in _SECONDS:
        message = f"times reach {newest:,}, which are no seconds of any year until 9999"
        hint = f'if they are milliseconds: time = "cast({column} / 1000 as bigint)"'
        raise DataError(message, code="bad-time", at=at, hint=hint)
    return seconds


def form_of_dates(times: pl.Series) -> str | None:
    """How `strptime` reads whole numbers that are dates, as 20260131; None where some are not."""
    texts = times.drop_nulls().cast(pl.String)
    form = _DATES.get(len(texts[0])) if texts.len() else None
    if form is None:
        return None
    years = texts.str.to_datetime(form, strict=False).dt.year()
    return form if years.is_between(1900, 2100).fill_null(value=False).all() else None


def refuse_dates(times: pl.Series, column: object, at: str) -> None:
    """Refuses whole numbers that would be taken for seconds of 1970, and are dates.

    Raises:
        DataError: every one is spelt as a date [bad-time].
    """
    form = form_of_dates(times)
    if form is not None:
        message = f"times such as {times.drop_nulls()[0]} are dates, not seconds since 1970"
        hint = f"write time = \"strptime(cast({column} as varchar), '{form}')\""
        raise DataError(message, code="bad-time", at=at, hint=hint)


def _whole_times(dtype: pl.DataType) -> tuple[pl.Expr, int]:
    """Times as whole numbers, and how many of these are a second."""
    time, a_second = pl.col("time"), 1
    if isinstance(dtype, pl.Date):
        time, dtype = time.cast(pl.Datetime("us")), pl.Datetime("us")
    if isinstance(dtype, pl.Datetime):
        time, a_second = time.dt.epoch(dtype.time_unit), _A_SECOND[dtype.time_unit]
    return time.cast(pl.Int64), a_second


def with_times(frame: pl.LazyFrame, every: str | None) -> pl.LazyFrame:
    """Times as whole numbers; where `every` is given, sessions of a user and such a span."""
    time, a_second = _whole_times(frame.collect_schema()["time"])
    frame = frame.with_columns(time=time)
    if every is None:
        return frame
    seconds = int(every[:-1]) * {"m": 60, "h": 3600, "d": 86400}[every[-1]]
    users = [name for name in frame.collect_schema() if name.startswith("user_")]
    keys = [pl.col(name).alias(f"session_{place}") for place, name in enumerate(users)]
    span = pl.col("time").floordiv(seconds * a_second).alias(f"session_{len(users)}")
    return frame.with_columns(*keys, span)
