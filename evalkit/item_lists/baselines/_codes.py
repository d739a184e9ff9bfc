"""Ids as numbers 0, 1, 2, ... in the order in which they are met."""

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints, Keys
from evalkit.sources.ids import IdPlan, KeyCollisionError, as_keys, ids_of_keys, mix, same_ids

LEAST_SLOTS = 1 << 12


class Codes:
    """A growing hash table from keys to codes; of hashed keys the ids are kept and compared."""

    def __init__(self, plan: IdPlan) -> None:
        self.plan = plan
        self.n = 0
        self._slots = np.full(LEAST_SLOTS, -1, dtype=np.int64)  # codes; -1: free
        self._keys = np.empty(LEAST_SLOTS, dtype=np.uint64)  # by code
        self._ids: list[pl.DataFrame] = []

    @property
    def ids(self) -> pl.DataFrame:
        """The ids, by code."""
        if not self.plan.hashed:
            return ids_of_keys(self.plan, self._keys[: self.n])
        if not self._ids:
            return pl.DataFrame(schema=dict(zip(self.plan.columns, self.plan.dtypes, strict=True)))
        if len(self._ids) > 1:
            self._ids = [pl.concat(self._ids)]
        return self._ids[0]

    def encode(self, rows: pl.DataFrame, key_name: str) -> Ints:
        """int64[n_rows], the codes of rows of keys, and of ids where these are hashed.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        keys, before, row = as_keys(rows[key_name]), self.n, 0
        codes = np.empty(keys.size, dtype=np.int64)
        firsts = np.empty(keys.size, dtype=np.int64)
        while True:
            row, self.n = add_codes(
                keys, row, self._slots, self._keys, self.n, codes, firsts, before
            )
            if row == keys.size:
                break
            self._grow()
        if self.plan.hashed:
            real = rows.select(self.plan.columns)
            if self.n > before:
                self._ids.append(real[firsts[: self.n - before]])
            self._compare(real, codes)
        return codes

    def find(self, rows: pl.DataFrame, key_name: str) -> Ints:
        """int64[n_rows], the codes of rows that are known, and -1 of others.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        keys = as_keys(rows[key_name])
        codes = np.empty(keys.size, dtype=np.int64)
        find_codes(keys, self._slots, self._keys, codes)
        if self.plan.hashed:
            known = codes >= 0
            self._compare(rows.select(self.plan.columns).filter(pl.Series(known)), codes[known])
        return codes

    def _compare(self, real: pl.DataFrame, codes: Ints) -> None:
        if not same_ids(real, self.ids[codes]):
            raise KeyCollisionError

    def _grow(self) -> None:
        slots = np.full(4 * self._slots.size, -1, dtype=np.int64)
        lay_codes(self._keys, self.n, slots)
        keys: Keys = np.empty(slots.size, dtype=np.uint64)
        keys[: self.n] = self._keys[: self.n]
        self._slots, self._keys = slots, keys


@kernel(allocates=False)
def slot_of(key, slots, keys):  # type: ignore[no-untyped-def]
    """The slot of a key, or the free one that it would get."""
    slot = np.int64(mix(key) & np.uint64(slots.size - 1))
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & (slots.size - 1)
    return slot


@kernel(allocates=False)
def add_codes(rows, row, slots, keys, n, codes, firsts, before):  # type: ignore[no-untyped-def]
    """Codes of keys from `row` on, until the table is half full; the next row, and their number.

    `firsts` becomes the row where each key that is new since `before` is met first.
    """
    while row < rows.size and 2 * n < slots.size:
        slot = slot_of(rows[row], slots, keys)
        if slots[slot] < 0:
            slots[slot] = n
            keys[n] = rows[row]
            firsts[n - before] = row
            n += 1
        codes[row] = slots[slot]
        row += 1
    return row, n


@kernel(allocates=False)
def find_codes(rows, slots, keys, codes):  # type: ignore[no-untyped-def]
    """Codes of keys; -1 of those that are not known."""
    for row in range(rows.size):
        codes[row] = slots[slot_of(rows[row], slots, keys)]


@kernel(allocates=False)
def lay_codes(keys, n, slots):  # type: ignore[no-untyped-def]
    """Put codes 0..n into free slots."""
    for code in range(n):
        slots[slot_of(keys[code], slots, keys)] = code
