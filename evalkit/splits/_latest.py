"""The latest rows of each user, found in one look at a log in any order; all others are train."""

# mypy: disable-error-code="no-untyped-def"

from dataclasses import dataclass, field

import numpy as np

from evalkit.config import SplitSection
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Int32s, Ints
from evalkit.splits._counts import bounds_of, tell_of_one
from evalkit.splits._feed import Assigned, fitted
from evalkit.splits._filters import NONE, TEST, TRAIN, VALIDATION, LogRows
from evalkit.splits._log import LogFeed

MOST = 8  # rows of a user that are remembered; more are found by counting first
OF_SLOT = 16  # bytes
BITS, MOST_ROWS = 30, 1 << 33  # of an item's code, beside a row number in one word


def count_slots(rule: SplitSection) -> int:
    """Rows of each user to be remembered, a power of 2; 0: the rule does not go by these alone."""
    sizes = (rule.test or 0, rule.validation or 0)
    is_latest = (
        rule.by == "user"
        and rule.order == "time"
        and rule.ties in ("input", "first")
        and not rule.folds
        and not rule.ratios
        and not (rule.min_rows and rule.below_min == "drop")
        and not (rule.threshold is not None and rule.threshold_in == "test")
        and all(isinstance(size, int) for size in sizes)
    )
    # one more than are held out: the last of train shows ties
    n_slots = 1 << sum(map(int, sizes)).bit_length() if is_latest else 0
    return n_slots if n_slots <= MOST else 0


@dataclass(slots=True)
class Latest:
    """The latest rows of each user, with their items.

    Each user has a ring of rows in their order; the next one takes the place of the earliest.

    Args:
        rows: of each user and slot a time, then row number and item in one word.
        of_users, of_items: how many rows each has.
    """

    rule: SplitSection
    rows: Ints
    of_users: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    of_items: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    n_rows: int = 0
    _left_out: list[Ints] = field(default_factory=list)

    @classmethod
    def of(cls, feed: LogFeed, rule: SplitSection) -> "Latest | None":
        """Of all rows, in one look; None where they are too many, or the rule wants others."""
        n_slots = count_slots(rule)
        if not n_slots:
            return None
        latest = cls(rule, np.zeros((0, n_slots, 2), dtype=np.int64))
        fits = True
        for rows in feed.batches():
            fits = fits and rows.begin + rows.height <= MOST_ROWS and rows.n_items <= 1 << BITS
            if fits:
                latest._add(rows)
        if not fits:
            return None
        tell_of_one(latest.of_users)
        return latest

    def _add(self, rows: LogRows) -> None:
        self.of_users = fitted(self.of_users, rows.n_users, 0)
        self.of_items = fitted(self.of_items, rows.n_items, 0)
        self.rows = fitted(self.rows, rows.n_users, np.iinfo(np.int64).min)
        flip = MOST_ROWS - 1 if self.rule.ties == "first" else 0
        remember(
            *(rows.users, rows.items, rows.times, rows.begin, rows.places, flip),
            *(self.rows, self.of_users, self.of_items),
        )
        self.n_rows = rows.begin + rows.height
        if rows.n < rows.height:
            left_out = np.setdiff1d(np.arange(rows.height), rows.places, assume_unique=True)
            self._left_out.append(rows.begin + left_out)

    def held(self) -> tuple["HeldOut", Assigned]:
        """The rows that are not train; and users whose boundary goes through equal times."""
        (bounds,), fewer = bounds_of(self.of_users, self.rule)
        n_held = int(bounds[:, 2:].sum())
        letters = np.full(self.n_rows, TRAIN, dtype=np.uint8)
        for places in self._left_out:
            letters[places] = NONE
        held = HeldOut(
            n_train=int(self.of_users.sum()) - n_held,
            letters=letters,
            of_users=np.zeros(self.of_users.size, np.uint8),
            of_items=np.zeros(self.of_items.size, np.uint8),
            users=np.empty(n_held, np.int32),
            items=np.empty(n_held, np.int32),
            times=np.empty(n_held, np.int64),
            parts=np.empty(n_held, np.uint8),
        )
        flip = MOST_ROWS - 1 if self.rule.ties == "first" else 0
        n_crossed = tell_latest(
            *(self.rows, self.of_users, bounds, flip, held.letters, held.of_users),
            *(held.users, held.items, held.times, held.parts),
        )
        for letter in (VALIDATION, TEST):
            held.of_items[held.items[held.parts == letter]] |= np.uint8(1 << letter)
        n_held_of = np.bincount(held.items, minlength=self.of_items.size)
        held.of_items[self.of_items > n_held_of] |= np.uint8(1 << TRAIN)
        return held, Assigned(
            lambda _: [held.letters], crossed=lambda: (n_crossed, n_crossed), fewer=fewer
        )


@dataclass(slots=True)
class HeldOut:
    """Letters of all rows of a log, and the rows of validation and test.

    Args:
        of_users, of_items: which parts each is in, a bit for each letter.
        parts: the letter of each held-out row.
    """

    n_train: int
    letters: Bytes
    of_users: Bytes
    of_items: Bytes
    users: Int32s
    items: Int32s
    times: Ints
    parts: Bytes


@kernel(allocates=False)
def remember(users, items, times, begin, places, flip, slots, of_users, of_items):
    """Put rows among the latest ones of their users, if they belong there.

    Rings of 64 rows are fetched together before the first is read.

    Args:
        begin, places: the number of the first row, and places behind it; empty: 0, 1, 2, ...
        flip: bits of row numbers; all of them: the first of equal times is the latest.
    Returns:
        What was fetched, which means nothing.
    """
    # Wide: all that one object holds; called in one place.
    mask, fetched = slots.shape[1] - 1, 0
    for block in range(0, users.size, 64):
        end = min(block + 64, users.size)
        for row in range(block, end):
            user = users[row]
            fetched ^= slots[user, 0, 0] ^ slots[user, mask, 1] ^ of_users[user]
        for row in range(block, end):
            number = begin + (places[row] if places.size else row)
            user, time, word = users[row], times[row], ((number ^ flip) << BITS) | items[row]
            of_items[items[row]] += 1
            count = of_users[user]
            of_users[user] = count + 1
            time_0, word_0 = slots[user, count & mask, 0], slots[user, count & mask, 1]
            slot = mask  # from the latest to the earliest: those that are later move on
            while slot > 0:
                at = (count + slot) & mask
                other = slots[user, at, 0]
                if time > other or (time == other and word > slots[user, at, 1]):
                    break
                slots[user, (at + 1) & mask, 0] = other
                slots[user, (at + 1) & mask, 1] = slots[user, at, 1]
                slot -= 1
            at = (count + slot + 1) & mask
            if slot == 0 and (time < time_0 or (time == time_0 and word < word_0)):
                time, word = time_0, word_0  # the earliest of those that were there stays
            slots[user, at, 0] = time
            slots[user, at, 1] = word
    return fetched


@kernel(allocates=False)
def tell_latest(
    slots, counts, bounds, flip, letters, of_users, held_users, held_items, held_times, parts
):
    """Letters of the latest rows of each user, and these rows.

    Args:
        bounds: of each user how many rows are test, and validation, behind two that are unused.
    Returns:
        Users with two parts in rows of one time.
    """
    # Wide: all that one object holds; called in one place.
    n_held, n_crossed, mask = 0, 0, slots.shape[1] - 1
    for user in range(counts.size):
        n_test, n_both = bounds[user, 2], bounds[user, 2] + bounds[user, 3]
        is_crossed = False
        for place in range(n_both):
            at = (counts[user] - 1 - place) & mask
            time, word = slots[user, at, 0], slots[user, at, 1]
            part = 3 if place < n_test else 2
            letters[(word >> BITS) ^ flip] = part
            of_users[user] |= np.uint8(1 << part)
            held_users[n_held] = user
            held_items[n_held] = word & ((1 << BITS) - 1)
            held_times[n_held] = time
            parts[n_held] = part
            n_held += 1
            is_edge = (place + 1 == n_test or place + 1 == n_both) and place + 1 < counts[user]
            if is_edge and slots[user, (at - 1) & mask, 0] == time:
                is_crossed = True
        if n_both < counts[user]:
            of_users[user] |= np.uint8(1 << 1)
        n_crossed += is_crossed
    return n_crossed
