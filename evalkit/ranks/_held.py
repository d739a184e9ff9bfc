"""Scores of users whose rows lie apart: held by partition, brought together, and counted.

Rows are packed as they come, by partition of their users' hashes. When all are there, those of a
partition are put in the order of the users' table entries, and counted as if they had lain so.
"""

from dataclasses import dataclass, field
from mmap import ACCESS_COPY, mmap
from queue import SimpleQueue
from threading import Lock
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.ranks._counting import count_strengths
from evalkit.ranks._order import order_in_batch
from evalkit.ranks._records import (
    NO_INTS,
    UNKNOWN_ROWS,
    UNKNOWN_RUNS,
    BatchResults,
    ModelProbe,
    RankedRows,
)
from evalkit.ranks._rows import Batch, rows_of
from evalkit.ranks._scan import RankScan
from evalkit.ranks._two_scans import drop_rows
from evalkit.ranks._unsorted import HALF, WORD
from evalkit.sources import reading
from evalkit.truth import ENTRY, Index, count_partitions, entry_of, find_entry, partition_of

LEAST_WORDS, MOST_WORDS = 2, 4  # of a row: two keys, whole or half, a strength, and an order
GROUPED_ROW = 4 * WORD + 4  # bytes of a row that is brought together with others
ROWS_A_PARTITION = 1 << 17
MOST_BITS = 10


class NoRoomError(Exception):
    """The rows are more than may be held."""


class Words(NamedTuple):
    """Packed rows of one model.

    Args:
        words: uint64[n_words], of the rows of all models.
        offsets: int64[n_batches, n_partitions + 1], words where the partitions of batches begin.
        widths: int64[n_batches], words of a row.
        n_words: of all models.
        shift: how far half a hash is shifted right to give the partition.
    """

    words: Keys
    offsets: Ints
    widths: Ints
    n_words: int
    shift: int


class Grouped(NamedTuple):
    """Room for the rows of a partition, those of a user together.

    Args:
        rows: uint64 or int64[n_rows], of known users.
        slots: int32[n_rows], table entries of the partition by row as it was held; -1: unknown.
        places: int64[n_entries + 1], the next place of each entry.
    """

    rows: RankedRows
    slots: Int32s
    places: Ints

    @classmethod
    def room(cls, n_rows: int, index: Index, *, ordered: bool) -> "Grouped":
        """Room for so many rows; what is not used of it takes no memory."""
        users, items = np.empty((2, n_rows), dtype=np.uint64)
        strengths = np.empty(n_rows, dtype=np.int64)
        orders = np.empty(n_rows, dtype=np.int64) if ordered else NO_INTS
        places = np.empty(index.table.size // ENTRY + 1, dtype=np.int64)
        slots = np.empty(n_rows, dtype=np.int32)
        rows = RankedRows(users, items, strengths=strengths, orders=orders)
        return cls(rows, slots, places)


@dataclass(slots=True)
class PackedRows:
    """Rows of all models, packed by threads side by side.

    Args:
        words: room for them, of which what is not used takes no memory.
    """

    index: Index
    bits: int
    words: Keys
    n_words: int = 0
    batches: dict[str, list[tuple[Ints, int]]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @property
    def shift(self) -> int:
        """How far half a hash is shifted right to give the partition."""
        return 63 - self.bits

    def add(self, model: str, rows: RankedRows) -> None:
        """Hold the rows of a batch.

        Raises:
            NoRoomError: they are too many.
        """
        hash = self.index.layout.hash
        is_half = fit_half(rows.users, hash.base) and fit_half(rows.items, np.uint64(0))
        width = (2 if is_half else 3) + (rows.orders.size > 0)
        counts = np.zeros((1 << self.bits) + 1, dtype=np.int64)
        count_partitions(rows.users, hash, self.shift, counts[1:])
        offsets = np.cumsum(counts) * width
        with self.lock:
            offsets += self.n_words
            if offsets[-1] > self.words.size:
                raise NoRoomError
            self.n_words = int(offsets[-1])
            self.batches.setdefault(model, []).append((offsets, width))
        pack_rows(rows, hash, self.shift, width, offsets.copy(), self.words)

    def of_model(self, model: str) -> Words:
        """The rows of one model."""
        offsets, widths = zip(*self.batches[model], strict=True)
        return Words(self.words, np.stack(offsets), np.array(widths), self.n_words, self.shift)


def can_hold(scan: RankScan) -> bool:
    """Whether the rows of a log may be held, as far as anybody knows."""
    hint = scan.table.n_rows_hint()
    is_hashed = scan.truth.user_plan.hashed or scan.truth.item_plan.hashed  # ids are looked at
    if is_hashed or scan.table.is_list or hint is None:
        return False
    return LEAST_WORDS * WORD * hint <= scan.room


def scan_held(scan: RankScan) -> None:
    """Hold all rows, then rank the hits of each user by counting.

    Raises:
        NoRoomError: the rows are too many.
    """
    index, n_rows = scan.truth.pairs.index, scan.table.n_rows_hint() or 0
    bits = min(MOST_BITS, max(0, (n_rows // ROWS_A_PARTITION).bit_length()))
    held = PackedRows(index, bits, _small_pages(min(scan.room // WORD, MOST_WORDS * n_rows)))

    def hold(batch: Batch) -> tuple[Batch, Ints, BatchResults]:
        scan.note_ranks(batch)
        batch, strengths, orders, row_counts = drop_rows(scan, batch)
        rows = rows_of(batch.frame)._replace(strengths=strengths, orders=orders)
        held.add(batch.probe.model, rows)
        return batch, strengths, BatchResults.counted(row_counts)

    with reading(scan.table):
        for batch, strengths, found in ordered_map(hold, scan.batches(), threads=scan.threads):
            batch.probe.take(found)
            scan.collect(batch, strengths, has_all_rows=False)  # in their order
    for model in held.batches:
        _count(scan, scan.probes[model], held.of_model(model))


def _small_pages(n_words: int) -> Keys:
    """Zeros in pages of their own; NumPy asks for huge ones, which may have to be made first."""
    return np.frombuffer(mmap(-1, max(1, n_words) * WORD, access=ACCESS_COPY), dtype=np.uint64)


def _count(scan: RankScan, probe: ModelProbe, held: Words) -> None:
    """Rank the hits of one model, each partition of the users by itself.

    Raises:
        NoRoomError: a partition has too many rows.
    """
    index, ties = scan.truth.pairs.index, scan.policies.ties
    n_rows = (np.diff(held.offsets, axis=1) // held.widths[:, np.newaxis]).sum(axis=0)
    largest = int(n_rows.max())
    if WORD * held.n_words + scan.threads * GROUPED_ROW * largest > scan.room:
        raise NoRoomError
    is_input = ties == "input"
    rooms: SimpleQueue[Grouped] = SimpleQueue()
    for _ in range(scan.threads):
        rooms.put(Grouped.room(largest, index, ordered=is_input))

    def count(partition: int) -> list[BatchResults]:
        room, found = rooms.get(), scan.take_room(int(n_rows[partition]))
        n_known = group_rows(held, partition, index, room, found)
        users, items = room.rows.users[:n_known], room.rows.items[:n_known]
        strengths = room.rows.strengths[:n_known]
        done = [_rank(scan, probe, RankedRows(users, items, strengths=strengths), found)]
        scan.count_copies(RankedRows(users, items), done[0].counters)
        tied = done[0].deferred
        if tied.size:
            users, items, strengths = users[tied], items[tied], strengths[tied]
            numbers = room.rows.orders[tied] if is_input else NO_INTS
            orders = order_in_batch(ties, scan.truth.item_plan, pl.DataFrame(), items, numbers)
            again = RankedRows(users, items, strengths=strengths, orders=orders)
            done.append(_rank(scan, probe, again, scan.take_room(tied.size)))
        rooms.put(room)
        return done

    for done in ordered_map(count, range(n_rows.size), threads=scan.threads):
        for found in done:
            probe.take(found)


def _rank(scan: RankScan, probe: ModelProbe, rows: RankedRows, found: BatchResults) -> BatchResults:
    """Rank the hits of rows that lie by user; with orders, of those that had none before."""
    ranks, is_second = probe.ranks, bool(rows.orders.size)
    tied = ranks.room_for_ties() if is_second else ranks.tied
    count_strengths(rows, scan.truth.pairs.index, ranks.ranks, ranks.state, found, is_second, tied)
    return scan.give_room_back(found)


@kernel(allocates=False)
def fit_half(keys, base):  # type: ignore[no-untyped-def]
    """Whether all keys, less a base, are below 2^32."""
    bits = np.uint64(0)
    for row in range(keys.size):
        bits |= keys[row] - base
    return bits < np.uint64(HALF)


@kernel(allocates=False)
def pack_rows(rows, hash, shift, width, places, words):  # type: ignore[no-untyped-def]
    """Write rows of `width` words to the next places of their partitions, keeping their order."""
    users, items, strengths, orders = rows.users, rows.items, rows.strengths, rows.orders
    n_keys = width - 1 - (orders.size > 0)
    for row in range(users.size):
        user, item = users[row], items[row]
        partition = partition_of(user, hash, shift)
        at = places[partition]
        places[partition] = at + width
        if n_keys == 1:
            words[at] = ((user - hash.base) << np.uint64(32)) | item
        else:
            words[at] = user
            words[at + 1] = item
        words[at + n_keys] = np.uint64(strengths[row])
        if orders.size > 0:
            words[at + n_keys + 1] = np.uint64(orders[row])


@kernel(allocates=False)
def entries_of(partition, shift, index):  # type: ignore[no-untyped-def]
    """The first table entry of the users of a partition, and the one behind their last."""
    table, layout = index.table, index.layout
    first = np.uint64(partition) << np.uint64(shift + 1)
    last = first + ((np.uint64(2) << np.uint64(shift)) - np.uint64(1))
    begin, end = entry_of(first, layout), entry_of(last, layout)
    while table[end + 3] != 0:  # entries that met others have moved on
        end += ENTRY
    return begin, end


@kernel(allocates=False)
def find_slots(held, partition, index, begin, room, found):  # type: ignore[no-untyped-def]
    """The table entry of each row of a partition, and how many rows an entry has; strangers'
    rows are counted."""
    words, widths, base = held.words, held.widths, index.layout.hash.base
    counters, slots, places = found.counters, room.slots, room.places
    n = np.int64(0)
    for batch in range(widths.size):
        width = widths[batch]
        n_keys = width - 1 - (room.rows.orders.size > 0)
        for at in range(held.offsets[batch, partition], held.offsets[batch, partition + 1], width):
            user = words[at]
            if n_keys == 1:
                user = base + (user >> np.uint64(32))
            entry = find_entry(index.table, user, index.layout)
            if entry >= 0:
                slot = (entry - begin) // ENTRY
                places[slot + 1] += 1
                slots[n] = np.int32(slot)
            else:
                slots[n] = np.int32(-1)
                counters[UNKNOWN_ROWS] += 1
                found.unknown_users[counters[UNKNOWN_RUNS]] = user
                counters[UNKNOWN_RUNS] += 1
            n += 1


@kernel(allocates=False)
def group_rows(held, partition, index, room, found):  # type: ignore[no-untyped-def]
    """Bring the rows of each known user of a partition together; gives their number."""
    words, widths, base = held.words, held.widths, index.layout.hash.base
    slots, places = room.slots, room.places
    users, items = room.rows.users, room.rows.items
    strengths, orders = room.rows.strengths, room.rows.orders
    begin, end = entries_of(partition, held.shift, index)
    n_slots = (end - begin) // ENTRY
    places[: n_slots + 1] = 0
    find_slots(held, partition, index, begin, room, found)
    for slot in range(n_slots):
        places[slot + 1] += places[slot]
    n_known = places[n_slots]
    n = np.int64(0)
    for batch in range(widths.size):
        width = widths[batch]
        n_keys = width - 1 - (orders.size > 0)
        for at in range(held.offsets[batch, partition], held.offsets[batch, partition + 1], width):
            slot = slots[n]
            n += 1
            if slot < 0:
                continue
            place = places[slot]
            places[slot] = place + 1
            if n_keys == 1:
                users[place] = base + (words[at] >> np.uint64(32))
                items[place] = words[at] & np.uint64(HALF - 1)
            else:
                users[place] = words[at]
                items[place] = words[at + 1]
            strengths[place] = np.int64(words[at + n_keys])
            if orders.size > 0:
                orders[place] = np.int64(words[at + n_keys + 1])
    return n_known
