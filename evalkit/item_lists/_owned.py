"""Items that users have, as lists of codes: right answers of all, train rows of some at a time."""

from threading import local
from typing import NamedTuple

import numpy as np

from evalkit.item_lists._codes import ItemCodes, find_key
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints
from evalkit.metrics import Lists
from evalkit.truth import Truth, UserItems, item_at, relevance_at

NO_KEYS = np.empty(0, dtype=np.uint64)
FEW = 96  # items of a user that are put in order by counting


class OwnedItems(NamedTuple):
    """Items of users: where those of each begin, int32 codes, and float64 gains, or none."""

    starts: Ints
    codes: Int32s
    gains: Floats


def relevant_of(truth: Truth, codes: ItemCodes) -> tuple[Lists, Floats]:
    """The items of each user of a truth that reach its threshold, in order of code; their gains."""
    pairs = truth.pairs
    least = truth.relevant_from if pairs.grades.is_graded else -np.inf
    lengths = np.zeros(truth.n_users, dtype=np.int64)
    count_relevant(pairs.starts, pairs.counts, pairs.grades, least, lengths)
    starts, n = np.cumsum(lengths) - lengths, int(lengths.sum())
    rows = OwnedItems(starts, np.empty(n, dtype=np.int32), np.empty(n))
    given = pairs.starts, pairs.index, pairs.grades, least
    if n_missing := copy_relevant(*given, codes.table, rows, NO_KEYS):
        missing = np.empty(n_missing, dtype=np.uint64)
        copy_relevant(*given, codes.table, rows, missing)
        codes.codes_of_keys(missing)
        copy_relevant(*given, codes.table, rows, NO_KEYS)
    sort_rows(lengths, rows, np.empty(FEW, dtype=np.int32), np.empty(FEW))
    return Lists(starts, lengths, rows.codes), rows.gains


class OwnHistory:
    """Items of the users' own train rows, brought into lists of some users at a time.

    Args:
        pairs: of train.
        truth: whose users they are.
        codes: of the items, which have all been met.
    """

    def __init__(self, pairs: UserItems, truth: Truth, codes: ItemCodes) -> None:
        self._pairs, self._codes = pairs, codes
        self._places = np.full(truth.n_users, -1, dtype=np.int32)
        self._places[truth.codes_of(pairs.users)] = np.arange(pairs.n_users)
        self._last = local()  # of each thread the users whose lists were made last, and these

    @property
    def has_rows(self) -> Flags:
        """bool[n_users]: who has a train row."""
        found = self._places >= 0
        found[found] = self._pairs.counts[self._places[found]] > 0
        return found

    def of(self, users: Ints) -> Lists:
        """The lists of some users, each item once, in order of code."""
        last: tuple[Ints, Lists] | None = getattr(self._last, "made", None)
        if last is None or last[0] is not users:
            last = self._last.made = users, self._lists_of(users)
        return last[1]

    def _lists_of(self, users: Ints) -> Lists:
        places, pairs = self._places[users], self._pairs
        own = places >= 0
        firsts, lengths = np.zeros((2, users.size), dtype=np.int64)
        firsts[own], lengths[own] = pairs.starts[places[own]], pairs.counts[places[own]]
        starts = np.cumsum(lengths) - lengths
        rows = OwnedItems(starts, np.empty(int(lengths.sum()), dtype=np.int32), np.empty(0))
        if copy_items(firsts, lengths, pairs.index, self._codes.table, rows.codes):
            raise AssertionError("an item of train has no code")
        sort_rows(lengths, rows, np.empty(FEW, dtype=np.int32), np.empty(0))
        return Lists(starts, lengths, rows.codes)


@kernel(allocates=False)
def copy_items(firsts, lengths, index, table, codes):  # type: ignore[no-untyped-def]
    """Fill `codes` with those of the items of users; how many have none."""
    n_missing = row = 0
    for user in range(firsts.size):
        for place in range(firsts[user], firsts[user] + lengths[user]):
            code = find_key(table, item_at(index.lows, index.highs, place))
            codes[row] = code
            n_missing += code < 0
            row += 1
    return n_missing


@kernel(allocates=False)
def count_relevant(starts, counts, grades, least, lengths):  # type: ignore[no-untyped-def]
    """How many items of each user reach a relevance."""
    for user in range(starts.size):
        n = 0
        for place in range(starts[user], starts[user] + counts[user]):
            n += relevance_at(grades.codes, grades.values, grades.own, place) >= least
        lengths[user] = n


@kernel(allocates=False)
def copy_relevant(starts, index, grades, least, table, rows, missing):  # type: ignore[no-untyped-def]
    """Copy the codes of the items that reach a relevance, and these; how many have no code.

    Args:
        missing: room for the keys of those.
    """
    n_missing = 0
    for user in range(starts.size):
        into = rows.starts[user]
        for place in range(starts[user], starts[user] + index.counts[user]):
            gain = relevance_at(grades.codes, grades.values, grades.own, place)
            if gain < least:
                continue
            key = item_at(index.lows, index.highs, place)
            code = find_key(table, key)
            rows.codes[into] = code
            rows.gains[into] = gain
            into += 1
            if code < 0 and missing.size > 0:
                missing[n_missing] = key
            n_missing += code < 0
    return n_missing


@kernel(allocates=False)
def count_smaller(codes, code):  # type: ignore[no-untyped-def]
    """How many codes are smaller than one."""
    n = np.int32(0)
    for each in range(codes.size):
        n += np.int32(codes[each] < code)
    return n


@kernel(allocates=False)
def sort_rows(lengths, rows, few, few_gains):  # type: ignore[no-untyped-def]
    """Sort the items of each user by code, and their gains with them.

    Args:
        few, few_gains: room for the items of one user.
    """
    has_gains = rows.gains.size > 0
    for user in range(lengths.size):
        begin, n = rows.starts[user], lengths[user]
        own = rows.codes[begin : begin + n]
        gains = rows.gains[begin : begin + n] if has_gains else rows.gains
        if n > few.size:
            sort_many(own, gains)
            continue
        for position in range(n):  # each goes where as many are as are smaller: none stands twice
            place = count_smaller(own, own[position])
            few[place] = own[position]
            if has_gains:
                few_gains[place] = gains[position]
        for number in range(n):
            own[number] = few[number]
            if has_gains:
                gains[number] = few_gains[number]


@kernel(allocates=False)
def sort_many(codes, gains):  # type: ignore[no-untyped-def]
    """Sort codes, and gains with them."""
    gap = 1
    while 3 * gap + 1 < codes.size:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, codes.size):
            code, before = codes[place], place - gap
            gain = gains[place] if gains.size > 0 else 0.0
            while before >= 0 and codes[before] > code:
                codes[before + gap] = codes[before]
                if gains.size > 0:
                    gains[before + gap] = gains[before]
                before -= gap
            codes[before + gap] = code
            if gains.size > 0:
                gains[before + gap] = gain
        gap //= 3
