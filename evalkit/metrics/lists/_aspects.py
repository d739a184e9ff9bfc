# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Gains of hits by genres that fall with every hit that a genre has had, and their ideal."""

import math
from typing import Any, NamedTuple

import numpy as np

from evalkit.metrics import Lists, choice, kernel, log2, number
from evalkit.metrics.lists._categories import categories, needs_of, only
from evalkit.metrics.lists._find import stands_in

__all__ = ["ALPHA", "ASPECTS", "PENALTY", "measure", "needs", "tables"]

GREEDY, OWN, ONES, EVERY, NONE = range(5)
RELEVANT, HISTORY, OF_RELEVANT = 0, 1, 1
HITS, SHOWN = 0, 1
REMOVED = 1
LOG2, RECIPROCAL = 0, 1
ALPHA = number("alpha", 0.5, above=0.0, below=1.0, doc="What a genre loses by each hit it has had.")


def needs(values):
    """Genres, and right answers or a history."""
    return (*needs_of(values), "history" if values.get("aspects") == "history" else "relevant")


class Aspects(NamedTuple):
    """Categories of items, who wants what, in which order equal gains are taken, what is known."""

    starts: Any
    codes: Any
    n_categories: int
    relevant: Lists
    text_order: Any
    is_known: Any


def tables(values, beside):
    """What the kernel is given beside the lists."""
    is_history = values.get("aspects") == "history"
    starts, codes, n = categories(only(values, "by"), beside.items)
    wanted = beside.history if is_history else beside.relevant
    items = beside.items
    return (Aspects(starts, codes, n, wanted, items.text_order, items.is_listed),)


@kernel(allocates=False)
def discounted(rank, discount):
    """What a gain at a rank is worth."""
    return 1.0 / log2(1.0 + rank) if discount == LOG2 else 1.0 / rank


@kernel(allocates=False)
def mark_of(item):
    """One bit of 64, by an item."""
    return np.uint64(1) << np.uint64(item & 63)


@kernel(allocates=False)
def gain_of(starts, codes, item, wanted, worth):
    """The sum of what the item's genres are still worth."""
    total = 0.0
    for each in range(starts[item], starts[item + 1]):
        if wanted[codes[each]]:
            total += worth[codes[each]]
    return total


@kernel(allocates=False)
def lose(starts, codes, item, alpha, worth):
    """Every genre of the item is worth less from now on."""
    for each in range(starts[item], starts[item + 1]):
        worth[codes[each]] *= 1.0 - alpha


@kernel(allocates=False)
def next_best(items, starts, codes, wanted, worth, hopes, orders):
    """The place of the item of most gain, of equal ones the last id as text; and the gain.

    Args:
        hopes: of each item the gain when it was looked at last, which only falls; -1: is taken.
        orders: places of the ids as text.
    """
    best, most, last = -1, 0.0, np.int64(-1)
    for place in range(items.size):
        if hopes[place] < most:
            continue
        gain = gain_of(starts, codes, items[place], wanted, worth)
        hopes[place] = gain
        if gain > most or (gain == most and orders[place] > last):
            best, most, last = place, gain, orders[place]
    return best, most


@kernel(allocates=False)
def sort_descending(gains, n, ordered):
    """Put the first gains in order, the largest first, into `ordered`."""
    for place in range(n):
        gain, at = gains[place], place
        while at > 0 and ordered[at - 1] < gain:
            ordered[at] = ordered[at - 1]
            at -= 1
        ordered[at] = gain


@kernel
def measure(
    lists,
    within,
    cutoffs,
    beside,
    alpha,
    discount,
    aspects,
    ideal,
    penalty,
    unknown,
    out,
):
    """Fill `out` with discounted gains over those of the ideal, or over the genres wanted."""
    # Wide: what a metric of its kind is given, and its own parameters.
    starts, codes, n_categories = beside.starts, beside.codes, beside.n_categories
    relevant, text_order = beside.relevant, beside.text_order
    # Long: one walk down the list beside one along its ideal, which share their state.
    wanted = np.zeros(n_categories, dtype=np.bool_)
    worth, best_worth = np.ones(n_categories), np.ones(n_categories)
    longest = most = 0
    for user in range(out.shape[0]):
        longest = max(longest, within[user, out.shape[1] - 1])
        most = max(most, relevant.lengths[user])
    gains, ordered = np.empty(longest), np.empty(longest)
    hopes, orders = np.empty(most), np.empty(most, dtype=np.int64)
    discounts = np.empty(max(longest, most) + 1)
    for rank in range(1, discounts.size):
        discounts[rank] = discounted(rank, discount)
    for user in range(out.shape[0]):
        first, n_relevant = relevant.starts[user], relevant.lengths[user]
        wanted[:] = False
        worth[:] = 1.0
        best_worth[:] = 1.0
        n_wanted = 0
        marks = more_marks = np.uint64(0)  # they turn away most of what no relevant item is
        own = relevant.items[first : first + n_relevant]
        for place in range(n_relevant):
            item = own[place]
            marks |= mark_of(item)
            more_marks |= mark_of(item >> 6)
            hopes[place], orders[place] = starts[item + 1] - starts[item], text_order[item]
            for each in range(starts[item], starts[item + 1]):
                n_wanted += not wanted[codes[each]]
                wanted[codes[each]] = True
        begin, place, rank, n_best, total, best = lists.starts[user], 0, 0, 0, 0.0, 0.0
        every = float(n_wanted)
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                place += 1
                if unknown == REMOVED and not beside.is_known[item]:
                    continue
                is_hit = aspects == HISTORY
                if not is_hit and marks & mark_of(item) and more_marks & mark_of(item >> 6):
                    is_hit = stands_in(relevant, user, item)
                gains[rank] = 0.0
                if is_hit:
                    gains[rank] = gain_of(starts, codes, item, wanted, worth)
                    total += gains[rank] * discounts[rank + 1]
                if is_hit or penalty == SHOWN:
                    lose(starts, codes, item, alpha, worth)
                rank += 1
            below = 1.0
            if ideal == GREEDY:
                while n_best < min(cutoffs[column], n_relevant):
                    which, gain = next_best(
                        own, starts, codes, wanted, best_worth, hopes[:n_relevant], orders
                    )
                    hopes[which] = -1.0
                    lose(starts, codes, own[which], alpha, best_worth)
                    n_best += 1
                    best += gain * discounts[n_best]
                below = best
            elif ideal == EVERY:
                depth = cutoffs[column] if cutoffs[column] < NO_END else place
                if depth < n_best:  # the whole list is shorter than a cutoff
                    n_best, best, every = 0, 0.0, float(n_wanted)
                while n_best < depth:
                    n_best += 1
                    best += every * discounted(n_best, discount)
                    every *= 1.0 - alpha
                below = best
            elif ideal == OWN:
                below = 0.0
                sort_descending(gains, rank, ordered)
                for each in range(rank):
                    below += ordered[each] * discounts[each + 1]
            elif ideal == ONES:
                depth = cutoffs[column] if cutoffs[column] < NO_END else place
                below = 0.0
                for each in range(depth):
                    turns = each // n_categories
                    below += discounted(each + 1, discount) * (1.0 - alpha) ** turns
            elif discount == RECIPROCAL:
                below = float(n_wanted)
            if n_wanted == 0 or (unknown == REMOVED and rank == 0):
                out[user, column] = math.nan
            else:
                out[user, column] = total / below if below > 0.0 else 0.0


NO_END = 1 << 60

ASPECTS = choice(
    "aspects",
    {
        "relevant": "genres of the relevant items, which alone gain",
        "history": "genres of the user's train rows; every shown item gains",
    },
    doc="Which genres a user wants.",
)
PENALTY = choice(
    "penalty",
    {"hits": "hits that show it", "shown": "all shown items that have it"},
    doc="What a genre loses by.",
)
UNKNOWN = choice(
    "unknown",
    {"kept": "keeps its rank", "removed": "is removed behind the cut, and those below move up"},
    doc="An item that the table of items lacks.",
)
DECLARED: dict[str, Any] = {
    "bounds": (0.0, math.inf),
    "undefined": "where no relevant item has a genre",
    "needs": needs,
    "tables": tables,
}
OF_ERR: dict[str, Any] = {
    **DECLARED,
    "source": "Chapelle et al. 2011, Intent-based diversification of web search results, p. 577; "
    "Agrawal et al. 2009, Diversifying search results, p. 9",
}
