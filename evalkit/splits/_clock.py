"""Times of all parts: how many rows share theirs, what all are multiples of, rows by day."""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Flags, Ints

Ticks = Ints
_NO_TIMES = np.zeros(0, dtype=np.int64)
_A_PIECE = 1 << 20  # rows that are counted together
_MOST_TICKS = 1 << 28  # bytes of a table with an entry for each tick


@dataclass(slots=True)
class Days:
    """How many rows there are of each day, and the first and last time."""

    a_day: int
    n: int = 0
    low: int = np.iinfo(np.int64).max
    high: int = np.iinfo(np.int64).min
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, times: Ticks, letters: Any = None) -> None:
        """Count in rows; with letters those of train alone."""
        letters = np.ones(times.size, dtype=np.uint8) if letters is None else letters
        found = np.empty((2, times.size), dtype=np.int64)
        state = np.array([0, self.low, self.high, 0], dtype=np.int64)
        count_days(times, letters, self.a_day, found, state)
        n_found, self.low, self.high = int(state[0]), int(state[1]), int(state[2])
        self.n += int(state[3])
        if n_found > 64:
            days, places = np.unique(found[0, :n_found], return_inverse=True)
            sums = np.bincount(places, weights=found[1, :n_found]).astype(np.int64)
            found, n_found = np.stack([days, sums]), days.size
        for day, count in zip(*found[:, :n_found].tolist(), strict=True):
            self.counts[day] = self.counts.get(day, 0) + count


@dataclass(slots=True)
class TimeTies:
    """Rows that share their time with another, over held-out rows and then train.

    Train in the order of time is only walked over; else it is read once more, into a table with
    an entry for each tick, or where there are too many of these, sorted.

    Args:
        moments, n_at: different held-out times, sorted, and the rows at each.
        shared: what `n_shared` gives, where somebody else counted.
    """

    moments: Ticks
    n_at: Ticks
    step: int = 0
    low: int = np.iinfo(np.int64).max
    high: int = np.iinfo(np.int64).min
    _is_hit: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    _state: Ticks = field(default_factory=lambda: np.zeros(6, np.int64))
    _table: Bytes | None = None
    _again: list[Ticks] = field(default_factory=list)
    n_train: int = 0
    shared: int | None = None

    @classmethod
    def of(cls, held: Sequence[tuple[Ticks, Ticks]]) -> "TimeTies":
        """With the times of held-out parts."""
        moments, n_at = held[0] if held else (_NO_TIMES, _NO_TIMES)
        if len(held) > 1:
            moments, places = np.unique(np.concatenate([m for m, _ in held]), return_inverse=True)
            n_at = np.bincount(places, np.concatenate([n for _, n in held]), moments.size)
        clock = cls(moments, n_at.astype(np.int64))
        clock._is_hit = np.zeros(moments.size, dtype=np.bool_)
        clock._state[0] = -1  # no row yet
        for begin in range(0, moments.size, 1 << 14):
            clock.step = int(np.gcd.reduce(moments[begin : begin + (1 << 14)], initial=clock.step))
            if clock.step == 1:
                break
        return clock

    @property
    def is_walked(self) -> bool:
        """Train came in the order of time."""
        return not self._state[5]

    def add(self, times: Ticks, letters: Any) -> None:
        """Rows of train, in the order of the log."""
        if self.step != 1:
            of_train = times[(letters == 1) | (letters >= 4)]
            self.step = int(np.gcd.reduce(of_train, initial=self.step))
        if self.is_walked:
            walk(times, letters, self.moments, self._is_hit, self._state)

    def add_again(self, times: Ticks, letters: Any, low: int, high: int) -> None:
        """The same rows once more, where they were not in the order of time."""
        times = times[(letters == 1) | (letters >= 4)]
        self.n_train += times.size
        if high - low >= _MOST_TICKS:
            self._again.append(times)
            return
        if self._table is None:
            self._table = np.zeros(high - low + 1, dtype=np.uint8)
            for _ in range(2):
                mark_ticks(self.moments[self.n_at > 1], low, self._table)
            mark_ticks(self.moments[self.n_at == 1], low, self._table)
        mark_ticks(times, low, self._table)

    def n_shared(self) -> int:
        """Rows of all parts whose time another row has, too."""
        if self.shared is not None:
            return self.shared
        if self._table is not None:
            n_single = int(np.count_nonzero(self._table == 1))
            return int(self.n_at.sum()) + self.n_train - n_single
        if self._again:
            self.shared = self._count_sorted()
            return self.shared
        state = self._state.copy()
        end_run(self.moments, self._is_hit, state)
        return int(state[4]) + int(self.n_at[(self.n_at > 1) | self._is_hit].sum())

    def _count_sorted(self) -> int:
        """The same of rows in no order, which are put into one array, sorted where it stands."""
        n_held = int(self.n_at.sum())
        ordered = np.empty(n_held + self.n_train, dtype=np.int64)
        ordered[:n_held] = np.repeat(self.moments, self.n_at)
        end = ordered.size
        while self._again:
            times = self._again.pop()
            ordered[end - times.size : end] = times
            end -= times.size
        ordered.sort()
        n_shared = 0
        for begin in range(0, ordered.size, _A_PIECE):
            piece = ordered[max(begin - 1, 0) : begin + _A_PIECE + 1]
            same = np.zeros(piece.size + 1, dtype=np.bool_)
            same[1:-1] = piece[1:] == piece[:-1]
            is_shared = (same[1:] | same[:-1])[min(begin, 1) :]
            n_shared += int(np.count_nonzero(is_shared[:_A_PIECE]))
        return n_shared


@kernel(allocates=False)
def count_days(times, letters, a_day, found, state):
    """Runs of rows of one day, and how many rows each has; the first and last time."""
    n_found, low, high, n_rows = state[0], state[1], state[2], state[3]
    begin, end = 0, 0
    for row in range(times.size):
        if letters[row] != 1 and letters[row] < 4:
            continue
        time = times[row]
        n_rows += 1
        if time < begin or time >= end:
            day = time // a_day
            begin = day * a_day
            end = begin + a_day
            found[0, n_found] = day
            found[1, n_found] = 0
            n_found += 1
        found[1, n_found - 1] += 1
        low = min(low, time)
        high = max(high, time)
    state[0], state[1], state[2], state[3] = n_found, low, high, n_rows


@kernel(allocates=False)
def end_run(moments, is_hit, state):
    """Count the rows of the last time that came.

    Args:
        state: a place in `moments` (-1: no row came), the last time, rows of it, unused, rows that
            share theirs, whether a time was less than the one before.
    """
    if state[0] < 0:
        return
    begin, end = state[0], moments.size
    if begin < end and moments[begin] < state[1]:
        begin += 1
        while begin < end:
            middle = (begin + end) // 2
            if moments[middle] < state[1]:
                begin = middle + 1
            else:
                end = middle
    state[0] = begin
    is_held = begin < moments.size and moments[begin] == state[1]
    if is_held:
        is_hit[begin] = True
    if is_held or state[2] > 1:
        state[4] += state[2]


@kernel(allocates=False)
def walk(times, letters, moments, is_hit, state):
    """Rows of train in the order of time: those that share theirs; stops where it is not."""
    for row in range(times.size):
        if letters[row] != 1 and letters[row] < 4:
            continue
        if state[0] >= 0 and times[row] == state[1]:
            state[2] += 1
            continue
        if state[0] < 0:
            state[0] = 0
        elif times[row] < state[1]:
            state[5] = 1
            return
        else:
            end_run(moments, is_hit, state)
        state[1] = times[row]
        state[2] = 1


@kernel(allocates=False)
def mark_ticks(times, low, table):
    """0, 1 or 2 rows and more of each tick."""
    for row in range(times.size):
        place = times[row] - low
        if table[place] < 2:
            table[place] += 1
