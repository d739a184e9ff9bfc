"""Some ids of a table, noted while its rows are read: the same whoever reads them, and how."""

from dataclasses import dataclass, field

import polars as pl

EVERY = 1 << 18  # rows from one window to the next
FIRST, LATER = 1 << 12, 1 << 8  # rows of the first window, and of the others
A_LIST = 1 << 5  # rows that a list stands for
MOST_BYTES = 256  # of an id that is noted
MOST = 1 << 16  # ids


@dataclass(slots=True)
class NotedIds:
    """Ids as text, in windows of rows that stand at the same places of every table.

    Integers are noted where one table has large ones, and another has a sign: those are Int128.


    Args:
        ids: by column, in the order in which they were met.
    """

    ids: dict[str, dict[str, None]] = field(default_factory=dict)
    _next: int = 0

    def note(self, rows: pl.DataFrame, first: int) -> None:
        """Look at rows of which the first has this number; what was looked at is passed over."""
        last, begin = first + rows.height, max(first, self._next)
        if begin >= last or ("item" not in rows.columns and "user_0" not in rows.columns):
            return
        self._next = last
        for name in ("user_0", "item"):
            if name in rows.columns:
                self._note(name, rows[name], begin - first, first)

    def _note(self, name: str, column: pl.Series, begin: int, first: int) -> None:
        is_list = isinstance(column.dtype, pl.List)
        dtype = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
        if dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Int128):
            return
        every, shrunk = (EVERY, 1) if not is_list else (EVERY // A_LIST, A_LIST)
        noted = self.ids.setdefault(name, {})
        start, last = first + begin, first + len(column)
        for number in range(start // every, (last - 1) // every + 1):
            place = number * every
            end = place + max(1, (LATER if number else FIRST) // shrunk)
            low, high = max(place, start), min(end, last)
            if low < high and len(noted) < MOST:
                part = column.slice(low - first, high - low)
                texts = (part.explode() if is_list else part).cast(pl.String).to_list()
                noted |= dict.fromkeys(filter(_is_short, dict.fromkeys(texts)))


def _is_short(text: str | None) -> bool:
    return text is not None and len(text.encode()) <= MOST_BYTES
