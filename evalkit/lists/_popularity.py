"""How many users of the training log have each item."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.ids import ITEM_KEY, USER_KEY, IdPlan, as_keys
from evalkit.kernels import kernel
from evalkit.lists._codes import Codes, ItemCodes, KeyCodes
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


@kernel(allocates=False)
def count_rows(items, begins, users, last, n_users, n_rows):  # type: ignore[no-untyped-def]
    """Count rows, and users of each item, of users whose rows lie together.

    Args:
        begins: int64[n_runs + 1], the first row of each run of one user.
        users: int32[n_runs], the code of its user.
        last: int32[n_items], the user whom each item was met with last.
    """
    for run in range(users.size):
        user = users[run]
        for row in range(begins[run], begins[run + 1]):
            item = items[row]
            n_rows[item] += 1
            n_users[item] += last[item] != user
            last[item] = user


def count_popularity(table: Table, users: IdPlan, items: ItemCodes) -> Popularity:
    """Read the training log once; twice where the rows of a user lie apart."""
    try:
        return _count(table, users, items, in_order=True)
    except _ScatteredError:
        return _count(table, users, items, in_order=False)


def _count(table: Table, plan: IdPlan, items: ItemCodes, *, in_order: bool) -> Popularity:
    users, found = KeyCodes(), Popularity()
    last: Codes = np.zeros(0, dtype=np.int32)
    pairs: list[npt.NDArray[np.uint64]] = []
    before = -1  # the user of the row before
    with reading(table):
        columns = [plan.key().alias(USER_KEY), *items.plan.select(ITEM_KEY)]
        for batch in table.stream(columns, most=BATCH_ROWS):
            rows = batch.drop_nulls([USER_KEY, ITEM_KEY])
            if not rows.height:
                continue
            keys, codes = as_keys(rows[USER_KEY]), items.codes_of_rows(rows)
            begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
            n_known = users.n
            owners = users.codes_of(keys[begins])
            if in_order and owners.size - (owners[0] == before) != users.n - n_known:
                raise _ScatteredError
            before = owners[-1]
            room = items.n - found.rows.size
            found.rows, found.users = np.pad(found.rows, (0, room)), np.pad(found.users, (0, room))
            last = np.pad(last, (0, room), constant_values=-1)
            ends = np.append(begins, keys.size)
            count_rows(codes, ends, owners, last, found.users, found.rows)
            if not in_order:
                owner = np.repeat(owners, np.diff(ends)).astype(np.uint64)
                pairs.append(np.unique((owner << np.uint64(32)) | codes.astype(np.uint64)))
    if pairs:
        distinct = np.unique(np.concatenate(pairs)) & np.uint64(0xFFFFFFFF)
        found.users = np.bincount(distinct.astype(np.int64), minlength=items.n).astype(np.int64)
    found.n_users = users.n
    return found
