"""The real ids of hashed keys, kept once each while rows are read; no two of them share a key."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import prefetch
from evalkit.kernels.threads import ordered_map
from evalkit.sources.ids import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    WHOLE,
    KeyCollisionError,
    Keys,
    Rows,
    as_keys,
    ids_follow_keys,
    same_ids,
    views_of,
)
from evalkit.truth._build import UserItems

NO_VIEWS: Keys = np.empty(0, dtype=np.uint64)
LEAST_SLOTS = 1 << 12
SLOT = 4  # words: the key, its number and one (0: free), the two words of the id's view
AHEAD = 16  # rows between asking for a slot and using it


@kernel(allocates=False)
def home_slot(key, slots):  # type: ignore[no-untyped-def]
    """Where the search for a key that is a hash begins."""
    return np.int64(key & np.uint64(slots.size // SLOT - 1)) * SLOT


@kernel(allocates=False)
def find_slot(key, slots):  # type: ignore[no-untyped-def]
    """The slot of a key, or the free one that it would get."""
    at = home_slot(key, slots)
    while slots[at + 1] != 0 and slots[at] != key:
        at = (at + SLOT) & (slots.size - 1)
    return at


@kernel(allocates=False)
def learn_items(keys, views, row, slots, n, firsts, n_firsts):  # type: ignore[no-untyped-def]
    """Number the keys from `row` on while half of the slots are free; hold the others' ids apart.

    `views` are empty where ids are not told by them. `firsts` becomes the row where each new key is
    met first.

    Gives the row that was not reached (-1: two ids share a key), how many keys there are, how many
    of them are new, and how many rows no view tells apart.
    """
    n_unsure = 0
    while row < keys.size:
        prefetch(slots, home_slot(keys[min(row + AHEAD, keys.size - 1)], slots))
        at = find_slot(keys[row], slots)
        if slots[at + 1] == 0:
            if 2 * SLOT * n >= slots.size:
                break
            n += 1
            slots[at] = keys[row]
            slots[at + 1] = n
            if views.size > 0:
                slots[at + 2] = views[2 * row]
                slots[at + 3] = views[2 * row + 1]
            firsts[n_firsts] = row
            n_firsts += 1
        elif views.size == 0:
            n_unsure += 1
        elif slots[at + 2] != views[2 * row]:  # length, or the first bytes
            return -1, n, n_firsts, n_unsure
        elif (views[2 * row] & np.uint64(0xFFFFFFFF)) > np.uint64(WHOLE):
            n_unsure += 1
        elif slots[at + 3] != views[2 * row + 1]:
            return -1, n, n_firsts, n_unsure
        row += 1
    return row, n, n_firsts, n_unsure


class ItemIds:
    """Every item key that is met, and its id."""

    def __init__(self) -> None:
        self._n = 0
        self._slots = np.zeros(SLOT * LEAST_SLOTS, dtype=np.uint64)
        self._met: list[tuple[Keys, pl.Series]] = []
        self._unsure: list[pl.DataFrame] = []

    def take(self, part: pl.DataFrame) -> None:
        """Learn the items of rows.

        Raises:
            KeyCollisionError: two items share a key.
        """
        ids, keys, views = part[ITEM], as_keys(part[ITEM_KEY]), views_of(part[ITEM])
        views = NO_VIEWS if views is None else views
        firsts = np.empty(keys.size, dtype=np.int64)
        row = n_firsts = n_unsure = 0
        while row < keys.size:
            if 2 * SLOT * self._n >= self._slots.size:
                self._grow()
            given = keys, views, row, self._slots, self._n, firsts, n_firsts
            row, self._n, n_firsts, n_more = map(int, learn_items(*given))
            n_unsure += n_more
            if row < 0:
                raise KeyCollisionError
        self._met.append((keys[firsts[:n_firsts]], ids[firsts[:n_firsts]]))
        if n_unsure:
            self._unsure.append(part.select(ITEM_KEY, ITEM))

    def settle(self, threads: int) -> tuple[Keys, pl.DataFrame]:
        """Every key once, ascending, and its id.

        Raises:
            KeyCollisionError: two items share a key.
        """
        met_keys, met_ids = zip(*self._met, strict=True)
        keys, ids = np.concatenate(met_keys), pl.DataFrame([pl.concat(met_ids).rechunk()])
        order = np.argsort(keys)
        keys, ids = keys[order], ids[order].rechunk()

        def are_same(part: pl.DataFrame) -> bool:
            places = np.searchsorted(keys, as_keys(part[ITEM_KEY]))
            return same_ids(part.select(ITEM), ids, np.arange(places.size), places)

        if not all(ordered_map(are_same, self._unsure, threads=threads)):
            raise KeyCollisionError
        return keys, ids

    def _grow(self) -> None:
        """Put what is known into twice as many slots."""
        known = self._slots.reshape(-1, SLOT)
        known = known[known[:, 1] > 0]
        known = known[np.argsort(known[:, 1])]
        self._slots = np.zeros(2 * self._slots.size, dtype=np.uint64)
        keys, views = known[:, 0].copy(), known[:, 2:].reshape(-1)
        learn_items(keys, views, 0, self._slots, 0, np.empty(keys.size, dtype=np.int64), 0)


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
        rows, keys, parts = zip(*self._runs(), strict=True)
        ids: pl.DataFrame = pl.concat(parts).rechunk()
        of_runs = np.concatenate(rows)
        if np.array_equal(of_runs, pairs.first_rows):
            return ids  # a run each
        of_codes = np.searchsorted(of_runs, pairs.first_rows)
        of_users: pl.DataFrame = ids[of_codes]
        others = np.delete(np.arange(ids.height), of_codes)  # later runs of a user
        codes = pairs.codes_of(np.concatenate(keys)[others])
        if not same_ids(ids, of_users, others, codes):
            raise KeyCollisionError
        return of_users

    def _runs(self) -> Iterator[tuple[Rows, Keys, pl.DataFrame]]:
        """What was kept, in the log's order; a run that two parts share begins in the first."""
        last_key, last_id = None, pl.DataFrame()
        for first in sorted(self._parts):
            rows, keys, ids = self._parts[first]
            if keys[0] == last_key:
                if not same_ids(ids[:1], last_id):
                    raise KeyCollisionError
                rows, keys, ids = rows[1:], keys[1:], ids[1:]
            if keys.size:
                last_key, last_id = keys[-1], ids[-1:]
            yield rows, keys, ids
