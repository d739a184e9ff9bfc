"""The latest rows of each user or item: where each row stands among those of its group."""

# mypy: disable-error-code="no-untyped-def"

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from evalkit.config import SplitSection
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Int32s, Ints
from evalkit.splits._counts import bounds_of, tell_of_one
from evalkit.splits._feed import Assigned, fitted
from evalkit.splits._filters import NONE, TRAIN, LogRows, lay_rows
from evalkit.splits._kernels import mix_all, sort_groups
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import OF_ROW, SplitBudget

Ticks = Ints
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class RowGroups:
    """Rows of each group, counted, and the place of each row among them.

    Where rows of each group come in their order, as in a log in the order of time, a row's place
    is how many came before. Else times are laid by group: those of a range of groups at a time,
    so many that they fit into the room.

    Args:
        until: the last time of rows that count.
    """

    rule: SplitSection
    counts: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    is_in_order: bool = True
    until: float = math.inf
    _last: Ticks = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    _reached: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    _places: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    _tied: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    _at: int = 0

    def codes(self, rows: LogRows) -> Int32s:
        """The group of each row."""
        return rows.items if self.rule.by == "item" else rows.users

    def keys(self, rows: LogRows) -> tuple[Ticks, Ticks]:
        """What orders rows of a group, and what settles where that is equal; empty: row order."""
        if self.rule.order in ("input", "reversed"):
            return _NONE, _NONE
        if self.rule.order == "hash":
            hashes = rows.hashes
            if self.rule.seed != SplitSection.model_fields["seed"].default:
                hashes = np.empty_like(hashes)
                mix_all(rows.hashes, np.uint64(self.rule.seed), hashes)
            return (hashes >> np.uint64(1)).view(np.int64), _NONE
        return rows.times, rows.ranks if self.rule.ties == "item" else _NONE

    def batches(self, feed: LogFeed) -> Iterator[LogRows]:
        """The rows that count."""
        for rows in feed.batches():
            if self.until < math.inf:
                rows = replace(rows)
                rows.keep(rows.times <= self.until, "later")
            yield rows

    def count(self, rows: LogRows) -> None:
        """The first look."""
        n_groups = rows.n_items if self.rule.by == "item" else rows.n_users
        self.counts = fitted(self.counts, n_groups, 0)
        self._last = fitted(self._last, n_groups, 0)
        keys, seconds = self.keys(rows)
        is_strict = self.rule.ties == "first" and self.rule.order == "time"
        checked = keys if self.is_in_order else _NONE
        codes = self.codes(rows)
        is_in_order, _ = count_in_order(codes, checked, seconds, is_strict, self.counts, self._last)
        self.is_in_order &= is_in_order

    def lay(self, feed: LogFeed, budget: SplitBudget) -> None:
        """The place of each row, where rows of groups do not come in their order."""
        n_rows = int(self.counts.sum())
        self._places = np.empty(n_rows, dtype=np.int32)
        self._tied = np.empty(n_rows, dtype=np.uint8)
        most = budget.at_a_time(feed, self.rule, n_rows)
        ends = np.cumsum(self.counts, dtype=np.int64)
        low = 0
        while low < self.counts.size:
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + most, side="right")))
            self._lay_share(feed, low, high)
            low = high

    def _lay_share(self, feed: LogFeed, low: int, high: int) -> None:
        """The same for groups of some codes."""
        parts: list[tuple[Int32s, Ticks, Ticks, Ticks]] = []
        begin = 0
        for rows in self.batches(feed):
            codes = self.codes(rows)
            keys, seconds = self.keys(rows)
            if low == 0 and high == self.counts.size:
                here = np.arange(codes.size)
            else:
                here = np.flatnonzero((codes >= low) & (codes < high))
                codes, keys = codes[here], keys[here]
                seconds = seconds[here] if seconds.size else seconds
            parts.append((codes - np.int32(low), keys.copy(), seconds.copy(), here + begin))
            begin += rows.n
        codes, keys, seconds, at = (np.concatenate(each) for each in zip(*parts, strict=True))
        del parts
        starts, laid = lay_rows(codes, high - low)
        settled = -at if self.rule.ties == "first" and self.rule.order == "time" else seconds
        sort_groups(starts, laid, keys, settled, np.empty_like(laid))
        write_places(starts, laid, keys, seconds, at, self._places, self._tied)

    def begin(self) -> None:
        """The next look sees the first rows again."""
        self._reached = np.zeros(self.counts.size, dtype=np.int32)
        self._at = 0

    def place(self, rows: LogRows) -> tuple[Int32s, Bytes]:
        """Each row's place in its group, from 0, and whether it is tied with the one before.

        Bit 0: by time; bit 1: by all that orders rows.
        """
        if self._places.size:
            here = slice(self._at, self._at + rows.n)
            self._at += rows.n
            return self._places[here], self._tied[here]
        places, tied = np.empty(rows.n, dtype=np.int32), np.zeros(rows.n, dtype=np.uint8)
        keys, seconds = self.keys(rows)
        place_in_order(*(self.codes(rows), keys, seconds, self._reached, self._last, places, tied))
        if self.rule.order == "reversed":
            places = self.counts[self.codes(rows)] - 1 - places
        return places, tied

    def assigned(self) -> Assigned:
        """The latest rows of each group, or a share of them."""
        rule = self.rule
        bounds, fewer = bounds_of(self.counts, rule)
        left = TRAIN if rule.left_out == "train" else NONE
        crossed = [np.zeros(self.counts.size, dtype=np.uint8) for _ in bounds]

        def decide(rows: LogRows) -> list[Bytes]:
            places, tied = self.place(rows)
            folds = [np.empty(rows.n, dtype=np.uint8) for _ in bounds]
            for bound, letters, groups in zip(bounds, folds, crossed, strict=True):
                cut_places(self.codes(rows), places, tied, bound, left, letters, groups)
            return folds

        def count_crossed() -> tuple[int, int]:
            by_time = max(int(np.count_nonzero(each & 1)) for each in crossed)
            return by_time, max(int(np.count_nonzero(each & 2)) for each in crossed)

        return Assigned(decide, crossed=count_crossed, fewer=fewer)


def of_groups(
    feed: LogFeed,
    rule: SplitSection,
    budget: SplitBudget,
    note: Callable[[LogRows], None] | None = None,
    *,
    until: float = math.inf,
) -> RowGroups:
    """The rows of each group counted, and laid where they have to be.

    Args:
        budget: for rows that do not come in their order.
        note: sees each batch of the first look, too.
        until: the last time of rows that count.
    """
    groups = RowGroups(rule, is_in_order=rule.order != "hash", until=until)
    if rule.order == "hash":
        feed.survey()
        feed.tell_copies(budget.at_a_time(feed, rule, feed.n_kept, OF_ROW))
    for rows in groups.batches(feed):
        groups.count(rows)
        if note is not None:
            note(rows)
    tell_of_one(groups.counts)
    if not groups.is_in_order:
        groups.lay(feed, budget)
    groups.begin()
    return groups


@kernel(allocates=False)
def count_in_order(codes, keys, seconds, is_strict, counts, last):
    """Count rows of each group; whether none has less than the one before, as `keys` order them.

    What 64 rows need is fetched together; the second result is that, and means nothing.
    """
    is_in_order, fetched = True, 0
    for block in range(0, codes.size, 64):
        end = min(block + 64, codes.size)
        for row in range(block, end):
            fetched ^= counts[codes[row]] ^ last[codes[row], 0]
        for row in range(block, end):
            code = codes[row]
            if keys.size and is_in_order:
                if counts[code]:
                    is_equal = keys[row] == last[code, 0]
                    if keys[row] < last[code, 0] or (
                        is_equal and (is_strict or (seconds.size and seconds[row] < last[code, 1]))
                    ):
                        is_in_order = False
                last[code, 0] = keys[row]
                if seconds.size:
                    last[code, 1] = seconds[row]
            counts[code] += 1
    return is_in_order, fetched


@kernel(allocates=False)
def place_in_order(codes, keys, seconds, reached, last, places, tied):
    """How many rows of each row's group came before, and whether the last of them is equal.

    What 64 rows need is fetched together; the result is that, and means nothing.
    """
    fetched = 0
    for block in range(0, codes.size, 64):
        end = min(block + 64, codes.size)
        for row in range(block, end):
            fetched ^= reached[codes[row]] ^ last[codes[row], 0]
        for row in range(block, end):
            code = codes[row]
            place = reached[code]
            reached[code] = place + 1
            places[row] = place
            if keys.size:
                if place and keys[row] == last[code, 0]:
                    is_same = seconds.size == 0 or seconds[row] == last[code, 1]
                    tied[row] = 3 if is_same else 1
                last[code, 0] = keys[row]
                if seconds.size:
                    last[code, 1] = seconds[row]
    return fetched


@kernel(allocates=False)
def write_places(starts, laid, keys, seconds, at, places, tied):
    """Each row's place in its group, and whether the one before is equal, by rows of the log."""
    for group in range(starts.size - 1):
        for place in range(starts[group], starts[group + 1]):
            row = laid[place]
            places[at[row]] = place - starts[group]
            found = np.uint8(0)
            if place > starts[group]:
                before = laid[place - 1]
                if keys[row] == keys[before]:
                    is_same = seconds.size == 0 or seconds[row] == seconds[before]
                    found = np.uint8(3) if is_same else np.uint8(1)
            tied[at[row]] = found


@kernel(allocates=False)
def _letter_at(place, bound, left):
    from_end = bound[0] - 1 - place
    if bound[1] < 0:
        return 0
    if from_end < bound[1]:
        return left
    if from_end < bound[1] + bound[2]:
        return 3
    return 2 if from_end < bound[1] + bound[2] + bound[3] else 1


@kernel(allocates=False)
def cut_places(codes, places, tied, bounds, left, letters, crossed):
    """Letters by places; groups that have two parts in rows with one time (1), or equal (2)."""
    for row in range(codes.size):
        bound = bounds[codes[row]]
        letter = _letter_at(places[row], bound, left)
        letters[row] = letter
        if tied[row] and letter != _letter_at(places[row] - 1, bound, left):
            crossed[codes[row]] |= tied[row]
