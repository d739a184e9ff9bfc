"""Rows of the training log by share of the users, on disk between passes over the logs."""

from collections.abc import Iterator
from contextlib import suppress
from shutil import disk_usage
from tempfile import TemporaryFile, gettempdir
from typing import Any

import numpy as np
import polars as pl

from evalkit.errors import MachineError
from evalkit.kernels import kernel
from evalkit.sources import Table
from evalkit.sources.ids import ITEM_KEY, USER_KEY, IdPlan, as_keys, share_of_pass

ROWS_TOGETHER = 1 << 17
ROW = 16  # bytes
SPARED = 4  # times as much is free on the disk, or nothing is written


@kernel(allocates=False)
def sort_by_share(users, items, ends, rows):  # type: ignore[no-untyped-def]
    """Write keys side by side into `rows`, by share; `ends`, zeros, becomes where each ends."""
    for row in range(users.size):
        ends[share_of_pass(users[row], ends.size)] += 1
    begin = np.int64(0)
    for share in range(ends.size):
        ends[share], begin = begin, begin + ends[share]
    for row in range(users.size):
        share = share_of_pass(users[row], ends.size)
        rows[2 * ends[share]] = users[row]
        rows[2 * ends[share] + 1] = items[row]
        ends[share] += 1


class SeenRows:
    """Keys of users and items, by `PassShare`; they have no name on the disk and end with the run.

    Args:
        n_shares: passes over the logs.
    """

    def __init__(self, n_shares: int) -> None:
        self.n_shares, self.is_whole = n_shares, False
        self._n_rows = np.zeros(n_shares, dtype=np.int64)
        self._files: list[Any] | None = []  # None: there is no room

    @classmethod
    def of(cls, table: Table | None, plans: tuple[IdPlan, IdPlan], n: int) -> "SeenRows | None":
        """Room for the rows of a log in so many passes; None where it is read in each of them."""
        n_rows = None if table is None else table.n_rows_hint()
        if n == 1 or n_rows is None or any(plan.hashed for plan in plans):
            return None  # ids that are hashed are held against one another, which keys cannot be
        with suppress(OSError):
            return cls(n) if disk_usage(gettempdir()).free > SPARED * ROW * n_rows else None
        return None

    def add(self, rows: pl.DataFrame) -> None:
        """Take the next rows of the log, all of which have keys."""
        if self._files is None or not rows.height:
            return
        ends, pairs = np.zeros(self.n_shares, dtype=np.int64), np.empty(2 * rows.height, np.uint64)
        sort_by_share(as_keys(rows[USER_KEY]), as_keys(rows[ITEM_KEY]), ends, pairs)
        try:
            while len(self._files) < self.n_shares:
                self._files.append(TemporaryFile(buffering=0))
            for file, own in zip(self._files, np.split(pairs, 2 * ends[:-1]), strict=True):
                left = own.data.cast("B")
                while left:
                    left = left[file.write(left) :]
        except OSError:
            self.close()
        self._n_rows += np.diff(ends, prepend=0)

    def complete(self) -> None:
        """All rows have been added."""
        self.is_whole = bool(self._files)

    def n_rows(self, number: int) -> int:
        """Rows of a share."""
        return int(self._n_rows[number])

    def stream(self, number: int) -> Iterator[pl.DataFrame]:
        """The rows of a share in the order of the log.

        Raises:
            MachineError: the disk does not give them back [machine-limit].
        """
        assert self._files
        file, left = self._files[number], self.n_rows(number)
        try:
            file.seek(0)
            while left:
                pairs = np.empty((min(ROWS_TOGETHER, left), 2), dtype=np.uint64)
                empty = pairs.data.cast("B")
                while empty:
                    n_bytes = file.readinto(empty)
                    if not n_bytes:
                        raise OSError("the file was cut short")
                    empty = empty[n_bytes:]
                left -= len(pairs)
                yield pl.DataFrame({USER_KEY: pairs[:, 0].copy(), ITEM_KEY: pairs[:, 1].copy()})
        except OSError as error:
            reason = error.strerror or str(error)
            raise MachineError(
                f"rows of train that passes lay on disk cannot be read again: {reason}",
                code="machine-limit",
                at=gettempdir(),
                hint="set TMPDIR to a folder of another disk",
            ) from error

    def close(self) -> None:
        """Give the room on the disk back."""
        for file in self._files or ():
            with suppress(OSError):  # of what was written before, which nobody needs
                file.close()
        self._files, self.is_whole = None, False
