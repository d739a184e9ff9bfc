"""The unit of times: as their type says, as the rule says, or by their size."""

import numpy as np
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import warn
from evalkit.kernels.arrays import Ints
from evalkit.sources import reading, refuse_dates
from evalkit.sources.ids import as_array
from evalkit.splits._source import BATCH, Log

_UNITS = {"ms": "ms", "us": "us", "ns": "ns"}


def as_ticks(times: pl.Series) -> pl.Series:
    """Times as whole numbers of the log's unit."""
    if times.dtype == pl.Date:
        return times.cast(pl.Int64) * 86400
    return times.to_physical().cast(pl.Int64)


def sample_times(log: Log) -> Ints:
    """Times of some rows, where their unit is to be told by their size."""
    none = np.zeros(0, dtype=np.int64)
    if not log.schema["time"].is_integer():
        return none
    step = max(1, (log.table.n_rows_hint() or 0) // 100_000)
    with reading(log.table):
        found = [
            as_array(as_ticks(batch["time"].gather_every(step).drop_nulls()))
            for batch in log.table.stream([pl.col("time")], most=BATCH)
        ]
    return np.concatenate([none, *found])


def find_unit(log: Log, rule: SplitSection, times: Ints) -> str:
    """The unit of the log's times: as its type says, as the rule says, or by their size.

    Raises:
        DataError: dates as whole numbers, where spans or moments are asked for [bad-time].
    """
    dtype = log.schema.get("time")
    if isinstance(dtype, pl.Datetime):
        return _UNITS[dtype.time_unit]
    if dtype == pl.Date or dtype is None:
        return "s"
    if rule.time_unit != "auto":
        return rule.time_unit
    if not times.size:
        return "s"
    sample = times[:: max(1, times.size // 100_000)]
    if isinstance(rule.test, str) or isinstance(rule.validation, str):
        refuse_dates(pl.Series(sample), log.table.columns["time"], log.table.at)
    low, middle, high = (int(each) for each in np.quantile(sample, [0.01, 0.5, 0.99]))
    if low > 0 and unit_of(low) != unit_of(high):
        warn(
            "mixed-times",
            f"1 % of times are at most {low}, 1 % are {high} or more: two units in one column",
            at=log.table.at,
            hint='bring them to one unit, or say time_unit = "s" under [split]',
        )
    return unit_of(middle)


def unit_of(time: int) -> str:
    size = abs(time)
    limits = (("s", 10**11), ("ms", 10**14), ("us", 10**17))
    return next((unit for unit, limit in limits if size < limit), "ns")


def spell_time(moment: int, dtype: pl.DataType, unit: str) -> str:
    """A time of a log, as its column shows it."""
    if dtype.is_integer():
        return str(moment)
    value = pl.Series([moment], dtype=pl.Int64)
    if unit == "s":
        value, unit = value * 1_000_000, "us"
    shown = value.cast(pl.Datetime(unit))  # type: ignore[arg-type]
    if dtype == pl.Date:
        return str(shown.dt.date()[0])
    return str(shown.dt.strftime("%Y-%m-%d %H:%M:%S%.f")[0])
