"""Rows whose users lie apart: gathered, and looked up part by part of the users' table.

A batch of such rows touches the whole table, and threads meet at every user. So rows are brought
into the order of partitions of users' hashes, a million at a time. What is kept of the users of a
partition fits into a core's cache, and one thread at a time has it, which counts without atomic
instructions.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Ints, Keys
from evalkit.kernels.intrinsics import prefetch
from evalkit.kernels.threads import ordered_map
from evalkit.ranks._records import (
    BAD_RANKS,
    DEFERRED,
    HITS,
    KNOWN_RUNS,
    N_FIELDS,
    NOT_RANKED,
    RUNS,
    UNKNOWN_ROWS,
    UNKNOWN_RUNS,
    BatchResults,
    RankedRows,
)
from evalkit.sources.ids import mix
from evalkit.truth import (
    BATCH_ROWS,
    FEW_ITEMS,
    Index,
    code_of,
    count_of,
    count_partitions,
    count_runs,
    find_entry,
    find_item,
    home_entry,
    may_hold,
    partition_of,
    prefetch_filter,
    start_of,
)

PARTITION_BITS = 7
PARTITIONS = 1 << PARTITION_BITS
PARTITIONS_AT_ONCE = 4  # that a thread has
GATHERED_BYTES = 24 << 20  # of one thread, so that several rows of a user come together
HALF, WORD = 1 << 32, 8
LOOKED_AT = 16  # rows that can tell whether users lie apart


def are_unsorted(users: Keys) -> bool:
    """Whether most rows are of other users than the row before."""
    return users.size >= LOOKED_AT and 2 * int(count_runs(users)) > users.size


class Portion(NamedTuple):
    """Gathered rows of some partitions, which no other thread has.

    Args:
        rows: all that are gathered.
        offsets: int64[n_batches, PARTITIONS + 1], where the partitions of each batch begin.
        first, last: of the partitions.
        is_named: somebody asks which rows are of known users.
    """

    rows: RankedRows
    offsets: Ints
    first: int
    last: int
    is_named: bool


@dataclass(slots=True)
class Gathered:
    """Rows of one model, those of each batch by partition of their users.

    Args:
        rows: room for them; the first `n_rows` are filled. Keys are uint32 where all of them fit.
        numbers: int32[n_rows], of each row in its batch, or empty.
        offsets: of each batch int64[PARTITIONS + 1], where partitions begin.
    """

    rows: RankedRows
    numbers: Int32s
    model: str = ""
    n_rows: int = 0
    offsets: list[Ints] = field(default_factory=list)

    @classmethod
    def room(
        cls, like: RankedRows, n_rows: int, *, numbered: bool = False, is_wide: bool = False
    ) -> "Gathered":
        """Room for rows that have what other rows have.

        Args:
            is_wide: keys may need 64 bits.
        """
        rows = RankedRows(*(np.empty(n_rows if each.size else 0, each.dtype) for each in like))
        if not is_wide:
            keys = np.empty((2, n_rows), dtype=np.uint32)
            rows = rows._replace(users=keys[0], items=keys[1])
        return cls(rows, np.empty(n_rows if numbered else 0, dtype=np.int32))

    def has_room(self, n_rows: int) -> bool:
        """Whether so many more rows can be added."""
        return self.n_rows + n_rows <= self.rows.users.size

    def add(self, model: str, rows: RankedRows, index: Index) -> bool:
        """Put the rows of a batch behind the others; False where a key does not fit."""
        hash, shift = index.layout.hash, 63 - PARTITION_BITS
        counts = np.zeros(PARTITIONS, dtype=np.int64)
        count_partitions(rows.users, hash, shift, counts)
        offsets = self.n_rows + np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        bits = part_rows(rows, hash, shift, offsets.copy(), self.rows, self.numbers)
        if bits >= HALF and self.rows.users.itemsize < rows.users.itemsize:
            return False
        self.model = model
        self.offsets.append(offsets)
        self.n_rows += rows.users.size
        return True

    def clear(self) -> None:
        """Forget all rows."""
        self.offsets.clear()
        self.n_rows = 0

    def name_rows(self, found: BatchResults) -> None:
        """Write numbers of rows in their batch where places of gathered rows stand."""
        for rows, counter in (
            (found.run_rows, KNOWN_RUNS),
            (found.hit_rows, HITS),
            (found.deferred, DEFERRED),
        ):
            n = int(found.counters[counter])
            rows[:n] = self.numbers[rows[:n]]


@dataclass(slots=True)
class Gatherer:
    """Gathers batches of rows in any order, and has them looked up; threads may do so side by side.

    Args:
        index: of the users.
        look_up: is called with a model, a portion of its rows, and room.
        settle: looks at what was found and gives the room back.
        at_once: every batch is looked up by itself, and what was found tells its rows.
        n_bytes: of the rows that one thread gathers.
        is_wide: a key was met that needs more than 32 bits.
    """

    index: Index
    look_up: Callable[[str, Portion, BatchResults], None]
    take_room: Callable[[int], BatchResults]
    settle: Callable[[BatchResults, pl.DataFrame], BatchResults]
    at_once: bool
    n_bytes: int = GATHERED_BYTES
    is_wide: bool = False
    free: SimpleQueue[Gathered] = field(default_factory=SimpleQueue)
    locks: list[Lock] = field(
        default_factory=lambda: [Lock() for _ in range(PARTITIONS // PARTITIONS_AT_ONCE)]
    )
    turns: Iterator[int] = field(default_factory=count)

    def add(
        self, model: str, rows: RankedRows, frame: pl.DataFrame
    ) -> list[tuple[str, BatchResults]]:
        """Gather the rows of a batch; what was found, by model, where that made rows enough."""
        done: list[tuple[str, BatchResults]] = []
        n_rows, gathered = rows.users.size, None
        if not n_rows:
            return done
        with suppress(Empty):
            gathered = self.free.get_nowait()
        if gathered is not None and not (gathered.model == model and gathered.has_room(n_rows)):
            done += self._look_up(gathered, frame)
            gathered = gathered if gathered.has_room(n_rows) else None
        if gathered is None:
            gathered = self._room(rows)
        if not gathered.add(model, rows, self.index):
            done += self._look_up(gathered, frame)
            self.is_wide = True
            gathered = self._room(rows)
            gathered.add(model, rows, self.index)
        if self.at_once or not gathered.has_room(min(n_rows, BATCH_ROWS)):
            done += self._look_up(gathered, frame)
        self.free.put(gathered)
        return done

    def _room(self, rows: RankedRows) -> Gathered:
        most = rows.users.size
        if not self.at_once:
            of_row = sum(each.itemsize for each in rows if each.size)
            most = max(most, self.n_bytes // (of_row if self.is_wide else of_row - WORD))
        return Gathered.room(rows, most, numbered=self.at_once, is_wide=self.is_wide)

    def finish(self, threads: int) -> Iterator[tuple[str, BatchResults]]:
        """What is found of the rows that wait, when all have been added."""
        waiting = [self.free.get() for _ in range(self.free.qsize())]
        look_up = partial(self._look_up, frame=pl.DataFrame())
        for found in ordered_map(look_up, waiting, threads=threads):
            yield from found
        for gathered in waiting:  # their room may be used again
            self.free.put(gathered)

    def _look_up(self, gathered: Gathered, frame: pl.DataFrame) -> list[tuple[str, BatchResults]]:
        if not gathered.n_rows:
            return []
        found, offsets = self.take_room(gathered.n_rows), np.stack(gathered.offsets)
        numbers = deque(range(len(self.locks)))
        numbers.rotate(next(self.turns) * len(numbers) // 3)  # threads begin at different ones
        while numbers:
            number = numbers.popleft()
            if not self.locks[number].acquire(blocking=not numbers):
                numbers.append(number)  # another thread has it
                continue
            try:
                begin = number * PARTITIONS_AT_ONCE
                end = begin + PARTITIONS_AT_ONCE
                portion = Portion(gathered.rows, offsets, begin, end, self.at_once)
                self.look_up(gathered.model, portion, found)
            finally:
                self.locks[number].release()
            if not self.at_once:  # nobody asks for rows
                found.counters[HITS] = 0
        if self.at_once:
            gathered.name_rows(found)
        model = gathered.model
        gathered.clear()
        return [(model, self.settle(found, frame))]


@kernel(allocates=False)
def part_rows(rows, hash, shift, places, out, numbers):  # type: ignore[no-untyped-def]
    """Write rows by partition of their users, keeping their order; gives the bits of all keys.

    `places` is the next place of each partition; `numbers`, if any, gets the row's.
    """
    bits = np.uint64(0)
    for row in range(rows.users.size):
        bits |= rows.users[row] | rows.items[row]
        partition = partition_of(rows.users[row], hash, shift)
        place = places[partition]
        places[partition] = place + 1
        out.users[place] = rows.users[row]
        out.items[place] = rows.items[row]
        if rows.ranks.size > 0:
            out.ranks[place] = rows.ranks[row]
        if rows.strengths.size > 0:
            out.strengths[place] = rows.strengths[row]
        if rows.orders.size > 0:
            out.orders[place] = rows.orders[row]
        if numbers.size > 0:
            numbers[place] = row
    return bits


@kernel(allocates=False)
def ask_entries(users, row, last, index, entries):  # type: ignore[no-untyped-def]
    """Where the table entries of rows row..last should be, 64 at most; they are asked for."""
    for place in range(row, last):
        entries[place - row] = home_entry(users[place], index.layout)
        prefetch(index.table, entries[place - row])


@kernel(allocates=False)
def found_entry(table, entry, user, layout):  # type: ignore[no-untyped-def]
    """A user's table entry, where it should be or else; -1 for a user that is not there."""
    at = np.uint64(entry)  # of an index without a sign nobody asks whether it is negative
    if table[at] == user and table[at + np.uint64(3)] != 0:
        return entry
    return find_entry(table, user, layout)


@kernel(allocates=False)
def look_up_unsorted(rows, row, last, end, index, ranks, wide, n, found):  # type: ignore[no-untyped-def]
    """The users' codes of rows row..last into `found.candidates`; rows of others are counted.

    Their entries have been asked for; as each is read, that of the row 64 behind it is asked for,
    up to `end`. Rows that may be hits are put behind the `n` that wait in `found.begins`, their
    table entries in `found.ends`; gives the new number. All that is needed of them is on its way
    to the cache.
    """
    # Wide: one step of a scan, with what waits from the steps before.
    users, items = rows.users, rows.items
    table, layout, counts = index.table, index.layout, index.counts
    filters, lows, entries = index.filters, index.lows, found.entries
    waiting, chosen, codes, counters = found.begins, found.ends, found.candidates, found.counters
    n_likely = np.uint64(n)
    for place in range(np.uint64(row), np.uint64(last)):
        user, number = users[place], place - np.uint64(row)
        entry = found_entry(table, entries[number], user, layout)
        later = min(place + np.uint64(RUNS), np.uint64(end - 1))
        entries[number] = home_entry(users[later], layout)
        prefetch(table, entries[number])
        if entry < 0:
            codes[number] = -1
            counters[UNKNOWN_ROWS] += 1
            found.unknown_users[counters[UNKNOWN_RUNS]] = user
            counters[UNKNOWN_RUNS] += 1
            continue
        code = code_of(table, entry)
        prefetch(wide, code * 2)
        codes[number] = code
        waiting[n_likely], chosen[n_likely] = np.int64(place), entry
        # without a branch to be guessed wrong
        n_likely += np.uint64(prefetch_filter(table, entry, filters, items[place]))
    for likely in range(np.uint64(n), n_likely):
        place, entry = waiting[likely], chosen[likely]
        count = count_of(table, entry, counts)
        if count <= FEW_ITEMS or may_hold(table, entry, count, filters, items[place]):
            start = start_of(table, entry)
            prefetch(lows, start)
            prefetch(lows, start + FEW_ITEMS - 1)
            prefetch(ranks, start)
            waiting[n], chosen[n] = place, entry
            n += 1
    return n


@kernel(allocates=False)
def name_known(row, last, found):  # type: ignore[no-untyped-def]
    """Put known users' rows of row..last, and their codes, behind those that are counted."""
    n = found.counters[KNOWN_RUNS]
    for place in range(row, last):
        code = found.candidates[place - row]
        if code >= 0:
            found.run_rows[n], found.run_codes[n] = place, code
            n += 1
    found.counters[KNOWN_RUNS] = n


@kernel(allocates=False)
def find_unsorted(items, n_waiting, index, found):  # type: ignore[no-untyped-def]
    """Put the hits among the rows that wait behind those that are counted.

    Gives the new number of hits.
    """
    table, counts, lows, highs = index.table, index.counts, index.lows, index.highs
    n_hits = found.counters[HITS]
    for number in range(n_waiting):
        row, entry = found.begins[number], found.ends[number]
        count = count_of(table, entry, counts)
        place = find_item(lows, highs, items[row], start_of(table, entry), count)
        if place >= 0:
            found.hit_rows[n_hits], found.hit_places[n_hits] = row, place
            n_hits += 1
    return n_hits


@kernel(allocates=False)
def note_unsorted(row_ranks, row, last, offset, state, found):  # type: ignore[no-untyped-def]
    """The ranks of known users' rows of row..last into their state."""
    small, wide, counters = state.small, state.wide, found.counters
    one = np.uint64(1)
    for place in range(np.uint64(row), np.uint64(last)):
        code = found.candidates[place - np.uint64(row)]
        if code < 0:
            continue
        rank = np.int64(row_ranks[place]) - offset
        if rank < 1:
            counters[BAD_RANKS] += 1
            continue
        at = np.uint64(code) * np.uint64(N_FIELDS)
        small[at] += np.int32(1)
        small[at + one] = max(small[at + one], np.int32(min(rank, NOT_RANKED)))
        wide[np.uint64(code) * np.uint64(2) + one] += np.int64(mix(np.uint64(rank)))
