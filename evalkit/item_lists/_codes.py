"""Keys as codes 0, 1, 2, ... in the order in which they are met."""

from threading import Lock
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Int32s, Ints, Keys
from evalkit.sources.ids import (
    ITEM,
    ITEM_KEY,
    IdPlan,
    KeyCollisionError,
    as_keys,
    distinct_keys,
    hashes_of_keys,
    ids_of_keys,
    mix,
    same_ids,
    stable_hashes,
)

MOST_DIRECT = 1 << 26  # keys below it may be places of an array
DIRECT_ROOM = 8  # places a key, at most
LEAST_SLOTS = 1 << 12


class KeyTable(NamedTuple):
    """A hash table of keys; never changed where others may read it.

    Args:
        keys: uint64[n_slots], a power of two.
        codes: int32[n_slots], -1 in an empty slot.
        direct: int32[n], the code of each key below n, or -1.
    """

    keys: Keys
    codes: Int32s
    direct: Int32s


@kernel(allocates=False)
def find_key(table, key):  # type: ignore[no-untyped-def]
    """The code of a key, -1 for one that is not there."""
    if key < np.uint64(table.direct.size):
        return table.direct[np.int64(key)]
    mask = np.uint64(table.keys.size - 1)
    slot = np.int64(mix(key) & mask)
    while table.codes[slot] >= 0 and table.keys[slot] != key:
        slot = np.int64(np.uint64(slot + 1) & mask)
    return table.codes[slot]


@kernel(allocates=False)
def find_keys(table, keys, codes):  # type: ignore[no-untyped-def]
    """The code of each key, -1 for one that is not there; gives how many are not."""
    n_missing = 0
    for row in range(keys.size):
        code = find_key(table, keys[row])
        codes[row] = code
        n_missing += code < 0
    return n_missing


@kernel(allocates=False)
def add_keys(table, keys, first_code):  # type: ignore[no-untyped-def]
    """Put new keys into a table that has room for them."""
    mask = np.uint64(table.keys.size - 1)
    for row in range(keys.size):
        key = keys[row]
        slot = np.int64(mix(key) & mask)
        while table.codes[slot] >= 0:
            slot = np.int64(np.uint64(slot + 1) & mask)
        table.keys[slot] = key
        table.codes[slot] = first_code + row
        if key < np.uint64(table.direct.size):
            table.direct[np.int64(key)] = first_code + row


class KeyCodes:
    """Codes of keys; new keys are learned, also by several threads at once.

    Args:
        is_shared: several threads look; a table is then copied before it learns.
    """

    def __init__(self, *, is_shared: bool = True) -> None:
        self._is_shared = is_shared
        self.keys: Keys = np.empty(0, dtype=np.uint64)  # with room behind the last one
        self.n = 0
        self.table = _empty_table(0, 0)
        self._lock = Lock()

    def find(self, keys: Keys) -> tuple[Int32s, int]:
        """The codes that are known, -1 for others, and how many others there are."""
        codes = np.empty(keys.size, dtype=np.int32)
        return codes, int(find_keys(self.table, keys, codes))

    def codes_of(self, keys: Keys) -> Int32s:
        """int32[n_rows], the code of each key."""
        codes, n_missing = self.find(keys)
        if n_missing:
            self.learn(distinct_keys(keys[codes < 0]))
            codes, _ = self.find(keys)
        return codes

    def learn(self, distinct: Keys) -> Flags:
        """Give codes to those of distinct keys that have none, in their order; which they were."""
        with self._lock:
            codes, _ = self.find(distinct)
            is_new: Flags = codes < 0
            new = distinct[is_new]
            if new.size:
                self._add(new)
            return is_new

    def _add(self, new: Keys) -> None:
        first, n = self.n, self.n + new.size
        if n > self.keys.size:
            self.keys = np.concatenate([self.keys[:first], np.empty(n, dtype=np.uint64)])
        self.keys[first:n] = new
        n_direct = self.table.direct.size
        largest = int(new.max())
        if n_direct <= largest < min(MOST_DIRECT, DIRECT_ROOM * n + LEAST_SLOTS):
            n_direct = largest + 1 + largest // 2
        if n_direct > self.table.direct.size or 2 * n > self.table.keys.size:
            table = _empty_table(4 * n, n_direct)
            add_keys(table, self.keys[:n], 0)
        else:
            table = self.table
            if self._is_shared:
                table = KeyTable(table.keys.copy(), table.codes.copy(), table.direct.copy())
            add_keys(table, new, first)
        self.table, self.n = table, n


def _empty_table(n_slots: int, n_direct: int) -> KeyTable:
    size = max(LEAST_SLOTS, 1 << max(0, n_slots - 1).bit_length())
    return KeyTable(
        np.zeros(size, dtype=np.uint64),
        np.full(size, -1, dtype=np.int32),
        np.full(n_direct, -1, dtype=np.int32),
    )


class ItemCodes:
    """Codes of the items of all logs.

    Args:
        plan: how their ids become keys.
    """

    def __init__(self, plan: IdPlan) -> None:
        self.plan = plan
        self._codes = KeyCodes()
        self._ids = pl.DataFrame(schema=dict(zip(plan.columns, plan.dtypes, strict=True)))
        self._lock = Lock()

    @property
    def n(self) -> int:
        """How many items there are."""
        return self._ids.height if self.plan.hashed else self._codes.n

    @property
    def table(self) -> KeyTable:
        """What finds codes; never changed once it is given."""
        return self._codes.table

    @property
    def keys(self) -> Keys:
        """uint64[n], the key of each code."""
        return self._codes.keys[: self.n]

    def codes_of_rows(self, rows: pl.DataFrame) -> Int32s:
        """int32[n_rows], the code of each row's item; new ones are learned.

        Args:
            rows: the key of the item, and its id where ids are hashed.
        Raises:
            KeyCollisionError: two items share a key.
        """
        keys = as_keys(rows[ITEM_KEY])
        if not self.plan.hashed:
            return self._codes.codes_of(keys)
        codes, n_missing = self._codes.find(keys)
        if n_missing or (codes.size and codes.max() >= self._ids.height):
            distinct = rows.select(ITEM_KEY, ITEM).unique(ITEM_KEY, maintain_order=True)
            with self._lock:  # ids follow keys, in the same order
                is_new = self._codes.learn(as_keys(distinct[ITEM_KEY]))
                new = distinct.filter(pl.Series(is_new)).select(ITEM)
                self._ids = pl.concat([self._ids, new], rechunk=True)
            codes, _ = self._codes.find(keys)
        if not same_ids(rows.select(ITEM), self._ids[codes]):
            raise KeyCollisionError
        return codes

    def codes_of_keys(self, keys: Keys) -> Int32s:
        """int32[n_rows], the code of each key; those of hashed ids were met before."""
        return self._codes.codes_of(keys)

    def ids(self) -> pl.Series:
        """The id of each code."""
        if self.plan.hashed:
            return self._ids.to_series()
        return ids_of_keys(self.plan, self.keys).to_series()

    def stable_hashes(self) -> Keys:
        """uint64[n], hashes of the ids that no version of any library changes."""
        if not self.plan.hashed:
            return hashes_of_keys(self.keys, self.plan)
        return stable_hashes(self._ids, self.plan)

    def places(self, ties: str) -> Ints:
        """int64[n], the place of each code when ids are sorted.

        Args:
            ties: the policy: item, item-desc, item-text or item-text-desc.
        """
        ids = self.ids()
        if ties.startswith("item-text") and ids.dtype != pl.Binary:
            ids = ids.cast(pl.String)
        places = np.empty(len(ids), dtype=np.int64)
        places[ids.arg_sort().to_numpy()] = np.arange(len(ids))
        return ~places if ties.endswith("-desc") else places
