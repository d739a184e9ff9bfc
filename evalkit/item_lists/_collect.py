"""The lists of one table of rankings, as codes of items."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.item_lists._codes import ItemCodes, find_key
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Ints
from evalkit.metrics import Lists
from evalkit.sources.ids import ITEM_KEY, USER_KEY, as_keys
from evalkit.truth import Index, code_of, find_entry


@kernel(allocates=False)
def place_rows(index, users, table, items, ranks, first_rank, depth, cells):  # type: ignore[no-untyped-def]
    """Write the code of each item, and 1, to the place of its rank; how many have no code.

    Args:
        users, items: keys; users that the index lacks are passed over.
    """
    n_missing = row = 0
    while row < users.size:
        end = row + 1
        while end < users.size and users[end] == users[row]:
            end += 1
        entry = find_entry(index.table, users[row], index.layout)
        if entry >= 0:
            begin = code_of(index.table, entry) * depth
            for position in range(row, end):
                place = np.int64(ranks[position]) - first_rank
                if 0 <= place < depth:
                    code = find_key(table, items[position])
                    cells[begin + place] = code + 1
                    n_missing += code < 0
        row = end
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


@kernel(allocates=False)
def insert_rows(index, users, codes, strengths, depth, orders, has_orders, first, kept):  # type: ignore[no-untyped-def]
    """Put rows into the lists of their users, from strongest to weakest, as far as they go.

    Equals stand as `orders` of their items says, then as they come.

    Args:
        users: keys; those that the index lacks are passed over.
        first: the row to begin with.
        kept: `StrongestRows`, of all users, or strengths of the one user whose rows come.

    Gives the first row whose place no order tells; behind the last one where all have one.
    """
    # Wide: one batch of rows beside all that lists are kept in; called in one place.
    begin, user, at = 0, -1, 0
    for row in range(first, users.size):
        if row == first or users[row] != users[row - 1]:
            entry = find_entry(index.table, users[row], index.layout)
            user = code_of(index.table, entry) if entry >= 0 else -1
            begin = user * depth
            at = begin if kept.strengths.size > depth else 0
        if user < 0:
            continue
        n, strength, code = kept.lengths[user], strengths[row], codes[row]
        place = n
        while place > 0 and kept.strengths[at + place - 1] <= strength:
            if kept.strengths[at + place - 1] == strength:
                other = kept.items[begin + place - 1]
                if not has_orders:
                    break
                if max(code, other) >= orders.size:
                    return row
                if orders[other] <= orders[code]:
                    break
            place -= 1
        if place == depth:
            continue
        for later in range(min(n, depth - 1), place, -1):
            kept.strengths[at + later] = kept.strengths[at + later - 1]
            kept.items[begin + later] = kept.items[begin + later - 1]
        kept.strengths[at + place], kept.items[begin + place] = strength, code
        kept.lengths[user] = min(n + 1, depth)
    return users.size


@kernel(allocates=False)
def count_copies(starts, lengths, items, last_users, copies):  # type: ignore[no-untyped-def]
    """How often each user's list shows an item again.

    Args:
        last_users: int32, of each item one more than the user who has it last; at first 0.
    """
    for user in range(starts.size):
        n = 0
        for place in range(starts[user], starts[user] + lengths[user]):
            n += last_users[items[place]] == user + 1
            last_users[items[place]] = user + 1
        copies[user] = n


class StrongestRows(NamedTuple):
    """The strongest rows of each user: int32 codes of items, int64 strengths, and how many."""

    items: Int32s
    strengths: Ints
    lengths: Ints


class ListCollector:
    """Collects the first ranks of every list while a table is scanned.

    Args:
        items: codes of the items.
        n_users: codes of the users.
        depth: the deepest cutoff; None for whole lists.
    """

    def __init__(self, items: ItemCodes, n_users: int, depth: int | None) -> None:
        self.items, self.n_users, self.depth = items, n_users, depth
        self._cells: dict[str, Int32s] = {}
        self._kept: dict[str, StrongestRows] = {}
        self._whole: dict[str, list[tuple[Ints, Int32s]]] = {}
        self._orders: Ints = np.empty(0, dtype=np.int64)  # of items, where some are tied

    def restart(self) -> None:
        """Forget what was collected: the table is scanned anew."""
        self._cells.clear()
        self._kept.clear()
        self._whole.clear()

    def place(
        self, model: str, rows: pl.DataFrame, index: Index, ranks: Int32s, first_rank: int
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

    def insert(
        self,
        model: str,
        rows: pl.DataFrame,
        index: Index,
        strengths: Ints,
        ties: str,
        *,
        has_all_rows: bool,
    ) -> None:
        """Put rows among the strongest of their users, in the order of the log.

        Args:
            ties: what orders equals: `input`, or as `ItemCodes.places` says.
            has_all_rows: of each user, whose strengths are then forgotten; from any thread.
        """
        assert self.depth is not None
        n = self.n_users * self.depth
        if model not in self._kept:
            room = np.empty(0 if has_all_rows else n, dtype=np.int64)
            lengths = np.zeros(self.n_users, dtype=np.int64)
            self._kept.setdefault(model, StrongestRows(np.empty(n, dtype=np.int32), room, lengths))
        kept = self._kept[model]
        if has_all_rows:
            kept = kept._replace(strengths=np.empty(self.depth, dtype=np.int64))
        users, codes = as_keys(rows[USER_KEY]), self.items.codes_of_rows(rows)
        row, orders, has_orders = 0, self._orders, ties != "input"
        while row < users.size:
            given = strengths, self.depth, orders, has_orders, row, kept
            row = insert_rows(index, users, codes, *given)
            if row < users.size:  # equals, of which one is new
                orders = self._orders = self.items.places(ties)

    def take_whole(self, model: str, rows: pl.DataFrame, users: Ints, ranks: Ints) -> None:
        """Take all rows of some users, those of each together and in order of rank.

        Args:
            users: codes; from any thread.
            ranks: below 1 of no list's.
        """
        shown = ranks >= 1
        users, items = users[shown], self.items.codes_of_rows(rows.filter(pl.Series(shown)))
        if self.depth is not None:
            begins = np.flatnonzero(np.diff(users, prepend=-1))
            lengths = np.diff(begins, append=users.size)
            kept = np.arange(users.size) - np.repeat(begins, lengths) < self.depth
            users, items = users[kept], items[kept]
        self._whole.setdefault(model, []).append((users, items))

    def lists(self, models: Mapping[str, object]) -> dict[str, Lists]:
        """The lists of each model."""
        found = {}
        for model in models:
            if model in self._whole:
                parts = self._whole.pop(model)
                users, items = (np.concatenate(each) for each in zip(*parts, strict=True))
                counts = np.bincount(users, minlength=self.n_users).astype(np.int64)
                items = items[np.argsort(users, kind="stable")]
                found[model] = Lists(np.cumsum(counts) - counts, counts, items)
                continue
            depth, lengths = self.depth or 0, np.zeros(self.n_users, dtype=np.int64)
            cells = self._cells.pop(model, None)
            if model in self._kept:
                cells, _, lengths = self._kept.pop(model)
            elif cells is None:
                cells, depth = np.zeros(0, dtype=np.int32), 0
            else:
                close_up(depth, cells, lengths)
            starts = np.arange(self.n_users, dtype=np.int64) * depth
            found[model] = Lists(starts, lengths, cells)
        return found

    def copies(self, lists: Lists) -> Ints:
        """int64[n_users]: rows of each list that show an item again."""
        copies = np.empty(self.n_users, dtype=np.int64)
        count_copies(*lists, np.zeros(self.items.n, dtype=np.int32), copies)
        return copies
