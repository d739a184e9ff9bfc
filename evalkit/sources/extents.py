"""How many rows Parquet files hold, and least and greatest values of a column, by footers."""

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime

import polars as pl

from evalkit.errors import DataError
from evalkit.sources.paths import File

_COMPARED = (int, float, str, bytes, bool, date, datetime)
Extent = tuple[int, int, int]  # rows, least and greatest value of one row group


def read_extents(files: Sequence[File], name: str, without_nulls: Collection[str]) -> list[Extent]:
    """Rows, and the least and greatest whole number of the column `name`, of each row group.

    Args:
        without_nulls: columns that are to have none, beside this one.
    Returns:
        None at all where a footer does not say it. What they say is to be held against the rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: list[Extent] = []
    for file in files:
        if file.remote or file.format != "parquet" or file.version is not None:
            return []
        try:
            footer = pq.read_metadata(file.path)
        except (OSError, pa.ArrowException):
            return []  # whoever reads the rows tells of it
        places = {footer.schema.column(each).path: each for each in range(footer.num_columns)}
        if not places.keys() >= {name, *without_nulls}:
            return []
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            told = {each: group.column(places[each]).statistics for each in (name, *without_nulls)}
            if any(each is None or not each.has_null_count or each.null_count
                   for each in told.values()):  # fmt: skip
                return []
            if not told[name].has_min_max or not isinstance(told[name].min, int):
                return []
            found.append((group.num_rows, told[name].min, told[name].max))
    return found


def wrong_statistics(files: Sequence[File], names: Collection[str]) -> Iterator[DataError]:
    """The local Parquet files whose footers tell another least or greatest value than the rows.

    Args:
        names: the columns that are looked at, all rows of which are read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        if file.remote or file.format != "parquet" or file.version is not None:
            continue
        try:
            footer = pq.read_metadata(file.path)
        except (OSError, pa.ArrowException):
            continue  # whoever reads the rows tells of it
        paths = [footer.schema.column(place).path for place in range(footer.num_columns)]
        rows = pl.scan_parquet(file.path, glob=False, hive_partitioning=False, use_statistics=False)
        wrong: list[str] = []
        first = 0
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            told = {
                path: found
                for place, path in enumerate(paths)
                if path in names and (found := _told(group.column(place).statistics)) is not None
            }
            is_wrong = told and _differ(rows.slice(first, group.num_rows), told)
            wrong += [f"row group {number}, {name}" for name in is_wrong or ()]
            first += group.num_rows
        if wrong:
            more = ", ..." * (len(wrong) > 1)
            yield DataError(
                f"the footer tells other least or greatest values than the rows have: "
                f"{wrong[0]}{more} ({len(wrong):,} of {footer.num_row_groups:,} row groups)",
                code="wrong-statistics",
                at=file.path,
                hint="write the file again; others leave out rows by what it tells",
            )


def _told(statistics: object) -> tuple[object, object] | None:
    """Least and greatest of a column chunk, where they can be compared."""
    if statistics is None or not statistics.has_min_max:  # type: ignore[attr-defined]
        return None
    try:
        both = statistics.min, statistics.max  # type: ignore[attr-defined]
    except (NotImplementedError, OverflowError, ValueError):  # such as times after the year 9999
        return None
    return both if all(isinstance(value, _COMPARED) for value in both) else None


def _differ(rows: pl.LazyFrame, told: dict[str, tuple[object, object]]) -> list[str]:
    least = [pl.col(name).min().alias(f"least {name}") for name in told]
    most = [pl.col(name).max().alias(f"most {name}") for name in told]
    found = rows.select(*least, *most).collect(engine="streaming").row(0, named=True)
    wrong = []
    for name, (low, high) in told.items():
        is_low, is_high = found[f"least {name}"], found[f"most {name}"]
        try:
            if is_low is not None and (is_low < low or is_high > high):
                wrong.append(name)
        except TypeError:
            continue  # the types of times with zones, or of text that is kept as bytes
    return wrong
