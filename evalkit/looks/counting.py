"""How often lists show each item: counters of whole numbers, which add up in any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.kernels.intrinsics import prefetch
from evalkit.metrics import Lists, Request, Value, attention

WORD = 31  # bits of the lower of two words that weights are added in
UNIT = 2.0**62  # weights are whole numbers of its inverse

Counts = npt.NDArray[np.int64]
Users = npt.NDArray[np.int64]
Attention = tuple[tuple[str, Value], ...]  # parameters


class Columns(NamedTuple):
    """What is counted of each item: one column of counters a cutoff and kind.

    Behind the lists that show the item come, in two words each, sums of attention, and sums of
    what depends on the length of the list alone.

    Args:
        cutoffs: ascending.
        attentions: ways to weigh ranks.
        lengths: ways to weigh lists.
    """

    cutoffs: tuple[int, ...]
    attentions: tuple[Attention, ...]
    lengths: tuple[str, ...]

    @classmethod
    def of(cls, requests: Sequence[Request]) -> "Columns":
        """What requests of the family `counts` look at."""
        attentions, lengths = dict[Attention, None](), dict[str, None]()
        for each in requests:
            assert each.metric.lists is not None
            weighing = each.metric.lists.weighing
            if weighing == "attention":
                attentions[attention_of(each)] = None
            elif weighing != "lists":
                lengths[weighing] = None
        cutoffs = sorted({each.kernel_cutoff for each in requests})
        return cls(tuple(cutoffs), tuple(attentions), tuple(lengths))

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.cutoffs) * (1 + 2 * len(self.attentions) + 2 * len(self.lengths))

    def place(self, cutoff: int, number: int = -1) -> int:
        """Where the lists stand, or the words of a way: of attention first, then of lengths."""
        n = len(self.cutoffs)
        column = self.cutoffs.index(cutoff)
        return column if number < 0 else n + 2 * (number * n + column)

    def weights(self, depth: int) -> tuple[Counts, Counts]:
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


def _whole(weights: Sequence[npt.NDArray[np.float64]], depth: int) -> Counts:
    found = np.zeros((len(weights), depth + 1), dtype=np.int64)
    for row, each in zip(found, weights, strict=True):
        row[:] = np.rint(each * UNIT).astype(np.int64)
    return found


@kernel(allocates=False)
def count_items(lists, users, cutoffs, by_rank, by_length, room, counts):  # type: ignore[no-untyped-def]
    """Count the items of some users' lists.

    Args:
        cutoffs: int64[n_cutoffs], ascending.
        by_rank: int64[n_ways, depth + 1], by place; `by_length` the same, by different items.
        room: of the user whom each item was met with last, the items that are new to a list, and
            how many of them each cutoff lets in.
        counts: int64[n_items * n_columns]; all but those by length must be added up from cutoff
            to cutoff.
    """
    n_cutoffs, n_ranks, n_lengths = cutoffs.size, by_rank.shape[0], by_length.shape[0]
    width, mask = n_cutoffs * (1 + 2 * n_ranks + 2 * n_lengths), (1 << WORD) - 1
    last, is_new, sizes = room.last, room.is_new, room.sizes
    for user in users:
        begin, n = lists.starts[user], min(lists.lengths[user], cutoffs[n_cutoffs - 1])
        column, n_new = 0, 0
        for place in range(n):
            item = np.int64(lists.items[begin + place])
            prefetch(counts, item * width)
            prefetch(counts, item * width + width - 1)
            while place >= cutoffs[column]:
                sizes[column] = n_new
                column += 1
            is_new[place] = last[item] != user
            n_new += is_new[place]
            last[item] = user
        for later in range(column, n_cutoffs):
            sizes[later] = n_new
        column = 0
        for place in range(n):
            while place >= cutoffs[column]:
                column += 1
            first = np.int64(lists.items[begin + place]) * width
            counts[first + column] += is_new[place]
            into = first + n_cutoffs + 2 * column
            for way in range(n_ranks):
                counts[into] += by_rank[way, place] >> WORD
                counts[into + 1] += by_rank[way, place] & mask
                into += 2 * n_cutoffs
            if is_new[place]:
                for way in range(n_lengths):
                    for later in range(n_cutoffs - column):
                        weight = by_length[way, sizes[column + later]]
                        counts[into + 2 * later] += weight >> WORD
                        counts[into + 2 * later + 1] += weight & mask
                    into += 2 * n_cutoffs


class Room(NamedTuple):
    """Room to count in: int64[n_items], of -1; uint8[depth + 1]; int64[n_cutoffs]."""

    last: Counts
    is_new: npt.NDArray[np.uint8]
    sizes: Counts


@dataclass(slots=True)
class Counted:
    """How often the lists of some users show each item.

    Args:
        items: int32[n], their codes, ascending.
        counts: int64[n, n_columns], as `Columns` says.
        n_users: with a list.
    """

    items: npt.NDArray[np.int32]
    counts: Counts
    n_users: int

    @classmethod
    def of(cls, lists: Lists, users: Users, columns: Columns, n_items: int) -> "Counted":
        """Count the lists of some users."""
        n = len(columns.cutoffs)
        depth = int(lists.lengths[users].max(initial=0))
        cutoffs = np.array(columns.cutoffs, dtype=np.int64)
        depth = min(depth, columns.cutoffs[-1])
        room = Room(
            np.full(n_items, -1, dtype=np.int64),
            np.empty(depth + 1, dtype=np.uint8),
            np.empty_like(cutoffs),
        )
        whole = np.zeros(n_items * columns.width, dtype=np.int64)
        count_items(lists, users, cutoffs, *columns.weights(depth), room, whole)
        items = np.flatnonzero(room.last >= 0).astype(np.int32)
        counts = whole.reshape(n_items, columns.width)[items]
        np.cumsum(counts[:, :n], axis=1, out=counts[:, :n])
        for way in range(len(columns.attentions)):
            words = counts[:, n + 2 * n * way : n + 2 * n * (way + 1)].reshape(-1, n, 2)
            counts[:, n + 2 * n * way : n + 2 * n * (way + 1)] = words.cumsum(axis=1).reshape(
                -1, 2 * n
            )
        return cls(items, counts, users.size)

    def merge(self, other: "Counted") -> None:
        """Add what other users are shown."""
        self._add(other, 1)

    def without(self, other: "Counted") -> "Counted":
        """What is left without some of the users."""
        left = Counted(self.items, self.counts, self.n_users)
        left._add(other, -1)
        return left

    def _add(self, other: "Counted", sign: int) -> None:
        items = np.union1d(self.items, other.items).astype(np.int32)
        counts = np.zeros((items.size, self.counts.shape[1]), dtype=np.int64)
        counts[np.searchsorted(items, self.items)] = self.counts
        counts[np.searchsorted(items, other.items)] += sign * other.counts
        self.items, self.counts = items, counts
        self.n_users += sign * other.n_users

    def renamed(self, codes: npt.NDArray[np.int32]) -> "Counted":
        """The same with other codes of items."""
        items = codes[self.items]
        order = np.argsort(items)
        return Counted(items[order], self.counts[order], self.n_users)
