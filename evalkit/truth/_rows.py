"""Interactions on their way to being grouped: rows in arrays of our own, filled batch by batch."""

import threading
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Floats, Ints, Keys
from evalkit.sources.ids import mix
from evalkit.truth._index import FEW_ITEMS, Grades

Number = TypeVar("Number", bound=np.generic)

MAX_GRADES = 256
GRADE_SLOTS = 1024
SPARE_RUNS = 1.25  # times as many as the rows so far foretell
LEAST_ROWS = 1 << 10  # that can foretell whether users lie apart
LONE_RUNS = 0.9  # runs a row, from which on every row is taken to be a run


class Runs(NamedTuple):
    """Neighbouring rows of one user each.

    Args:
        users: uint64[n_runs].
        borders: int64[n_runs + 1], the first row of each run, then the row behind the last one; or
            empty: users lie apart, and every row is held for a run.
        first: the first row.
    """

    users: Keys
    borders: Ints
    first: int = 0

    @property
    def starts(self) -> Ints:
        """int64[n_runs], the first row of each run."""
        return self.borders[:-1]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.borders[-1] - self.borders[0]) if self.borders.size else self.users.size

    def cut(self, most: int) -> "Iterator[Runs]":
        """The same in parts of so many runs at most."""
        for begin in range(0, self.users.size, most):
            end = begin + most
            yield Runs(self.users[begin:end], self.borders[begin : end + 1], self.first + begin)


class RowPlaces(NamedTuple):
    """Where some rows stand, and the runs that begin with them.

    Args:
        begin: the first row.
        goes_on: its user's run began before.
        run_users: uint64[n_runs], to be filled.
        run_starts: int64[n_runs], to be filled; or empty, where every row is held for a run.
    """

    begin: int
    goes_on: bool
    run_users: Keys
    run_starts: Ints


class RunRoom:
    """Room for runs, in one array where it can be foreseen: to touch new memory takes long.

    Args:
        n_rows: that may come, or None when nobody knows.
    """

    def __init__(self, n_rows: int | None) -> None:
        self.n_runs = 0
        self._n_rows = n_rows
        self._parts: list[Runs] = []  # longer by what has been foreseen
        self._n_filled = 0  # of the last part
        self._last: np.uint64 | None = None  # the user of the row before
        self._by_row = False  # every row is held for a run: half the memory of users who lie apart

    def place(self, begin: int, users: Keys) -> RowPlaces:
        """The place of rows from `begin` on, behind all others."""
        n = int(count_runs(users))
        goes_on = bool(n > 0 and users[0] == self._last)
        n_new = n - goes_on
        if not users.size or (n_new == 0 and not self._by_row):
            return RowPlaces(begin, goes_on, np.empty(0, np.uint64), np.empty(0, np.int64))
        self.n_runs += n_new
        if not self._parts:
            self._by_row = n_new >= max(LEAST_ROWS, LONE_RUNS * users.size)
        if self._by_row:
            n = n_new = users.size
        if not self._parts or self._n_filled + n_new > self._parts[-1].users.size:
            self._cut()
            rest = 2 * begin if self._n_rows is None else max(0, self._n_rows - begin)
            room = n_new + min(rest, int(SPARE_RUNS * n * rest) // users.size)
            borders = np.empty(0 if self._by_row else room + 1, np.int64)
            self._parts.append(Runs(np.empty(room, np.uint64), borders))
        part, own = self._parts[-1], slice(self._n_filled, self._n_filled + n_new)
        self._n_filled += n_new
        self._last = users[-1]
        return RowPlaces(begin, goes_on, part.users[own], part.borders[own])

    def _cut(self) -> None:
        """Leave out what was foreseen and did not come."""
        for part in self._parts[-1:]:
            n = self._n_filled
            self._parts[-1] = Runs(part.users[:n], part.borders[: n + 1])
        self._n_filled = 0

    def take(self, end: int) -> Runs:
        """The runs of all rows, of which the last one stands before `end`; they are given away."""
        self._cut()
        parts, self._parts = self._parts, []
        if len(parts) == 1:
            parts[0].borders[-1:] = end
            return parts[0]
        borders = np.concatenate([*(part.starts for part in parts), np.full(1, end)])
        return Runs(
            np.concatenate([np.empty(0, np.uint64), *(part.users for part in parts)]),
            borders[:0] if self._by_row else borders,
        )


class ManyGradesError(Exception):
    """There are more relevances than codes; the caller starts again without codes."""


@kernel(allocates=False)
def count_runs(users):  # type: ignore[no-untyped-def]
    """How many runs of rows of one user there are."""
    n_runs = np.int64(users.size > 0)
    for row in range(1, users.size):
        n_runs += users[row] != users[row - 1]
    return n_runs


@kernel(allocates=False)
def split_rows(users, items, place, lows):  # type: ignore[no-untyped-def]
    """Low halves of the items, and the runs of rows of one user, into their place.

    Gives what the high halves have in common (0: all are 0).
    """
    begin, run_users, run_starts = place.begin, place.run_users, place.run_starts
    n_runs = 0
    any_high = np.uint64(0)
    is_by_row = run_starts.size == 0
    if is_by_row:  # or no run begins
        for row in range(run_users.size):
            run_users[row] = users[row]
    for row in range(users.size):
        if not is_by_row and (users[row] != users[row - 1] if row > 0 else not place.goes_on):
            run_users[n_runs] = users[row]
            run_starts[n_runs] = begin + row
            n_runs += 1
        lows[begin + row] = np.uint32(items[row] & np.uint64(0xFFFFFFFF))
        any_high |= items[row] >> np.uint64(32)
    return any_high


@kernel(allocates=False)
def split_highs(items, highs):  # type: ignore[no-untyped-def]
    """High halves of the items."""
    for row in range(items.size):
        highs[row] = np.uint32(items[row] >> np.uint64(32))


@kernel(allocates=False)
def encode_grades(bits, first, slots, codes):  # type: ignore[no-untyped-def]
    """Codes of float64 values, given as int64 bits; gives the first row without one.

    `slots` int64[n, 2] holds bits and code + 1 (0: the slot is free).
    """
    for row in range(first, bits.size):
        slot = grade_slot(bits[row], slots)
        if slots[slot, 1] == 0:
            return row
        codes[row] = slots[slot, 1] - 1
    return bits.size


@kernel(allocates=False)
def grade_slot(value, slots):  # type: ignore[no-untyped-def]
    """The slot of a value, or the free one that it would get."""
    slot = np.int64(mix(np.uint64(value)) & np.uint64(slots.shape[0] - 1))
    while slots[slot, 1] != 0 and slots[slot, 0] != value:
        slot = (slot + 1) & (slots.shape[0] - 1)
    return slot


class GradeCodes:
    """Codes of the relevances met so far; threads may ask for them side by side."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bits = np.empty(0, dtype=np.int64)
        self._slots = np.zeros((GRADE_SLOTS, 2), dtype=np.int64)  # replaced, never changed

    @property
    def values(self) -> Floats:
        """float64[256], the values in the order of their codes, then zeros."""
        values = np.zeros(MAX_GRADES)
        values[: self._bits.size] = self._bits.view(np.float64)
        return values

    @property
    def n(self) -> int:
        """How many values have a code."""
        return int(self._bits.size)

    def encode(self, values: Floats, codes: Bytes) -> None:
        """Fill `codes`; new values get the next ones.

        Raises:
            ManyGradesError: there is no code left.
        """
        bits = values.view(np.int64)
        row = 0
        while (row := int(encode_grades(bits, row, self._slots, codes))) < bits.size:
            found, _ = np.unique(bits[row:], return_counts=True)  # without, it loads `numpy.ma`
            self._learn(found)

    def _learn(self, found: Ints) -> None:
        with self._lock:
            known = np.concatenate([self._bits, found[~np.isin(found, self._bits)]])
            if known.size > MAX_GRADES:
                raise ManyGradesError
            slots = np.zeros((GRADE_SLOTS, 2), dtype=np.int64)
            for code, value in enumerate(known):
                slots[grade_slot.interpret(value, slots)] = value, code + 1
            self._bits, self._slots = known, slots


class PairRows:
    """Rows of user, item and perhaps relevance.

    Args:
        room: rows that may come, or None when nobody knows.
        graded: rows have a relevance.
        coded: relevances are few, so that one byte says which; otherwise they stay float64.
        weighed: rows whose relevances are coded have a propensity.
    """

    def __init__(
        self, room: int | None, *, graded: bool = False, coded: bool = True, weighed: bool = False
    ) -> None:
        n = 1 << 16 if room is None else room
        self.grows = room is None
        self.size = 0
        self.graded, self.coded = graded, coded
        self.lows = np.empty(n + FEW_ITEMS, dtype=np.uint32)
        self.highs = np.empty(0, dtype=np.uint32)
        self.codes = np.empty(n if graded and coded else 0, dtype=np.uint8)
        self.own = np.empty(n if weighed or (graded and not coded) else 0, dtype=np.float64)
        self.known = GradeCodes()
        self._runs = RunRoom(room)
        self._lock = threading.Lock()

    @classmethod
    def of(
        cls, users: Keys, items: Keys, relevance: Floats | None = None, *, coded: bool = True
    ) -> "PairRows":
        """Rows that are there already; `coded`: unless there are too many relevances."""
        for with_codes in (True, False) if coded else (False,):
            rows = cls(users.size, graded=relevance is not None, coded=with_codes)
            try:
                rows.write(rows.place(users), users, items, relevance)
            except ManyGradesError:
                continue
            return rows
        raise AssertionError("values of their own need no codes")

    def place(self, users: Keys) -> RowPlaces:
        """The place of the next rows, for which there is room from now on."""
        begin, self.size = self.size, self.size + users.size
        if self.grows and self.size > self.lows.size - FEW_ITEMS:
            more = 2 * self.size
            self.lows = _grown(self.lows, more + FEW_ITEMS)
            self.highs = _grown(self.highs, more) if self.highs.size else self.highs
            self.codes = _grown(self.codes, more) if self.codes.size else self.codes
            self.own = _grown(self.own, more) if self.own.size else self.own
        return self._runs.place(begin, users)

    def write(
        self,
        place: RowPlaces,
        users: Keys,
        items: Keys,
        relevance: Floats | None,
        propensity: Floats | None = None,
    ) -> None:
        """Take over rows; threads may do so side by side unless the room grows.

        Raises:
            ManyGradesError: relevances are not few.
        """
        begin, end = place.begin, place.begin + users.size
        any_high = split_rows(users, items, place, self.lows)
        if any_high:
            with self._lock:
                if not self.highs.size:
                    self.highs = np.zeros(self.lows.size - FEW_ITEMS, dtype=np.uint32)
            split_highs(items, self.highs[begin:end])
        if relevance is not None and self.coded:
            self.known.encode(relevance, self.codes[begin:end])
            if propensity is not None:
                self.own[begin:end] = propensity
        elif relevance is not None:
            self.own[begin:end] = relevance

    @property
    def n_runs(self) -> int:
        """Runs of rows of one user."""
        return self._runs.n_runs

    def take_runs(self) -> Runs:
        """The runs of all rows; they are given away."""
        return self._runs.take(self.size)

    def grades(self) -> Grades:
        """The relevances, or propensities beside their codes; written rows alone count."""
        return Grades(
            self.codes[: self.size] if self.codes.size else self.codes,
            self.known.values,
            self.own[: self.size] if self.own.size else self.own,
        )

    @property
    def is_plain(self) -> bool:
        """Whether every relevance is 1."""
        return self.codes.size > 0 and self.known.values[: self.known.n].tolist() == [1.0]

    def forget_grades(self) -> None:
        """Every row is simply relevant."""
        self.codes, self.own = self.codes[:0], self.own[:0]

    def count_not_finite(self) -> int:
        """Rows whose relevance is NaN or infinite."""
        if self.own.size and not self.codes.size:
            return int(self.size - np.isfinite(self.own[: self.size]).sum())
        bad = np.flatnonzero(~np.isfinite(self.known.values))
        return int(np.isin(self.codes[: self.size], bad).sum()) if bad.size else 0


def _grown(array: npt.NDArray[Number], size: int) -> npt.NDArray[Number]:
    larger = np.zeros(size, dtype=array.dtype)
    larger[: array.size] = array
    return larger
