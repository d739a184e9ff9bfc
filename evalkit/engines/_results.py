"""What the driver takes from executors; of ratings and labels all rows, if it can hold them."""

from typing import Any, NamedTuple

from evalkit.engines._layout import Read
from evalkit.errors import RequestError
from evalkit.kernels.memory import default_limit
from evalkit.kinds import kind_named

BYTES_OF_ROW, BYTES_OF_TEXT_ROW = 48, 96  # in the driver, while rows are put in order
UNPACKED = 5  # times what a partial of rows takes on its way, at most


def refuse_unheld(read: Read, *, keeps_users: bool) -> None:
    """Refuse ratings or labels whose files have more rows than the driver holds.

    Tables of which only some rows are read are looked at as their rows come.

    Raises:
        RequestError: they are too many [not-on-spark].
    """
    if not kind_named(read.config.kind).leaves_rows(read.config, keeps_users):
        return
    hints = [each.n_rows_hint() or 0 for each in read.logs if each.has_all_rows]
    bytes_of_row = BYTES_OF_TEXT_ROW if read.users.hashed else BYTES_OF_ROW
    _refuse(sum(hints) * bytes_of_row, f"{sum(hints):,} rows of {read.logs[0].role}", read)


class PartitionResults(NamedTuple):
    """What came of a partition, as `ROW` names it."""

    part: int
    is_error: bool
    n_rows: list[int]
    files: list[str]
    partial: bytes


def take(found: Any, read: Read, *, keeps_users: bool) -> list[PartitionResults]:
    """What executors made of their partitions.

    Raises:
        RequestError: rows of ratings or labels are more than the driver holds [not-on-spark].
    """
    table = found.toArrow()  # other ways would pickle them, in ten times their size
    if kind_named(read.config.kind).leaves_rows(read.config, keeps_users):
        _refuse(UNPACKED * table.nbytes, f"the rows of {read.logs[0].role}", read)
    return [PartitionResults(**row) for row in table.to_pylist()]


def _refuse(needed: int, what: str, read: Read) -> None:
    limit = default_limit()
    if needed > limit:
        raise RequestError(
            f"{what} are put in order by the driver, which takes about {needed >> 20:,} MiB of "
            f"the {limit >> 20:,} MiB that it may take",
            code="not-on-spark",
            at=read.logs[0].at,
            hint="give it more memory, or write the rows to files and measure them in passes: "
            "--engine local, with --memory-limit",
        )
