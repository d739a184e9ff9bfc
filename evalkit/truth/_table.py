"""The hash table that leads from a user's key to what is kept of the user.

Users are partitioned by the top bits of their hash, so that each partition of the table is built by
one thread in memory that fits a cache, and partitions never meet. Where keys are spread evenly
enough, as numbers given one after another are, their distance from the smallest is the hash: logs
in the order of users then walk through the table from one end to the other.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.sources.ids import mix

ENTRY = 4  # words of a table entry: user key, filter, start and count packed, code + 1 (0: free)
USERS_A_PARTITION = 1 << 13
MAX_PARTITION_BITS = 12
TABLE_LOAD = 0.7  # entries a slot of the fullest partition
DENSE_LOAD = 0.984  # where keys have a slot each, as numbers without many gaps do
SPARE_SLOTS = 128  # of a partition, for entries that met others at its end
EVEN = 1.25  # times their mean, which no partition exceeds where keys are spread evenly
LONGEST_RUN = 256  # of entries without a free slot, where keys are spread evenly
LEAST_PIECE = 1 << 12  # users, for whom it is worth starting a thread

Piece = TypeVar("Piece")


class Hash(NamedTuple):
    """How a key becomes 64 bits: (key - base) * factor, or mixed where `factor` is 0.

    Args:
        last: the distance from `base` of the largest key there is.
    """

    base: np.uint64
    factor: np.uint64
    last: np.uint64


MIXED = Hash(np.uint64(0), np.uint64(0), np.uint64((1 << 64) - 1))


class Layout(NamedTuple):
    """Where in the table a user's entry is looked for first.

    A hash chooses a partition by its top bits, and by the next ones a slot of it; entries that
    meet move on, and every partition ends with a free slot.

    Args:
        hash: of users.
        shift: how far half a hash is shifted right to give the partition.
        slots: slots of a partition that a hash may choose.
        stride: slots of a partition with the spare ones behind them.
    """

    hash: Hash
    shift: int
    slots: int
    stride: int


@dataclass(frozen=True, slots=True)
class UserTable:
    """Entries of users with their codes; filters, starts and counts are 0.

    Args:
        entries: uint64[n_partitions * stride * 4]; one fills half a cache line.
        layout: of the entries.
    """

    entries: Keys
    layout: Layout


@kernel(allocates=False)
def hash_of(user, hash):  # type: ignore[no-untyped-def]
    """64 bits that choose a user's partition and slot."""
    return mix(user) if hash.factor == 0 else (user - hash.base) * hash.factor


@kernel(allocates=False)
def partition_of(user, hash, shift):  # type: ignore[no-untyped-def]
    """The partition that the top 63 - shift bits of a user's hash choose."""
    return np.int64((hash_of(user, hash) >> np.uint64(1)) >> np.uint64(shift))


@kernel(allocates=False)
def home_entry(user, layout):  # type: ignore[no-untyped-def]
    """Index of the table entry that a user's hash chooses."""
    return entry_of(hash_of(user, layout.hash), layout)


@kernel(allocates=False)
def entry_of(hashed, layout):  # type: ignore[no-untyped-def]
    """Index of the table entry that a hash chooses; the larger, the larger the hash."""
    partition = (hashed >> np.uint64(1)) >> np.uint64(layout.shift)
    within = (hashed << np.uint64(63 - layout.shift)) >> np.uint64(32)
    slot = (within * np.uint64(layout.slots)) >> np.uint64(32)
    return np.int64(partition * np.uint64(layout.stride) + slot) * ENTRY


@kernel(allocates=False)
def find_entry(table, user, layout):  # type: ignore[no-untyped-def]
    """Index of a user's table entry; -1 for a user that is not there."""
    if user - layout.hash.base > layout.hash.last:
        return np.int64(-1)
    entry = np.int64(home_entry(user, layout))
    while table[entry + 3] != 0:
        if table[entry] == user:
            return entry
        entry += ENTRY
    return -1


@kernel(allocates=False)
def are_ascending(users):  # type: ignore[no-untyped-def]
    """Whether every key is above the one before."""
    ascending = True
    for row in range(1, users.size):
        ascending &= users[row - 1] < users[row]
    return ascending


@kernel(allocates=False)
def count_partitions(users, hash, shift, counts):  # type: ignore[no-untyped-def]
    """Rows of each partition."""
    for row in range(users.size):
        counts[partition_of(users[row], hash, shift)] += 1


@kernel(allocates=False)
def scatter_users(users, first, last, hash, shift, places, out):  # type: ignore[no-untyped-def]
    """Key and code of users first..last into their partitions, one after another, keeping order.

    `places` is the next place of each partition.
    """
    for code in range(first, last):
        partition = partition_of(users[code], hash, shift)
        place = places[partition] * 2
        places[partition] += 1
        out[place] = users[code]
        out[place + 1] = np.uint64(code + 1)


OK, TWICE, FULL = 0, 1, 2


@kernel(allocates=False)
def fill_table(users, scattered, offsets, first, last, layout, longest, table):  # type: ignore[no-untyped-def]
    """Put users into the slots of partitions first..last: OK, TWICE when one comes twice, FULL.

    Users come by partition, which begin at `offsets`: `scattered` are their keys and codes, or
    empty where they do so as they are. A partition is full, too, where more than `longest` entries
    stand without a free slot between them.
    """
    for partition in range(first, last):
        begin = partition * layout.stride * ENTRY
        end = begin + layout.stride * ENTRY - ENTRY  # stays free, which ends every search
        for number in range(offsets[partition], offsets[partition + 1]):
            user, code = users[number], np.uint64(number + 1)
            if scattered.size > 0:
                user, code = scattered[2 * number], scattered[2 * number + 1]
            home = entry = home_entry(user, layout)
            while table[entry + 3] != 0:
                if table[entry] == user:
                    return TWICE
                entry += ENTRY
            if entry >= end or entry - home > longest * ENTRY:
                return FULL
            table[entry] = user
            table[entry + 3] = code
        run = 0
        for entry in range(begin, end, ENTRY):
            run = run + 1 if table[entry + 3] != 0 else 0
            if run > longest:
                return FULL
    return OK


def cut(n: int, n_pieces: int, *, least: int = LEAST_PIECE) -> list[tuple[int, int]]:
    """Begin and end of pieces of almost the same size; of fewer than asked where `n` is small."""
    n_pieces = max(1, min(n_pieces, n // least))
    bounds = np.linspace(0, n, n_pieces + 1).astype(np.int64).tolist()
    return list(pairwise(bounds))


def partition_bits(n: int, most: int) -> int:
    """Top bits of a hash that choose a partition, so that one has at most so many on average."""
    bits = 0
    while bits < MAX_PARTITION_BITS and n >> bits > most:
        bits += 1
    return bits


def hash_in_order(parts: Sequence[Keys]) -> Hash:
    """The hash that keeps the order of keys, from the smallest to the largest of all parts."""
    filled = [users for users in parts if users.size]
    if not filled:
        return MIXED
    smallest = min(users.min() for users in filled)
    last = int(max(users.max() for users in filled)) - int(smallest)
    return Hash(smallest, np.uint64(min((1 << 64) // (last + 1), (1 << 64) - 1)), np.uint64(last))


def count_places(
    count: Callable[[Piece, Ints], None], pieces: Sequence[Piece], bits: int, threads: int
) -> tuple[Ints, Ints]:
    """Offsets of the partitions, and each piece's first place in each of them.

    Args:
        count: adds to int64[n_partitions] what a piece puts into each.
    """

    def histogram(piece: Piece) -> Ints:
        counts = np.zeros(1 << bits, dtype=np.int64)
        count(piece, counts)
        return counts

    counts = np.stack(list(ordered_map(histogram, pieces, threads=threads)))
    offsets = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    return offsets, offsets[:-1] + np.cumsum(counts, axis=0) - counts


def are_even(offsets: Ints) -> bool:
    """Whether no partition is much larger than the others."""
    n_partitions = offsets.size - 1
    return int(np.diff(offsets).max()) * n_partitions <= EVEN * int(offsets[-1])


def tabulate(users: Keys, threads: int) -> UserTable | None:
    """The table of the users' keys and codes; None where a user comes twice.

    Args:
        users: uint64[n_users], of user code 0, 1, ...
    """
    for hash, longest, spare in _attempts(users):
        result, table = _fill(users, hash, longest, spare, threads)
        if result != FULL:
            return table
    raise AssertionError("some attempt has room enough")


def _fill(
    users: Keys, hash: Hash, longest: int, spare: int, threads: int
) -> tuple[int, UserTable | None]:
    """The table by one hash, and OK; or why there is none.

    Args:
        longest: run of entries without a free slot.
        spare: slots of a partition behind those that a hash may choose.
    """
    bits = partition_bits(users.size, USERS_A_PARTITION)
    pieces = cut(users.size, 4 * threads)

    def count(piece: tuple[int, int], counts: Ints) -> None:
        count_partitions(users[slice(*piece)], hash, 63 - bits, counts)

    offsets, first_places = count_places(count, pieces, bits, threads)
    if hash is not MIXED and not are_even(offsets):
        return FULL, None
    slots = max(1, math.ceil(int(np.diff(offsets).max()) / TABLE_LOAD))
    if hash is not MIXED:
        n_keys = (1 << 64 - bits) // int(hash.factor) + 1  # that a partition has room for
        if (dense := math.ceil(n_keys / DENSE_LOAD)) <= slots:
            slots, spare = dense, 1  # nothing moves on
    layout = Layout(hash, 63 - bits, slots, slots + spare)
    table = UserTable(_aligned(layout.stride * ENTRY << bits), layout)

    is_in_order = hash is not MIXED and are_ascending(users)
    scattered = np.empty(0 if is_in_order else 2 * users.size, dtype=np.uint64)

    def scatter(number: int) -> None:
        own = first_places[number].copy()
        scatter_users(users, *pieces[number], hash, layout.shift, own, scattered)

    def fill(partitions: tuple[int, int]) -> int:
        given = users, scattered, offsets, *partitions, layout, longest
        return int(fill_table(*given, table.entries))

    for _ in ordered_map(scatter, () if is_in_order else range(len(pieces)), threads=threads):
        pass
    results = set(ordered_map(fill, cut(1 << bits, 8 * threads, least=1), threads=threads))
    if results == {OK}:
        return OK, table
    return TWICE if TWICE in results else FULL, None


def _attempts(users: Keys) -> Iterator[tuple[Hash, int, int]]:
    """Hashes to try, the longest run of entries that is good enough, and the spare slots."""
    yield hash_in_order([users]), LONGEST_RUN, SPARE_SLOTS
    spare = SPARE_SLOTS
    while True:
        yield MIXED, users.size, spare
        spare *= 8


def _aligned(n_words: int) -> Keys:
    """Zeros that begin with a cache line, so that no entry lies in two."""
    room: Keys = np.zeros(n_words + 8, dtype=np.uint64)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + n_words]
