"""The real ids of hashed keys, kept once each while rows are read; no two of them share a key.

A hash table numbers the keys; their ids are kept as Arrow keeps texts, and every row is held
against them, byte for byte. Threads look up side by side what is known, and learn the rest in turn.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import prefetch, prefetch_at, word_at
from evalkit.kernels.threads import ordered_map
from evalkit.sources.ids import (
    TOGETHER,
    WHOLE,
    WORD,
    IdPlan,
    IdTexts,
    KeyCollisionError,
    Keys,
    Rows,
    address_of,
    compare_neighbours,
    compare_texts,
    texts_of,
)
from evalkit.truth._table import cut

_NO_KEYS: Keys = np.empty(0, dtype=np.uint64)

LEAST_SLOTS = 1 << 6
SLOT = 2  # words: the key, its number and one (0: free)
BLOCK = 1 << 19  # bytes of long texts that are kept together


@kernel(allocates=False)
def find_begins(keys, rows):  # type: ignore[no-untyped-def]
    """Rows that begin runs of a key; gives their number."""
    n = 0
    for row in range(keys.size):
        if row == 0 or keys[row] != keys[row - 1]:
            rows[n] = row
            n += 1
    return n


@kernel(allocates=False)
def home_slot(key, slots):  # type: ignore[no-untyped-def]
    """Where the search for a key that is a hash begins."""
    return np.int64(key & np.uint64(slots.size // SLOT - 1)) * SLOT


@kernel(allocates=False)
def find_slot(key, slots):  # type: ignore[no-untyped-def]
    """The slot of a key, or the free one that it would get."""
    at = home_slot(key, slots)
    while slots[at + 1] != 0 and slots[at] != key:
        at = (at + SLOT) & (slots.size - 1)
    return at


@kernel(allocates=False)
def move_slots(known, slots):  # type: ignore[no-untyped-def]
    """Put all that is in some slots into others, which are free."""
    for at in range(0, known.size, SLOT):
        if known[at + 1] != 0:
            to = find_slot(known[at], slots)
            slots[to] = known[at]
            slots[to + 1] = known[at + 1]


@kernel(allocates=False)
def find_known(keys, rows, slots, n, numbers, others):  # type: ignore[no-untyped-def]
    """Numbers of the keys of some rows that are among the first `n`; gives how many are.

    `rows` become theirs, and `others` the rest. Slots of later keys may be written meanwhile.
    """
    n_known = n_others = 0
    for first in range(0, rows.size, TOGETHER):
        last = min(first + TOGETHER, rows.size)
        for number in range(first, last):
            prefetch(slots, home_slot(keys[rows[number]], slots))
        for number in range(first, last):
            row = rows[number]
            found = np.int64(slots[find_slot(keys[row], slots) + 1])
            if 0 < found <= n:
                rows[n_known] = row
                numbers[n_known] = found - 1
                n_known += 1
            else:
                others[n_others] = row
                n_others += 1
    return n_known


@kernel(allocates=False)
def number_keys(keys, rows, done, slots, n, numbers, firsts):  # type: ignore[no-untyped-def]
    """Number the keys of some rows, from `done` on, while half of the slots are free.

    `firsts` become the rows of the new ones. Gives how many rows are done, and how many keys known.
    """
    n_before = n
    while done < rows.size:
        last = min(done + TOGETHER, rows.size)
        for number in range(done, last):
            prefetch(slots, home_slot(keys[rows[number]], slots))
        while done < last:
            key = keys[rows[done]]
            at = find_slot(key, slots)
            if slots[at + 1] == 0:
                if 2 * SLOT * n >= slots.size:
                    return done, n
                firsts[n - n_before] = rows[done]
                n += 1
                slots[at] = key
                slots[at + 1] = n
            numbers[done] = np.int64(slots[at + 1]) - 1
            done += 1
    return done, n


@kernel(allocates=False)
def keep_texts(texts, rows, done, views, first, block, name, filled):  # type: ignore[no-untyped-def]
    """Texts of some rows, from `done` on, behind the first views, while long ones fit the block.

    Gives how many are done, and how many bytes of the block are filled.
    """
    while done < rows.size:
        row, at = rows[done], 2 * (first + done)
        prefetch_at(address_of(texts, rows[min(done + TOGETHER, rows.size - 1)]))
        views[at] = texts.views[2 * row]
        views[at + 1] = texts.views[2 * row + 1]
        n = np.int64(views[at] & np.uint64(0xFFFFFFFF))
        if n > WHOLE:
            if filled + n > block.size:
                break
            begin = address_of(texts, row)
            for place in range(0, n, WORD):
                part = min(place, n - WORD)
                word = word_at(begin + part)
                for byte in range(filled + part, filled + part + WORD):
                    block[byte] = np.uint8(word & np.uint64(0xFF))
                    word >>= np.uint64(8)
            views[at + 1] = np.uint64(name) | (np.uint64(filled) << np.uint64(32))
            filled += n
        done += 1
    return done, filled


class _Known(NamedTuple):
    """What is known of ids at one moment. It stays as it is: what is learnt stands behind it.

    Args:
        n: how many there are.
        slots: uint64[n_slots * 2], of the keys' hash table.
        columns: the ids by their numbers, column by column.
    """

    n: int
    slots: Keys
    columns: list[IdTexts]


class KnownIds:
    """Every id that is met, once, and its key; threads may take rows side by side."""

    def __init__(self, plan: IdPlan) -> None:
        self._dtypes = dict(zip(plan.columns, plan.dtypes, strict=True))
        self._lock = threading.Lock()
        self._blocks = [np.empty(0, dtype=np.uint8)]  # bytes of long texts, which never move
        self._filled = 0  # bytes of the last one
        columns = [IdTexts(_NO_KEYS, np.zeros(1, dtype=np.int64)) for _ in self._dtypes]
        self._known = _Known(0, np.zeros(SLOT * LEAST_SLOTS, dtype=np.uint64), columns)

    def take(self, keys: Keys, rows: pl.DataFrame) -> None:
        """Learn the ids of rows.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        ids = [_as_text(rows[name]) for name in self._dtypes]
        columns = [texts for texts in map(texts_of, ids) if texts is not None]
        begins, numbers, others = np.empty((3, keys.size), dtype=np.int64)
        n_begins, known = find_begins(keys, begins), self._known
        n = find_known(keys, begins[:n_begins], known.slots, known.n, numbers, others)
        if not (
            all(compare_neighbours(keys, texts) for texts in columns)
            and _compare(columns, begins[:n], known.columns, numbers[:n])
            and self._learn(keys, others[: n_begins - n], columns)
        ):
            raise KeyCollisionError

    def _learn(self, keys: Keys, rows: Rows, columns: Sequence[IdTexts]) -> bool:
        """Learn what others have not learnt meanwhile; whether no two ids share a key."""
        numbers, firsts = np.empty((2, rows.size), dtype=np.int64)
        with self._lock:
            before, slots, old = self._known
            n, done = before, 0
            while done < rows.size:
                if 2 * SLOT * n >= slots.size:
                    slots = _with_more_slots(slots)
                new = firsts[n - before :]
                done, n = number_keys(keys, rows, done, slots, n, numbers, new)
            new, n_words = firsts[: n - before], slots.size // SLOT
            pairs = zip(columns, old, strict=True)
            kept = [self._keep(texts, new, known, before, n_words) for texts, known in pairs]
            self._known = _Known(n, slots, kept)
        return _compare(columns, rows, kept, numbers)

    def _keep(
        self, texts: IdTexts, rows: Rows, known: IdTexts, before: int, n_words: int
    ) -> IdTexts:
        """Put texts of some rows behind those that were known before."""
        views = known.views
        if views.size < n_words:
            views = np.empty(n_words, dtype=np.uint64)
            views[: 2 * before] = known.views[: 2 * before]
        done = 0
        while True:
            block = self._blocks[-1], len(self._blocks) - 1, self._filled
            done, self._filled = keep_texts(texts, rows, done, views, before, *block)
            if done == rows.size:
                return IdTexts(views, np.array([each.ctypes.data for each in self._blocks]))
            n_bytes = int(texts.views[2 * rows[done]] & np.uint64(0xFFFFFFFF))
            self._blocks.append(np.empty(max(BLOCK, n_bytes), dtype=np.uint8))
            self._filled = 0

    def keys(self) -> Keys:
        """uint64[n_ids], ascending."""
        keys, numbers = self._known.slots.reshape(-1, SLOT).T
        return np.sort(keys[numbers > 0])

    def ids_of(self, keys: Keys, threads: int) -> pl.DataFrame:
        """The id columns of known keys, each of which comes once."""
        n, slots, columns = self._known
        views = [np.empty((keys.size, 2), dtype=np.uint64) for _ in columns]

        def gather(piece: tuple[int, int]) -> None:
            rows = np.arange(*piece)
            numbers, others = np.empty((2, rows.size), dtype=np.int64)
            find_known(keys, rows, slots, n, numbers, others)
            for known, found in zip(columns, views, strict=True):
                found[slice(*piece)] = known.views.reshape(-1, 2)[numbers]

        for _ in ordered_map(gather, cut(keys.size, 4 * threads), threads=threads):
            pass
        return pl.DataFrame(
            [
                _as_column(name, dtype, found, self._blocks)
                for (name, dtype), found in zip(self._dtypes.items(), views, strict=True)
            ]
        )


def _compare(left: Sequence[IdTexts], rows: Rows, right: Sequence[IdTexts], places: Rows) -> bool:
    pairs = zip(left, right, strict=True)
    return all(compare_texts(texts, rows, known, places) for texts, known in pairs)


def _with_more_slots(known: Keys) -> Keys:
    slots = np.zeros(2 * known.size, dtype=np.uint64)
    move_slots(known, slots)
    return slots


def _as_text(column: pl.Series) -> pl.Series:
    """Ids as text or bytes."""
    is_text = column.dtype in (pl.String, pl.Binary)
    return column if is_text else column.to_physical().cast(pl.String)


def _as_column(
    name: str, dtype: pl.DataType, views: Keys, blocks: Sequence[npt.NDArray[np.uint8]]
) -> pl.Series:
    """Ids of a type, of their texts as Arrow keeps them."""
    import pyarrow as pa

    kind = pa.binary_view() if dtype == pl.Binary else pa.string_view()
    buffers = [None, *map(pa.py_buffer, (views, *blocks))]
    texts = pl.Series(name, pa.Array.from_buffers(kind, len(views), buffers))
    return texts.cast(pl.Series(dtype=dtype).to_physical().dtype).cast(dtype)
