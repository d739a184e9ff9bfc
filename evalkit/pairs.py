"""Items by user: rows of one compressed array, and a hash table to find them.

Users are partitioned by the top bits of their hash, so that each partition of the table is built by
one thread in memory that fits a cache, and partitions never meet. Rows move only where the rows of
a user do not lie together.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.keys import Keys, mix
from evalkit.metrics import kernel
from evalkit.threads import ordered_map

ROWS_A_PARTITION = 1 << 16
USERS_A_PARTITION = 1 << 13
GROUPED_RUNS = 0.7  # runs a row, up to which users are taken to lie together
MAX_PARTITION_BITS = 12
TABLE_LOAD = 0.8  # entries a slot of the fullest partition
COUNT_BITS = 24  # of an entry's word that packs start and count
MAX_PACKED_COUNT = (1 << COUNT_BITS) - 1
FILTERED_ITEMS = 48  # a 64-bit filter of more items passes nearly everything
SMALL_SORT = 32  # up to here insertion beats merging
SCANNED_ITEMS = 16  # up to here a look at every item beats halving

DUPLICATES = ("max", "error", "sum", "last")

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class UserItems:
    """Items by user, and a hash table from user key to the user's place.

    Args:
        table: uint64[n_slots * 4], an entry of user key, filter of its items, start and count of
            its items packed, and code + 1 (0: the slot is free). A partition's slots lie together.
        partition_bits: top bits of the hashed user that choose the partition.
        slot_bits: the next bits, which choose the slot in it.
        users: uint64[n_users], key of each user code.
        starts: int64[n_users], where a user's items begin in `items`.
        counts: int64[n_users], how many there are.
        items: uint64[n_places], item keys; ascending within a user of more than 16 items, which
            are searched by halves. Places between users may be unused.
        relevance: float64[n_places] as logged, or empty when every item is simply relevant.
        first_rows: int64[n_users], a row of the scanned frame with that user, or empty.
    """

    table: npt.NDArray[np.uint64]
    partition_bits: int
    slot_bits: int
    users: Keys
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    items: Keys
    relevance: npt.NDArray[np.float64]
    first_rows: npt.NDArray[np.int64]

    @property
    def n_users(self) -> int:
        """Users with at least one row, relevant or not."""
        return int(self.users.size)

    @property
    def shift(self) -> int:
        """How far a user's hash is shifted right to give its slot in the whole table."""
        return table_shift(self.partition_bits, self.slot_bits)

    def codes_of(self, users: Keys) -> npt.NDArray[np.int64]:
        """int64[n_rows], the code of each row's user; -1 for a user that is not there."""
        codes = np.empty(users.size, dtype=np.int64)
        find_codes(self.table, users, self.shift, self.slot_bits, codes)
        return codes


@dataclass(frozen=True, slots=True)
class BuildCounts:
    """What building found: rows that repeat an earlier (user, item), negative relevances."""

    duplicates: int
    negative: int
    examples: tuple[tuple[int, int], ...]  # (user key, item key) of some duplicates


@kernel
def count_partitions(users, shift, counts):  # type: ignore[no-untyped-def]
    """Rows of each partition, chosen by the top 63 - shift bits of the user's hash."""
    for row in range(users.size):
        counts[np.int64((mix(users[row]) >> np.uint64(1)) >> shift)] += 1


@kernel
def scatter_partitions(  # type: ignore[no-untyped-def]
    users, items, relevance, first_row, shift, places, out_users, out_items, out_relevance, out_rows
):
    """Move rows to their partition, keeping their order; `places` is the next place of each."""
    for row in range(users.size):
        partition = np.int64((mix(users[row]) >> np.uint64(1)) >> shift)
        place = places[partition]
        places[partition] = place + 1
        out_users[place] = users[row]
        out_items[place] = items[row]
        if relevance.size > 0:
            out_relevance[place] = relevance[row]
        if out_rows.size > 0:
            out_rows[place] = first_row + row


@kernel
def merge_sort(keys, order, spare):  # type: ignore[no-untyped-def]
    """Sort `order`, places in `keys`, by key; equal keys keep their order."""
    n = order.size
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle = min(begin + width, n)
            end = min(begin + 2 * width, n)
            left, right = begin, middle
            for place in range(begin, end):
                if left < middle and (right >= end or keys[order[left]] <= keys[order[right]]):
                    spare[place] = order[left]
                    left += 1
                else:
                    spare[place] = order[right]
                    right += 1
        for place in range(n):
            order[place] = spare[place]
        width *= 2


@kernel
def sort_items(items, relevance):  # type: ignore[no-untyped-def]
    """Sort one user's items by key, relevance along; equal items keep their order."""
    n = items.size
    graded = relevance.size > 0
    if n <= SMALL_SORT:
        for place in range(1, n):
            item = items[place]
            gain = relevance[place] if graded else 0.0
            before = place - 1
            while before >= 0 and items[before] > item:
                items[before + 1] = items[before]
                if graded:
                    relevance[before + 1] = relevance[before]
                before -= 1
            items[before + 1] = item
            if graded:
                relevance[before + 1] = gain
        return
    order = np.arange(n)
    merge_sort(items, order, np.empty(n, dtype=np.int64))
    old_items = items.copy()
    for place in range(n):
        items[place] = old_items[order[place]]
    if graded:
        old = relevance.copy()
        for place in range(n):
            relevance[place] = old[order[place]]


@kernel
def has_copies(items):  # type: ignore[no-untyped-def]
    """Whether any of a few items stands there twice."""
    for place in range(1, items.size):
        item = items[place]
        n_equal = 0
        for before in range(place):
            n_equal += items[before] == item
        if n_equal > 0:
            return True
    return False


@kernel
def join_duplicates(relevance, begin, end, policy):  # type: ignore[no-untyped-def]
    """One relevance of copies begin..end of an item; the order of rows matters only to `last`."""
    if policy == 3:
        return relevance[end - 1]
    if policy == 2:
        for place in range(begin + 1, end):  # ascending, so that the sum has one order
            value = relevance[place]
            before = place - 1
            while before >= begin and relevance[before] > value:
                relevance[before + 1] = relevance[before]
                before -= 1
            relevance[before + 1] = value
        total = 0.0
        for place in range(begin, end):
            total += relevance[place]
        return total
    best = relevance[begin]
    for place in range(begin + 1, end):
        best = max(best, relevance[place])
    return best


@kernel
def find_runs(users, first, last, starts):  # type: ignore[no-untyped-def]
    """Rows first..last at which a run of one user begins; `starts`, if any, is filled."""
    n_runs = 0
    for row in range(first, last):
        if row == 0 or users[row] != users[row - 1]:
            if starts.size > 0:
                starts[n_runs] = row
            n_runs += 1
    return n_runs


@kernel
def write_entry(table, entry, code, starts, counts, items):  # type: ignore[no-untyped-def]
    """Filter, start and count of a user's items, and its code, into a table entry."""
    bits = np.uint64(0)
    if counts[code] > FILTERED_ITEMS:
        bits = ~bits
    else:
        for place in range(starts[code], starts[code] + counts[code]):
            bits |= item_bit(items[place])
    table[entry + 1] = bits
    table[entry + 2] = (np.uint64(starts[code]) << np.uint64(COUNT_BITS)) | np.uint64(
        min(counts[code], MAX_PACKED_COUNT)
    )
    table[entry + 3] = np.uint64(code + 1)


@kernel
def read_entry(table, entry, counts):  # type: ignore[no-untyped-def]
    """Code, filter, start and count of the user of a table entry."""
    code = np.int64(table[entry + 3]) - 1
    start = np.int64(table[entry + 2] >> np.uint64(COUNT_BITS))
    count = np.int64(table[entry + 2] & np.uint64(MAX_PACKED_COUNT))
    if count == MAX_PACKED_COUNT:
        count = counts[code]
    return code, table[entry + 1], start, count


@kernel
def refresh_table(table, starts, counts, items):  # type: ignore[no-untyped-def]
    """Write the entries of a part of the table again."""
    for entry in range(0, table.size, 4):
        if table[entry + 3] != 0:
            code = np.int64(table[entry + 3]) - 1
            write_entry(table, entry, code, starts, counts, items)


@kernel
def scatter_entries(  # type: ignore[no-untyped-def]
    users, starts, counts, items, first, last, shift, places, entries
):
    """Write the table entries of users first..last into their partitions, one after another.

    `places` is the next place of each partition. What is read lies in one order, and so does
    what the filling of a partition reads afterwards.
    """
    for code in range(first, last):
        partition = np.int64((mix(users[code]) >> np.uint64(1)) >> shift)
        entry = places[partition] * 4
        places[partition] += 1
        entries[entry] = users[code]
        write_entry(entries, entry, code, starts, counts, items)


@kernel
def group_partition(  # type: ignore[no-untyped-def]
    users, items, relevance, rows, begin, end, out_users, out_starts, out_counts, out_rows
):
    """Group rows begin..end of one partition by user, in place; gives the number of users."""
    n_rows = end - begin
    size = 16
    while size < 2 * n_rows:
        size *= 2
    mask = np.uint64(size - 1)
    slot_codes = np.full(size, -1, dtype=np.int32)
    codes = np.empty(n_rows, dtype=np.int32)
    n_users = 0
    code = -1
    for row in range(n_rows):
        user = users[begin + row]
        if row == 0 or user != users[begin + row - 1]:
            slot = mix(user) & mask
            while True:
                code = slot_codes[np.int64(slot)]
                if code < 0:
                    code = n_users
                    slot_codes[np.int64(slot)] = code
                    out_users[begin + code] = user
                    out_counts[begin + code] = 0
                    if rows.size > 0:
                        out_rows[begin + code] = rows[begin + row]
                    n_users += 1
                    break
                if out_users[begin + code] == user:
                    break
                slot = (slot + np.uint64(1)) & mask
        codes[row] = code
        out_counts[begin + code] += 1

    graded = relevance.size > 0
    places = np.empty(n_users, dtype=np.int64)
    place = begin
    for user_code in range(n_users):
        places[user_code] = place
        out_starts[begin + user_code] = place
        place += out_counts[begin + user_code]
    old_items = items[begin:end].copy()
    old_relevance = relevance[begin:end].copy() if graded else relevance[0:0]
    for row in range(n_rows):
        place = places[codes[row]]
        places[codes[row]] = place + 1
        items[place] = old_items[row]
        if graded:
            relevance[place] = old_relevance[row]
    return n_users


@kernel
def settle_items(  # type: ignore[no-untyped-def]
    users,
    starts,
    counts,
    items,
    relevance,
    first,
    last,
    relevant_from,
    policy,
    keep_negative,
    counters,
    examples,
):
    """Join copies of items and leave out what has no gain, for users first..last, in place.

    `counters`: duplicates, negative relevances, items that went. `examples` uint64[n, 2] is
    filled with duplicates.
    """
    graded = relevance.size > 0
    for user in range(first, last):
        begin = starts[user]
        end = begin + counts[user]
        user_items = items[begin:end]
        user_relevance = relevance[begin:end] if graded else relevance[0:0]
        if end - begin > SCANNED_ITEMS or has_copies(user_items):
            sort_items(user_items, user_relevance)
        elif not graded:
            continue
        write = 0
        place = 0
        while place < end - begin:
            copies = place + 1
            while copies < end - begin and user_items[copies] == user_items[place]:
                copies += 1
            if copies - place > 1:
                if counters[0] < examples.shape[0]:
                    examples[counters[0], 0] = users[user]
                    examples[counters[0], 1] = user_items[place]
                counters[0] += copies - place - 1
            if graded:
                value = join_duplicates(user_relevance, place, copies, policy)
                if value < 0.0:
                    counters[1] += 1
                if value >= relevant_from or value > 0.0 or (keep_negative and value < 0.0):
                    user_items[write] = user_items[place]
                    user_relevance[write] = value
                    write += 1
            else:
                user_items[write] = user_items[place]
                write += 1
            place = copies
        counters[2] += counts[user] - write
        counts[user] = write


@kernel
def item_bit(item):  # type: ignore[no-untyped-def]
    """The bit of an item in a user's filter."""
    return np.uint64(1) << ((item * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58))


@kernel
def fill_table(entries, partition, slot_bits, shift, table):  # type: ignore[no-untyped-def]
    """Put a partition's entries into its own slots; gives False for a user that comes twice."""
    mask = (np.uint64(1) << np.uint64(slot_bits)) - np.uint64(1)
    base = np.int64(partition) << np.int64(slot_bits)
    for number in range(0, entries.size, 4):
        user = entries[number]
        slot = (mix(user) >> np.uint64(shift)) & mask
        entry = (base + np.int64(slot)) * 4
        while table[entry + 3] != 0:
            if table[entry] == user:
                return False
            slot = (slot + np.uint64(1)) & mask
            entry = (base + np.int64(slot)) * 4
        for word in range(4):
            table[entry + word] = entries[number + word]
    return True


@kernel
def find_entry(table, user, shift, slot_bits):  # type: ignore[no-untyped-def]
    """Index in `table` of a user's entry; -1 for a user that is not there."""
    mask = (np.uint64(1) << np.uint64(slot_bits)) - np.uint64(1)
    top = mix(user) >> np.uint64(shift)
    base = top & ~mask
    slot = top & mask
    while True:
        entry = np.int64(base | slot) * 4
        if table[entry + 3] == 0:
            return -1
        if table[entry] == user:
            return entry
        slot = (slot + np.uint64(1)) & mask


@kernel
def find_codes(table, users, shift, slot_bits, codes):  # type: ignore[no-untyped-def]
    """User code of each row, -1 for unknown users; `codes` int64[n_rows] is filled."""
    entry = -1
    for row in range(users.size):
        if row == 0 or users[row] != users[row - 1]:
            entry = find_entry(table, users[row], shift, slot_bits)
        codes[row] = np.int64(table[entry + 3]) - 1 if entry >= 0 else -1


@kernel
def find_item(items, item, begin, end):  # type: ignore[no-untyped-def]
    """Place of an item among a user's sorted items begin..end; -1 when it is not there."""
    if end - begin <= SCANNED_ITEMS:
        for place in range(begin, end):
            if items[place] == item:
                return place
        return -1
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low if low < end and items[low] == item else -1


def table_shift(partition_bits: int, slot_bits: int) -> int:
    """How far a user's hash is shifted right to give its slot in the whole table."""
    return 64 - partition_bits - slot_bits


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows grouped by user, items not yet settled; `items` and `relevance` may be written."""

    users: Keys
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    items: Keys
    relevance: npt.NDArray[np.float64]
    first_rows: npt.NDArray[np.int64]


def build_user_items(
    users: Keys,
    items: Keys,
    relevance: npt.NDArray[np.float64] | None,
    *,
    relevant_from: float = math.inf,
    duplicates: str = "max",
    keep_negative: bool = False,
    with_rows: bool = False,
    owned: bool = False,
    threads: int = 1,
) -> tuple[UserItems, BuildCounts]:
    """Group (user, item, relevance) rows by user.

    Rows whose users lie together stay where they are, so that a truth and rankings in one order
    of users are walked through side by side; other rows are moved.

    Args:
        users: uint64[n_rows].
        items: uint64[n_rows].
        relevance: float64[n_rows] without NaN; None: every row is relevant.
        relevant_from: items below it stay only for their gain, when above 0.
        duplicates: what an item's copies become: "max", "sum", "last"; "error" counts like "max".
        keep_negative: keep items of negative relevance.
        with_rows: remember a row of each user.
        owned: the arrays may be overwritten; otherwise they are copied.
        threads: kernels that run side by side.
    """
    graded = np.empty(0) if relevance is None else relevance
    settle = (relevant_from, DUPLICATES.index(duplicates), keep_negative)
    bounds = _cut(users.size, 4 * threads)

    def count_runs(piece: tuple[int, int]) -> int:
        return int(find_runs(users, *piece, _NO_ROWS))

    n_runs = list(ordered_map(count_runs, bounds, threads=threads))
    groups = stored = None
    if sum(n_runs) <= users.size * GROUPED_RUNS:
        kept = (items, graded) if owned else (items.copy(), graded.copy())
        groups = _take_runs(users, *kept, bounds, n_runs, with_rows=with_rows)
        stored = _store(groups, threads)
    if groups is None or stored is None:
        groups = _move_rows(users, items, graded, with_rows=with_rows, threads=threads)
        stored = _store(groups, threads)
    if stored is None:
        raise AssertionError("a user has two groups")
    found, n_left_out = _settle(groups, settle, threads)
    if n_left_out:
        _refresh(stored, threads)
    return stored, found


def _cut(n: int, n_pieces: int) -> list[tuple[int, int]]:
    bounds = np.linspace(0, n, n_pieces + 1).astype(np.int64).tolist()
    return list(pairwise(bounds))


def _partition_bits(n: int, most: int) -> int:
    bits = 0
    while bits < MAX_PARTITION_BITS and n >> bits > most:
        bits += 1
    return bits


def _take_runs(
    users: Keys,
    items: Keys,
    relevance: npt.NDArray[np.float64],
    pieces: list[tuple[int, int]],
    n_runs: list[int],
    *,
    with_rows: bool,
) -> _Groups:
    """Every run of rows of one user as a group, where it lies."""
    starts = np.empty(sum(n_runs), dtype=np.int64)
    place = 0
    for piece, n in zip(pieces, n_runs, strict=True):
        if n:
            find_runs(users, *piece, starts[place : place + n])
        place += n
    counts = np.diff(starts, append=users.size)
    rows = starts.copy() if with_rows else _NO_ROWS
    return _Groups(users[starts], starts, counts, items, relevance, rows)


def _move_rows(
    users: Keys,
    items: Keys,
    relevance: npt.NDArray[np.float64],
    *,
    with_rows: bool,
    threads: int,
) -> _Groups:
    """Bring the rows of each user together, partition by partition."""
    n_rows = users.size
    bits = _partition_bits(n_rows, ROWS_A_PARTITION)
    users, items, row_of, offsets, relevance = _partition(
        users, items, relevance, bits, with_rows=with_rows, threads=threads
    )
    out_users = np.empty(n_rows, dtype=np.uint64)
    out_starts = np.empty(n_rows, dtype=np.int64)
    out_counts = np.empty(n_rows, dtype=np.int64)
    out_rows = np.empty(n_rows if with_rows else 0, dtype=np.int64)

    def group(partition: int) -> int:
        begin, end = int(offsets[partition]), int(offsets[partition + 1])
        return int(
            group_partition(
                users,
                items,
                relevance,
                row_of,
                begin,
                end,
                out_users,
                out_starts,
                out_counts,
                out_rows,
            )
        )

    n_users = list(ordered_map(group, range(1 << bits), threads=threads))
    filled = [slice(int(begin), int(begin) + n) for begin, n in zip(offsets, n_users, strict=False)]

    def join(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([array[each] for each in filled])

    rows = join(out_rows) if with_rows else _NO_ROWS
    return _Groups(join(out_users), join(out_starts), join(out_counts), items, relevance, rows)


def _settle(groups: _Groups, how: tuple[float, int, bool], threads: int) -> tuple[BuildCounts, int]:
    """Join copies and leave out what has no gain; what was found, and how many items went."""

    def settle(piece: tuple[int, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        counters = np.zeros(3, dtype=np.int64)
        examples = np.zeros((4, 2), dtype=np.uint64)
        settle_items(
            groups.users,
            groups.starts,
            groups.counts,
            groups.items,
            groups.relevance,
            *piece,
            *how,
            counters,
            examples,
        )
        return counters, examples[: min(4, int(counters[0]))]

    pieces = _cut(groups.users.size, 4 * threads)
    settled = list(ordered_map(settle, pieces, threads=threads))
    found = BuildCounts(
        duplicates=sum(int(counters[0]) for counters, _ in settled),
        negative=sum(int(counters[1]) for counters, _ in settled),
        examples=tuple((int(u), int(i)) for _, pairs in settled for u, i in pairs.tolist()),
    )
    return found, sum(int(counters[2]) for counters, _ in settled)


def _refresh(stored: UserItems, threads: int) -> None:
    """Bring the table's counts and filters up to the items that are left."""

    def refresh(piece: tuple[int, int]) -> None:
        first, last = piece
        own = stored.table[4 * first : 4 * last]
        refresh_table(own, stored.starts, stored.counts, stored.items)

    pieces = _cut(stored.table.size // 4, 4 * threads)
    for _ in ordered_map(refresh, pieces, threads=threads):
        pass


def _store(groups: _Groups, threads: int) -> UserItems | None:
    """The groups with their table; None where a user has two groups."""
    users, n_users = groups.users, groups.users.size
    bits = _partition_bits(n_users, USERS_A_PARTITION)
    pieces = _cut(n_users, 4 * threads)
    shift, sizes, offsets, first_places = _places(users, bits, pieces, threads)
    entries = np.empty(4 * n_users, dtype=np.uint64)

    def scatter(number: int) -> None:
        scatter_entries(
            users,
            groups.starts,
            groups.counts,
            groups.items,
            *pieces[number],
            shift,
            first_places[number].copy(),
            entries,
        )

    for _ in ordered_map(scatter, range(len(pieces)), threads=threads):
        pass
    slot_bits = max(1, math.ceil(math.log2(max(2.0, int(sizes.max()) / TABLE_LOAD))))
    table = np.zeros(4 << (bits + slot_bits), dtype=np.uint64)

    def fill(partition: int) -> bool:
        own = entries[4 * offsets[partition] : 4 * offsets[partition + 1]]
        return bool(fill_table(own, partition, slot_bits, table_shift(bits, slot_bits), table))

    if not all(list(ordered_map(fill, range(1 << bits), threads=threads))):
        return None
    return UserItems(
        table,
        bits,
        slot_bits,
        users,
        groups.starts,
        groups.counts,
        groups.items,
        groups.relevance,
        groups.first_rows,
    )


def _places(
    users: Keys, bits: int, pieces: list[tuple[int, int]], threads: int
) -> tuple[np.uint64, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Shift, sizes and offsets of the partitions, and each piece's first place in each."""
    shift = np.uint64(63 - bits)  # of the hash halved: a shift by 64 is none

    def histogram(piece: tuple[int, int]) -> npt.NDArray[np.int64]:
        counts = np.zeros(1 << bits, dtype=np.int64)
        count_partitions(users[piece[0] : piece[1]], shift, counts)
        return counts

    counts = np.stack(list(ordered_map(histogram, pieces, threads=threads)))
    sizes = counts.sum(axis=0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return shift, sizes, offsets, offsets[:-1] + np.cumsum(counts, axis=0) - counts


def _partition(
    users: Keys,
    items: Keys,
    relevance: npt.NDArray[np.float64],
    partition_bits: int,
    *,
    with_rows: bool,
    threads: int,
) -> tuple[Keys, Keys, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    n_rows = users.size
    if partition_bits == 0:
        rows = np.arange(n_rows) if with_rows else _NO_ROWS
        return users, items.copy(), rows, np.array([0, n_rows]), relevance.copy()
    pieces = _cut(n_rows, 4 * threads)
    shift, _, offsets, first_places = _places(users, partition_bits, pieces, threads)
    out_users = np.empty(n_rows, dtype=np.uint64)
    out_items = np.empty(n_rows, dtype=np.uint64)
    out_relevance = np.empty(relevance.size, dtype=np.float64)
    out_rows = np.empty(n_rows if with_rows else 0, dtype=np.int64)

    def scatter(number: int) -> None:
        begin, end = pieces[number]
        scatter_partitions(
            users[begin:end],
            items[begin:end],
            relevance[begin:end] if relevance.size else relevance,
            begin,
            shift,
            first_places[number].copy(),
            out_users,
            out_items,
            out_relevance,
            out_rows,
        )

    for _ in ordered_map(scatter, range(len(pieces)), threads=threads):
        pass
    return out_users, out_items, out_rows, offsets, out_relevance
