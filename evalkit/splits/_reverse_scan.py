"""A log in the order of time, read once from its end: rows are held out before their train comes.

A user's latest rows are those that come first, so nothing is kept of the others but how many a
user has; and each train row finds all that is held out of its user.
"""

# mypy: disable-error-code="no-untyped-def"

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl

from evalkit.config import SplitSection
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Int32s, Ints
from evalkit.splits._clock import TimeTies
from evalkit.splits._codes import FootersDifferError
from evalkit.splits._counts import bounds_of, tell_of_one
from evalkit.splits._feed import fitted
from evalkit.splits._filters import TEST, TRAIN, VALIDATION, LogRows
from evalkit.splits._held import Overlap
from evalkit.splits._log import LogFeed
from evalkit.splits._source import BATCH, refuse_changed
from evalkit.splits.leakage import Leaks

FAR = np.iinfo(np.int64).max
BLOCK = 64  # rows whose users are fetched together
LEFT = 24  # bits of a user's word: held-out rows that are still to come; the others are of items
N_BITS = 39
SEEN = 1 << 62  # of a pair: train has it; below it 31 bits of rows of validation, and of test
MOST_TIES = 1 << 22  # train rows at the time of a held-out one, which are kept
PARTS = {"validation": VALIDATION, "test": TEST}
Ticks = Ints


def _scratch() -> tuple[Int32s, Int32s, Int32s, Ticks, Ticks]:
    """What `walk_back` fills for one batch, in memory that was touched before."""
    held, tied, todo = (np.empty(size, np.int32) for size in (BATCH, BATCH, BLOCK))
    moments, days = (np.empty((*shape, BATCH), dtype=np.int64) for shape in ((2, 3), (4,)))
    return held, tied, todo, moments, days


@dataclass(slots=True)
class Back:
    """The latest rows of each user, or a share of them, in a log that comes from its end.

    Args:
        bounds: of each user all rows, none, rows of test, and of validation.
        fewer: users who give fewer test rows than asked for.
        slices: places and numbers of rows to be read together, from the first ones.
        near: a word of each user, see `LEFT`.
        pairs: a hash table of held-out users and items; see `SEEN`.
        own_first: of each part and user the first held-out time.
        letters, flags, state: what `walk_back` fills, and goes on from.
        n_validation: rows of each user; empty where nobody has any.
        marks: of held-out rows as they lie in the log, cold users (1) and items (2).
        cold: rows of cold users, and of cold items, by letter.
    """

    feed: LogFeed
    bounds: Int32s
    fewer: int
    slices: list[tuple[int, int]]
    letters: Bytes
    near: Ticks
    pairs: Ticks
    own_first: Ticks
    state: Ticks
    flags: Bytes
    n_validation: Int32s
    marks: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    cold: dict[int, tuple[int, int]] = field(default_factory=dict)
    _item_first: Ticks = field(default_factory=lambda: np.zeros(0, np.int64))
    _of_items: Int32s = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    _step: int = 0
    _held: list[tuple[Int32s, Int32s, Bytes]] = field(default_factory=list)
    _moments: list[list[Ticks]] = field(default_factory=lambda: [[], []])
    _days: list[Ticks] = field(default_factory=list)
    _ties: list[tuple[Int32s, Int32s, Ticks]] = field(default_factory=list)
    _n_ties: int = 0
    _at: int = 0
    _scratch: tuple[Int32s, Int32s, Int32s, Ticks, Ticks] = field(default_factory=_scratch)

    @classmethod
    def of(cls, feed: LogFeed, rule: SplitSection) -> "Back | None":
        """With users counted; None where the log may be in no order, or the rule wants others."""
        if not is_of_latest(rule):
            return None
        slices = feed.log.slices()
        if not slices:
            return None
        counts = np.zeros(0, dtype=np.int32)
        for users in feed.users_alone():
            counts = fitted(counts, feed.n_users, 0)
            count_codes(users, counts)
        (bounds,), fewer = bounds_of(counts[: feed.n_users], rule)
        held = bounds[:, 2] + bounds[:, 3]
        if held.max(initial=0) >= 1 << LEFT:
            return None
        tell_of_one(bounds[:, 0])
        pairs = np.zeros((16 + 3 * int(held.sum(dtype=np.int64)) // 2, 2), dtype=np.int64)
        pairs[:, 0] = -1
        state = np.zeros(21, dtype=np.int64)
        state[[0, 8, 12, 16]] = FAR
        return cls(
            *(feed, bounds, fewer, slices, np.zeros(feed.n_rows, np.uint8)),
            *(held.astype(np.int64), pairs, np.full((2, held.size), FAR), state),
            *(
                np.zeros(held.size, np.uint8),
                bounds[:, 3].copy() if bounds[:, 3].any() else bounds[:0, 3].copy(),
            ),
        )

    @property
    def n_rows(self) -> Ints:
        """Of each letter."""
        n_test, n_validation = (int(self.bounds[:, at].sum(dtype=np.int64)) for at in (2, 3))
        n_train = int(self.bounds[:, 0].sum(dtype=np.int64)) - n_test - n_validation
        return np.array([0, n_train, n_validation, n_test, 0, 0])

    def add(self, rows: LogRows, leaks: Leaks) -> None:
        """The rows before those that came last."""
        self._item_first = fitted(self._item_first, rows.n_items, FAR)
        self._of_items = fitted(self._of_items, rows.n_items, 0)
        letters = np.empty(rows.n, dtype=np.uint8)
        held, tied, todo, moments, days = self._scratch
        walk_back(
            *(rows.users, rows.items, rows.times, self.n_validation, self.near, self.pairs),
            *(self.own_first, self._item_first, self._of_items, self.flags),
            *(letters, held, moments, days, tied, todo, self.state, leaks.a_day),
        )
        here, ties = held[: self.state[6]], tied[: self.state[5]]
        self._n_ties += ties.size
        if self.state[7] or self._n_ties > MOST_TIES:
            raise FootersDifferError
        self._held.append((rows.users[here], rows.items[here], letters[here]))
        if ties.size:
            self._ties.append((rows.users[ties], rows.items[ties], rows.times[ties]))
        self._days.append(days[:, : self.state[19]].copy())
        for at in range(2):
            n = int(self.state[8 + 4 * at + 1])
            if n:
                self._moments[at].append(moments[at, :, :n].copy())
        if self._step != 1 and rows.n:
            self._step = int(np.gcd.reduce(rows.times, initial=self._step))
        self.letters[rows.begin : rows.begin + rows.height] = rows.spread(letters)

    def end(self, leaks: Leaks) -> None:
        """All rows are here: what leaks are told of, and marks of cold rows in their order."""
        if np.any(self.near & ((1 << LEFT) - 1)):
            refuse_changed(self.feed.log)
        n_train, self.pairs = int(self.state[3]), self.pairs[:0].copy()
        for at in range(2):  # the earliest time has ended
            if self.state[8 + 4 * at] == self.state[0]:
                self.state[8 + 4 * at + 2] = n_train
        users, items, parts = (np.concatenate(each) for each in zip(*self._held, strict=True))
        self._held = []
        of_item = self._item_first == FAR
        self.marks = (self.bounds[:, 0] == self.bounds[:, 2] + self.bounds[:, 3])[users] + (
            2 * of_item[items]
        ).astype(np.uint8)
        found: dict[str, Overlap] = {}
        for at, (name, letter) in enumerate(PARTS.items()):
            here = parts == letter
            if not here.any():
                continue
            marks = self.marks[here]
            self.cold[letter] = int(np.count_nonzero(marks & 1)), int(np.count_nonzero(marks & 2))
            found[name] = self._held_of(at, users[here], items[here])
        self.marks = self.marks[::-1]
        self._tell_days(leaks, n_train, found)
        clock = TimeTies.of([])
        n_shared, run = int(self.state[2]), int(self.state[1])
        clock.step, clock.shared = self._step, n_shared + run * (run > 1)
        known = self.bounds[:, 0] > self.bounds[:, 2] + self.bounds[:, 3]
        leaks.take(found, n_train, (known.astype(np.uint8), self._item_first), clock)

    def _tell_days(self, leaks: Leaks, n_train: int, parts: dict[str, Overlap]) -> None:
        """Rows of each day, of all parts."""
        last = np.array([[self.state[16], n_train, self.state[17], self.state[18]]]).T
        days = np.concatenate([*self._days, last], axis=1)
        ends = {name: (held.moments[0], held.moments[-1]) for name, held in parts.items()}
        if n_train:
            ends["train"] = self._item_first.min(), self.state[20]
        for at, name in enumerate(("train", *PARTS), 1):
            counts = np.diff(days[at], prepend=0)
            here = counts > 0
            of_part = leaks.days_of(name) if name == "train" or name in ends else None
            if of_part is None or not here.any():
                continue
            of_part.n, (low, high) = int(counts.sum()), ends[name]
            of_part.low, of_part.high = int(low), int(high)
            numbers = days[0, here] // leaks.a_day
            of_part.counts = dict(zip(numbers.tolist(), counts[here].tolist(), strict=True))

    def _held_of(self, at: int, users: Int32s, items: Int32s) -> Overlap:
        """What is known of a part; its rows from the last to the first."""
        moments, n_at, later = (each[::-1] for each in _joined(self._moments[at]))
        self._moments[at] = []
        first = self.own_first[at]
        bit = 1 << at
        n_rows = 0
        if self._ties:
            tied = (np.concatenate(each) for each in zip(*self._ties, strict=True))
            ties = pl.DataFrame(dict(zip(("user", "item", "time"), tied, strict=True)))
            held = pl.DataFrame(
                {"user": users, "item": items, "time": np.repeat(moments, n_at)[::-1]}
            )
            near = held.filter(pl.Series((self.flags & bit > 0)[users]))
            n_rows = near.join(ties, on=ties.columns, how="semi").height
        starts = np.zeros(first.size + 1, dtype=np.int64)
        np.cumsum(self.bounds[:, 3 - at], out=starts[1:])
        n_after, n_pairs = (int(self.state[8 + 4 * at + place]) for place in (2, 3))
        return Overlap(
            n=users.size,
            starts=starts,
            of_items=self._of_items[:, at].astype(np.int64),
            own_first=first,
            moments=moments,
            n_at=n_at,
            later=later,
            n_after=n_after,
            users_at_own_first=int(np.count_nonzero(self.flags & bit)),
            in_train=(n_pairs, n_rows),
        )

    def marks_of(self, begin: int, n_rows: int) -> Bytes:
        """Marks of the next rows of the log, from the first on: cold users (1) and items (2)."""
        letters = self.letters[begin : begin + n_rows]
        held = (letters == VALIDATION) | (letters == TEST)
        marks = np.zeros(n_rows, dtype=np.uint8)
        n_held = int(np.count_nonzero(held))
        marks[held] = self.marks[self._at : self._at + n_held]
        self._at += n_held
        return marks

    def crossed(self) -> tuple[int, int]:
        """Users whose boundary goes through equal times."""
        n_users = int(np.count_nonzero(self.flags & 4))
        return n_users, n_users

    def bits(self) -> tuple[Bytes, Bytes]:
        """Which parts each user and item is in, a bit for each letter."""
        n_train = self.bounds[:, 0] - self.bounds[:, 2] - self.bounds[:, 3]
        of_users = np.zeros(n_train.size, dtype=np.uint8)
        of_items = np.zeros(self._item_first.size, dtype=np.uint8)
        for flags, counts in (
            (of_users, (n_train, self.bounds[:, 3], self.bounds[:, 2])),
            (of_items, (self._item_first != FAR, *self._of_items.T)),
        ):
            for letter, n in zip((TRAIN, *PARTS.values()), counts, strict=True):
                flags[n > 0] |= np.uint8(1 << letter)
        return of_users, of_items


def is_of_latest(rule: SplitSection) -> bool:
    """Whether a rule takes the last of each user's rows as they lie in the order of time."""
    return (
        rule.by == "user"
        and rule.order == "time"
        and rule.ties == "input"
        and not rule.folds
        and not (rule.min_rows and rule.below_min == "drop")
        and not (rule.threshold is not None and rule.threshold_in == "test")
    )


def _joined(chunks: list[Ticks]) -> Ticks:
    """Moments, rows at each, and train rows behind it: one of each, where a batch broke it."""
    if not chunks:
        return np.zeros((3, 0), dtype=np.int64)
    for one, other in pairwise(chunks):
        if one[0, -1] == other[0, 0]:
            other[1, 0] += one[1, -1]
            one[1, -1] = 0
    whole = np.concatenate(chunks, axis=1)
    return whole[:, whole[1] > 0]


@kernel(allocates=False)
def count_codes(codes, counts):
    """Rows of each code."""
    for row in range(codes.size):
        counts[codes[row]] += 1


@kernel(allocates=False)
def _pair_of(user, item, n_pairs):
    key = (np.uint64(user) << np.uint64(32)) | np.uint64(item)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key >> np.uint64(32)) * np.uint64(n_pairs) >> np.uint64(32))


@kernel(allocates=False)
def _bit_of(item):
    """One of `N_BITS` bits above the `LEFT` ones; neighbouring items have others."""
    spread = (np.uint64(item) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)
    return np.int64(1) << np.int64(LEFT + np.int64((spread * np.uint64(N_BITS)) >> np.uint64(32)))


@kernel(allocates=False)
def walk_back(
    users, items, times, n_validation, near, pairs, own_first, item_first, of_items, flags,
    letters, held, moments, days, tied, todo, state, a_day,
):  # fmt: skip
    """Letters of rows from the last to the first, and what train and held-out ones share.

    What the rows of a block need is fetched together before the first of it is used.

    Args:
        flags: of users, a train row at the first time of validation (1), of test (2), two parts
            in rows of one time (4).
        held: where the held-out rows stand.
        moments: of each part its times, rows at each, and train rows behind it.
        days: where they begin, and train, validation and test rows from there on.
        tied: train rows at the first held-out time of their user.
        state: time, rows of it, rows that share theirs, train rows, train rows behind the time,
            tied rows, held-out rows, whether a time is later than the one that came before; of
            each part its last moment, how many there are, train rows at or after it, rows whose
            pair train has; where the day begins, rows of validation and test, days, the last
            train time.
    Returns:
        What was fetched, which means nothing.
    """
    # Long: a row is looked at once, for all that is told of it.
    # Wide: all that one object holds; called in one place.
    fetched = 0
    time, run, n_shared, n_train, n_behind = state[0], state[1], state[2], state[3], state[4]
    n_tied, n_held, n_days, is_held = 0, 0, 0, time == state[8] or time == state[12]
    state[9] = state[13] = 0
    for end in range(users.size, 0, -BLOCK):
        begin, n_todo, words = max(0, end - BLOCK), 0, 0
        for row in range(begin, end):
            words |= near[users[row]]
        is_known = n_train > 0 and times[begin] >= state[16] and not is_held
        if is_known and words & ((1 << LEFT) - 1) == 0:
            n_todo, n_more, run = _walk_train(
                *(begin, end, users, items, times, near, item_first, letters, todo, time, run)
            )
            if n_more < 0:
                state[7] = 1
                return fetched
            n_shared += n_more
            n_train += end - begin
            if times[begin] != time:
                time, n_behind = times[begin], n_train - run
            fetched ^= _look_at_pairs(todo, n_todo, users, items, letters, pairs, state)
            continue
        for row in range(end - 1, begin - 1, -1):
            user, item = users[row], items[row]
            if times[row] != time:
                if times[row] > time:
                    state[7] = 1
                    return fetched
                n_shared += run if run > 1 else 0
                run, n_behind, is_held = 0, n_train, False
                for at in (8, 12):
                    if state[at] == time:
                        state[at + 2] = n_train
                time = times[row]
                if time < state[16]:
                    if state[16] < FAR:
                        days[0, n_days], days[1, n_days] = state[16], n_train
                        days[2, n_days], days[3, n_days] = state[17], state[18]
                        n_days += 1
                    state[16] = time // a_day * a_day
            run += 1
            word, bit = near[user], _bit_of(item)
            left = word & ((1 << LEFT) - 1)
            if left:
                part = 0 if n_validation.size and left <= n_validation[user] else 1
                letters[row] = 2 + part
                near[user] = (word - 1) | bit
                at = 8 + 4 * part
                if state[at] != time or state[at + 1] == 0:
                    place = state[at + 1]
                    moments[part, 0, place] = time
                    moments[part, 1, place] = 0
                    moments[part, 2, place] = n_behind
                    state[at] = time
                    state[at + 1] = place + 1
                moments[part, 1, state[at + 1] - 1] += 1
                if is_held and part == 0 and own_first[1, user] == time:
                    flags[user] |= np.uint8(4)
                own_first[part, user] = time
                state[17 + part] += 1
                of_items[item, part] += 1
                held[n_held] = row
                n_held += 1
                is_held = True
            else:
                letters[row] = 1
                if not n_train:
                    state[20] = time
                n_train += 1
                item_first[item] = time
                if is_held and (own_first[0, user] == time or own_first[1, user] == time):
                    tied[n_tied] = row
                    n_tied += 1
                    _note_tie(user, time, own_first, flags)
                if not word & bit:
                    continue
            todo[n_todo] = row
            n_todo += 1
        fetched ^= _look_at_pairs(todo, n_todo, users, items, letters, pairs, state)
    state[0], state[1], state[2], state[3], state[4] = time, run, n_shared, n_train, n_behind
    state[5], state[6], state[19] = n_tied, n_held, n_days
    return fetched


@kernel(allocates=False)
def _walk_train(begin, end, users, items, times, near, item_first, letters, todo, time, run):
    """The same for rows that are all train, none at the time of a held-out one.

    Returns:
        How many are left to be looked at, rows that share their time with another (-1: a time is
        later than the one that came before), and rows of the last time.
    """
    # Wide: a part of what `walk_back` holds; called in one place.
    n_todo, n_shared, is_later = 0, 0, False
    for row in range(end - 1, begin - 1, -1):
        item = items[row]
        letters[row] = 1
        item_first[item] = times[row]
        todo[n_todo] = row
        n_todo += (near[users[row]] & _bit_of(item)) != 0
        is_later |= times[row] > time
        is_same = times[row] == time
        n_shared += 0 if is_same or run < 2 else run
        run = run + 1 if is_same else 1
        time = times[row]
    return n_todo, -1 if is_later else n_shared, run


@kernel(allocates=False)
def _note_tie(user, time, own_first, flags):
    """A train row is at the first held-out time of its user: of which part, and of the next one."""
    if own_first[0, user] == time:
        flags[user] |= np.uint8(1)
    if own_first[1, user] == time:
        flags[user] |= np.uint8(2)
    latest = 0 if own_first[0, user] < FAR else 1
    if own_first[latest, user] == time:
        flags[user] |= np.uint8(4)


@kernel(allocates=False)
def _look_at_pairs(todo, n_todo, users, items, letters, pairs, state):
    """Look at the pairs of rows, which are fetched together; what was fetched means nothing."""
    fetched = 0
    for place in range(n_todo):
        row = todo[place]
        fetched ^= pairs[_pair_of(users[row], items[row], pairs.shape[0]), 0]
    for place in range(n_todo):
        row = todo[place]
        _look_at_pair(users[row], items[row], letters[row], pairs, state)
    return fetched


@kernel(allocates=False)
def _look_at_pair(user, item, letter, pairs, state):
    """Put a held-out row into the table, or count those that a train row shares its pair with."""
    key = (np.int64(user) << 32) | np.int64(item)
    at = _pair_of(user, item, pairs.shape[0])
    while pairs[at, 0] != key and pairs[at, 0] != -1:
        at = at + 1 if at + 1 < pairs.shape[0] else 0
    if letter != 1:
        pairs[at, 0] = key
        pairs[at, 1] += 1 if letter == 3 else 1 << 31
    elif pairs[at, 0] == key and not pairs[at, 1] & SEEN:
        low = (1 << 31) - 1
        state[11] += (pairs[at, 1] >> 31) & low
        state[15] += pairs[at, 1] & low
        pairs[at, 1] |= SEEN
