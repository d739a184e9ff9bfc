"""How many users of the training log have each item."""

from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np
import polars as pl

from evalkit.item_lists._codes import ItemCodes, KeyCodes, find_key
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints, Keys
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM_KEY, USER_KEY, IdPlan, PassShare, as_keys, distinct_keys
from evalkit.truth import SeenRows, Train, count_runs, item_at

BATCH_ROWS = 1 << 18
LEAST_REPEATS = 1 << 22  # pairs of scattered rows, before they are looked through for repeats


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

    users: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    n_users: int = 0


@kernel(allocates=False)
def find_runs(keys, begins):  # type: ignore[no-untyped-def]
    """The first row of each run of equal keys, then the end of the last one."""
    n = 0
    for row in range(keys.size):
        begins[n] = row
        n += row == 0 or keys[row] != keys[row - 1]
    begins[n] = keys.size


@kernel(allocates=False)
def count_rows(table, items, begins, first_owner, start, owned, again):  # type: ignore[no-untyped-def]
    """Count users of each item, and what they have of it again, of users whose rows lie together.

    Args:
        items: keys.
        begins: int64[n_runs + 1], the first row of each run of one user.
        first_owner: a number of the first run's user; the next ones follow.
        start: the first row to be counted.
        owned: int64[n_items, 2], the user whom each item was met with last, and how many had it.
        again: int64[n_items].

    Gives the first row whose item `table` lacks; behind the last one where it has all.
    """
    for run in range(begins.size - 1):
        owner = first_owner + run
        for row in range(max(start, begins[run]), begins[run + 1]):
            item = find_key(table, items[row])
            if item < 0:
                return row
            if owned[item, 0] == owner:
                again[item] += 1
            else:
                owned[item, 0] = owner
                owned[item, 1] += 1
    return items.size


@kernel(allocates=False)
def count_all(table, items, start, counts):  # type: ignore[no-untyped-def]
    """Count rows of each item, from `start` on.

    Gives the first row whose item `table` lacks; behind the last one where it has all.
    """
    for row in range(start, items.size):
        item = find_key(table, items[row])
        if item < 0:
            return row
        counts[item] += 1
    return items.size


@kernel(allocates=False)
def count_settled(table, starts, lengths, index, counts):  # type: ignore[no-untyped-def]
    """Count users of each item, of users who have each item once."""
    for user in range(starts.size):
        for place in range(starts[user], starts[user] + lengths[user]):
            counts[find_key(table, item_at(index.lows, index.highs, place))] += 1


class PopularityCounter:
    """Counts users of each item while somebody reads the training log.

    Rows of users whom the truth has are counted by threads; `Train` has their items, each once. It
    is over where the rows of another user lie apart: the log is then read again by its shares.

    Args:
        of_rows: rows count where users would; no pair has to be known.
    """

    def __init__(self, items: ItemCodes, *, of_rows: bool = False) -> None:
        self._items, self._owners, self.is_over = items, _Owners(), False
        self._of_rows = of_rows
        self._owned, self._again = np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._known = SimpleQueue[Ints]()  # rows by item, as many as threads have counted

    def add(self, rows: pl.DataFrame, others: pl.DataFrame) -> None:
        """Take the next rows, which have keys of users and items.

        Args:
            others: those of users whom the truth lacks.
        """
        if rows.height and self._items.plan.hashed:  # ids are held against those that are known
            self._items.codes_of_rows(rows)
        if others.height:
            try:
                self._add(others)
            except _ScatteredError:
                self.is_over = True

    def add_known(self, items: Keys) -> None:
        """Count rows of users whom the truth has; from any thread."""
        try:
            counts = self._known.get_nowait()
        except Empty:
            counts = np.zeros(0, dtype=np.int64)
        row = 0
        while row < items.size:
            counts = _padded(counts, max(counts.size, self._items.n))
            row = count_all(self._items.table, items, row, counts)
            if row < items.size:
                self._items.codes_of_keys(items[row:])
        self._known.put(counts)

    def finish(
        self, table: Table, users: IdPlan, n_shares: int, train: Train, kept_rows: SeenRows | None
    ) -> Popularity:
        """What was counted, of a log of which `train` was read.

        Args:
            kept_rows: all of the log by the same shares, where they are on disk.
        """
        try:
            n_users = self._owners.check()
        except _ScatteredError:
            self.is_over = True
        if self.is_over:
            shares = [PassShare(each, n_shares) for each in range(n_shares)]
            counted = [
                _count_scattered(
                    table, users, self._items, each, of_rows=self._of_rows, kept_rows=kept_rows
                )
                for each in shares
            ]
            return Popularity(
                np.sum([_padded(each.users, self._items.n) for each in counted], axis=0),
                np.sum([_padded(each.rows, self._items.n) for each in counted], axis=0),
                sum(each.n_users for each in counted),
            )
        rows = np.zeros(self._items.n, dtype=np.int64)
        while not self._known.empty():
            rows += _padded(self._known.get(), rows.size)
        own, pairs = rows, train.pairs
        if train.has_copies and not self._of_rows:
            own = np.zeros_like(rows)
            count_settled(self._items.table, pairs.starts, pairs.counts, pairs.index, own)
        others = _padded(np.ascontiguousarray(self._owned[:, 1]), rows.size)
        again = _padded(self._again, rows.size)
        n_known = int(np.count_nonzero(pairs.counts))
        own, rows = own + others, rows + others + again
        return Popularity(rows if self._of_rows else own, rows, n_known + n_users)

    def _add(self, rows: pl.DataFrame) -> None:
        items, row = self._items, 0
        begins, first = self._owners.runs_of(as_keys(rows[USER_KEY]))
        keys = as_keys(rows[ITEM_KEY])
        while row < keys.size:
            if room := items.n - self._again.size:
                self._again = np.pad(self._again, (0, room))
                self._owned = np.pad(self._owned, ((0, room), (0, 0)))
            row = count_rows(items.table, keys, begins, first, row, self._owned, self._again)
            if row < keys.size:
                items.codes_of_keys(keys[row:])


class _Owners:
    """Numbers of the users whose rows come by, from 1; each must come once."""

    def __init__(self) -> None:
        self._keys: list[Keys] = []  # of runs
        self.n, self._n_checked = 0, 0

    def runs_of(self, keys: Keys) -> tuple[Ints, int]:
        """Where runs of one user begin, and the last one ends; the number of the first user.

        Raises:
            _ScatteredError: a user came back.
        """
        begins = np.empty(count_runs(keys) + 1, dtype=np.int64)
        find_runs(keys, begins)
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
        if not (keys[1:] > keys[:-1]).all() and distinct_keys(keys).size < keys.size:
            raise _ScatteredError
        return int(keys.size)


def _padded(counts: Ints, n_items: int) -> Ints:
    return np.pad(counts, (0, n_items - counts.size))


def _count_scattered(
    table: Table,
    plan: IdPlan,
    items: ItemCodes,
    share: PassShare,
    *,
    of_rows: bool,
    kept_rows: SeenRows | None,
) -> Popularity:
    """Count users of a share, whose rows come in any order; their pairs are held, each once."""
    users, pairs = KeyCodes(is_shared=False), list[Keys]()
    rows = np.zeros(0, dtype=np.int64)
    n_held, most = 0, LEAST_REPEATS
    with reading(table):
        columns = [plan.key().alias(USER_KEY), *items.plan.select(ITEM_KEY)]
        own = kept_rows.stream(share.number) if kept_rows and kept_rows.is_whole else None
        for batch in own or table.stream(columns, most=BATCH_ROWS):
            known = batch.drop_nulls([USER_KEY, ITEM_KEY])
            if share.n_shares > 1 and own is None:
                known = known.filter(pl.Series(share.holds(known)))
            owners = users.codes_of(as_keys(known[USER_KEY])).astype(np.uint64)
            both = (owners << np.uint64(32)) | items.codes_of_rows(known).astype(np.uint64)
            rows = _padded(rows, items.n) if rows.size < items.n else rows
            count_users(both, rows)
            if of_rows:
                continue
            pairs.append(both)
            n_held += both.size
            if n_held > most:
                pairs = [_distinct(pairs, users.n, items.n)]
                n_held = pairs[0].size
                most = 2 * max(n_held, LEAST_REPEATS)
    if of_rows:
        return Popularity(rows, rows, users.n)
    n_users = np.zeros_like(rows)
    count_users(_distinct(pairs, users.n, items.n), n_users)
    return Popularity(n_users, rows, users.n)


def _distinct(parts: list[Keys], n_users: int, n_items: int) -> Keys:
    """All pairs by user, each once; parts are given back as they are copied."""
    whole, begin = np.empty(sum(each.size for each in parts), dtype=np.uint64), 0
    while parts:
        own = parts.pop()
        whole[begin : begin + own.size] = own
        begin += own.size
    ends, met = np.zeros(n_users, dtype=np.int64), np.full(n_items, -1, dtype=np.int32)
    n_distinct = drop_repeats(whole, ends, np.empty(whole.size, dtype=np.uint32), met)
    whole.resize(n_distinct, refcheck=False)
    return whole


@kernel(allocates=False)
def drop_repeats(pairs, ends, items, met):  # type: ignore[no-untyped-def]
    """Bring pairs together by user, each once; how many there are.

    Args:
        pairs: uint64[n_pairs], a user's code above an item's.
        ends: int64[n_users], zeros; then where the items of each user end.
        items: uint32[n_pairs], room for the items by user.
        met: int32[n_items], -1; then the user whom each item was met with last.
    """
    for row in range(pairs.size):
        ends[np.int64(pairs[row] >> np.uint64(32))] += 1
    begin = np.int64(0)
    for user in range(ends.size):
        n_own = ends[user]
        ends[user] = begin
        begin += n_own
    for row in range(pairs.size):
        owner = np.int64(pairs[row] >> np.uint64(32))
        items[ends[owner]] = pairs[row] & np.uint64(0xFFFFFFFF)
        ends[owner] += 1
    n, begin = 0, np.int64(0)
    for user in range(ends.size):
        for place in range(begin, ends[user]):
            item = items[place]
            if met[item] != user:
                met[item] = user
                pairs[n] = (np.uint64(user) << np.uint64(32)) | np.uint64(item)
                n += 1
        begin = ends[user]
    return n


@kernel(allocates=False)
def count_users(pairs, n_users):  # type: ignore[no-untyped-def]
    """Count the users of each item, whose code is the lower half of a pair."""
    for row in range(pairs.size):
        n_users[np.int64(pairs[row] & np.uint64(0xFFFFFFFF))] += 1
