"""What stands in a part: rows, users, items, times, and fingerprints."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.ids import Keys
from evalkit.splits._cut import Cut
from evalkit.splits._filters import PARTS, TEST, TRAIN
from evalkit.splits._log import Log
from evalkit.splits.content import Content, row_hashes


@dataclass(slots=True)
class Counting:
    """Counts of all parts, by batches of the log.

    Args:
        names: the columns of a batch that are user, item, time and relevance; None: as they are.
    """

    log: Log
    cut: Cut
    names: list[str] | None = None
    _begin: int = 0
    _parts: "dict[tuple[int, int], Counted]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, fold in enumerate(self.cut.folds):
            for name, letter in PARTS.items():
                if letter in fold.sizes or letter in (TRAIN, TEST):
                    sizes = fold.sizes.get(letter, (0, 0))
                    self._parts[number, letter] = Counted(number, name, sizes=sizes)

    @classmethod
    def of_own_columns(cls, log: Log, cut: Cut) -> "Counting | None":
        """By batches of all columns; None where one of ours is SQL, which these do not hold."""
        names: list[str] = []
        for each in log.table.columns.values():
            names += [each] if isinstance(each, str) else each
        known = log.whole.collect_schema()
        return cls(log, cut, names) if all(name in known for name in names) else None

    def add(self, batch: pl.DataFrame) -> None:
        """Count in the next rows of the log."""
        own = batch if self.names is None else batch.select(self.names)
        n_ids = len(self.log.users) + 1
        pairs = row_hashes(own[:, :n_ids])
        hashes = row_hashes(own[:, n_ids:], pairs.copy())
        times = None
        if "time" in self.log.table.columns:
            times = own.to_series(n_ids)
        here = slice(self._begin, self._begin + batch.height)
        for (fold, letter), counted in self._parts.items():
            cut = self.cut.folds[fold]
            mask = cut.letters[here] == letter
            counted.add(mask, hashes, pairs, times, (cut.cold_users[here], cut.cold_items[here]))
        self._begin += batch.height

    def told(self) -> list[dict[str, Any]]:
        """What the manifest says of each part."""
        return [each.told() for each in self._parts.values()]


@dataclass(slots=True)
class Counted:
    """Counts of one part, batch by batch."""

    fold: int
    name: str
    n_rows: int = 0
    content: Content = field(default_factory=Content)
    pairs: Content = field(default_factory=Content)
    first: Any = None
    last: Any = None
    cold: list[int] = field(default_factory=lambda: [0, 0])
    sizes: tuple[int, int] = (0, 0)

    def add(
        self,
        mask: npt.NDArray[np.bool_],
        hashes: Keys,
        pairs: Keys,
        times: pl.Series | None,
        colds: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
    ) -> None:
        """Count in the rows of a batch that are in the part."""
        n_here = int(np.count_nonzero(mask))
        if not n_here:
            return
        self.n_rows += n_here
        self.content.add_hashes(hashes[mask])
        self.pairs.add_hashes(pairs[mask])
        for place, each in enumerate(colds):
            self.cold[place] += int(np.count_nonzero(each & mask))
        if times is not None:
            own = times.filter(pl.Series(mask))
            low, high = own.min(), own.max()
            if low is not None:
                self.first = low if self.first is None else min(self.first, low)
                self.last = high if self.last is None else max(self.last, high)

    def told(self) -> dict[str, Any]:
        """What the manifest says of the part."""
        marks = {"cold_user_rows": self.cold[0], "cold_item_rows": self.cold[1]}
        return {
            "fold": self.fold + 1,
            "name": self.name,
            "rows": self.n_rows,
            "users": self.sizes[0],
            "items": self.sizes[1],
            "first_time": self.first if isinstance(self.first, int | None) else str(self.first),
            "last_time": self.last if isinstance(self.last, int | None) else str(self.last),
            "content": self.content.fingerprint,
            "pairs": self.pairs.fingerprint,
            **(marks if self.name in ("test", "validation") else {}),
        }
