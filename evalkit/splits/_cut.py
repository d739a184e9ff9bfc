"""A rule from its first step to its last: what leaves before, the parts, what leaves after."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.splits._assign import COUNTING, FREE, assign, refuse_empty
from evalkit.splits._back import Back
from evalkit.splits._before import leave_before
from evalkit.splits._feed import Assigned, Feed, fitted
from evalkit.splits._filters import (
    NONE,
    TEST,
    TRAIN,
    VALIDATION,
    VALIDATION_FOLD_IN,
    Known,
    Letters,
    Mask,
    Rows,
    drop_repeats,
    seen_in_train,
)
from evalkit.splits._kernels import mark_cold, note_parts
from evalkit.splits._latest import HeldOut, Latest
from evalkit.splits._room import Room
from evalkit.splits.leakage import Leaks

_HELD = {"validation": VALIDATION, "test": TEST}


@dataclass(slots=True)
class Fold:
    """One cut of the rows.

    Args:
        leaks: holds the held-out rows; train is to stream past it.
        n_early: rows at the beginning that are known to be train before they are read.
        letters: of all rows of the log.
        of_users, of_items: which parts each is in, a bit for each letter.
        n_rows: of each letter.
        dropped: rows that left after the cut, by reason.
    """

    leaks: Leaks
    n_early: int = 0
    letters: Letters = field(default_factory=lambda: np.zeros(0, np.uint8))
    of_users: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    of_items: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    n_rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(6, np.int64))
    dropped: dict[str, int] = field(default_factory=dict)
    _parts: list[Letters] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.n_early:
            self.n_rows[TRAIN] = self.n_early
            self._parts.append(np.full(self.n_early, TRAIN, dtype=np.uint8))

    @property
    def sizes(self) -> dict[int, tuple[int, int]]:
        """Users and items of each letter that has rows."""
        return {
            letter: (_having(self.of_users, letter), _having(self.of_items, letter))
            for letter in range(TRAIN, VALIDATION_FOLD_IN + 1)
            if self.n_rows[letter]
        }

    def add(self, rows: Rows, letters: Letters) -> None:
        """The next rows of the log."""
        self.of_users = fitted(self.of_users, rows.n_users, 0)
        self.of_items = fitted(self.of_items, rows.n_items, 0)
        before = self.n_rows.copy()
        note_parts(rows.users, rows.items, letters, self.of_users, self.of_items, self.n_rows)
        for name, letter in _HELD.items():
            if self.n_rows[letter] > before[letter]:
                held = np.flatnonzero(letters == letter)
                times = rows.times[held] if rows.times.size else rows.times
                self.leaks.hold(name, rows.users[held], rows.items[held], times)
        self._parts.append(rows.spread(letters))

    def take(self, held: HeldOut) -> None:
        """All rows of the log at once, of which the held-out ones are known."""
        self.letters, self.of_users, self.of_items = held.letters, held.of_users, held.of_items
        self.n_rows[TRAIN] = held.n_train
        for name, letter in _HELD.items():
            of_part = held.parts == letter
            self.n_rows[letter] = np.count_nonzero(of_part)
            if self.n_rows[letter]:
                columns = (held.users, held.items, held.times)
                self.leaks.hold(name, *(each[of_part] for each in columns))

    def end(self) -> None:
        """All rows of the log are here."""
        if self._parts:
            self.letters = np.concatenate(self._parts)
        self._parts = []
        self.leaks.lay()

    def look(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """The same rows once more, as train for the leaks; marks of cold held-out rows."""
        letters = rows.own(self.letters)
        self.leaks.add_train(rows, letters)
        if rows.begin < self.n_early:
            self.of_users = fitted(self.of_users, rows.n_users, 0)
            self.of_items = fitted(self.of_items, rows.n_items, 0)
            counted = np.zeros_like(self.n_rows)  # they were
            note_parts(rows.users, rows.items, letters, self.of_users, self.of_items, counted)
        marks = np.zeros(rows.n, dtype=np.uint8)
        mark_cold(rows.users, rows.items, letters, self.of_users, self.of_items, marks)
        return rows.spread(marks)


def _having(parts: npt.NDArray[np.uint8], letter: int) -> int:
    return int(np.count_nonzero(parts & (1 << letter)))


@dataclass(slots=True)
class Cut:
    """What a rule made of a log.

    Args:
        dropped: rows that left before the cut, by reason.
        rounds: that the core took.
        back: what is still to see all rows, from the last to the first.
    """

    folds: list[Fold]
    assigned: Assigned
    dropped: dict[str, int]
    rounds: int = 0
    back: Back | None = None


def cut_rows(feed: Feed, rule: SplitSection, unit: str | None, at: str, room: Room = FREE) -> Cut:
    """Every row of the log with its part, in each fold.

    Args:
        feed: all that is left out before the cut leaves it.
        rule: as `settle_rule` leaves it.
        unit: of times; None: as the log says.
        room: bytes that all of it may take.
    Raises:
        DataError: a part is empty [empty-part], cold or seen rows that are an error [cold-rows].
        MachineError: it does not fit into the room [memory-limit].
    """
    room.refuse(feed, rule, at)
    rounds = leave_before(feed, rule, room)
    if rule.by not in COUNTING:  # which read the log themselves
        unit = unit or feed.unit
        _refuse_none(feed, at)
    back = None if _needs_all(rule) else Back.of(feed, rule)
    latest = None if _needs_all(rule) or back is not None else Latest.of(feed, rule)
    if back is not None:
        _refuse_none(feed, at)
        assigned = Assigned(lambda _: [back.letters], crossed=back.crossed, fewer=back.fewer)
        folds = [Fold(Leaks(unit or feed.unit, feed.has_times))]
        folds[0].letters, folds[0].n_rows = back.letters, back.n_rows
    elif latest is not None:
        _refuse_none(feed, at)
        held, assigned = latest.held()
        folds = [Fold(Leaks(unit or feed.unit, feed.has_times))]
        folds[0].take(held)
    else:
        assigned = assign(feed, rule, unit or "s", room)
        _refuse_none(feed, at)
        folds = _decided(feed, rule, assigned, unit or feed.unit, at)
    if rule.empty == "error":
        span = f"; times go from {feed.first} to {feed.last}" if feed.has_times else ""
        refuse_empty({n: fold.n_rows for n, fold in enumerate(folds)}, rule, span, at)
    for fold in folds if back is None else ():
        fold.end()
    return Cut(folds, assigned, feed.dropped, rounds, back)


def _decided(feed: Feed, rule: SplitSection, assigned: Assigned, unit: str, at: str) -> list[Fold]:
    """The folds of rows whose letters are told batch by batch."""
    read = feed.gather() if _needs_all(rule) else feed
    n_early = read.count_before(assigned.first_held()) if rule.by in ("time", "window") else 0
    folds = [Fold(Leaks(unit, feed.has_times), n_early) for _ in assigned.moments]
    for rows in read.batches(skip=n_early):
        letters = assigned.decide(rows)
        folds = folds or [Fold(Leaks(unit, feed.has_times)) for _ in letters]
        for fold, mine in zip(folds, letters, strict=True):
            _leave_after(rows, mine, rule, fold.dropped, at)
            fold.add(rows, mine)
    return folds


def _refuse_none(feed: Feed, at: str) -> None:
    if not feed.n_kept:
        told = ", ".join(f"{name} {n:,}" for name, n in feed.dropped.items())
        raise DataError(
            f"no row is left: {told or 'the log is empty'}",
            code="empty-part",
            at=at,
            hint="ask for less, or look at the log with evalkit check",
        )


def _needs_all(rule: SplitSection) -> bool:
    """Whether what leaves after the cut is told by all rows of the log together."""
    policies = (rule.cold_users, rule.cold_items, rule.seen, rule.part_duplicates)
    return any(policy != "keep" for policy in policies)


def _leave_after(
    rows: Rows, letters: Letters, rule: SplitSection, dropped: dict[str, int], at: str
) -> None:
    """Take rows out of their parts, and count them."""

    def drop(mask: Mask, reason: str) -> None:
        n = int(np.count_nonzero(mask))
        if n:
            dropped[reason] = dropped.get(reason, 0) + n
            letters[mask] = NONE

    if rule.threshold is not None and rule.threshold_in == "test":
        held = (letters == TEST) | (letters == VALIDATION)
        drop(held & ~(rows.relevance >= rule.threshold), "threshold")
    if not _needs_all(rule):
        return
    known = Known.of(rows, letters)
    masks = {"cold_users": ~known.users[rows.users], "cold_items": ~known.items[rows.items]}
    if rule.seen != "keep":
        masks["seen"] = seen_in_train(rows, letters)
    for name, mask in masks.items():
        held = (letters == TEST) | (letters == VALIDATION)
        policy = getattr(rule, name)
        if policy == "error" and np.any(mask & held):
            raise DataError(
                f"{np.count_nonzero(mask & held):,} held-out rows are {name.replace('_', ' ')}",
                code="cold-rows",
                at=at,
                hint=f'{name} = "keep" counts them, "drop" leaves them out',
            )
        if policy == "drop":
            drop(mask & held, name)
    if rule.part_duplicates != "keep":
        n = drop_repeats(rows, letters, rule.part_duplicates)
        if n:
            dropped["part_duplicates"] = n


def tell_leaks(cut: Cut, feed: Feed) -> list[dict[str, Any]]:
    """What the parts of each fold have in common, when all rows were looked at again."""
    again = [fold for fold in cut.folds if fold.leaks.needs_times]
    for rows in feed.batches() if again else ():
        for fold in again:
            fold.leaks.add_times(rows.times, rows.own(fold.letters))
    return [fold.leaks.told() for fold in cut.folds]
