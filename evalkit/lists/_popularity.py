"""How many users of the training log have each item."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.ids import ITEM_KEY, USER_KEY, IdPlan, Keys, as_keys
from evalkit.kernels import kernel
from evalkit.lists._codes import ItemCodes, KeyCodes, find_key
from evalkit.sources import Table, reading

BATCH_ROWS = 1 << 18
Counts = npt.NDArray[np.int64]


class _ScatteredError(Exception):
    """A user came back after its rows had ended."""


@dataclass(slots=True)
class Popularity:
    """Counts of the training log, of all its users.

    Args:
        users: int64[n_items], distinct users of each item.
        rows: int64[n_items].
        n_users: with a row.
    """

    users: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rows: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    n_users: int = 0

    def make_room(self, n_items: int) -> None:
        """Hold so many items."""
        room = n_items - self.rows.size
        self.users, self.rows = np.pad(self.users, (0, room)), np.pad(self.rows, (0, room))


@kernel(allocates=False)
def find_runs(keys, begins):  # type: ignore[no-untyped-def]
    """The first row of each run of equal keys, then the end of the last one; how many runs."""
    n = 0
    for row in range(keys.size):
        begins[n] = row
        n += row == 0 or keys[row] != keys[row - 1]
    begins[n] = keys.size
    return n


@kernel(allocates=False)
def count_rows(table, items, begins, first_owner, start, last, n_users, n_rows):  # type: ignore[no-untyped-def]
    """Count rows, and users of each item, of users whose rows lie together.

    Args:
        items: keys.
        begins: int64[n_runs + 1], the first row of each run of one user.
        first_owner: a number of the first run's user; the next ones follow.
        start: the first row to be counted.
        last: int64[n_items], the user whom each item was met with last.

    Gives the first row whose item `table` lacks; behind the last one where it has all.
    """
    for run in range(begins.size - 1):
        owner = first_owner + run
        for row in range(max(start, begins[run]), begins[run + 1]):
            item = find_key(table, items[row])
            if item < 0:
                return row
            n_rows[item] += 1
            n_users[item] += last[item] != owner
            last[item] = owner
    return items.size


def count_popularity(table: Table, users: IdPlan, items: ItemCodes) -> Popularity:
    """Read the training log once; twice where the rows of a user lie apart."""
    try:
        return _count_in_order(table, users, items)
    except _ScatteredError:
        return _count_scattered(table, users, items)


def _batches(table: Table, plan: IdPlan, items: ItemCodes) -> Iterator[pl.DataFrame]:
    """Rows with keys of their users and items."""
    with reading(table):
        columns = [plan.key().alias(USER_KEY), *items.plan.select(ITEM_KEY)]
        for batch in table.stream(columns, most=BATCH_ROWS):
            if (rows := batch.drop_nulls([USER_KEY, ITEM_KEY])).height:
                yield rows


def _count_in_order(table: Table, plan: IdPlan, items: ItemCodes) -> Popularity:
    found, owners = Popularity(), _Owners()
    last = np.zeros(0, dtype=np.int64)
    for rows in _batches(table, plan, items):
        begins, first = owners.runs_of(as_keys(rows[USER_KEY]))
        keys, row = as_keys(rows[ITEM_KEY]), 0
        if items.plan.hashed:  # ids are held against those that are known
            items.codes_of_rows(rows)
        while row < keys.size:
            last = np.pad(last, (0, items.n - last.size))
            found.make_room(items.n)
            counters = last, found.users, found.rows
            row = count_rows(items.table, keys, begins, first, row, *counters)
            if row < keys.size:
                items.codes_of_keys(keys[row:])
    found.n_users = owners.check()
    return found


class _Owners:
    """Numbers of the users whose rows come by, from 1; each must come once."""

    def __init__(self) -> None:
        self._keys: list[Keys] = []  # of runs
        self.n, self._n_checked = 0, 0

    def runs_of(self, keys: Keys) -> tuple[Counts, int]:
        """Where runs of one user begin, and the last one ends; the number of the first user.

        Raises:
            _ScatteredError: a user came back.
        """
        begins = np.empty(keys.size + 1, dtype=np.int64)
        begins = begins[: find_runs(keys, begins) + 1]
        own = keys[begins[:-1]]
        goes_on = bool(self._keys) and self._keys[-1][-1] == own[0]
        first = self.n if goes_on else self.n + 1
        if (new := own[int(goes_on) :]).size:
            self._keys.append(new)
        self.n = first + own.size - 1
        if self.n > 2 * self._n_checked:
            self.check()
        return begins, first

    def check(self) -> int:
        """How many users there are.

        Raises:
            _ScatteredError: one came back.
        """
        keys = np.concatenate([*self._keys, np.empty(0, dtype=np.uint64)])
        self._keys, self._n_checked = [keys] if keys.size else [], keys.size
        if not (keys[1:] > keys[:-1]).all() and np.unique(keys).size < keys.size:
            raise _ScatteredError
        return int(keys.size)


def _count_scattered(table: Table, plan: IdPlan, items: ItemCodes) -> Popularity:
    users, found = KeyCodes(), Popularity()
    pairs: list[Keys] = []
    for rows in _batches(table, plan, items):
        owners = users.codes_of(as_keys(rows[USER_KEY])).astype(np.uint64)
        codes = items.codes_of_rows(rows)
        found.make_room(items.n)
        found.rows += np.bincount(codes, minlength=items.n)
        pairs.append(np.unique((owners << np.uint64(32)) | codes.astype(np.uint64)))
    count_distinct(_sorted(pairs), found.users)
    found.n_users = users.n
    return found


def _sorted(parts: list[Keys]) -> Keys:
    """All keys in order; parts are given back as they are copied, so that none stands twice."""
    whole, begin = np.empty(sum(each.size for each in parts), dtype=np.uint64), 0
    while parts:
        own = parts.pop()
        whole[begin : begin + own.size] = own
        begin += own.size
    whole.sort()
    return whole


@kernel(allocates=False)
def count_distinct(pairs, n_users):  # type: ignore[no-untyped-def]
    """Count the users of each item, whose code is the lower half of a sorted pair."""
    for row in range(pairs.size):
        if row == 0 or pairs[row] != pairs[row - 1]:
            n_users[np.int64(pairs[row] & np.uint64(0xFFFFFFFF))] += 1
