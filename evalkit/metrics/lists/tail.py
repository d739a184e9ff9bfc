# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Head and tail: the most popular items, all others, and how many of these lists show."""

import math

import numpy as np

from evalkit.metrics import choice, kernel, list_metric, number, of_items
from evalkit.metrics.lists._means import mean_over_list

HEAD = (
    choice(
        "head",
        {
            "interactions": "the most popular ones that together have a share of the interactions, "
            "and all that are tied with the last one",
            "first": "the same, but of tied items those that train has first",
            "items": "all but a share of the items of train, the least popular, of tied ones those "
            "with the smaller id",
            "count": "those with more users than a number",
        },
        doc="Which items are the head. Items that train lacks are tail of 'interactions' alone.",
    ),
    number("ratio", 0.8, above=0.0, doc="The share, or the number, that `head` speaks of."),
)


@of_items
def is_tail(values, items):
    """float64[n_items]: 1 for the items of the tail."""
    counts, ratio = items.popularity, float(values["ratio"])
    if values["head"] == "count":
        return ((counts <= ratio) & (counts > 0)).astype(np.float64)
    if values["head"] == "items":
        seen = np.flatnonzero(counts > 0)
        ascending = seen[np.lexsort((items.order[seen], counts[seen]))]
        tail = np.zeros(counts.size)
        tail[ascending[: int(ratio * ascending.size)]] = 1.0
        return tail
    is_first = values["head"] == "first" and items.first_rows is not None
    order = np.lexsort((items.first_rows if is_first else items.order, -counts))
    so_far = np.cumsum(counts[order])
    whole = float(so_far[-1]) if order.size else 0.0
    reached = int(np.searchsorted(so_far, ratio * whole, "left"))
    last = min(reached, order.size - 1)
    if values["head"] == "interactions":
        return ((counts < counts[order[last]]) | (counts == 0)).astype(np.float64)
    tail = np.ones(counts.size)
    tail[order[: last + 1]] = 0.0
    tail[counts == 0] = 0.0
    return tail


def tables(values, context):
    """1 for each item of the tail."""
    return (is_tail(values, context.items),)


@list_metric(
    name="tail_count",
    aliases=("ACLT", "average_coverage_of_long_tail_items"),
    summary="How many of the shown items are in the long tail of train.",
    formula="items of the list outside the head",
    latex=r"\sum_{i \in L} [i \notin head]",
    source="Abdollahpouri et al. 2019, Managing popularity bias in recommender systems with "
    "personalized re-ranking, 5",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    parameters=HEAD,
    needs=("train",),
    most=lambda values, cutoff: cutoff,
    tables=tables,
)
@kernel(allocates=False)
def tail_count(lists, within, cutoffs, tail, head, ratio, out):
    """How many of the first items are in the tail."""
    for user in range(out.shape[0]):
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                total += tail[lists.items[begin + place]]
                place += 1
            out[user, column] = total if place > 0 else math.nan


@list_metric(
    name="tail_share",
    aliases=("APLT", "average_percentage_of_long_tail_items", "tail_percentage"),
    summary="Share of the shown items that are in the long tail of train.",
    formula="items of the list outside the head / items of the list",
    latex=r"\frac{1}{n} \sum_{i \in L} [i \notin head]",
    source="Abdollahpouri et al. 2017, Controlling popularity bias in learning-to-rank "
    "recommendation, p. 44",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    parameters=HEAD,
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def tail_share(lists, within, cutoffs, tail, head, ratio, out):
    """Share of the first items that are in the tail."""
    mean_over_list(lists, within, cutoffs, tail, 0, out)
