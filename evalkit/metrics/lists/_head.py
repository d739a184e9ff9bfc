# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Head and tail: the most popular items, and all others."""

import numpy as np

from evalkit.metrics import choice, number, of_items

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
