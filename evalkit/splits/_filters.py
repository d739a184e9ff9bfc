"""Rows that a rule looks at, and which of them are repeats, cold or seen."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Bytes, Flags, Floats, Int32s, Ints, Keys
from evalkit.splits._kernels import lay, mark_first

NONE, TRAIN, VALIDATION, TEST, FOLD_IN, VALIDATION_FOLD_IN = range(6)
PARTS = {
    "train": TRAIN,
    "validation": VALIDATION,
    "test": TEST,
    "fold_in": FOLD_IN,
    "validation_fold_in": VALIDATION_FOLD_IN,
}
COLUMNS = ("users", "items", "times", "relevance", "hashes", "user_hashes", "ranks")
NULLS = ("null_users", "null_items", "null_times")  # reasons that rows are dropped for
OF_COPIES = np.uint64(0x9E3779B97F4A7C15)  # what hashes of a row's copies differ by
Spread = TypeVar("Spread", Bytes, Flags, Int32s)


@dataclass(frozen=True, slots=True)
class Twins:
    """Rows that order alone tells from others: their users, places in the log, and the others'."""

    users: Int32s
    places: Ints
    others: Ints

    def hanging(self, letters: Bytes) -> int:
        """Users of whose twins some are in another part, by the letters of all rows of the log."""
        return count_users(self.users[letters[self.places] != letters[self.others]])


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class LogRows:
    """The rows that a rule looks at, in input order.

    Args:
        users, items: int32, codes from 0.
        times: int64 in the unit of the log; empty without times.
        relevance: float64; empty without.
        hashes: uint64 of user, item and time, and of the user alone; empty unless drawn by.
        ranks: int64 that orders items by id; empty unless ties are by item.
        places: int64, where each row stands behind `begin`; empty where no row in between is left
            out.
        dropped: rows that left, by reason.
        begin, height: where these rows begin in the log, and how many there are with those that
            were left out.
    """

    users: Int32s
    items: Int32s
    times: Ints = field(default_factory=_none)
    n_users: int = 0
    n_items: int = 0
    relevance: Floats = field(default_factory=lambda: np.zeros(0))
    hashes: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    user_hashes: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    ranks: Ints = field(default_factory=_none)
    places: Ints = field(default_factory=_none)
    dropped: dict[str, int] = field(default_factory=dict)
    begin: int = 0
    height: int = -1

    def __post_init__(self) -> None:
        if self.height < 0:
            self.height = int(self.places.max(initial=-1)) + 1 if self.places.size else self.n

    def own(self, values: Spread) -> Spread:
        """Values of all rows of the log: those of the rows that are left."""
        here = values[self.begin : self.begin + self.height]
        return here[self.places] if self.n < self.height else here

    def bare(self) -> "LogRows":
        """Users and items alone."""
        codes = (self.users, self.items, _none(), self.n_users, self.n_items)
        return LogRows(*codes, places=self.places, begin=self.begin, height=self.height)

    def spread(self, values: Spread) -> Spread:
        """Values of the rows that are left, laid over all rows; 0 for the others."""
        if self.n == self.height and not self.places.size:
            return values
        spread = np.zeros(self.height, dtype=values.dtype)
        spread[self.places] = values
        return spread

    @property
    def n(self) -> int:
        """Rows that are left."""
        return self.users.size

    def keep(self, kept: Flags, reason: str) -> None:
        """Drop all other rows, and count them."""
        n_left = kept.size - int(np.count_nonzero(kept))
        if not n_left:
            return
        self.dropped[reason] = self.dropped.get(reason, 0) + n_left
        if not self.places.size:
            self.places = np.arange(self.n)
        for name in (*COLUMNS, "places"):
            values = getattr(self, name)
            if values.size:
                setattr(self, name, values[kept])


def starts_of(codes: Int32s, n_codes: int) -> Ints:
    """Where the rows of each code begin, if they lie side by side; one more for the end."""
    starts = np.zeros(n_codes + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=n_codes), out=starts[1:])
    return starts


def lay_rows(codes: Int32s, n_codes: int) -> tuple[Ints, npt.NDArray[Any]]:
    """Starts, and rows side by side by code."""
    starts = starts_of(codes, n_codes)
    laid = np.empty(codes.size, dtype=np.int32 if codes.size < 2**31 else np.int64)
    lay(codes, starts[:-1].copy(), laid)
    return starts, laid


def pairs_of(rows: LogRows) -> Ints:
    """One number for each user and item."""
    return rows.users.astype(np.int64) * max(rows.n_items, 1) + rows.items


def one_of_each_pair(rows: LogRows, which: str) -> tuple[Flags, int]:
    """One of a user's rows of an item: the first or last by time, the best (its last), or any.

    Returns:
        Which rows stay, and of how many users row order decided that.
    """
    keys: list[npt.NDArray[Any]] = [rows.times] if rows.times.size and which != "any" else []
    if which == "max":
        keys = [*keys, np.nan_to_num(rows.relevance, nan=-np.inf)]  # what is null is worth nothing
    pairs = pairs_of(rows)
    order = np.lexsort([*keys, pairs])  # stable: of equal ones, as they stand
    sorted_pairs = pairs[order]
    edge = np.ones(order.size, dtype=np.bool_)
    if which == "first":
        edge[1:] = sorted_pairs[1:] != sorted_pairs[:-1]
    else:
        edge[:-1] = sorted_pairs[1:] != sorted_pairs[:-1]
    kept = np.zeros(rows.n, dtype=np.bool_)
    kept[order[edge]] = True
    alike = sorted_pairs[1:] == sorted_pairs[:-1]
    for values in keys:
        alike &= values[order[1:]] == values[order[:-1]]
    tied = alike & (edge[:-1] if which == "first" else edge[1:])
    return kept, count_users(rows.users[order[1:][tied]])


def count_users(users: Int32s) -> int:
    """How many there are, each once."""
    return int(np.unique(users).size)


@dataclass(slots=True)
class TrainPairs:
    """What train holds: users, items, and whether test rows' pairs are in it."""

    users: Flags
    items: Flags

    @classmethod
    def none(cls, n_users: int, n_items: int) -> "TrainPairs":
        """Nothing yet."""
        return cls(np.zeros(n_users, np.bool_), np.zeros(n_items, np.bool_))

    def add(self, rows: LogRows, letters: Bytes) -> None:
        """What the rows with the letter of train hold, or that of fold-in."""
        is_train = letters == TRAIN
        self.items[rows.items[is_train]] = True
        self.users[rows.users[is_train | (letters >= FOLD_IN)]] = True


def seen_in_train(rows: LogRows, letters: Bytes) -> Flags:
    """Which rows of validation and test have user and item of a train row."""
    held = np.flatnonzero((letters == TEST) | (letters == VALIDATION))
    found = np.zeros(rows.n, dtype=np.bool_)
    if held.size:
        pairs = pairs_of(rows)
        wanted = np.unique(pairs[held])
        of_train = pairs[(letters == TRAIN) | (letters >= FOLD_IN)]
        place = np.minimum(np.searchsorted(wanted, of_train), wanted.size - 1)
        in_train = np.zeros(wanted.size, dtype=np.bool_)
        in_train[place[wanted[place] == of_train]] = True
        found[held] = in_train[np.searchsorted(wanted, pairs[held])]
    return found


def drop_repeats(rows: LogRows, letters: Bytes, which: str) -> int:
    """Within a part a user's item stands once, the first; how many rows leave."""
    pairs = pairs_of(rows)
    keys = [rows.times, pairs] if which == "first by time" and rows.times.size else [pairs]
    order = np.lexsort(keys)
    sorted_pairs = pairs[order]
    edges = np.flatnonzero(np.concatenate([[True], sorted_pairs[1:] != sorted_pairs[:-1], [True]]))
    drop = np.zeros(rows.n, dtype=np.bool_)
    mark_first(order, edges, letters, drop)
    drop &= letters != NONE
    letters[drop] = NONE
    return int(np.count_nonzero(drop))


def find_copies(hashes: Keys, users: Int32s, places: Ints) -> tuple[Int32s, Twins]:
    """How many rows with the same hash stand before each row; and the rows that have one before.

    Args:
        places: of the rows in the log.
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff([*begins, hashes.size])
    number = np.arange(hashes.size) - np.repeat(begins, sizes)
    copies = np.empty(hashes.size, dtype=np.int32)
    copies[order] = number
    again, first = order[number > 0], np.repeat(order[begins], sizes)[number > 0]
    return copies, Twins(users[again], places[again], places[first])
