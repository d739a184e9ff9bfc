"""Distinct keys of items, each with its id, and the promise that no two ids share one."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from evalkit.ids import ITEM, ITEM_KEY, KeyCollisionError, Keys, Rows, as_keys, same_ids
from evalkit.kernels import kernel
from evalkit.kernels.threads import ordered_map

LEAST_SLOTS = 1 << 12


@kernel(allocates=False)
def slot_of(key, numbers, distinct):  # type: ignore[no-untyped-def]
    """The slot of a key that is a hash, or the free one that it would get."""
    slot = np.int64(key & np.uint64(numbers.size - 1))
    while numbers[slot] >= 0 and distinct[numbers[slot]] != key:
        slot = (slot + 1) & (numbers.size - 1)
    return slot


@kernel(allocates=False)
def add_keys(keys, first, numbers, distinct, n_distinct, rows):  # type: ignore[no-untyped-def]
    """Number the keys from row `first` on that are new, while half of the slots are free.

    `rows` holds the row of each new key, behind each other. Gives the row that was not reached,
    and the number of keys.
    """
    n_before = n_distinct
    for row in range(first, keys.size):
        slot = slot_of(keys[row], numbers, distinct)
        if numbers[slot] >= 0:
            continue
        if 2 * n_distinct >= numbers.size:
            return row, n_distinct
        numbers[slot] = n_distinct
        distinct[n_distinct] = keys[row]
        rows[n_distinct - n_before] = row
        n_distinct += 1
    return keys.size, n_distinct


@kernel(allocates=False)
def number_keys(keys, numbers, distinct, out):  # type: ignore[no-untyped-def]
    """The number of each key; all are there."""
    for row in range(keys.size):
        out[row] = numbers[slot_of(keys[row], numbers, distinct)]


class KeyNumbers:
    """Numbers of distinct keys that are hashes, in the order in which they were met."""

    def __init__(self) -> None:
        self.n = 0
        self._numbers = np.full(LEAST_SLOTS, -1, dtype=np.int64)
        self._distinct = np.empty(LEAST_SLOTS // 2, dtype=np.uint64)

    @property
    def keys(self) -> Keys:
        """Each key once, by its number."""
        return self._distinct[: self.n]

    def add(self, keys: Keys) -> Rows:
        """The rows of keys that had not been met."""
        found: list[Rows] = []
        row = 0
        while row < keys.size:
            if 2 * self.n >= self._numbers.size:
                self._grow()
            rows = np.empty(self._distinct.size - self.n, dtype=np.int64)
            row, n = add_keys(keys, row, self._numbers, self._distinct, self.n, rows)
            found.append(rows[: n - self.n].copy())
            self.n = int(n)
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def of(self, keys: Keys) -> Rows:
        """The number of each key; all have been met."""
        out = np.empty(keys.size, dtype=np.int64)
        number_keys(keys, self._numbers, self._distinct, out)
        return out

    def _grow(self) -> None:
        known, size = self.keys, 2 * self._numbers.size
        self._numbers = np.full(size, -1, dtype=np.int64)
        self._distinct = np.empty(size // 2, dtype=np.uint64)
        add_keys(known, 0, self._numbers, self._distinct, 0, np.empty(known.size, dtype=np.int64))


def distinct_items(parts: Sequence[pl.DataFrame], *, threads: int) -> tuple[Keys, pl.DataFrame]:
    """Every item key once, ascending, and its id.

    Raises:
        KeyCollisionError: two items share a key.
    """
    numbers = KeyNumbers()
    met = [part.select(ITEM)[numbers.add(as_keys(part[ITEM_KEY]))] for part in parts]
    ids = pl.concat(met).rechunk()

    def are_same(part: pl.DataFrame) -> bool:
        rows = np.arange(part.height)
        return same_ids(part.select(ITEM), ids, rows, numbers.of(as_keys(part[ITEM_KEY])))

    if not all(ordered_map(are_same, parts, threads=threads)):
        raise KeyCollisionError
    order = np.argsort(numbers.keys)
    return numbers.keys[order], ids[order].rechunk()
