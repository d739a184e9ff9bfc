"""How many rows Parquet files hold, and least and greatest values of a column, by footers."""

from collections.abc import Collection, Sequence

from evalkit.sources.paths import File

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
