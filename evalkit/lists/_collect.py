"""The lists of one table of rankings, as codes of items."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.ids import ITEM_KEY, USER_KEY, as_keys
from evalkit.kernels import kernel
from evalkit.lists._codes import ItemCodes, find_key
from evalkit.metrics import Lists
from evalkit.truth import Index, code_of, find_entry

Ints = npt.NDArray[np.int64]


@kernel(allocates=False)
def place_rows(index, users, table, items, ranks, first_rank, depth, cells):  # type: ignore[no-untyped-def]
    """Write the code of each item, and 1, to the place of its rank; how many have no code.

    Args:
        users, items: keys; users that the index lacks are passed over.
    """
    n_missing, begin = 0, -1
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(index.table, users[row], index.layout)
            begin = code_of(index.table, entry) * depth if entry >= 0 else -1
        place = np.int64(ranks[row]) - first_rank
        if begin >= 0 and 0 <= place < depth:
            code = find_key(table, items[row])
            cells[begin + place] = code + 1
            n_missing += code < 0
    return n_missing


@kernel(allocates=False)
def close_up(depth, cells, lengths):  # type: ignore[no-untyped-def]
    """Bring the items of each user together, less the 1 that was added."""
    for user in range(lengths.size):
        n, begin = 0, user * depth
        for place in range(begin, begin + depth):
            if cells[place] > 0:
                cells[begin + n] = cells[place] - 1
                n += 1
        lengths[user] = n


class ListCollector:
    """Collects the first ranks of every list while a table is scanned.

    Args:
        items: codes of the items.
        n_users: codes of the users.
        depth: the deepest cutoff; None for whole lists.
    """

    def __init__(self, items: ItemCodes, n_users: int, depth: int | None) -> None:
        self.items, self.n_users, self.depth = items, n_users, depth
        self._cells: dict[str, npt.NDArray[np.int32]] = {}
        self._whole: dict[str, Lists] = {}

    def restart(self) -> None:
        """Forget what was collected: the table is scanned anew."""
        self._cells.clear()

    def place(
        self,
        model: str,
        rows: pl.DataFrame,
        index: Index,
        ranks: npt.NDArray[np.int32],
        first_rank: int,
    ) -> None:
        """Write rows with their ranks, of which no list has two at one rank; from any thread.

        Args:
            index: finds the codes of users.
        """
        assert self.depth is not None
        cells = self._cells.get(model)
        if cells is None:
            room = np.zeros(self.n_users * self.depth, dtype=np.int32)
            cells = self._cells.setdefault(model, room)
        users, items = as_keys(rows[USER_KEY]), as_keys(rows[ITEM_KEY])
        given = ranks, first_rank, self.depth, cells
        if self.items.plan.hashed:  # ids are held against those that are known
            self.items.codes_of_rows(rows)
        if place_rows(index, users, self.items.table, items, *given):
            self.items.codes_of_keys(items)
            place_rows(index, users, self.items.table, items, *given)

    def take_whole(self, model: str, rows: pl.DataFrame, users: Ints, ranks: Ints) -> None:
        """Take all rows of a model, by user and in order of rank, which is below 1 of no list's."""
        shown = ranks >= 1
        users, items = users[shown], self.items.codes_of_rows(rows.filter(pl.Series(shown)))
        lengths = np.bincount(users, minlength=self.n_users).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        if self.depth is not None:
            kept = np.arange(users.size) - starts[users] < self.depth
            items, lengths = items[kept], np.minimum(lengths, self.depth)
            starts = np.cumsum(lengths) - lengths
        self._whole[model] = Lists(starts, lengths, items)

    def lists(self, models: Mapping[str, object]) -> dict[str, Lists]:
        """The lists of each model."""
        found = {}
        for model in models:
            if model in self._whole:
                found[model] = self._whole.pop(model)
                continue
            depth, lengths = self.depth or 0, np.zeros(self.n_users, dtype=np.int64)
            cells = self._cells.pop(model, None)
            if cells is None:
                cells, depth = np.zeros(0, dtype=np.int32), 0
            close_up(depth, cells, lengths)
            starts = np.arange(self.n_users, dtype=np.int64) * depth
            found[model] = Lists(starts, lengths, cells)
        return found
