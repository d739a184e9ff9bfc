"""A log that is open: its columns, and its rows in the slices that they are stored in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NoReturn

import numpy as np
import polars as pl

from evalkit.errors import BusyError
from evalkit.kernels.arrays import Ints
from evalkit.kernels.threads import one_ahead
from evalkit.sources import Table, reading

BATCH = 1 << 18  # rows at a time
GROUP = 1 << 20  # rows of a row group that is written
AT_ONCE, MOST_AT_ONCE = 1 << 20, 1 << 22  # rows of some row groups, or of a large one
MOST_FOOTERS = 1 << 12  # of files, read again with each of some row groups


@dataclass(slots=True)
class Log:
    """A log that is open, and how its rows become numbers.

    Args:
        table: columns of user, item and, where there are, time and relevance.
        whole: the same rows with all their own columns.
        unit: of times: s, ms, us or ns.
        schema: of the table; `users` are our names of its user columns.
    """

    table: Table
    whole: pl.LazyFrame
    unit: str = "s"
    n_rows: int = 0
    trusts_footers: bool = True
    train_anyway: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    _slices: list[tuple[int, int]] | None = None

    schema: dict[str, pl.DataType] = field(init=False)
    users: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.schema = dict(self.table.frame.collect_schema())
        self.users = [name for name in self.schema if name.startswith("user_")]

    def slices(self) -> list[tuple[int, int]]:
        """First rows and numbers of rows of neighbouring row groups that are read together.

        Empty where footers do not tell that row groups are in the order of time.
        """
        if not self.trusts_footers:
            return []
        if self._slices is None:
            self._slices = _slices_of(self.table)
        return self._slices

    def read(
        self, frame: pl.LazyFrame, slices: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Where each slice begins, and its rows; the next one is read while one is looked at.

        Raises:
            BusyError: the log has fewer rows than when its footers were read [input-changed].
        """

        def collect(place: tuple[int, int]) -> pl.DataFrame:
            with reading(self.table):
                return frame.slice(*place).collect(engine="streaming")

        for (begin, n_rows), rows in zip(slices, one_ahead(collect, slices), strict=True):
            if rows.height != n_rows:
                refuse_changed(self)
            yield begin, rows


def _slices_of(table: Table) -> list[tuple[int, int]]:
    extents = table.extents("time")
    in_order = all(one[2] <= other[1] for one, other in pairwise(extents))
    if not extents or not in_order or max(rows for rows, _, _ in extents) > MOST_AT_ONCE:
        return []
    slices: list[tuple[int, int]] = []
    begin = waiting = 0
    for rows, _, _ in extents:
        if waiting and waiting + rows > AT_ONCE:
            slices.append((begin, waiting))
            begin, waiting = begin + waiting, 0
        waiting += rows
    slices.append((begin, waiting))
    return slices if len(slices) * len(table.files) <= MOST_FOOTERS else []


def refuse_changed(log: Log) -> NoReturn:
    """Tell that the log changed meanwhile.

    Raises:
        BusyError: always [input-changed].
    """
    message = "the log has other rows than when it was read"
    hint = "somebody writes to it; try again when it is whole"
    raise BusyError(message, code="input-changed", at=log.table.at, hint=hint)


def batches_of(log: Log) -> Iterator[pl.DataFrame]:
    """All columns of all rows, in the order of the log."""
    slices = log.slices()
    if slices:  # as fast as a stream, and less is read ahead
        for _, rows in log.read(log.whole, slices):
            yield from rows.iter_slices(BATCH)
        return
    with reading(log.table):
        yield from replace(log.table, frame=log.whole).stream([pl.all()], most=BATCH)
