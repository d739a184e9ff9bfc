"""Rows become items by user. They move only where the rows of a user do not lie together."""

import math
from dataclasses import dataclass, field

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Ints, Keys
from evalkit.kernels.intrinsics import prefetch
from evalkit.kernels.threads import ordered_map
from evalkit.truth._index import (
    COUNT_BITS,
    FEW_ITEMS,
    FILTER_BITS_AN_ITEM,
    LEAST_FILTER_LOG,
    MAX_PACKED_COUNT,
    SCANNED_ITEMS,
    SPREAD,
    Grades,
    Index,
    few_bits,
    filter_log,
    find_codes,
)
from evalkit.truth._rows import MAX_GRADES, PairRows, Runs
from evalkit.truth._sorting import (
    ALL,
    BELOW_ZERO,
    DUPLICATES,
    KEPT,
    NEGATIVE,
    RELEVANT,
    ItemRules,
    RowsByUser,
    count_kept,
    count_rows,
    group_partitions,
    item_at,
    join_items,
    may_have_copies,
    order_by_code,
    scatter_rows,
    sort_items,
)
from evalkit.truth._table import (
    MIXED,
    UserTable,
    are_even,
    count_places,
    cut,
    find_entry,
    hash_in_order,
    home_entry,
    partition_bits,
    tabulate,
)

ROWS_A_PARTITION = 1 << 14
RUNS_A_PIECE = 1 << 18  # that one thread moves
GROUPED_RUNS = 0.7  # runs a row, up to which users are taken to lie together
AHEAD = 16  # users between asking for a table entry and using it
INTERPRETED = 256  # items that are settled before the kernel for it would be compiled


@dataclass(frozen=True, slots=True)
class UserItems:
    """Items by user, and the index that finds them.

    Args:
        index: table, item keys and counts.
        grades: relevances, beside the item keys.
        users: uint64[n_users], key of each user code.
        starts: int64[n_users], where a user's items begin. Places between users may be unused.
        n_relevant: int32[n_users], items that reach the threshold: the counts, where all do.
    """

    index: Index
    grades: Grades
    users: Keys
    starts: Ints
    n_relevant: Int32s

    @property
    def n_users(self) -> int:
        """Users with at least one row, relevant or not."""
        return int(self.users.size)

    @property
    def n_places(self) -> int:
        """Length of the arrays beside the item keys."""
        return int(self.index.lows.size) - FEW_ITEMS

    @property
    def counts(self) -> Int32s:
        """int32[n_users], how many items a user has."""
        return self.index.counts

    def codes_of(self, users: Keys) -> Ints:
        """int64[n_rows], the code of each row's user; -1 for a user that is not there."""
        codes = np.empty(users.size, dtype=np.int64)
        find_codes(self.index, users, codes)
        return codes

    def item_keys(self) -> Keys:
        """uint64[n_places], the whole keys, put together anew; unused places hold anything."""
        keys = self.index.lows[: self.n_places].astype(np.uint64)
        if self.index.highs.size:
            keys |= self.index.highs[: self.n_places].astype(np.uint64) << np.uint64(32)
        return keys


@dataclass(frozen=True, slots=True)
class BuildCounts:
    """What building found: rows that repeat an earlier (user, item), negative relevances."""

    duplicates: int
    negative: int
    copied: Ints = field(compare=False)  # codes of users with some, for errors
    others: int = 0  # copies whose propensity is another one


@kernel(allocates=False)
def find_unsettled(groups, rules, first, last, room, n_relevant, counters, unsettled):  # type: ignore[no-untyped-def]
    """Of users first..last those whose items do not stay as they are; gives how many.

    They may have copies, items without gain, or more items than are compared one by one. What is
    relevant and negative of the others is counted, as `settle_users` does it.
    """
    starts, counts, lows = groups.starts, groups.counts, groups.lows
    codes, own = groups.grades.codes, groups.grades.own
    marks, keep = rules.marks, rules.keep
    graded = codes.size > 0 or own.size > 0
    n_unsettled = 0
    for user in range(first, last):
        begin = starts[user]
        n = relevant = n_kept = int(counts[user])
        n_negative = 0
        if graded:
            relevant, n_kept, n_negative = count_kept(marks, codes, own, begin, begin + n, keep)
        if n > SCANNED_ITEMS or n_kept < n or may_have_copies(lows, begin, n, room):
            unsettled[n_unsettled] = user
            n_unsettled += 1
        else:
            n_relevant[user] = relevant
            counters[1] += n_negative
    return n_unsettled


@kernel(allocates=False)
def settle_users(unsettled, groups, own_bits, rules, room, n_relevant, counters, copied):  # type: ignore[no-untyped-def]
    """Join copies of some users' items, and leave out what has no gain.

    Their items stand in ascending order of their keys then. `own_bits` is the memory of the
    relevances without codes, or of propensities beside them. `room` holds two words for every item
    of the largest user. `counters`: duplicates, negative relevances, copies of other propensity.
    `copied` bool[n_users] becomes True for users with
    duplicates, unless it is empty.
    """
    codes, own, counts = groups.grades.codes, groups.grades.own, groups.counts
    for user in unsettled:
        begin, n = groups.starts[user], int(counts[user])
        before = counters[0]
        sort_items(groups.lows, groups.highs, codes, own_bits, begin, n, room)
        relevant = n = join_items(groups, begin, n, rules, counters)
        if copied.size > 0:
            copied[user] = counters[0] > before
        if codes.size > 0 or own.size > 0:
            relevant, _, _ = count_kept(rules.marks, codes, own, begin, begin + n, rules.keep)
        counts[user] = n
        n_relevant[user] = relevant


@kernel(allocates=False)
def enter_users(groups, index, own_bits, order, room, first, last, word):  # type: ignore[no-untyped-def]
    """Complete the table entries of users first..last, whose items are settled.

    Up to 64 items are brought into descending order of their codes' relevance; `order` says which
    is larger. More than 16 have a bit set, from `word` on.
    """
    table, layout, filters = index.table, index.layout, index.filters
    users, starts, counts = groups.users, groups.starts, groups.counts
    lows, highs, codes = groups.lows, groups.highs, groups.grades.codes
    for user in range(first, last):
        if user + AHEAD < last:
            prefetch(table, home_entry(users[user + AHEAD], layout))
        begin, n = starts[user], int(counts[user])
        if codes.size > 0 and n <= SCANNED_ITEMS:
            order_by_code(lows, highs, codes, own_bits, order, begin, n, room)
        bits = np.uint64(0)
        if n <= FEW_ITEMS:
            for place in range(begin, begin + n):
                one, other = few_bits(item_at(lows, highs, place))
                bits |= (np.uint64(1) << one) | (np.uint64(1) << other)
        else:
            log = filter_log(n)
            for place in range(begin, begin + n):
                bit = (item_at(lows, highs, place) * np.uint64(SPREAD)) >> np.uint64(64 - log)
                at = word + np.int64(bit >> np.uint64(6))
                filters[at] |= np.uint64(1) << (bit & np.uint64(63))
            bits = (np.uint64(word) << np.uint64(6)) | np.uint64(log)
            word += 1 << (log - 6)
        entry = find_entry(table, users[user], layout)
        table[entry + 1] = bits
        table[entry + 2] = (np.uint64(begin) << np.uint64(COUNT_BITS)) | np.uint64(
            min(n, MAX_PACKED_COUNT)
        )


def build_user_items(
    rows: PairRows,
    *,
    relevant_from: float = math.inf,
    duplicates: str = "max",
    keep_negative: bool = False,
    keep_judged: bool = False,
    threads: int = 1,
) -> tuple[UserItems, BuildCounts]:
    """Group rows by user.

    Rows whose users lie together stay where they are, so that a truth and rankings in one order
    of users are walked through side by side; other rows are moved.

    Args:
        rows: they are used up.
        relevant_from: items below it stay only for their gain, when above 0.
        duplicates: what an item's copies become: "max", "sum" (of relevances that have no codes),
            "last"; "error" counts like "max".
        keep_negative: keep items of negative relevance.
        keep_judged: keep all items, relevant or not.
        threads: kernels that run side by side.
    """
    n_rows, n_runs = rows.size, rows.n_runs
    runs, table = [rows.take_runs()], None
    is_grouped = n_runs <= n_rows * GROUPED_RUNS and runs[0].borders.size > 0
    nothing, lows, highs = np.empty(0, np.int64), rows.lows[: n_rows + FEW_ITEMS], rows.highs
    given = nothing.view(np.uint64), nothing, nothing.astype(np.int32), lows, highs[:n_rows]
    groups = RowsByUser(*given, rows.grades())
    if is_grouped:
        table = tabulate(runs[0].users, threads)
    if table is None:
        groups = _move_rows(runs, groups, threads)
        table = tabulate(groups.users, threads)
    else:
        counts = _count_rows(runs[0], threads)
        groups = groups._replace(users=runs[0].users, starts=runs[0].starts, counts=counts)
    assert table is not None  # no user has two groups
    keep = (relevant_from, ALL if keep_judged else BELOW_ZERO * keep_negative)
    return _settle(groups, table, DUPLICATES.index(duplicates), keep, threads)


def _count_rows(runs: Runs, threads: int) -> Int32s:
    """int32[n_runs], the rows of each."""
    counts = np.empty(runs.users.size, dtype=np.int32)

    def count(piece: tuple[int, int]) -> None:
        first, last = piece
        counts[first:last] = np.diff(runs.borders[first : last + 1])

    for _ in ordered_map(count, cut(counts.size, 4 * threads), threads=threads):
        pass
    return counts


def _move_rows(runs: list[Runs], rows: RowsByUser, threads: int) -> RowsByUser:
    """Bring rows together by user, partition by partition; `runs` are used up."""
    n_rows, grades = runs[0].n_rows, rows.grades
    bits = partition_bits(n_rows, ROWS_A_PARTITION)
    pieces = list(runs.pop().cut(RUNS_A_PIECE))

    def count(piece: Runs, counts: Ints) -> None:
        count_rows(piece, hash, 63 - bits, counts)

    hash = hash_in_order([piece.users for piece in pieces])
    offsets, first_places = count_places(count, pieces, bits, threads)
    if not are_even(offsets):
        hash = MIXED
        offsets, first_places = count_places(count, pieces, bits, threads)
    pairs, apart = np.empty(2 * n_rows, dtype=np.uint64), grades.codes[: rows.highs.size]
    moved = Grades(np.empty_like(apart), grades.values, np.empty_like(grades.own))

    def scatter(number: int) -> None:
        places = first_places[number].copy()
        scatter_rows(pieces[number], rows, hash, 63 - bits, places, pairs, moved)

    for _ in ordered_map(scatter, range(len(pieces)), threads=threads):
        pass
    pieces.clear()
    n_users = np.empty(1 << bits, dtype=np.int64)

    def group(partitions: tuple[int, int]) -> None:
        group_partitions(pairs, moved, offsets, *partitions, rows, n_users)

    for _ in ordered_map(group, cut(1 << bits, 8 * threads, least=1), threads=threads):
        pass
    by_row = pairs.reshape(-1, 2)
    filled = [slice(begin, begin + n) for begin, n in zip(offsets, n_users, strict=False)]
    counts = np.concatenate([by_row[each, 1] for each in filled]).astype(np.int32)
    return rows._replace(
        users=np.concatenate([by_row[each, 0] for each in filled]),
        starts=np.cumsum(counts) - counts,
        counts=counts,
    )


def count_filter_words(counts: Int32s) -> int:
    """Words that the bit sets of users with so many items take at most."""
    many = counts[counts > FEW_ITEMS].astype(np.int64)
    logs = np.frexp(many * FILTER_BITS_AN_ITEM - 1)[1]  # as `filter_log` counts them
    return int((1 << np.maximum(logs, LEAST_FILTER_LOG).astype(np.int64) - 6).sum())


def _settle(
    groups: RowsByUser, table: UserTable, policy: int, keep: tuple[float, int], threads: int
) -> tuple[UserItems, BuildCounts]:
    """Settle every user's items and complete the table."""
    pieces = cut(groups.users.size, 4 * threads)

    def count_words(piece: tuple[int, int]) -> int:
        return count_filter_words(groups.counts[slice(*piece)])

    n_words = list(ordered_map(count_words, pieces, threads=threads))
    filters = np.zeros(sum(n_words), dtype=np.uint64)
    own = (groups.counts, groups.lows, groups.highs)
    index = Index(table.entries, table.layout, *own, filters)
    values = groups.grades.values
    reaches, below = values >= keep[0], values < 0.0
    kept = reaches | (values > 0.0) | (below & (keep[1] == BELOW_ZERO)) | (keep[1] == ALL)
    are_coded = groups.grades.codes.size > 0 or not groups.grades.own.size
    are_all = not (kept & ~reaches).any() and are_coded  # relevant
    n_relevant = groups.counts if are_all else np.empty_like(groups.counts)
    order = np.argsort(np.argsort(-values, kind="stable")).astype(np.uint8)
    n_words_of_room = max(2 * int(groups.counts.max(initial=0)), MAX_GRADES + 3 * SCANNED_ITEMS)
    marks = (RELEVANT * reaches + KEPT * kept + NEGATIVE * below).astype(np.uint8)
    rules = ItemRules(marks, policy, keep)

    is_error = policy == DUPLICATES.index("error")
    copied = np.zeros(groups.users.size if is_error else 0, dtype=np.bool_)

    bits = groups.grades.own.view(np.uint64)

    def settle(number: int) -> Ints:
        counters = np.zeros(3, dtype=np.int64)
        first, last = pieces[number]
        unsettled = np.empty(last - first, dtype=np.int64)
        room = np.empty(n_words_of_room, dtype=np.uint64)
        given = groups, rules, first, last, room
        n_unsettled = find_unsettled(*given, n_relevant, counters, unsettled)
        if n_unsettled > 0:
            n_items = int(groups.counts[unsettled[:n_unsettled]].sum())
            settle_some = settle_users.interpret if n_items <= INTERPRETED else settle_users
            some = unsettled[:n_unsettled]
            settle_some(some, groups, bits, rules, room, n_relevant, counters, copied)
        word = sum(n_words[:number])
        enter_users(groups, index, bits, order, room, first, last, word)
        return counters

    settled = list(ordered_map(settle, range(len(pieces)), threads=threads))
    found = BuildCounts(
        duplicates=sum(int(counters[0]) for counters in settled),
        negative=sum(int(counters[1]) for counters in settled),
        copied=np.flatnonzero(copied),
        others=sum(int(counters[2]) for counters in settled),
    )
    return UserItems(index, groups.grades, groups.users, groups.starts, n_relevant), found
