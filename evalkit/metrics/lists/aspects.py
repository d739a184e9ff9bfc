# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Gain of genres that a user wants: alpha-nDCG, ERR-IA and NRBP."""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from evalkit.metrics import Lists, choice, kernel, list_metric, log2, number
from evalkit.metrics.lists._find import stands_in
from evalkit.metrics.lists.genres import BY, Sets, needs_of, only, sets

GREEDY, OWN, ONES, EVERY, NONE, EVERY_LATER = range(6)
RELEVANT, HISTORY, OF_RELEVANT = 0, 1, 1
HITS, SHOWN = 0, 1
REMOVED = 1
LOG2, RECIPROCAL = 0.0, 1.0  # discounts; between them the base of a geometric one
FEW = 32  # items that are all looked at
ALPHA = number("alpha", 0.5, above=0.0, below=1.0, doc="What a genre loses by each hit it has had.")


def needs(values):
    """Genres, and right answers or a history."""
    return (*needs_of(values), "history" if values.get("aspects") == "history" else "relevant")


class Aspects(NamedTuple):
    """Categories of items, who wants what, in which order equal gains are taken, what is known."""

    sets: Sets
    relevant: Lists
    text_order: Any
    is_known: Any


def tables(values, context):
    """What the kernel is given beside the lists."""
    is_history = values.get("aspects") == "history"
    wanted = context.history if is_history else context.relevant
    items = context.items
    own = sets(only(values, "by"), items)
    return (Aspects(own, wanted, items.text_order, items.is_listed),)


@kernel(allocates=False)
def discounted(rank, discount):
    """What a gain at a rank is worth."""
    if 0.0 < discount < 1.0:
        return discount ** (rank - 1.0)
    return 1.0 / log2(1.0 + rank) if discount == LOG2 else 1.0 / rank


@kernel(allocates=False)
def mark_of(item):
    """One bit of 64, by an item."""
    return np.uint64(1) << np.uint64(item & 63)


@kernel(allocates=False)
def select_rows(items, filters, found):
    """Places of items that pass two filters of bits, into `found`; how many do."""
    n, one = np.int64(0), np.uint64(1)
    marks, more_marks = filters
    for place in range(items.size):  # without a branch, which would be guessed wrong
        item = np.uint64(items[place])
        passes = (marks >> (item & np.uint64(63))) & (
            more_marks >> (item >> np.uint64(6) & np.uint64(63))
        )
        found[n] = place
        n += np.int64(passes & one)
    return n


@kernel(allocates=False)
def gain_of(sets, which, worth):
    """The sum of what the categories of a set are still worth."""
    begin, total = sets.begins[which], 0.0
    for each in range(sets.width if sets.width > 0 else sets.sizes[which]):
        total += worth[sets.members[begin + each]]
    return total


@kernel(allocates=False)
def lose(sets, which, alpha, worth):
    """Every category of the set is worth less from now on."""
    begin = sets.begins[which]
    for each in range(sets.width if sets.width > 0 else sets.sizes[which]):
        worth[sets.members[begin + each]] *= 1.0 - alpha


class RemainingItems(NamedTuple):
    """Relevant items of a user that no ideal list has yet; room for those of the largest one.

    `kinds` int32: the set of categories of each; `orders`: places of the ids as text; `hopes`: the
    gain when it was looked at last, which only falls.
    """

    kinds: Any
    orders: Any
    hopes: Any


@kernel(allocates=False)
def next_best(n, left, sets, worth):
    """The place of the item of most gain, of equal ones the last id as text; and the gain.

    Args:
        n: items that are left.
    """
    best, most, last = -1, 0.0, np.int64(-1)
    for place in range(n):
        if n > FEW and left.hopes[place] < most:
            continue
        left.hopes[place] = gain = gain_of(sets, left.kinds[place], worth)
        order = left.orders[place]
        is_better = (gain > most) | ((gain == most) & (order > last))
        best = place if is_better else best  # no branch, which would be guessed wrong
        most = gain if is_better else most
        last = order if is_better else last
    return best, most


@kernel(allocates=False)
def take(place, n, left):
    """Put the last of n items into the place of one that is taken; what that one was."""
    kind = left.kinds[place]
    left.kinds[place], left.orders[place] = left.kinds[n - 1], left.orders[n - 1]
    left.hopes[place] = left.hopes[n - 1]
    return kind


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
    lists, within, cutoffs, context, alpha, discount, aspects, ideal, penalty, unknown, out
):
    """Fill `out` with discounted gains over those of the ideal, or over the genres wanted."""
    # Wide: what a metric of its kind is given, and its own parameters.
    sets, relevant = context.sets, context.relevant
    n_categories, of_items = sets.n_categories, sets.of_items
    # Long: one walk down the list beside one along its ideal, which share their state.
    worth, best_worth = np.zeros(n_categories + 1), np.zeros(n_categories + 1)
    longest = most = 0
    for user in range(out.shape[0]):
        longest = max(longest, within[user, out.shape[1] - 1])
        most = max(most, relevant.lengths[user])
    gains, ordered = np.empty(longest), np.empty(longest)
    found = np.empty(longest + 1, dtype=np.int64)
    looks_at_all = aspects == HISTORY or penalty == SHOWN or unknown == REMOVED
    left = RemainingItems(
        np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int64), np.empty(most)
    )
    discounts = np.empty(max(longest, most) + 1)
    for rank in range(1, discounts.size):
        discounts[rank] = discounted(rank, discount)
    for user in range(out.shape[0]):
        first, n_relevant = relevant.starts[user], relevant.lengths[user]
        worth[:] = 0.0
        best_worth[:n_categories] = 1.0
        n_wanted = 0
        marks = more_marks = np.uint64(0)  # they turn away most of what no relevant item is
        for place in range(n_relevant):
            item = relevant.items[first + place]
            marks |= mark_of(item)
            more_marks |= mark_of(item >> 6)
            which = of_items[item]
            left.kinds[place], left.orders[place] = which, context.text_order[item]
            left.hopes[place] = sets.sizes[which]
            for position in range(sets.begins[which], sets.begins[which] + sets.sizes[which]):
                n_wanted += worth[sets.members[position]] == 0.0
                worth[sets.members[position]] = 1.0  # what nobody wants is worth nothing
        begin, place, n_removed, n_best = lists.starts[user], 0, 0, 0
        total, best = 0.0, 0.0
        if looks_at_all:
            marks = more_marks = ~np.uint64(0)
        filters = marks, more_marks
        if ideal == OWN:
            gains[:] = 0.0
        every = float(n_wanted)
        for column in range(out.shape[1]):
            n_found = select_rows(
                lists.items[begin + place : begin + within[user, column]], filters, found
            )
            for index in range(n_found):
                item = lists.items[begin + place + found[index]]
                if unknown == REMOVED and not context.is_known[item]:
                    n_removed += 1
                    continue
                is_hit = aspects == HISTORY or stands_in(relevant, user, item)
                if is_hit:
                    rank = place + found[index] - n_removed
                    gains[rank] = gain_of(sets, of_items[item], worth)
                    total += gains[rank] * discounts[rank + 1]
                if is_hit or penalty == SHOWN:
                    lose(sets, of_items[item], alpha, worth)
            place = max(place, within[user, column])
            rank = place - n_removed
            below = 1.0
            if ideal == GREEDY:
                while n_best < min(cutoffs[column], n_relevant):
                    n_left = n_relevant - n_best
                    place_of_best, gain = next_best(n_left, left, sets, best_worth)
                    lose(sets, take(place_of_best, n_left, left), alpha, best_worth)
                    n_best += 1
                    best += gain * discounts[n_best]
                below = best
            elif ideal == EVERY or ideal == EVERY_LATER:
                depth = cutoffs[column] if cutoffs[column] < NO_END else place
                if depth < n_best:  # the whole list is shorter than a cutoff
                    n_best, best, every = 0, 0.0, float(n_wanted)
                while n_best < depth:
                    n_best += 1
                    best += every * discounted(n_best, discount)
                    every *= 1.0 - alpha
                below = best if ideal == EVERY or depth > 1 else 1.0
            elif ideal == OWN:
                below = 0.0
                sort_descending(gains, rank, ordered)
                for each in range(rank):
                    below += ordered[each] * discounts[each + 1]
            elif ideal == ONES:
                below, turns = 0.0, place // max(n_categories, 1)
                for at in range(place):
                    is_whole = at < turns * n_categories
                    worth_of = 1.0 if is_whole else (1.0 - alpha) ** turns
                    below += discounted(at + 1, discount) * worth_of
            elif discount != LOG2:
                below = float(n_wanted)
            has_none = n_wanted == 0
            if ideal == ONES:
                has_none = n_relevant == 0 or place == 0
            if has_none or (unknown == REMOVED and rank == 0):
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
aspect_metric = partial(
    list_metric,
    source="Chapelle et al. 2011, Intent-based diversification of web search results, p. 577; "
    "Agrawal et al. 2009, Diversifying search results, p. 9",
    bounds=(0.0, math.inf),
    undefined="where no relevant item has a genre",
    needs=needs,
    tables=tables,
)


@aspect_metric(
    name="alpha_ndcg",
    aliases=("alpha_dcg(ideal='every')",),
    summary="Discounted gain of genres, each worth less with every hit it has had, of the ideal's.",
    formula="sum of sum over genres of (1 - alpha)^(earlier hits with it) / log2(1 + rank) / ideal",
    latex=r"\frac{\sum_{i} \frac{r_i}{\log_2(1 + i)} \sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}}"
    r"{\text{ideal}}",
    source="Clarke et al. 2008, Novelty and diversity in information retrieval evaluation, p. 663",
    parameters=(
        BY,
        ALPHA,
        ASPECTS,
        choice(
            "ideal",
            {
                "greedy": "the relevant items, always the one of most gain next",
                "own": "the list's own gains, the largest first",
                "ones": "of as many items: gain 1 while all genres fit in turn, then 1 - alpha to "
                "the power of these turns; whose relevant items have no genre has 0",
                "every": "items that have every wanted genre",
                "none": "nothing: the gain itself",
                "every_later": "as every, but nothing at rank 1",
            },
            doc="What the gain is divided by.",
        ),
        PENALTY,
        UNKNOWN,
    ),
)
@kernel
def alpha_ndcg(lists, within, cutoffs, context, alpha, aspects, ideal, penalty, unknown, out):
    """Gain of the list over that of the ideal."""
    measure(lists, within, cutoffs, context, alpha, LOG2, aspects, ideal, penalty, unknown, out)


@aspect_metric(
    name="err_ia",
    summary="Gain of genres over the rank, each worth less with every hit that it has had.",
    formula="sum of sum over genres of (1 - alpha)^(earlier hits with it) / rank, over genres of R",
    latex=r"\frac{1}{|G(R)|} \sum_{i} \frac{r_i}{i} \sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}",
    parameters=(
        BY,
        ALPHA,
        choice(
            "norm",
            {
                "genres": "the genres of the relevant items",
                "every": "the gain of items that have all of them",
                "every_later": "the same, but nothing at rank 1",
            },
            doc="What the gain is divided by.",
        ),
    ),
)
@kernel
def err_ia(lists, within, cutoffs, context, alpha, norm, out):
    """Gain of the list over its ranks."""
    ideal = (NONE, EVERY, EVERY_LATER)[norm]
    measure(lists, within, cutoffs, context, alpha, RECIPROCAL, 0, ideal, 0, 0, out)


@aspect_metric(
    name="nerr_ia",
    summary="ERR-IA as a share of that of the ideal list.",
    formula="ERR-IA / ERR-IA of the relevant items, always the one of most gain next",
    latex=r"\frac{\text{ERR-IA}}{\text{ERR-IA}^*}",
    parameters=(BY, ALPHA),
)
@kernel
def nerr_ia(lists, within, cutoffs, context, alpha, out):
    """Gain of the list over its ranks."""
    measure(lists, within, cutoffs, context, alpha, RECIPROCAL, 0, GREEDY, 0, 0, out)


@aspect_metric(
    name="NRBP",
    aliases=("nNRBP(norm='ideal')",),
    summary="Gain of genres by who looks so far, each worth less with every hit that it has had.",
    formula="(1 - (1 - alpha) beta) / genres of R * sum over ranks r of beta^(r - 1) * sum over "
    "genres of (1 - alpha)^(earlier hits with it)",
    latex=r"\frac{1 - (1 - \alpha) \beta}{|G(R)|} \sum_{i} r_i \beta^{i - 1} "
    r"\sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}",
    source="Clarke, Kolla and Vechtomova 2009, An effectiveness measure for ambiguous and "
    "underspecified queries, ICTIR, p. 193",
    parameters=(
        BY,
        ALPHA,
        number("beta", 0.5, above=0.0, below=1.0, doc="Who looks one rank further."),
        choice(
            "norm",
            {
                "every": "the gain of an endless list of items that have all wanted genres",
                "ideal": "the gain of the relevant items, always the one of most gain next",
            },
            doc="What the gain is divided by.",
        ),
    ),
)
@kernel
def nrbp(lists, within, cutoffs, context, alpha, beta, norm, out):
    """Gain of the list by its ranks; an endless list of all genres gains 1."""
    measure(
        lists, within, cutoffs, context, alpha, beta, 0, NONE if norm == 0 else GREEDY, 0, 0, out
    )
    if norm == 0:
        for user in range(out.shape[0]):
            for column in range(out.shape[1]):
                out[user, column] *= 1.0 - (1.0 - alpha) * beta
