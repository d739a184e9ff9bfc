"""How much memory a split takes, and how many rows fit beside that at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evalkit.config import SplitSection
from evalkit.errors import MachineError
from evalkit.kernels.memory import fits, room_to_compile
from evalkit.splits._feed import ALL
from evalkit.splits._latest import OF_SLOT, count_slots
from evalkit.splits._log import LogFeed

FIXED = 470 << 20  # the process, what is read ahead, and row groups that are being written
OF_USER, OF_ITEM = 90, 40  # codes, counts, bounds, first times and parts of one
OF_HELD = 96  # a held-out row, with its pair, its time, and what is told of it
OF_ROW = 56  # a row of which all columns are in memory, put in order
OF_COPY = 4  # which of rows that are alike a row is
OF_CODES = 8  # user and item of a row
LAID, LEAST = 32, 16 << 20  # a row while those of its group lie side by side; bytes for such rows


@dataclass(frozen=True, slots=True)
class SplitBudget:
    """Bytes that a split may take; None: as many as it wants."""

    limit: int | None = None

    def refuse(self, feed: LogFeed, rule: SplitSection, at: str) -> None:
        """Refuse what no number of passes makes smaller.

        Raises:
            MachineError: it does not fit [memory-limit].
        """
        if self.limit is None:
            return
        feed.survey(is_coded=True)
        needed = self._kept(feed, rule)
        if not fits(needed, self.limit):
            needed += room_to_compile()
            mib = (needed >> 20) + 1
            raise MachineError(
                f"a split of {feed.n_kept:,} rows needs about {mib:,} MiB; the limit is "
                f"{self.limit >> 20:,} MiB",
                code="memory-limit",
                at=at,
                hint=f"give --memory-limit {mib}MiB",
            )

    def at_a_time(self, feed: LogFeed, rule: SplitSection, n_rows: int, of_row: int = LAID) -> int:
        """How many rows of groups may lie side by side; each share of them is one more pass."""
        if self.limit is None:
            return max(1 << 28, 8 * n_rows) // of_row
        left = self.limit - self._kept(feed, rule) - 5 * n_rows - room_to_compile()
        return max(left, LEAST) // of_row

    def shares(self, feed: LogFeed, rule: SplitSection) -> Iterator[tuple[int, int]]:
        """Codes of users whose rows fit into the room together: from one, up to another."""
        if self.limit is None:
            yield 0, ALL
            return
        counts = np.zeros(feed.n_users, dtype=np.int64)
        for rows in feed.batches():
            counts += np.bincount(rows.users, minlength=counts.size)
        ends = np.cumsum(counts)
        most = self.at_a_time(feed, rule, feed.n_kept, OF_ROW)
        low = 0
        while low < counts.size:
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + most, side="right")))
            yield low, high
            low = high

    def holds(self, feed: LogFeed, rule: SplitSection, of_row: int) -> bool:
        """Whether so many bytes of each row fit beside what stays."""
        return self.limit is None or fits(self._kept(feed, rule) + of_row * feed.n_kept, self.limit)

    def _kept(self, feed: LogFeed, rule: SplitSection) -> int:
        """What stays from the first pass to the last."""
        n_folds = rule.folds or 1
        held = 0.0
        for size in (rule.test, rule.validation, *rule.ratios[1:]):
            if isinstance(size, float):
                held += size * feed.n_kept
            elif isinstance(size, int) and rule.by in ("user", "item"):
                held += size * (feed.n_users if rule.by == "user" else feed.n_items)
        of_user = OF_USER + OF_SLOT * count_slots(rule)
        of_ids = of_user * feed.n_users + OF_ITEM * feed.n_items
        held = min(held, feed.n_kept) * OF_HELD
        masks = 2 * feed.n_kept * (rule.dedupe != "none" or rule.core is not None)
        if rule.by == "rows" or rule.order == "hash":
            masks += OF_COPY * feed.n_kept
        return FIXED + of_ids + masks + n_folds * int(feed.n_kept + held)
