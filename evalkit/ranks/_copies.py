"""Rows that list an item again, also one that is relevant to nobody: they push others down."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from evalkit.kernels import kernel
from evalkit.ranks._records import RankedRows
from evalkit.sources.ids import ODD, mix
from evalkit.truth import find_entry

MANY_ROWS = 1 << 21  # of a log, from which on some of its lists are searched for copies
MOST_HELD = 1 << 19  # rows of a log whose users lie apart; of larger ones no list is searched
TEXT_ROW = 16  # bytes of a row of a text file, about


@dataclass(slots=True)
class HeldRows:
    """Rows of users that lie apart, by model; none of a large log."""

    is_small: bool
    rows: dict[str, list[RankedRows]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def add(self, model: str, rows: RankedRows) -> None:
        """Hold the keys of a batch."""
        if self.is_small:
            with self.lock:
                self.rows.setdefault(model, []).append(RankedRows(rows.users, rows.items))

    def by_user(self) -> Iterator[tuple[str, RankedRows]]:
        """The rows of each model, those of a user together."""
        for model, batches in self.rows.items():
            users = np.concatenate([each.users for each in batches])
            order = np.argsort(users)
            yield model, RankedRows(users[order], np.concatenate([x.items for x in batches])[order])


@kernel
def count_copies(rows, index, one_in):  # type: ignore[no-untyped-def]
    """Rows that repeat an item of their run, of users that the truth has; one list in so many."""
    users, items = rows.users, rows.items
    slots = np.zeros(1024, dtype=np.int32)
    n_copies = np.int64(0)
    begin = np.int64(0)
    while begin < users.size:
        user = users[begin]
        end = begin + 1
        while end < users.size and users[end] == user:
            end += 1
        if one_in == 1 or mix(user) % np.uint64(one_in) == 0:
            while slots.size < 4 * (end - begin):
                slots = np.zeros(2 * slots.size, dtype=np.int32)
            n_found = count_in_run(items, begin, end, slots)
            if n_found > 0 and find_entry(index.table, user, index.layout) >= 0:
                n_copies += n_found
        begin = end
    return n_copies


@kernel(allocates=False)
def count_in_run(items, begin, end, slots):  # type: ignore[no-untyped-def]
    """How many items of rows begin..end stand in them again.

    Args:
        slots: int32[a power of two], several times the run; room to work in. What runs before
            have left is at most `begin`, rows counting from 1: to clear it took half of the time.
    """
    last = np.uint64(slots.size - 1)
    n_copies = np.int64(0)
    for row in range(begin, end):
        item = items[row]
        slot = ((item ^ (item >> np.uint64(32))) * np.uint64(ODD) >> np.uint64(32)) & last
        while slots[slot] > begin and items[slots[slot] - 1] != item:
            slot = (slot + np.uint64(1)) & last
        n_copies += slots[slot] > begin
        slots[slot] = np.int32(row + 1)
    return n_copies
