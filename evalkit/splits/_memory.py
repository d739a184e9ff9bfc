"""How much memory a split takes, and how many rows fit beside that at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.config import SplitSection
from evalkit.errors import MachineError
from evalkit.kernels.memory import LLVM, fits, room_to_compile
from evalkit.splits._feed import ALL
from evalkit.splits._latest import OF_SLOT, count_slots
from evalkit.splits._log import LogFeed
from evalkit.splits._reverse_scan import is_of_latest
from evalkit.splits._source import BATCH, GROUP

FIXED = (246 << 20) + LLVM  # the process, and batches of rows
GROUPS_READ, GROUPS_AGAIN, GROUPS_WRITTEN = 4, 3, 2  # copies of one that is read, again, written
OF_KEY, OF_PLACE = 8, 5  # the key of an id; where a row stands in its group, and whether it is tied
OF_TEXT = 24  # a value of text as it is decoded; of what is longer, as many bytes as are stored
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
        left = self.limit - self._kept(feed, rule) - room_to_compile()
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
        laid = LEAST + OF_PLACE * feed.n_kept * _lays(feed, rule)
        of_groups = _of_groups(feed, rule, n_folds)
        return FIXED + of_ids + masks + laid + of_groups + n_folds * int(feed.n_kept + held)


def _lays(feed: LogFeed, rule: SplitSection) -> bool:
    """Whether rows of a user or item may have to lie side by side."""
    if rule.by not in ("user", "item", "users", "percentile-user") or count_slots(rule):
        return False
    return not (is_of_latest(rule) and feed.log.slices())


def _of_groups(feed: LogFeed, rule: SplitSection, n_folds: int) -> int:
    """Bytes of row groups, of which most are there while they are coded, or written."""
    return max(_of_reading(feed), _of_writing(feed, rule, n_folds))


def _of_reading(feed: LogFeed) -> int:
    """Bytes of row groups of our columns, with the keys of ids."""
    coders = (feed.of_users, feed.of_items)
    keys = sum(OF_KEY * (2 if coder.plan.hashed else 1) for coder in coders)
    width, n_rows = _width(feed, feed.log.schema)
    return GROUPS_READ * (width + keys) * n_rows


def _of_writing(feed: LogFeed, rule: SplitSection, n_folds: int) -> int:
    """Bytes of row groups of all columns that are read, that wait for rows, and are written."""
    if rule.write != "parts":
        return 0
    width, n_rows = _width(feed, feed.log.whole.collect_schema())
    most = min(GROUP, feed.n_kept)
    n_parts = 2 + (rule.validation is not None)
    waiting = n_folds * min(n_parts * most, feed.n_kept)
    return width * (GROUPS_AGAIN * n_rows + waiting + GROUPS_WRITTEN * most)


def _width(feed: LogFeed, schema: Mapping[str, pl.DataType]) -> tuple[int, int]:
    """Bytes of a row as it is decoded, and rows that are decoded together."""
    table, n_texts, width = feed.log.table, 0, 0
    for dtype in schema.values():
        if dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean:
            one = pl.Series([0], dtype=pl.Int64).cast(dtype)
            width += int(one.estimated_size())
        else:
            n_texts += 1
    n_rows = table.largest_group()
    texts = OF_TEXT * n_texts
    if n_texts and n_rows:  # long ones take as many bytes as are stored
        texts = max(texts, 16 * n_texts + table.stored_bytes((), own=schema)[1] // n_rows)
    return width + texts, min(max(n_rows, BATCH), feed.n_kept)
