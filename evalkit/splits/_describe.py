"""What stands in a part: rows, users, items, times, and fingerprints."""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

import numpy as np
import polars as pl

from evalkit.errors import warn
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Ints, Keys
from evalkit.sources.content import Content, row_hashes
from evalkit.sources.ids import as_array, mix
from evalkit.splits._cut import Cut
from evalkit.splits._filters import PARTS, TEST, TRAIN
from evalkit.splits._rule import PER_SECOND
from evalkit.splits._source import Log

_FAR = np.iinfo(np.int64)


@dataclass(slots=True)
class Counting:
    """Counts of all parts, by batches of the log: its columns of users, item, time, relevance."""

    log: Log
    cut: Cut
    _dtype: pl.DataType | None = None
    _sums: list[Keys] = field(default_factory=list)
    _counts: list[Ints] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in self.cut.folds:
            self._sums.append(np.zeros((6, 4), dtype=np.uint64))
            counts = np.zeros((6, 5), dtype=np.int64)
            counts[:, 3], counts[:, 4] = _FAR.max, _FAR.min
            self._counts.append(counts)

    def add(self, batch: pl.DataFrame, begin: int, marks: list[Bytes] | None = None) -> None:
        """Count in rows of the log from `begin` on; `marks` of cold ones, for each fold."""
        marks = marks or [np.zeros(batch.height, dtype=np.uint8)] * len(self.cut.folds)
        n_ids = len(self.log.users) + 1
        pairs = row_hashes(batch[:, :n_ids])
        hashes = row_hashes(batch[:, n_ids:], pairs.copy())
        ticks = absent = np.zeros(0, dtype=np.int64)
        if "time" in self.log.table.columns:
            times = batch.to_series(n_ids)
            self._dtype = times.dtype
            if times.has_nulls():
                absent = as_array(times.is_null()).astype(np.int64)
                times = times.fill_null(strategy="zero")
            ticks = as_array(times.to_physical().cast(pl.Int64))
        here = slice(begin, begin + batch.height)
        for fold, cold, sums, counts in zip(
            self.cut.folds, marks, self._sums, self._counts, strict=True
        ):
            letters = fold.letters[here]
            if absent.size:
                count_parts(letters, hashes, pairs, ticks, absent, cold, sums, counts)
                continue
            others = np.flatnonzero(letters != TRAIN)
            sum_train(letters, hashes, pairs, ticks, sums[TRAIN], counts[TRAIN])
            times_of = ticks[others] if ticks.size else ticks
            of_others = np.zeros_like(sums)
            count_parts(
                *(letters[others], hashes[others], pairs[others], times_of, absent, cold[others]),
                *(of_others, counts),
            )
            sums += of_others
            sums[TRAIN] -= of_others.sum(axis=0)

    def add_cold(self, cold: Mapping[int, tuple[int, int]]) -> None:
        """Rows of cold users and items of each letter, which no marks told."""
        for letter, counts in cold.items():
            self._counts[0][letter, 1:3] += counts

    def told(self) -> list[dict[str, Any]]:
        """What the manifest says of each part."""
        found = []
        for number, fold in enumerate(self.cut.folds):
            sizes = fold.sizes
            for name, letter in PARTS.items():
                if letter not in sizes and letter not in (TRAIN, TEST):
                    continue
                n_rows, cold_users, cold_items, first, last = self._counts[number][letter].tolist()
                sums = self._sums[number][letter].tolist()
                told = {
                    "fold": number + 1,
                    "name": name,
                    "rows": n_rows,
                    "users": sizes.get(letter, (0, 0))[0],
                    "items": sizes.get(letter, (0, 0))[1],
                    "first_time": self._time(first, last >= first),
                    "last_time": self._time(last, last >= first),
                    "content": Content(n_rows, (sums[0], sums[1])).fingerprint,
                    "pairs": Content(n_rows, (sums[2], sums[3])).fingerprint,
                }
                if name in ("test", "validation"):
                    told |= {"cold_user_rows": cold_users, "cold_item_rows": cold_items}
                found.append(told)
        return found

    def _time(self, ticks: int, is_known: bool) -> int | str | None:
        if not is_known or self._dtype is None:
            return None
        value = pl.Series([ticks], dtype=pl.Int64).cast(self._dtype)[0]
        return value if isinstance(value, int) else str(value)


@dataclass(slots=True)
class OddTimes:
    """Rows whose time is 0, as of what was never set, and those that are after now."""

    log: Log
    now: int = field(init=False)
    n_at_0: int = 0
    n_after_now: int = 0

    def __post_init__(self) -> None:
        self.now = time_ns() * PER_SECOND[self.log.unit] // PER_SECOND["ns"]

    def add(self, times: Ints) -> None:
        """Count in the next rows of the log."""
        self.n_at_0 += int(np.count_nonzero(times == 0))
        self.n_after_now += int(np.count_nonzero(times > self.now))

    def tell(self) -> None:
        """Warn of them; which rows are after now is no part of the split."""
        found = ((self.n_at_0, "at 0 (1970-01-01)"), (self.n_after_now, "after now"))
        told = " and ".join(f"{n:,} rows {where}" for n, where in found if n)
        if told:
            hint = "where leaves such rows out"
            warn("odd-times", f"times: {told}", at=self.log.table.at, hint=hint)


@kernel(allocates=False)
def sum_train(letters, hashes, pairs, times, sums, counts):
    """Rows of train, their first and last time; and contents of all rows, of any letter."""
    one, two, three, four = sums[0], sums[1], sums[2], sums[3]
    for row in range(letters.size):
        one += mix(hashes[row] ^ np.uint64(0x8BB84B93962EACC9))
        two += mix(hashes[row] ^ np.uint64(0x2F58C5B3D5A1C9E7))
        three += mix(pairs[row] ^ np.uint64(0x8BB84B93962EACC9))
        four += mix(pairs[row] ^ np.uint64(0x2F58C5B3D5A1C9E7))
    sums[0], sums[1], sums[2], sums[3] = one, two, three, four
    low, high, n_rows = counts[3], counts[4], 0
    for row in range(letters.size):
        n_rows += letters[row] == 1
        if times.size:
            low = min(low, times[row] if letters[row] == 1 else low)
            high = max(high, times[row] if letters[row] == 1 else high)
    counts[0] += n_rows
    counts[3], counts[4] = low, high


@kernel(allocates=False)
def count_parts(letters, hashes, pairs, times, absent, marks, sums, counts):
    """Rows of each letter: how many, of cold users and items, first and last time, two contents."""
    for row in range(letters.size):
        letter = letters[row]
        one, two = hashes[row], pairs[row]
        sums[letter, 0] += mix(one ^ np.uint64(0x8BB84B93962EACC9))
        sums[letter, 1] += mix(one ^ np.uint64(0x2F58C5B3D5A1C9E7))
        sums[letter, 2] += mix(two ^ np.uint64(0x8BB84B93962EACC9))
        sums[letter, 3] += mix(two ^ np.uint64(0x2F58C5B3D5A1C9E7))
        counts[letter, 0] += 1
        counts[letter, 1] += marks[row] & 1
        counts[letter, 2] += marks[row] >> 1
        if times.size and not (absent.size and absent[row]):
            counts[letter, 3] = min(counts[letter, 3], times[row])
            counts[letter, 4] = max(counts[letter, 4], times[row])
