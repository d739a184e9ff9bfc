"""Held-out rows of one part, laid by user; rows of train stream past them once."""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Int32s, Ints, Keys
from evalkit.splits._filters import lay_rows
from evalkit.splits._kernels import first_times, sort_groups

NEVER, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Ticks = Ints
_GOLDEN = 0x9E3779B97F4A7C15
_NO_TIMES = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Held:
    """Held-out rows of one part, which rows of train are held against.

    Train rows that `find_near` chose look at a bit of their user and item; and where that is set,
    at the user's rows of that item.
    """

    _users: list[Int32s] = field(default_factory=list)
    _items: list[Int32s] = field(default_factory=list)
    _times: list[Ticks] = field(default_factory=list)
    n: int = 0
    starts: Ticks = field(default_factory=lambda: np.zeros(1, np.int64))
    items: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    times: Ticks = field(default_factory=lambda: _NO_TIMES)
    own_first: Ticks = field(default_factory=lambda: _NO_TIMES)
    moments: Ticks = field(default_factory=lambda: _NO_TIMES)
    n_at: Ticks = field(default_factory=lambda: _NO_TIMES)
    _between: Ticks = field(default_factory=lambda: _NO_TIMES)
    words: Ticks = field(default_factory=lambda: _NO_TIMES)
    _bits: Keys = field(default_factory=lambda: np.zeros(1, np.uint64))
    _flags: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    _of_users: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    _state: Ticks = field(default_factory=lambda: np.zeros(3, np.int64))

    def add(self, users: Int32s, items: Int32s, times: Ticks) -> None:
        """Held-out rows; `times` is empty where there are none."""
        self._users.append(users)
        self._items.append(items)
        self._times.append(times)
        self.n += users.size

    def lay(self) -> None:
        """Rows by user, of one user by item and time, and the bits of all; before train comes."""
        users, items = np.concatenate(self._users), np.concatenate(self._items)
        times = np.concatenate(self._times)
        self._users, self._items, self._times = [], [], []
        n_users = int(users.max()) + 1 if users.size else 0
        self.starts, laid = lay_rows(users, n_users)
        sort_groups(self.starts, laid, items, times, np.empty_like(laid))
        self.items = items[laid]
        self.times = times[laid] if times.size else times
        self.own_first = np.full(n_users, FAR)
        self._of_users = np.zeros(n_users, dtype=np.uint8)
        self._flags = np.zeros(self.n, dtype=np.uint8)
        self._bits = np.zeros(1 << max(0, (8 * self.n - 1).bit_length() - 6), dtype=np.uint64)
        self.words = np.zeros(n_users, dtype=np.int64)
        set_bits(users, items, self.words, self._bits)
        if times.size:
            self.moments, self.n_at = np.unique(np.sort(times, kind="stable"), return_counts=True)
            first_times(users, times, self.own_first)
        else:
            self.own_first[users] = 0
        self._between = np.zeros(self.moments.size + 1, dtype=np.int64)

    def look(self, users: Int32s, items: Int32s, times: Ticks, letters: Any, near: Int32s) -> None:
        """Rows of train, in any order; those with letters of held-out rows are passed over.

        Args:
            near: the rows that `find_near` chose of them.
        """
        times = times if self.moments.size else _NO_TIMES
        if self.moments.size:
            count_later(times, letters, self.moments, self._between, self._state)
        self._state[2] += look_up(
            *(users, items, times, near, self.own_first, self._of_users),
            *(self._bits, self.starts, self.items, self.times, self._flags),
        )

    def overlap(self) -> "Overlap":
        """What train rows were found to have in common with these; after all of them."""
        found = np.zeros(2, dtype=np.int64)
        count_flags(self.starts, self.items, self.times, self._flags, found)
        n_pairs, n_rows = (int(each) for each in found)
        return Overlap(
            n=self.n,
            starts=self.starts,
            of_items=np.bincount(self.items),
            own_first=self.own_first,
            moments=self.moments,
            n_at=self.n_at,
            later=np.cumsum(self._between[::-1])[::-1][1:],
            n_after=int(self._state[1]),
            users_at_own_first=int(np.count_nonzero(self._of_users & 2)),
            in_train=(n_pairs, n_rows if self.moments.size else n_pairs),
            n_behind_own=int(self._state[2]),
            users_behind_own=int(np.count_nonzero(self._of_users & 1)),
        )


@dataclass(frozen=True, slots=True)
class Overlap:
    """What train has in common with the held-out rows of one part.

    Args:
        starts: where the rows of each user begin.
        of_items: rows of each item.
        own_first: the first held-out time of each user.
        moments, n_at: different held-out times, and rows at each; empty where there are none.
        later: of each of the moments, train rows behind it.
        n_after: train rows at or after the first of the moments.
        users_at_own_first: with a train row at the very time of their first held-out row.
        in_train: rows whose user and item are in train, and those whose time is with them.
        n_behind_own, users_behind_own: train rows later than the first held-out row of their user.
    """

    n: int
    starts: Ticks
    of_items: Ticks
    own_first: Ticks
    moments: Ticks
    n_at: Ticks
    later: Ticks
    n_after: int
    users_at_own_first: int
    in_train: tuple[int, int]
    n_behind_own: int = 0
    users_behind_own: int = 0


@kernel(allocates=False)
def _bit_of(user, item, n_words):
    key = (np.uint64(user) << np.uint64(32)) | np.uint64(item)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(_GOLDEN)
    return (key >> np.uint64(16)) & np.uint64(n_words * 64 - 1)


@kernel(allocates=False)
def _word_of(item):
    """One bit of a word; neighbouring items have others."""
    return np.int64(1) << ((np.int64(item) * 0x9E3779B1 >> 20) & 63)


@kernel(allocates=False)
def _few_of(item):
    """The place of the same bit in its byte."""
    return np.int64(1) << ((np.int64(item) * 0x9E3779B1 >> 20) & 7)


@kernel(allocates=False)
def set_bits(users, items, words, bits):
    """A bit of each item in its user's word, and one for each user and item in all the others."""
    for row in range(users.size):
        words[users[row]] |= _word_of(items[row])
        bit = _bit_of(users[row], items[row], bits.size)
        bits[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@kernel(allocates=False)
def _at_least(values, begin, end, wanted):
    """The first place of sorted values that are not less."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


def lay_near(parts: Iterable[Held]) -> tuple[Ticks, Bytes]:
    """What `find_near` looks at: large, and small enough to stay near.

    Returns:
        int64[n_users, 2], the first held-out time of each user in any part, and bits of its items;
        uint8[n_users], the same bits by eight, 0 where nothing is held out.
    """
    parts = list(parts)
    near = np.zeros((max((each.words.size for each in parts), default=0), 2), dtype=np.int64)
    near[:, 0] = FAR
    for part in parts:
        mine = near[: part.words.size]
        np.minimum(mine[:, 0], part.own_first, out=mine[:, 0])
        mine[:, 1] |= part.words
        part.words = _NO_TIMES
    few = np.bitwise_or.reduce(near[:, 1:].copy().view(np.uint8), axis=1)
    return near, few


@kernel(allocates=False)
def find_near(users, items, times, letters, near, few, least, found):
    """Train rows at or behind a held-out time of their user, or whose item may be held out.

    What the rows of a block need is fetched together; the second result means nothing.

    Args:
        near, few: as `lay_near` gives them.
        least: of the held-out times.
        found: where these rows stand, as many as the first result says.
    """
    n_found, fetched = 0, 0
    for block in range(0, users.size, 64):
        n_before, n_close = n_found, n_found
        for row in range(block, min(block + 64, users.size)):
            user = users[row]
            if (letters[row] != 1 and letters[row] < 4) or user >= few.size:
                continue
            is_late = few[user] != 0 and times.size > 0 and times[row] >= least
            if is_late or few[user] & _few_of(items[row]):
                fetched ^= near[user, 0]
                found[n_close] = row
                n_close += 1
        for place in range(n_before, n_close):
            row = found[place]
            user = users[row]
            is_behind = times.size > 0 and times[row] >= near[user, 0]
            if is_behind or near[user, 1] & _word_of(items[row]):
                found[n_found] = row
                n_found += 1
    return n_found, fetched


@kernel(allocates=False)
def count_later(times, letters, moments, between, state):
    """Count train rows by how many of the held-out times are earlier.

    Args:
        moments: different held-out times, sorted.
        between: of so many earlier ones, train rows.
        state: where the last row stood in `moments`, rows at or after the first of them, unused.
    """
    cursor, n_after = state[0], state[1]
    low, high = FAR, FAR  # times with that place: later than `low`, and not than `high`
    for row in range(times.size):
        if letters[row] != 1 and letters[row] < 4:
            continue
        time = times[row]
        if time <= low or time > high:
            if cursor > 0 and moments[cursor - 1] >= time:
                cursor = _at_least(moments, 0, cursor, time)
            elif cursor + 1 < moments.size and moments[cursor + 1] < time:
                cursor = _at_least(moments, cursor, moments.size, time)
            elif cursor < moments.size and moments[cursor] < time:
                cursor += 1
            low = moments[cursor - 1] if cursor else NEVER
            high = moments[cursor] if cursor < moments.size else FAR
        n_after += time >= moments[0]
        between[cursor] += 1
    state[0], state[1] = cursor, n_after


@kernel(allocates=False)
def look_up(
    users, items, times, near, own_first, of_users, bits, starts, held_items, held_times, flags
):
    """Hold train rows against held-out ones; how many are behind their user's first one.

    Args:
        near: the rows that are looked at.
        of_users: bit 0: a train row behind the user's first held-out one; bit 1: at its time.
        flags: at the first of held-out rows with one item: bit 0; with one item and time: bit 1.
    """
    # Wide: all that one object holds; called in one place.
    n_behind = 0
    for place_near in range(near.size):
        row = near[place_near]
        user, item = users[row], items[row]
        if user >= own_first.size:
            continue
        if times.size and times[row] >= own_first[user]:
            if times[row] > own_first[user]:
                n_behind += 1
                of_users[user] |= np.uint8(1)
            else:
                of_users[user] |= np.uint8(2)
        bit = _bit_of(user, item, bits.size)
        if not (bits[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
            continue
        end = starts[user + 1]
        place = _at_least(held_items, starts[user], end, item)
        if place == end or held_items[place] != item:
            continue
        flags[place] |= np.uint8(1)
        if times.size:
            of_item = _at_least(held_items, place, end, item + 1)
            place = _at_least(held_times, place, of_item, times[row])
            if place < end and held_items[place] == item and held_times[place] == times[row]:
                flags[place] |= np.uint8(2)
    return n_behind


@kernel(allocates=False)
def count_flags(starts, items, times, flags, found):
    """Held-out rows with the user and item of a train row, and with its time."""
    n_pairs, n_rows = 0, 0
    for user in range(starts.size - 1):
        of_pair, of_row = False, False
        for place in range(starts[user], starts[user + 1]):
            is_new = place == starts[user] or items[place] != items[place - 1]
            if is_new:
                of_pair = flags[place] & 1 != 0
            if is_new or (times.size and times[place] != times[place - 1]):
                of_row = flags[place] & 2 != 0
            n_pairs += of_pair
            n_rows += of_row
    found[0], found[1] = n_pairs, n_rows
