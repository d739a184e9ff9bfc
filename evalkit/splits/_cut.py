"""A rule from its first step to its last: what leaves before, the parts, what leaves after."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalkit.config import SplitSection
from evalkit.errors import DataError
from evalkit.kernels.arrays import Bytes, Ints
from evalkit.splits import _filters as filters
from evalkit.splits._after import leave_after, leave_low, leaves_after
from evalkit.splits._assign import COUNTING, FREE, assign, refuse_empty
from evalkit.splits._before import leave_before
from evalkit.splits._feed import Assigned, fitted
from evalkit.splits._filters import LogRows, Twins
from evalkit.splits._kernels import mark_cold, note_parts
from evalkit.splits._latest import HeldOut, Latest
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import SplitBudget
from evalkit.splits._reverse_scan import Back
from evalkit.splits._units import spell_time
from evalkit.splits.leakage import Leaks

_HELD = {"validation": filters.VALIDATION, "test": filters.TEST}


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
    letters: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    of_users: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    of_items: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    n_rows: Ints = field(default_factory=lambda: np.zeros(6, np.int64))
    dropped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_early:
            self.n_rows[filters.TRAIN] = self.n_early
            self.letters[: self.n_early] = filters.TRAIN

    @property
    def sizes(self) -> dict[int, tuple[int, int]]:
        """Users and items of each letter that has rows."""
        return {
            letter: (_having(self.of_users, letter), _having(self.of_items, letter))
            for letter in range(filters.TRAIN, filters.VALIDATION_FOLD_IN + 1)
            if self.n_rows[letter]
        }

    def add(self, rows: LogRows, letters: Bytes) -> None:
        """The next rows of the log, whose letters are known."""
        self.of_users = fitted(self.of_users, rows.n_users, 0)
        self.of_items = fitted(self.of_items, rows.n_items, 0)
        before = self.n_rows.copy()
        note_parts(rows.users, rows.items, letters, self.of_users, self.of_items, self.n_rows)
        for name, letter in _HELD.items():
            if self.n_rows[letter] > before[letter]:
                held = np.flatnonzero(letters == letter)
                times = rows.times[held] if rows.times.size else rows.times
                self.leaks.hold(name, rows.users[held], rows.items[held], times)

    def take(self, held: HeldOut) -> None:
        """All rows of the log at once, of which the held-out ones are known."""
        self.letters, self.of_users, self.of_items = held.letters, held.of_users, held.of_items
        self.n_rows[filters.TRAIN] = held.n_train
        for name, letter in _HELD.items():
            of_part = held.parts == letter
            self.n_rows[letter] = np.count_nonzero(of_part)
            if self.n_rows[letter]:
                columns = (held.users, held.items, held.times)
                self.leaks.hold(name, *(each[of_part] for each in columns))

    def end(self) -> None:
        """All rows of the log are here."""
        self.leaks.lay()

    def look(self, rows: LogRows) -> Bytes:
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


def _having(parts: Bytes, letter: int) -> int:
    return int(np.count_nonzero(parts & (1 << letter)))


@dataclass(slots=True)
class Cut:
    """What a rule made of a log.

    Args:
        dropped: rows that left before the cut, by reason.
        rounds: that the core took.
        n_hanging: users of whose repeats row order says which one stays.
        back: what is still to see all rows, from the last to the first.
        twins: rows that only their order tells apart, where rows are drawn.
    """

    folds: list[Fold]
    assigned: Assigned
    dropped: dict[str, int]
    rounds: int = 0
    n_hanging: int = 0
    back: Back | None = None
    twins: Twins | None = None

    def crossed(self) -> tuple[int, int]:
        """Users whose boundary goes through equal times, and those that hang on row order."""
        by_time, by_order = self.assigned.crossed()
        twins = (self.twins.hanging(fold.letters) for fold in self.folds if self.twins is not None)
        return by_time, max(by_order, *twins, 0)


def cut_rows(feed: LogFeed, rule: SplitSection, at: str, budget: SplitBudget = FREE) -> Cut:
    """Every row of the log with its part, in each fold.

    Args:
        feed: all that is left out before the cut leaves it.
        rule: as `settle_rule` leaves it.
        budget: bytes that all of it may take.
    Raises:
        DataError: a part is empty [empty-part], cold or seen rows that are an error [cold-rows].
        MachineError: it does not fit into the room [memory-limit].
    """
    budget.refuse(feed, rule, at)
    rounds, n_hanging = leave_before(feed, rule, budget)
    if rule.by not in COUNTING:  # which read the log themselves
        _ = feed.unit  # mixed ones are told of at once
        _refuse_none(feed, at)
    back = None if leaves_after(rule) else Back.of(feed, rule)
    latest = None if leaves_after(rule) or back is not None else Latest.of(feed, rule)
    if back is not None:
        _refuse_none(feed, at)
        assigned = Assigned(lambda _: [back.letters], crossed=back.crossed, fewer=back.fewer)
        folds = [Fold(Leaks(feed.unit, feed.has_times))]
        folds[0].letters, folds[0].n_rows = back.letters, back.n_rows
    elif latest is not None:
        _refuse_none(feed, at)
        held, assigned = latest.held()
        folds = [Fold(Leaks(feed.unit, feed.has_times))]
        folds[0].take(held)
    else:
        assigned = assign(feed, rule, budget)
        _refuse_none(feed, at)
        folds = _decided(feed, rule, assigned, at, budget)
    if rule.empty == "error":
        span = ""
        if feed.has_times:
            dtype = feed.log.schema["time"]
            first, last = (spell_time(end, dtype, feed.unit) for end in (feed.first, feed.last))
            span = f"; times go from {first} to {last}"
        refuse_empty({n: fold.n_rows for n, fold in enumerate(folds)}, rule, span, at)
    for fold in folds if back is None else ():
        fold.end()
    return Cut(folds, assigned, feed.dropped, rounds, n_hanging, back, feed.twins)


def _decided(
    feed: LogFeed, rule: SplitSection, assigned: Assigned, at: str, budget: SplitBudget
) -> list[Fold]:
    """The folds of rows whose letters are told batch by batch."""
    leaves = leaves_after(rule)
    whole = [feed.gather()] if leaves and budget.limit is None else []
    is_early = rule.by in ("time", "window") and not leaves
    n_early = feed.count_before(assigned.first_held()) if is_early else 0
    folds: list[Fold] = []
    for rows in whole or feed.batches(skip=n_early):
        letters = assigned.decide(rows)
        if not folds:
            leaks = [Leaks(feed.unit, feed.has_times) for _ in letters]
            folds = [Fold(each, n_early, np.zeros(feed.n_rows, np.uint8)) for each in leaks]
        for fold, mine in zip(folds, letters, strict=True):
            leave_low(rows, mine, rule, fold.dropped)
            fold.letters[rows.begin : rows.begin + rows.height] = rows.spread(mine)
            if not leaves:
                fold.add(rows, mine)
    if leaves:
        parts = [(fold.letters, fold.dropped) for fold in folds]
        leave_after(feed, whole, rule, parts, budget, at)
        for rows in whole or feed.batches():
            for fold in folds:
                fold.add(rows, rows.own(fold.letters))
    return folds


def _refuse_none(feed: LogFeed, at: str) -> None:
    if not feed.n_kept:
        told = ", ".join(f"{name} {n:,}" for name, n in feed.dropped.items())
        none = "where leaves none" if feed.rule.where is not None else "the log is empty"
        message = f"no row is left: {told or none}"
        hint = "ask for less, or look at these rows of the log"
        raise DataError(message, code="empty-part", at=at, hint=hint)


def tell_leaks(cut: Cut, feed: LogFeed) -> list[dict[str, Any]]:
    """What the parts of each fold have in common, when all rows were looked at again."""
    again = [fold for fold in cut.folds if fold.leaks.needs_times]
    for rows in feed.batches() if again else ():
        for fold in again:
            fold.leaks.add_times(rows.times, rows.own(fold.letters))
    return [fold.leaks.told() for fold in cut.folds]
