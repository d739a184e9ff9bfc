"""The real ids of hashed keys, kept once each while rows are read; no two of them share a key.

A hash table says where the id of a key is kept, in a record beside its key; every row is held
against it, byte for byte. Threads look up side by side what is known, and learn the rest in turn.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints, Keys
from evalkit.kernels.intrinsics import prefetch, prefetch_at, word_at
from evalkit.sources.ids import (
    TOGETHER,
    WHOLE,
    WORD,
    IdPlan,
    IdTexts,
    KeyCollisionError,
    address_of,
    hash_bytes,
    is_same_text,
    keep_alive,
    prefetch_text,
    stable_hashes,
    texts_of,
)

_NO_KEYS: Keys = np.empty(0, dtype=np.uint64)

LEAST_SLOTS = 1 << 10
FULL = 2 / 3  # keys a slot, at most
# a slot: the highest bits of a key and the place of its record, that is block and word; 0: free
PLACE_BITS = 36
WORD_BITS = 20
LEAST_BLOCK = 1 << 12
BLOCK = 1 << WORD_BITS  # words of records that are kept together, in pages as large as can be
# what is counted while ids are learnt
DONE, KNOWN, MET, FILLED = range(4)
N_COUNTS = 4


class Known(NamedTuple):
    """What is known of ids at one moment. It stays as it is: what is learnt stands behind it.

    A record is a key, and of each of its columns what `IdTexts.views` begins with, then the text:
    the rest of the view, or of a longer one all its bytes.

    Args:
        slots: uint64[n_slots], which may be written meanwhile.
        blocks: int64[n_blocks], addresses of words of records, none of which moves. The first one
            is none, so that no place is 0.
        end: the place behind the last record.
    """

    slots: Keys
    blocks: Ints
    end: int


@kernel(allocates=False)
def find_begins(keys, texts, rows):  # type: ignore[no-untyped-def]
    """Rows that begin runs of a key; gives their number, -1 where a run has two ids."""
    views = texts.views
    if keys.size == 0:
        return 0
    n = 0
    for first in range(0, views.size >> 1, keys.size):  # of columns
        n = 0
        key = head = rest = np.uint64(0)
        for row in range(keys.size):
            at = np.uint64(first + row)  # without a sign nobody asks whether it is negative
            key_before, head_before, rest_before = key, head, rest
            key = keys[np.uint64(row)]
            head, rest = views[at + at], views[at + at + np.uint64(1)]
            if row == 0 or key != key_before:
                rows[n] = row
                n += 1
            elif (head ^ head_before) | (rest ^ rest_before) != 0:  # mostly the one text in place
                if not is_same_text(texts, first + row - 1, texts, first + row):
                    return -1
    return n


@kernel(allocates=False)
def home_slot(key, slots):  # type: ignore[no-untyped-def]
    """Where the search for a key begins, or for its highest bits: the larger, the larger it is."""
    # so that other slots are filled from one end to the other
    n_slots = np.uint64(slots.size)
    return np.int64(((key >> np.uint64(PLACE_BITS)) * n_slots) >> np.uint64(64 - PLACE_BITS))


@kernel(allocates=False)
def place_in(slot):  # type: ignore[no-untyped-def]
    """The place that a slot says."""
    return np.int64(slot & np.uint64((1 << PLACE_BITS) - 1))


@kernel(allocates=False)
def find_record(key, at, slots, blocks, end):  # type: ignore[no-untyped-def]
    """From a slot on, the place of a key's record and 0; without one, 0 and the slot it would get.

    A slot of a place from `end` on, as one that is free, says that the key is not known.
    """
    while True:
        slot = slots[at]
        if slot == 0:
            return 0, at
        if (slot ^ key) >> np.uint64(PLACE_BITS) == 0:
            place = place_in(slot)
            if place >= end:
                return 0, at
            if word_at(record_at(place, blocks)) == key:
                return place, 0
        at += 1
        if at == slots.size:
            at = 0


@kernel(allocates=False)
def record_at(place, blocks):  # type: ignore[no-untyped-def]
    """The address of the record at a place."""
    return blocks[place >> WORD_BITS] + WORD * (place & ((1 << WORD_BITS) - 1))


@kernel(allocates=False)
def prefetch_record(slot, texts, row, blocks, end):  # type: ignore[no-untyped-def]
    """Ask for the text of a row, and for the record of a slot, which is as long if it is its."""
    prefetch_text(texts, row)
    place = place_in(slot)
    if 0 < place < end:
        prefetch_at(record_at(place, blocks))
        n = np.int64(texts.views[2 * row] & np.uint64(0xFFFFFFFF))
        prefetch_at(record_at(place, blocks) + WORD + max(n, WORD))


@kernel(allocates=False)
def is_id_of(record, texts, row, n_rows):  # type: ignore[no-untyped-def]
    """Whether the id of a row is that of a record at an address."""
    for at in range(row, texts.views.size >> 1, n_rows):
        record += WORD
        head = texts.views[2 * at]
        if head != word_at(record):  # length, or the first bytes
            return False
        record += WORD
        last = np.int64(head & np.uint64(0xFFFFFFFF)) - WORD
        if last <= WHOLE - WORD:
            if texts.views[2 * at + 1] != word_at(record):
                return False
        else:
            begin = address_of(texts, at)
            for place in range(0, last, WORD):
                if word_at(begin + place) != word_at(record + place):
                    return False
            if word_at(begin + last) != word_at(record + last):
                return False
            record += WORD * ((last - 1) // WORD + 1)  # to the last word
    return True


@kernel(allocates=False)
def move_slots(known, slots):  # type: ignore[no-untyped-def]
    """Put all that is in some slots into others, which are free."""
    for slot in known:
        if slot != 0:
            at = home_slot(slot, slots)
            while slots[at] != 0:
                at += 1
                if at == slots.size:
                    at = 0
            slots[at] = slot


@kernel(allocates=False)
def find_known(keys, rows, texts, known, waiting):  # type: ignore[no-untyped-def]
    """Hold some rows against what is known; `rows` become those of other keys.

    Gives how many these are; -1 where an id is not that of its key. `waiting` int64[16] is room to
    work in.
    """
    slots, blocks, end = known.slots, known.blocks, known.end
    n_others = 0
    for step in range(rows.size + TOGETHER):
        number = step - TOGETHER
        if number >= 0:
            row = rows[number]
            place, _ = find_record(keys[row], waiting[number & (TOGETHER - 1)], slots, blocks, end)
            if place == 0:
                rows[n_others] = row
                n_others += 1
            elif not is_id_of(record_at(place, blocks), texts, row, keys.size):
                return -1
        if step < rows.size:
            far = rows[min(step + 2 * TOGETHER, rows.size - 1)]
            prefetch(keys, far)
            prefetch(texts.views, 2 * far)
            prefetch(slots, home_slot(keys[rows[min(step + TOGETHER, rows.size - 1)]], slots))
            at = home_slot(keys[rows[step]], slots)
            waiting[step & (TOGETHER - 1)] = at
            prefetch_record(slots[at], texts, rows[step], blocks, end)
    return n_others


@kernel(allocates=False)
def is_full(slots, n):  # type: ignore[no-untyped-def]
    """Whether slots of `n` keys have to become more before the next one."""
    return n >= slots.size * FULL


@kernel(allocates=False)
def learn(keys, rows, texts, slots, blocks, block, counts):  # type: ignore[no-untyped-def]
    """Learn the ids of some rows while there are free slots, and room in the block.

    The first of `rows` become those of keys that are known already. `counts`: rows that are done,
    keys that are known, rows that are not new, words of the block that are filled.
    """
    done, n, n_met, filled = counts[DONE], counts[KNOWN], counts[MET], counts[FILLED]
    begin = (blocks.size - 1) << WORD_BITS
    while done < rows.size:
        far = rows[min(done + 2 * TOGETHER, rows.size - 1)]
        prefetch(slots, home_slot(keys[far], slots))
        near = rows[min(done + TOGETHER, rows.size - 1)]
        prefetch_record(slots[home_slot(keys[near], slots)], texts, near, blocks, begin + filled)
        row = rows[done]
        key = keys[row]
        place, at = find_record(key, home_slot(key, slots), slots, blocks, begin + filled)
        if place != 0:
            rows[n_met] = row
            n_met += 1
        else:
            if is_full(slots, n):
                break
            end = keep_record(key, texts, row, keys.size, block, filled)
            if end < 0:
                break
            high = (key >> np.uint64(PLACE_BITS)) << np.uint64(PLACE_BITS)
            slots[at] = high | np.uint64(begin + filled)
            filled = end
            n += 1
        done += 1
    counts[DONE], counts[KNOWN], counts[MET], counts[FILLED] = done, n, n_met, filled


@kernel(allocates=False)
def keep_record(key, texts, row, n_rows, block, filled):  # type: ignore[no-untyped-def]
    """Put the record of a row behind the filled words of the block.

    Gives how many words are filled then; -1 where it does not fit.
    """
    if filled + words_of(texts, row, n_rows) > block.size:
        return -1
    block[filled] = key
    filled += 1
    for at in range(row, texts.views.size >> 1, n_rows):
        head, rest = texts.views[2 * at], texts.views[2 * at + 1]
        block[filled] = head
        n = np.int64(head & np.uint64(0xFFFFFFFF))
        if n > WHOLE:
            begin, n_words = address_of(texts, at), (n + WORD - 1) // WORD
            for number in range(n_words - 1):
                filled += 1
                block[filled] = word_at(begin + WORD * number)
            rest = word_at(begin + n - WORD) >> np.uint64(8 * (WORD * n_words - n))
        block[filled + 1] = rest
        filled += 2
    return filled


@kernel(allocates=False)
def words_of(texts, row, n_rows):  # type: ignore[no-untyped-def]
    """How many words the record of a row has."""
    n_words = 1
    for at in range(row, texts.views.size >> 1, n_rows):
        n = np.int64(texts.views[2 * at] & np.uint64(0xFFFFFFFF))
        n_words += 2 if n <= WHOLE else 1 + int(n + WORD - 1) // WORD
    return n_words


@kernel(allocates=False)
def list_keys(known, keys):  # type: ignore[no-untyped-def]
    """Fill in all keys that are known."""
    slots, blocks = known.slots, known.blocks
    n = 0
    for at in range(slots.size):
        ahead = place_in(slots[min(at + TOGETHER, slots.size - 1)])
        if ahead != 0:
            prefetch_at(record_at(ahead, blocks))
        if slots[at] != 0:
            keys[n] = word_at(record_at(place_in(slots[at]), blocks))
            n += 1


@kernel(allocates=False)
def find_views(keys, known, views):  # type: ignore[no-untyped-def]
    """Views of the texts of known keys, uint64[n_columns, 2 * n_keys]."""
    slots, blocks, end = known.slots, known.blocks, known.end
    for row in range(keys.size):
        far, near = min(row + 2 * TOGETHER, keys.size - 1), min(row + TOGETHER, keys.size - 1)
        prefetch(slots, home_slot(keys[far], slots))
        ahead = place_in(slots[home_slot(keys[near], slots)])
        if ahead != 0:
            prefetch_at(record_at(ahead, blocks))
        place, _ = find_record(keys[row], home_slot(keys[row], slots), slots, blocks, end)
        block, record = place >> WORD_BITS, record_at(place, blocks)
        for column in range(views.shape[0]):
            head, text = word_at(record + WORD), record + 2 * WORD
            n = np.int64(head & np.uint64(0xFFFFFFFF))
            rest, n_words = word_at(text), 1
            if n > WHOLE:
                rest = np.uint64(block) | (np.uint64(text - blocks[block]) << np.uint64(32))
                n_words = int(n + WORD - 1) // WORD
            views[column, 2 * row] = head
            views[column, 2 * row + 1] = rest
            record = text + WORD * (n_words - 1)


class KnownIds:
    """Every id that is met, once, and its key; threads may take rows side by side."""

    def __init__(self, plan: IdPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._blocks = [_NO_KEYS]  # words of records
        self._counts = np.zeros(N_COUNTS, dtype=np.int64)
        slots = np.zeros(LEAST_SLOTS, dtype=np.uint64)
        self._known = Known(slots, np.zeros(1, dtype=np.int64), 1 << WORD_BITS)
        self._all_new = True  # or nearly so: no row to come is looked for before it is learnt

    def take(self, keys: Keys, rows: pl.DataFrame) -> None:
        """Learn the ids of rows.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        texts = _joined([_as_text(rows[name]) for name in self._plan.columns])
        begins = np.empty(keys.size, dtype=np.int64)
        n = int(find_begins(keys, texts, begins))
        if n < 0:
            raise KeyCollisionError
        others = begins[:n]
        if not self._all_new:
            others = _compare(keys, others, texts, self._known)
        if others.size:
            met = self._learn(keys, others, texts)
            _compare(keys, met, texts, self._known)

    def are_those_of(self, keys: Keys, ids: pl.DataFrame, rows: Ints) -> bool:
        """Whether ids in some rows, int64[n], are those of their keys where these are known."""
        columns = [ids[name] for name in self._plan.columns]
        if not self._are_texts:
            columns = [column[rows] for column in columns]
            keys, rows = keys[rows], np.arange(rows.size)
        texts = _joined([_as_text(column) for column in columns])
        return _count_others(keys, rows, texts, self._known) >= 0

    def _learn(self, keys: Keys, rows: Ints, texts: IdTexts) -> Ints:
        """Learn what others have not learnt meanwhile; gives the other rows."""
        with self._lock:
            (slots, blocks, _), before = self._known, int(self._counts[KNOWN])
            self._counts[DONE] = self._counts[MET] = 0
            while True:
                learn(keys, rows, texts, slots, blocks, self._blocks[-1], self._counts)
                done, n, n_met, filled = self._counts.tolist()
                if done == rows.size:
                    break
                if is_full.interpret(slots, n):
                    known, slots = slots, np.zeros(2 * slots.size, dtype=np.uint64)
                    move_slots(known, slots)
                else:
                    blocks = self._add_block(words_of.interpret(texts, rows[done], keys.size))
            end = min(filled, BLOCK)  # no place of the next block is known, however long an id
            self._known = Known(slots, blocks, ((blocks.size - 1) << WORD_BITS) + end)
            self._all_new = n - before > 0.99 * rows.size
        return rows[:n_met]

    def _add_block(self, n_words: int) -> Ints:
        """Make room for one record at least; gives the addresses of all blocks."""
        room = min(BLOCK, max(LEAST_BLOCK, 2 * self._blocks[-1].size))
        self._counts[FILLED] = 0
        self._blocks.append(np.empty(max(room, n_words), dtype=np.uint64))
        return np.append(self._known.blocks[:1], [each.ctypes.data for each in self._blocks[1:]])

    def keys(self) -> Keys:
        """uint64[n_ids], ascending."""
        keys = np.empty(self._counts[KNOWN], dtype=np.uint64)
        list_keys(self._known, keys)
        keys.sort()
        return keys

    def _views_of(self, keys: Keys) -> Keys:
        """uint64[n_columns, 2 * n_keys], of the texts of known keys."""
        views = np.empty((len(self._plan.columns), 2 * keys.size), dtype=np.uint64)
        find_views(keys, self._known, views)
        return views

    def ids_of(self, keys: Keys) -> pl.DataFrame:
        """The id columns of known keys."""
        columns = zip(self._plan.columns, self._plan.dtypes, self._views_of(keys), strict=True)
        return pl.DataFrame([_as_column(*column, self._blocks) for column in columns])

    def agree_with(self, others: "KnownIds") -> bool:
        """Whether a key that both know stands for one id."""
        keys = self.keys()
        texts = IdTexts(self._views_of(keys).reshape(-1), self._known.blocks)
        return _count_others(keys, np.arange(keys.size), texts, others._known) >= 0

    def stable_hashes(self, keys: Keys) -> Keys:
        """uint64[n_keys], hashes of the ids that no version of any library changes."""
        if not self._are_texts:
            return stable_hashes(self.ids_of(keys), self._plan)
        hashes = np.zeros(keys.size, dtype=np.uint64)
        for views in self._views_of(keys):
            hash_bytes(IdTexts(views, self._known.blocks), hashes)
        return hashes

    @property
    def _are_texts(self) -> bool:
        return all(dtype in (pl.String, pl.Binary) for dtype in self._plan.dtypes)


def _compare(keys: Keys, rows: Ints, texts: IdTexts, known: Known) -> Ints:
    """Hold some rows against what is known; gives those of other keys.

    Raises:
        KeyCollisionError: an id is not that of its key.
    """
    n = _count_others(keys, rows, texts, known)
    if n < 0:
        raise KeyCollisionError
    return rows[:n]


def _count_others(keys: Keys, rows: Ints, texts: IdTexts, known: Known) -> int:
    return int(find_known(keys, rows, texts, known, np.empty(TOGETHER, dtype=np.int64)))


def _as_text(column: pl.Series) -> pl.Series:
    """Ids as text or bytes."""
    is_text = column.dtype in (pl.String, pl.Binary)
    return column if is_text else column.to_physical().cast(pl.String)


def _joined(columns: Sequence[pl.Series]) -> IdTexts:
    """Texts of columns of as many rows, one column behind the other."""
    found = [texts for texts in map(texts_of, columns) if texts is not None]
    assert len(found) == len(columns)
    if len(found) == 1:
        return found[0]
    n_buffers, views = 0, []
    for texts in found:
        words = texts.views.copy()
        is_long = (words[::2] & np.uint64(0xFFFFFFFF)) > WHOLE
        words[1::2][is_long] += np.uint64(n_buffers)  # which buffer holds it
        views.append(words)
        n_buffers += texts.buffers.size
    buffers = np.concatenate([texts.buffers for texts in found])
    return IdTexts(keep_alive(np.concatenate(views), found), buffers)


@dataclass(frozen=True, slots=True)
class _Exported:
    """An array of Arrow that nobody takes for one of pyarrow: to know those, Polars loads 30 ms."""

    array: Any

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.array.__arrow_c_array__(requested_schema)


def _as_column(name: str, dtype: pl.DataType, views: Keys, blocks: Sequence[Keys]) -> pl.Series:
    """Ids of a type, of their texts as Arrow keeps them."""
    import pyarrow as pa

    kind = pa.binary_view() if dtype == pl.Binary else pa.string_view()
    buffers = [None, *map(pa.py_buffer, (views, *blocks))]
    texts = pl.Series(_Exported(pa.Array.from_buffers(kind, len(views) // 2, buffers)))
    return texts.cast(pl.Series(dtype=dtype).to_physical().dtype).cast(dtype).alias(name)
