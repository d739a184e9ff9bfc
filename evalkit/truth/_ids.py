"""The real ids of hashed keys, kept once each while rows are read; no two of them share a key.

A hash table numbers the keys; their ids are kept as Arrow keeps texts, and every row is held
against them, byte for byte. Threads look up side by side what is known, and learn the rest in turn.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import prefetch, word_at
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
    is_same_text,
    prefetch_text,
    texts_of,
)
from evalkit.truth._table import cut

_NO_KEYS: Keys = np.empty(0, dtype=np.uint64)

LEAST_SLOTS = 1 << 10
FULL = 2 / 3  # keys a slot, at most
FORESEEN = 3  # times the known keys, for which room is made at most: to touch new memory takes long
FORESEEN_NEW = 8  # times as many, where no key has come back so far
SLOT = 4  # words: the key, its number and one (0: free), the view of its id
BLOCK = 1 << 20  # words of long texts that are kept together, in pages as large as can be
# what is counted while keys are numbered
DONE, KNOWN, NEW, MET, FILLED, NAME = range(6)
N_COUNTS = 6


@kernel(allocates=False)
def find_begins(keys, texts, rows):  # type: ignore[no-untyped-def]
    """Rows that begin runs of a key; gives their number, -1 where a run has two texts."""
    views = texts.views
    n = 0
    key = head = rest = np.uint64(0)
    for row in range(keys.size):
        at = np.uint64(row)  # of an index without a sign nobody asks whether it is negative
        key_before, head_before, rest_before = key, head, rest
        key, head, rest = keys[at], views[at + at], views[at + at + np.uint64(1)]
        if row == 0 or key != key_before:
            rows[n] = row
            n += 1
        elif (head ^ head_before) | (rest ^ rest_before) != 0:  # mostly the one text in its place
            if not is_same_text(texts, row - 1, texts, row):
                return -1
    return n


@kernel(allocates=False)
def home_slot(key, slots):  # type: ignore[no-untyped-def]
    """Where the search for a key that is a hash begins: the larger, the larger the key."""
    # so that other slots are filled from one end to the other
    n_slots = np.uint64(slots.size // SLOT)
    return np.int64(((key >> np.uint64(32)) * n_slots) >> np.uint64(32)) * SLOT


@kernel(allocates=False)
def find_slot(key, slots):  # type: ignore[no-untyped-def]
    """The slot of a key, or the free one that it would get."""
    at = home_slot(key, slots)
    while slots[at + 1] != 0 and slots[at] != key:
        at += SLOT
        if at == slots.size:
            at = 0
    return at


@kernel(allocates=False)
def move_slots(known, slots):  # type: ignore[no-untyped-def]
    """Put all that is in some slots into others, which are free."""
    for at in range(0, known.size, SLOT):
        if known[at + 1] != 0:
            to = find_slot(known[at], slots)
            for word in range(SLOT):
                slots[to + word] = known[at + word]


@kernel(allocates=False)
def find_known(keys, rows, texts, known, n, waiting, found):  # type: ignore[no-untyped-def]
    """Hold some rows against the first `n` known keys; `rows` become those of other keys.

    Slots of later keys may be written meanwhile. `found` int64[2, n_rows] become the rows of known
    keys and their numbers, unless it is empty; `waiting` int64[2, 16] is room to work in.

    Gives how many rows are of other keys; -1 where a text is not that of its key.
    """
    slots, views = known.views, texts.views
    n_found = n_others = n_waiting = 0
    for number in range(rows.size):
        prefetch(slots, home_slot(keys[rows[min(number + TOGETHER, rows.size - 1)]], slots))
        row = rows[number]
        at = find_slot(keys[row], slots)
        if not 0 < slots[at + 1] <= n:
            rows[n_others] = row
            n_others += 1
            continue
        head = views[2 * row]
        if head != slots[at + 2]:  # length, or the first bytes
            return -1
        if np.int64(head & np.uint64(0xFFFFFFFF)) <= WHOLE:
            if views[2 * row + 1] != slots[at + 3]:
                return -1
        else:  # where it stands in its own buffers says nothing of others
            if n_waiting == TOGETHER:
                if not compare_texts(texts, waiting[0], known, waiting[1]):
                    return -1
                n_waiting = 0
            waiting[0, n_waiting], waiting[1, n_waiting] = row, view_of_slot(at)
            prefetch_text(texts, row)
            prefetch_text(known, view_of_slot(at))
            n_waiting += 1
        if found.size > 0:
            found[0, n_found], found[1, n_found] = row, np.int64(slots[at + 1]) - 1
            n_found += 1
    last = waiting[0][:n_waiting], waiting[1][:n_waiting]
    return n_others if compare_texts(texts, last[0], known, last[1]) else -1


@kernel(allocates=False)
def view_of_slot(at):  # type: ignore[no-untyped-def]
    """Which of the slots' words, as views of 16 bytes, is that of an id."""
    return (at >> 1) + 1


@kernel(allocates=False)
def is_full(slots, n):  # type: ignore[no-untyped-def]
    """Whether slots of `n` keys have to become more before the next one."""
    return n >= (slots.size // SLOT) * FULL


@kernel(allocates=False)
def number_keys(keys, rows, texts, slots, firsts, block, counts):  # type: ignore[no-untyped-def]
    """Number the keys of some rows while there is room for them and for long texts in the block.

    `firsts` become the rows of new keys, unless it is empty, the first of `rows` those of others.
    `counts`: rows that are done, keys that are known, of them new ones, rows of others, words of
    the block that are filled, its number.
    """
    done, n, n_new, n_met = counts[DONE], counts[KNOWN], counts[NEW], counts[MET]
    filled = counts[FILLED]
    while done < rows.size:
        last = min(done + TOGETHER, rows.size)
        for number in range(done, last):
            prefetch(slots, home_slot(keys[rows[number]], slots))
            prefetch_text(texts, rows[number])
        while done < last:
            row = rows[done]
            at = find_slot(keys[row], slots)
            if slots[at + 1] != 0:
                rows[n_met] = row
                n_met += 1
            else:
                end = filled
                if not is_full(slots, n):
                    end = keep_text(texts, row, slots, view_of_slot(at), block, counts, filled)
                if is_full(slots, n) or end < 0:
                    last = 0
                    break
                filled = end
                if firsts.size > 0:
                    firsts[n_new] = row
                n_new += 1
                n += 1
                slots[at] = keys[row]
                slots[at + 1] = n
            done += 1
        if last == 0:
            break
    counts[DONE], counts[KNOWN], counts[NEW], counts[MET] = done, n, n_new, n_met
    counts[FILLED] = filled


@kernel(allocates=False)
def keep_text(texts, row, views, place, block, counts, filled):  # type: ignore[no-untyped-def]
    """Put the text of a row into a place of views, a long one behind the filled words of the block.

    Gives how many words are filled then; -1 where it does not fit.
    """
    head, view = texts.views[2 * row], texts.views[2 * row + 1]
    n = np.int64(head & np.uint64(0xFFFFFFFF))
    if n > WHOLE:
        n_words = (n + WORD - 1) // WORD
        if filled + n_words > block.size:
            return -1
        begin = address_of(texts, row)
        for number in range(n_words - 1):
            block[filled + number] = word_at(begin + WORD * number)
        spare = np.uint64(8 * (WORD * n_words - n))
        block[filled + n_words - 1] = word_at(begin + n - WORD) >> spare
        view = np.uint64(counts[NAME]) | (np.uint64(WORD * filled) << np.uint64(32))
        filled += n_words
    views[2 * place] = head
    views[2 * place + 1] = view
    return filled


@kernel(allocates=False)
def keep_texts(texts, rows, views, first, block, counts):  # type: ignore[no-untyped-def]
    """Put texts of some rows behind the first views, while long ones fit the block.

    `counts` are those of `number_keys`.
    """
    done, filled = counts[DONE], counts[FILLED]
    while done < rows.size:
        prefetch_text(texts, rows[min(done + TOGETHER, rows.size - 1)])
        end = keep_text(texts, rows[done], views, first + done, block, counts, filled)
        if end < 0:
            break
        filled = end
        done += 1
    counts[DONE], counts[FILLED] = done, filled


@kernel(allocates=False)
def find_views(keys, slots, views, numbers):  # type: ignore[no-untyped-def]
    """Views and numbers of known keys."""
    for first in range(0, keys.size, TOGETHER):
        last = min(first + TOGETHER, keys.size)
        for row in range(first, last):
            prefetch(slots, home_slot(keys[row], slots))
        for row in range(first, last):
            at = find_slot(keys[row], slots)
            views[2 * row], views[2 * row + 1] = slots[at + 2], slots[at + 3]
            numbers[row] = np.int64(slots[at + 1]) - 1


class _Known(NamedTuple):
    """What is known of ids at one moment. It stays as it is: what is learnt stands behind it.

    Args:
        n: how many there are.
        slots: of the keys' hash table, in which views of the ids' first column stand.
        others: the other columns by the ids' numbers.
    """

    n: int
    slots: IdTexts
    others: list[IdTexts]


class KnownIds:
    """Every id that is met, once, and its key; threads may take rows side by side.

    Args:
        n_rows: that may come, or None when nobody knows.
    """

    def __init__(self, plan: IdPlan, n_rows: int | None) -> None:
        self._dtypes = dict(zip(plan.columns, plan.dtypes, strict=True))
        self._n_rows = 0.0 if n_rows is None else float(n_rows)  # that are still to come
        self._lock = threading.Lock()
        self._blocks = [_NO_KEYS]  # words of long texts, which never move
        self._buffers = np.zeros(1, dtype=np.int64)  # where they are
        self._counts = np.zeros(N_COUNTS, dtype=np.int64)
        slots = np.zeros(SLOT * LEAST_SLOTS, dtype=np.uint64)
        others = [IdTexts(_NO_KEYS, self._buffers) for _ in plan.columns[1:]]
        self._known = _Known(0, IdTexts(slots, self._buffers), others)
        self._all_new = True  # or nearly so: no row to come is looked for before it is learnt

    def take(self, keys: Keys, rows: pl.DataFrame) -> None:
        """Learn the ids of rows.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        ids = [_as_text(rows[name]) for name in self._dtypes]
        columns = [texts for texts in map(texts_of, ids) if texts is not None]
        begins = np.empty(keys.size, dtype=np.int64)
        n = int(find_begins(keys, columns[0], begins))
        if n < 0 or not all(compare_neighbours(keys, texts) for texts in columns[1:]):
            raise KeyCollisionError
        begins = begins[:n]
        others = begins
        if not self._all_new:
            others = _compare(keys, begins, columns, self._known)
        if others.size:
            met = self._learn(keys, others, columns, others.size / begins.size)
            _compare(keys, met, columns, self._known)

    def _learn(self, keys: Keys, rows: Rows, columns: Sequence[IdTexts], new: float) -> Rows:
        """Learn what others have not learnt meanwhile; gives the other rows.

        Args:
            new: share of the runs of a key whose key was not known.
        """
        firsts = np.empty(rows.size if columns[1:] else 0, dtype=np.int64)
        with self._lock:
            before, (slots, _), old = self._known
            self._n_rows = max(0.0, self._n_rows - keys.size)
            # as many new keys as here; fewer where keys come back, as if in any order
            n_in_the_end = before + rows.size * (1 + self._n_rows / keys.size)
            if new < 1.0:
                n_in_the_end = min(n_in_the_end, before / (1.0 - new))
            self._counts[:FILLED] = 0, before, 0, 0
            while True:
                given = keys, rows, columns[0], slots, firsts, self._blocks[-1]
                number_keys(*given, self._counts)
                done, n, n_new, n_met = self._counts[:FILLED].tolist()
                if done == rows.size:
                    break
                if is_full.interpret(slots, n):
                    times = FORESEEN_NEW if before and self._all_new else FORESEEN
                    soon = max(times * n, 0 if n_met else before + rows.size)
                    slots = _with_more_slots(slots, min(soon, n_in_the_end))
                else:
                    self._add_block(columns[0], rows[done])
            room = slots.size // SLOT
            kept = [
                self._keep(texts, firsts[:n_new], known.views, before, 2 * room)
                for texts, known in zip(columns[1:], old, strict=True)
            ]
            texts = [IdTexts(views, self._buffers) for views in (slots, *kept)]
            self._known = _Known(n, texts[0], texts[1:])
            self._all_new = n_new > 0.99 * rows.size
        return rows[:n_met]

    def _keep(self, texts: IdTexts, rows: Rows, views: Keys, before: int, n_words: int) -> Keys:
        """Put texts of some rows behind those that were known before."""
        if views.size < n_words:
            views, known = np.empty(n_words, dtype=np.uint64), views
            views[: 2 * before] = known[: 2 * before]
        self._counts[DONE] = 0
        while True:
            keep_texts(texts, rows, views, before, self._blocks[-1], self._counts)
            if self._counts[DONE] == rows.size:
                return views
            self._add_block(texts, rows[self._counts[DONE]])

    def _add_block(self, texts: IdTexts, row: int) -> None:
        """Make room for long texts, that of a row at least."""
        n_bytes = int(texts.views[2 * row] & np.uint64(0xFFFFFFFF))
        self._counts[FILLED], self._counts[NAME] = 0, len(self._blocks)
        self._blocks.append(np.empty(max(BLOCK, -(-n_bytes // WORD)), dtype=np.uint64))
        self._buffers = np.append(self._buffers, self._blocks[-1].ctypes.data)

    def keys(self) -> Keys:
        """uint64[n_ids], ascending."""
        keys, numbers, _, _ = self._known.slots.views.reshape(-1, SLOT).T
        return np.sort(keys[numbers > 0])

    def ids_of(self, keys: Keys, threads: int) -> pl.DataFrame:
        """The id columns of known keys, each of which comes once."""
        slots, others = self._known.slots.views, self._known.others
        views = [np.empty(2 * keys.size, dtype=np.uint64) for _ in self._dtypes]

        def gather(piece: tuple[int, int]) -> None:
            first, last = piece
            numbers = np.empty(last - first, dtype=np.int64)
            find_views(keys[first:last], slots, views[0][2 * first : 2 * last], numbers)
            for known, found in zip(others, views[1:], strict=True):
                found.reshape(-1, 2)[first:last] = known.views.reshape(-1, 2)[numbers]

        for _ in ordered_map(gather, cut(keys.size, 4 * threads), threads=threads):
            pass
        return pl.DataFrame(
            [
                _as_column(name, dtype, found, self._blocks)
                for (name, dtype), found in zip(self._dtypes.items(), views, strict=True)
            ]
        )


def _compare(keys: Keys, rows: Rows, columns: Sequence[IdTexts], known: _Known) -> Rows:
    """Hold some rows against what is known; gives those of other keys.

    Raises:
        KeyCollisionError: an id is not that of its key.
    """
    found = np.empty((2, rows.size if known.others else 0), dtype=np.int64)
    waiting = np.empty((2, TOGETHER), dtype=np.int64)
    n = int(find_known(keys, rows, columns[0], known.slots, known.n, waiting, found))
    same, places = found[:, : rows.size - n]
    pairs = zip(columns[1:], known.others, strict=True)
    if n < 0 or not all(compare_texts(one, same, kept, places) for one, kept in pairs):
        raise KeyCollisionError
    return rows[:n]


def _with_more_slots(known: Keys, n_keys: float) -> Keys:
    """Twice as many slots, or more where so many keys are foreseen."""
    slots = np.zeros(max(2 * known.size, SLOT * int(n_keys / FULL)), dtype=np.uint64)
    move_slots(known, slots)
    return slots


def _as_text(column: pl.Series) -> pl.Series:
    """Ids as text or bytes."""
    is_text = column.dtype in (pl.String, pl.Binary)
    return column if is_text else column.to_physical().cast(pl.String)


def _as_column(name: str, dtype: pl.DataType, views: Keys, blocks: Sequence[Keys]) -> pl.Series:
    """Ids of a type, of their texts as Arrow keeps them."""
    import pyarrow as pa

    kind = pa.binary_view() if dtype == pl.Binary else pa.string_view()
    buffers = [None, *map(pa.py_buffer, (views, *blocks))]
    texts = pl.Series(name, pa.Array.from_buffers(kind, len(views) // 2, buffers))
    return texts.cast(pl.Series(dtype=dtype).to_physical().dtype).cast(dtype)
