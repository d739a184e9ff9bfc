"""The real ids of hashed keys, kept once each while rows are read; no two of them share a key."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from evalkit.ids import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    KeyCollisionError,
    Keys,
    Rows,
    as_keys,
    compare_views,
    ids_follow_keys,
    same_ids,
    views_of,
)
from evalkit.kernels import kernel
from evalkit.kernels.threads import ordered_map
from evalkit.truth._build import UserItems

LEAST_SLOTS = 1 << 12


@kernel(allocates=False)
def slot_of(key, numbers, distinct):  # type: ignore[no-untyped-def]
    """The slot of a key that is a hash, or the free one that it would get."""
    slot = np.int64(key & np.uint64(numbers.size - 1))
    while numbers[slot] >= 0 and distinct[numbers[slot]] != key:
        slot = (slot + 1) & (numbers.size - 1)
    return slot


@kernel(allocates=False)
def add_keys(keys, first, numbers, distinct, n_distinct, out):  # type: ignore[no-untyped-def]
    """Number the keys from row `first` on in `out`; new ones are added while half is free.

    Gives the row that was not reached, and the number of keys.
    """
    for row in range(first, keys.size):
        slot = slot_of(keys[row], numbers, distinct)
        if numbers[slot] < 0:
            if 2 * n_distinct >= numbers.size:
                return row, n_distinct
            numbers[slot] = n_distinct
            distinct[n_distinct] = keys[row]
            n_distinct += 1
        out[row] = numbers[slot]
    return keys.size, n_distinct


@kernel(allocates=False)
def first_rows(numbers, n_before, rows):  # type: ignore[no-untyped-def]
    """The first row of each number from `n_before` on; they come in order."""
    n = 0
    for row in range(numbers.size):
        if numbers[row] == n_before + n:
            rows[n] = row
            n += 1


class KeyNumbers:
    """Numbers of distinct keys that are hashes, in the order in which they are met."""

    def __init__(self) -> None:
        self.n = 0
        self._numbers = np.full(LEAST_SLOTS, -1, dtype=np.int64)
        self._distinct = np.empty(LEAST_SLOTS // 2, dtype=np.uint64)

    @property
    def keys(self) -> Keys:
        """Each key once, by its number."""
        return self._distinct[: self.n]

    def of(self, keys: Keys) -> Rows:
        """The number of each key; new ones get the next."""
        out = np.empty(keys.size, dtype=np.int64)
        row = 0
        while row < keys.size:
            if 2 * self.n >= self._numbers.size:
                self._grow()
            row, n = add_keys(keys, row, self._numbers, self._distinct, self.n, out)
            self.n = int(n)
        return out

    def _grow(self) -> None:
        known, size = self.keys, 2 * self._numbers.size
        self._numbers = np.full(size, -1, dtype=np.int64)
        self._distinct = np.empty(size // 2, dtype=np.uint64)
        add_keys(known, 0, self._numbers, self._distinct, 0, np.empty(known.size, dtype=np.int64))


class ItemIds:
    """Every item key that is met, and its id."""

    def __init__(self) -> None:
        self._numbers = KeyNumbers()
        self._met: list[pl.Series] = []
        self._views = np.empty(2 * LEAST_SLOTS, dtype=np.uint64)  # of the ids, by number
        self._unsure: list[pl.DataFrame] = []

    def take(self, part: pl.DataFrame) -> Callable[[], None]:
        """Learn the items of rows; gives what may be done beside other work.

        Raises (what is given):
            KeyCollisionError: two items share a key.
        """
        ids, n_before = part[ITEM], self._numbers.n
        numbers = self._numbers.of(as_keys(part[ITEM_KEY]))
        rows = np.empty(self._numbers.n - n_before, dtype=np.int64)
        first_rows(numbers, n_before, rows)
        self._met.append(ids[rows])
        views = views_of(ids)
        if views is not None:
            self._learn(views.reshape(-1, 2)[rows].reshape(-1), n_before)
        known = self._views

        def check() -> None:
            n_unsure = numbers.size
            if views is not None:
                given = np.arange(numbers.size), known, numbers, np.empty_like(numbers)
                n_unsure = int(compare_views(views, *given))
            if n_unsure < 0:
                raise KeyCollisionError
            if n_unsure:
                self._unsure.append(part.select(ITEM_KEY, ITEM))

        return check

    def _learn(self, views: Keys, n_before: int) -> None:
        end = 2 * n_before + views.size
        if end > self._views.size:
            self._views = np.concatenate([self._views, np.empty(2 * end, dtype=np.uint64)])
        self._views[2 * n_before : end] = views

    def settle(self, threads: int) -> tuple[Keys, pl.DataFrame]:
        """Every key once, ascending, and its id.

        Raises:
            KeyCollisionError: two items share a key.
        """
        keys, ids = self._numbers.keys, pl.DataFrame([pl.concat(self._met).rechunk()])

        def are_same(part: pl.DataFrame) -> bool:
            numbers = self._numbers.of(as_keys(part[ITEM_KEY]))
            return same_ids(part.select(ITEM), ids, np.arange(numbers.size), numbers)

        if not all(ordered_map(are_same, self._unsure, threads=threads)):
            raise KeyCollisionError
        order = np.argsort(keys)
        return keys[order], ids[order].rechunk()


class UserIds:
    """The user ids of runs of rows of one user; threads may take rows side by side."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._parts: dict[int, tuple[Rows, Keys, pl.DataFrame]] = {}  # by their first row

    def take(self, part: pl.DataFrame, first: int) -> None:
        """Keep the ids of rows that stand in the log from row `first` on.

        Raises:
            KeyCollisionError: two users share a key.
        """
        keys, ids = as_keys(part[USER_KEY]), part.select(self._columns)
        if not keys.size:
            return
        if not ids_follow_keys(ids, keys):
            raise KeyCollisionError
        begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        self._parts[first] = first + begins, keys[begins], ids[begins]

    def settle(self, pairs: UserItems) -> pl.DataFrame | None:
        """The id columns of each user; None where there were no rows.

        Raises:
            KeyCollisionError: two users share a key.
        """
        if not self._parts:
            return None
        rows, keys, parts = zip(*(self._parts[first] for first in sorted(self._parts)), strict=True)
        ids = pl.concat(parts).rechunk()
        of_users: pl.DataFrame = ids[np.searchsorted(np.concatenate(rows), pairs.first_rows)]
        codes = pairs.codes_of(np.concatenate(keys))
        if not same_ids(ids, of_users, np.arange(codes.size), codes):
            raise KeyCollisionError
        return of_users
