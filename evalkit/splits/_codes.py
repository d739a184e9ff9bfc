"""Codes 0, 1, 2, ... of ids of any type, and why a log may have to be read again."""

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Int32s, Keys
from evalkit.sources.ids import IdPlan, KeyCollisionError, as_keys
from evalkit.splits._filters import LogRows
from evalkit.splits._kernels import find_codes, look_codes, refill, take_keys

_MOST_DIRECT = 1 << 24  # ids that are their own place in a list


class FootersDifferError(Exception):
    """Footers of files tell of other times than their rows have: read again without them."""


@dataclass(slots=True)
class Coder:
    """Codes 0, 1, 2, ... of ids, by their first appearance; not each code has to have a row.

    Whole numbers below a bound are their own code, small ones look it up in a list; all else in a
    hash table.

    Args:
        n_own: the bound, as long as all ids are below it; then 0.
    """

    plan: IdPlan
    n_own: int = 0
    n: int = 0
    _direct: Int32s | None = field(default_factory=lambda: np.full(1, -1, np.int32))
    _table: Int32s = field(default_factory=lambda: np.full(1 << 12, -1, np.int32))
    _known: Keys = field(default_factory=lambda: np.zeros(1 << 11, np.uint64))
    _checks: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))

    def expressions(self, name: str) -> list[pl.Expr]:
        """Columns that `encode` reads: the key and, where it is a hash, another one."""
        found = [self.plan.key().alias(f"{name}_key")]
        if self.plan.hashed:
            other = IdPlan(
                self.plan.columns, self.plan.dtypes, True, self.plan.unsigned, self.plan.seed + 101
            )
            found.append(other.key().alias(f"{name}_check"))
        return found

    def encode(self, frame: pl.DataFrame, name: str) -> Int32s:
        """The code of each row."""
        keys = as_keys(frame[f"{name}_key"])
        if self._is_own(keys):
            return keys.astype(np.int32)
        codes = np.empty(keys.size, dtype=np.int32)
        if self.n + keys.size > self._known.size:
            self._known = _grown(self._known, 1 << int(self.n + keys.size - 1).bit_length())
        if self._is_direct(keys):
            self.n = look_codes(keys, codes, self._direct, self._known, self.n)
            return codes
        checks = np.zeros(0, dtype=np.uint64)
        if self.plan.hashed:
            checks = as_keys(frame[f"{name}_check"])
            if self._checks.size < self._known.size:
                self._checks = _grown(self._checks, self._known.size)
        if self._table.size < 2 * self._known.size:
            self._table = np.full(2 * self._known.size, -1, dtype=np.int32)
            refill(self._known, self.n, self._table)
        found = find_codes(keys, checks, codes, self._table, self._known, self._checks, self.n)
        if found < 0:
            raise KeyCollisionError
        self.n = found
        return codes

    def keys(self, codes: Int32s) -> Keys:
        """The key of each code."""
        if self.n_own:
            return codes.astype(np.uint64)
        keys = np.empty(codes.size, dtype=np.uint64)
        take_keys(codes, self._known, keys)
        return keys

    def _is_own(self, keys: Keys) -> bool:
        """Whether all ids so far, and these, are their own codes."""
        if not self.n_own:
            return False
        most = int(keys.max()) if keys.size else 0
        if most < self.n_own and not self.plan.hashed:
            self.n = max(self.n, most + 1) if keys.size else self.n
            return True
        self.n_own = 0
        self._known = _grown(np.arange(self.n, dtype=np.uint64), max(self._known.size, self.n))
        self._direct = np.append(np.arange(self.n, dtype=np.int32), np.int32(-1))
        return False

    def _is_direct(self, keys: Keys) -> bool:
        """Whether all ids so far, and these, are numbers that a list has room for."""
        if self._direct is None or self.plan.hashed:
            return False
        most = int(keys.max()) if keys.size else 0
        if most >= _MOST_DIRECT:
            self._direct = None
            self._table = np.zeros(0, dtype=np.int32)  # to be filled
        elif most >= self._direct.size:
            grown = np.full(min(2 * most + 1, _MOST_DIRECT), -1, dtype=np.int32)
            grown[: self._direct.size] = self._direct
            self._direct = grown
        return self._direct is not None


def _grown(values: Keys, size: int) -> Keys:
    grown = np.zeros(size, dtype=np.uint64)
    grown[: values.size] = values
    return grown


def codes_between(coded: list[LogRows], begin: int, n_rows: int) -> tuple[Int32s, Int32s]:
    """Codes of users and items of neighbouring rows, of neighbouring batches of all rows."""
    at = bisect_right(coded, begin, key=lambda rows: rows.begin) - 1
    users, items = [], []
    while n_rows > 0:
        rows = coded[at]
        here = slice(begin - rows.begin, begin - rows.begin + n_rows)
        users.append(rows.users[here])
        items.append(rows.items[here])
        begin, n_rows, at = begin + users[-1].size, n_rows - users[-1].size, at + 1
    return np.concatenate(users), np.concatenate(items)
