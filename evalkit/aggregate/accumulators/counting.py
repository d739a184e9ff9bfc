"""How often lists show each item: counters of whole numbers, which add up in any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Int32s, Ints
from evalkit.kernels.intrinsics import prefetch
from evalkit.metrics import ItemContext, Lists, Request, Value, attention, weighing_of, worth

WORD = 31  # bits of the lower of two words that weights are added in
UNIT = 2.0**62  # weights are whole numbers of its inverse
LINE = 8  # words of a cache line
OF_GAIN = 3  # words: rows, and the whole part of their gains, and the rest
GAIN_BITS = 48  # of that rest
USERS_OF_GAINS = 1 << 12  # whose gains are in memory at a time

Gains = Floats
Attention = tuple[tuple[str, Value], ...]  # parameters


class Columns(NamedTuple):
    """What is counted of each item: one column of counters a cutoff and kind.

    Behind the lists that show the item come, in two words each, sums of attention, and sums of
    what depends on the length of the list alone; then, in three, rows and the sum of their gains.

    Args:
        cutoffs: ascending.
        attentions: ways to weigh ranks.
        lengths: ways to weigh lists.
        gains: what relevance is worth.
    """

    cutoffs: tuple[int, ...]
    attentions: tuple[Attention, ...]
    lengths: tuple[str, ...]
    gains: tuple[str, ...]

    @classmethod
    def of(cls, requests: Sequence[Request]) -> "Columns":
        """What requests of the family `counts` look at."""
        attentions, lengths = dict[Attention, None](), dict[str, None]()
        gains = dict[str, None]()
        for request in requests:
            weighing = weighing_of(request)
            if weighing == "attention":
                attentions[attention_of(request)] = None
            elif weighing == "gain":
                gains[gain_of(request)] = None
            elif weighing != "lists":
                lengths[weighing] = None
        cutoffs = sorted({each.kernel_cutoff for each in requests})
        return cls(tuple(cutoffs), tuple(attentions), tuple(lengths), tuple(gains))

    @property
    def width(self) -> int:
        """How many columns there are."""
        n_ways = len(self.attentions) + len(self.lengths)
        return len(self.cutoffs) * (1 + 2 * n_ways + OF_GAIN * len(self.gains))

    def place(self, cutoff: int, number: int = -1) -> int:
        """Where the lists stand, or the words of a way: of attention first, then of lengths."""
        n = len(self.cutoffs)
        column = self.cutoffs.index(cutoff)
        return column if number < 0 else n + 2 * (number * n + column)

    def place_of_gain(self, cutoff: int, gain: str) -> int:
        """Where the words of a gain stand."""
        first = len(self.cutoffs) * (1 + 2 * len(self.attentions) + 2 * len(self.lengths))
        number = self.gains.index(gain) * len(self.cutoffs) + self.cutoffs.index(cutoff)
        return first + OF_GAIN * number

    def weights(self, depth: int) -> tuple[Ints, Ints]:
        """int64[n_ways, depth + 1] by place from 0, and by length."""
        ranks = [attention(dict(each), depth + 1) for each in self.attentions]
        sizes = np.maximum(np.arange(depth + 1), 1)
        power = {"length": 0.5, "share": 1.0}
        lists = [sizes ** -power[each] for each in self.lengths]
        return _whole(ranks, depth), _whole(lists, depth)


def attention_of(request: Request) -> Attention:
    """The parameters by which a request weighs ranks."""
    values = dict(request.parameters)
    return tuple((name, values[name]) for name in ("attention", "patience") if name in values)


def gain_of(request: Request) -> str:
    """What relevance is worth by a request."""
    return str(dict(request.parameters)["gain"])


def _whole(weights: Sequence[Floats], depth: int) -> Ints:
    found = np.zeros((len(weights), depth + 1), dtype=np.int64)
    for row, each in zip(found, weights, strict=True):
        row[:] = np.rint(each * UNIT).astype(np.int64)
    return found


@kernel(allocates=False)
def count_items(lists, users, cutoffs, by_rank, by_length, sizes, records, width, short):  # type: ignore[no-untyped-def]
    """Count the items of some users' lists.

    Args:
        cutoffs: int64[n_cutoffs], ascending.
        by_rank: int64[n_ways, depth + 1], by place; `by_length` the same, by different items.
        sizes: int64[n_cutoffs], room.
        records: int64[n_items * width]: the user whom the item was met with last, then
            n_cutoffs * (1 + 2 * n_ways) counters, which must be added up from cutoff to cutoff.
        short: int64[n_items * n_cutoffs * (1 + 2 * n_ways)]: lists with fewer different items than
            the cutoff, and what they add by their lengths.
    """
    # Wide: lists, what their ranks weigh, and all that is counted; called in one place.
    n_cutoffs, n_ranks = cutoffs.size, by_rank.shape[0]
    n_words, mask = 1 + n_cutoffs * (1 + 2 * n_ranks), (1 << WORD) - 1
    deepest, last = cutoffs[n_cutoffs - 1], users.size - 1
    for row in range(users.size):
        user, after = users[row], users[min(row + 1, last)]
        begin, n = lists.starts[user], min(lists.lengths[user], deepest)
        following, n_following = lists.starts[after], min(lists.lengths[after], deepest)
        for place in range(n_following):  # the next list is on its way while this one is counted
            ahead = np.int64(lists.items[following + place]) * width
            prefetch(records, ahead)
            if n_words > LINE:
                prefetch(records, ahead + n_words - 1)
        place, n_new, is_short = 0, np.int64(0), False
        for column in range(n_cutoffs):
            end = min(n, cutoffs[column])
            while place < end:
                at = np.int64(lists.items[begin + place]) * width
                is_new = np.int64(records[at] != user + 1)
                records[at] = user + 1
                n_new += is_new
                records[at + 1 + column] += is_new
                into = at + 1 + n_cutoffs + 2 * column
                for way in range(n_ranks):
                    weight = by_rank[way, place]
                    records[into] += weight >> WORD
                    records[into + 1] += weight & mask
                    into += 2 * n_cutoffs
                place += 1
            sizes[column] = n_new
            is_short |= n_new < cutoffs[column]
        if is_short and by_length.shape[0] > 0:
            count_short(lists, user, n, cutoffs, by_length, sizes, records, width, short)


@kernel(allocates=False)
def count_short(lists, user, n, cutoffs, by_length, sizes, records, width, short):  # type: ignore[no-untyped-def]
    """Count a list's items at the cutoffs that let in fewer different items than they could."""
    # Wide: the end of a kernel that is split for its length, so it takes its state.
    n_cutoffs, n_ways, mask, column = cutoffs.size, by_length.shape[0], (1 << WORD) - 1, 0
    for place in range(lists.starts[user], lists.starts[user] + n):
        while place - lists.starts[user] >= cutoffs[column]:
            column += 1
        item = np.int64(lists.items[place])
        if records[item * width] != user + 1:
            continue
        records[item * width] = -(user + 1)  # of an item that a list repeats the first row counts
        for later in range(column, n_cutoffs):
            if sizes[later] < cutoffs[later]:
                into = (item * n_cutoffs + later) * (1 + 2 * n_ways)
                short[into] += 1
                for way in range(n_ways):
                    weight = by_length[way, sizes[later]]
                    short[into + 1 + 2 * way] += weight >> WORD
                    short[into + 2 + 2 * way] += weight & mask


@kernel(allocates=False)
def find_gains(lists, users, depth, relevant, worth, gains):  # type: ignore[no-untyped-def]
    """Fill `gains` with what the rows of some users' lists are worth, one list behind the other.

    Args:
        worth: float64, beside `relevant.items`.
    """
    at = 0
    for user in users:
        begin, first = lists.starts[user], relevant.starts[user]
        last = first + relevant.lengths[user]
        for place in range(begin, begin + min(lists.lengths[user], depth)):
            low, high = first, last
            while low < high:
                middle = (low + high) // 2
                if relevant.items[middle] < lists.items[place]:
                    low = middle + 1
                else:
                    high = middle
            is_hit = low < last and relevant.items[low] == lists.items[place]
            gains[at] = worth[low] if is_hit else 0.0
            at += 1


@kernel(allocates=False)
def count_gains(lists, users, cutoffs, gains, places, words):  # type: ignore[no-untyped-def]
    """Count the rows of some users' lists by item, and add up their gains.

    Args:
        gains: float64, of the rows of their lists up to the last cutoff.
        places: int64[n_items], the row of each item in `words`, int64[n, n_cutoffs * OF_GAIN].
    """
    at, one = 0, np.float64(1 << GAIN_BITS)
    for user in users:
        begin, column = lists.starts[user], 0
        for place in range(min(lists.lengths[user], cutoffs[cutoffs.size - 1])):
            while place >= cutoffs[column]:
                column += 1
            whole = np.floor(gains[at])
            rest = np.int64(np.rint((gains[at] - whole) * one))
            found = words[places[lists.items[begin + place]]]
            for position in range(column, cutoffs.size):
                low = found[OF_GAIN * position + 2] + rest
                found[OF_GAIN * position] += 1
                found[OF_GAIN * position + 1] += np.int64(whole) + (low >> GAIN_BITS)
                found[OF_GAIN * position + 2] = low & ((1 << GAIN_BITS) - 1)
            at += 1


def gains_of(lists: Lists, users: Ints, depth: int, context: ItemContext, gain: str) -> Gains:
    """float64, what the rows of some users' lists are worth, one list behind the other."""
    assert context.relevant is not None
    assert context.gains is not None
    found = np.empty(int(np.minimum(lists.lengths[users], depth).sum()))
    of_truth = worth(gain, context.gains, context.threshold)
    find_gains(lists, users, depth, context.relevant, of_truth, found)
    return found


def _records(n_items: int, n_words: int) -> Ints:
    """int64[n_items, at least n_words], zeros, of which few words lie in one cache line."""
    width = 1 << (n_words - 1).bit_length() if n_words <= LINE else n_words
    pool = np.zeros(n_items * width + LINE, dtype=np.int64)
    first = -pool.ctypes.data % (8 * LINE) // 8
    return pool[first : first + n_items * width].reshape(n_items, width)


@dataclass(slots=True)
class ShownCounts:
    """How often the lists of some users show each item.

    Args:
        items: int32[n], their codes, ascending.
        counts: int64[n, n_columns], as `Columns` says.
        n_users: with a list.
        n_empty: of these, with nothing in it.
    """

    items: Int32s
    counts: Ints
    n_users: int
    n_empty: int

    @classmethod
    def of(cls, lists: Lists, users: Ints, columns: Columns, context: ItemContext) -> "ShownCounts":
        """Count the lists of some users."""
        n, n_ranks, n_lengths, _ = map(len, columns)
        n_items = context.items.is_listed.size
        depth = min(int(lists.lengths[users].max(initial=0)), columns.cutoffs[-1])
        cutoffs = np.array(columns.cutoffs, dtype=np.int64)
        by_rank, by_length = columns.weights(depth)
        n_words = 1 + n * (1 + 2 * n_ranks)
        records = _records(n_items, n_words)
        short = np.zeros((n_items * bool(n_lengths), n, 1 + 2 * n_lengths), dtype=np.int64)
        pool = np.empty_like(cutoffs), records.reshape(-1), records.shape[1], short.reshape(-1)
        count_items(lists, users, cutoffs, by_rank, by_length, *pool)
        items = np.flatnonzero(records[:, 0]).astype(np.int32)
        counts = np.empty((items.size, columns.width), dtype=np.int64)
        np.cumsum(records[items, 1 : 1 + n], axis=1, out=counts[:, :n])
        if n_ranks:
            ranks = (
                records[items, 1 + n : n_words].reshape(items.size, n_ranks, n, 2).cumsum(axis=2)
            )
            counts[:, n : n + 2 * n * n_ranks] = ranks.reshape(items.size, 2 * n * n_ranks)
        del records, pool
        for way in range(n_lengths):  # a column at a time: of many items, this is what is held
            for column, cutoff in enumerate(columns.cutoffs):
                own = counts[:, column] - short[items, column, 0]
                full = int(by_length[way, min(cutoff, depth)])  # own is 0 where depth is less
                into = columns.place(cutoff, n_ranks + way)
                for word, half in enumerate((full >> WORD, full & ((1 << WORD) - 1))):
                    counts[:, into + word] = own * half
                    counts[:, into + word] += short[items, column, 1 + 2 * way + word]
        for gain in columns.gains:
            first = columns.place_of_gain(columns.cutoffs[0], gain)
            words = np.zeros((items.size, OF_GAIN * n), dtype=np.int64)
            places = np.zeros(n_items, dtype=np.int64)
            places[items] = np.arange(items.size)
            for begin in range(0, users.size, USERS_OF_GAINS):
                block = users[begin : begin + USERS_OF_GAINS]
                own = gains_of(lists, block, columns.cutoffs[-1], context, gain)
                count_gains(lists, block, cutoffs, own, places, words)
            counts[:, first : first + OF_GAIN * n] = words
        n_empty = int(np.count_nonzero(lists.lengths[users] == 0))
        return cls(items, counts, users.size, n_empty)

    def merge(self, other: "ShownCounts") -> None:
        """Add what other users are shown."""
        self._add(other, 1)

    def without(self, other: "ShownCounts") -> "ShownCounts":
        """What is left without some of the users."""
        left = ShownCounts(self.items, self.counts, self.n_users, self.n_empty)
        left._add(other, -1)
        return left

    def _add(self, other: "ShownCounts", sign: int) -> None:
        items = np.sort(np.concatenate([self.items, other.items]), kind="stable")
        items = items[np.append(items[:1] >= 0, items[1:] != items[:-1])]
        counts = np.zeros((items.size, self.counts.shape[1]), dtype=np.int64)
        counts[np.searchsorted(items, self.items)] = self.counts
        counts[np.searchsorted(items, other.items)] += sign * other.counts
        self.items, self.counts = items, counts
        self.n_users += sign * other.n_users
        self.n_empty += sign * other.n_empty

    def renamed(self, codes: Int32s) -> "ShownCounts":
        """The same with other codes of items."""
        items = codes[self.items]
        if (items[1:] > items[:-1]).all():
            return ShownCounts(items, self.counts, self.n_users, self.n_empty)
        order = np.argsort(items)
        return ShownCounts(items[order], self.counts[order], self.n_users, self.n_empty)
