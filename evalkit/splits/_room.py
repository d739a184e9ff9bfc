"""How much memory a split takes, and how many rows fit beside that at a time."""

from dataclasses import dataclass

from evalkit.config import SplitSection
from evalkit.errors import MachineError
from evalkit.splits._feed import Feed
from evalkit.splits._latest import OF_SLOT, count_slots

FIXED = 470 << 20  # the process, what is read ahead, and row groups that are being written
OF_USER, OF_ITEM = 90, 40  # codes, counts, bounds, first times and parts of one
OF_HELD = 48  # a held-out row, with its places by user and by time
OF_ROW = 56  # a row of which all columns are in memory, put in order
OF_CODES = 8  # user and item of a row
LAID, LEAST = 32, 16 << 20  # a row while those of its group lie side by side; bytes for such rows
_ALL_ROWS = {
    "rows": "rows that are drawn by a hash",
    "time-quantile": "an interpolated quantile of times",
    "percentile-user": "a percentile of times",
}


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that a split may take; None: as many as it wants."""

    limit: int | None = None

    def refuse(self, feed: Feed, rule: SplitSection, at: str) -> None:
        """Refuse what no number of passes makes smaller.

        Raises:
            MachineError: it does not fit [memory-limit].
        """
        if self.limit is None:
            return
        feed.survey(is_coded=True)
        needed, why = self._kept(feed, rule), ""
        whole = needs_all(rule)
        if whole:
            needed += OF_ROW * feed.n_kept
            why = f", as {whole} needs all rows at once"
        if needed > self.limit:
            mib = (needed >> 20) + 1
            raise MachineError(
                f"a split of {feed.n_kept:,} rows needs about {mib:,} MiB{why}; the limit is "
                f"{self.limit >> 20:,} MiB",
                code="memory-limit",
                at=at,
                hint=f"give --memory-limit {mib}MiB",
            )

    def at_a_time(self, feed: Feed, rule: SplitSection, n_rows: int, of_row: int = LAID) -> int:
        """How many rows of groups may lie side by side; each share of them is one more pass."""
        if self.limit is None:
            return max(1 << 28, 8 * n_rows) // of_row
        left = self.limit - self._kept(feed, rule) - 5 * n_rows
        return max(left, LEAST) // of_row

    def holds(self, feed: Feed, rule: SplitSection, of_row: int) -> bool:
        """Whether so many bytes of each row fit beside what stays."""
        return self.limit is None or self._kept(feed, rule) + of_row * feed.n_kept <= self.limit

    def _kept(self, feed: Feed, rule: SplitSection) -> int:
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
        return FIXED + of_ids + masks + n_folds * int(feed.n_kept + held)


def needs_all(rule: SplitSection) -> str:
    """Which axis of a rule needs all rows in memory; empty where none does."""
    for name in ("cold_users", "cold_items", "seen", "part_duplicates"):
        if getattr(rule, name) != "keep":
            return f"{name} = {getattr(rule, name)!r}"
    return 'order = "hash"' if rule.order == "hash" else _ALL_ROWS.get(rule.by, "")
