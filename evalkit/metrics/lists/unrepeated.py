# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Share of a list that shows no item again."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric


def tables(values, context):
    """How many items there are."""
    return (context.items.popularity.size,)


@list_metric(
    name="unrepeated",
    aliases=("unrepeated_reco",),
    summary="Different items of the list, over its items.",
    formula="different items of the list / items of the list",
    latex=r"\frac{|\{i \in L\}|}{n}",
    source="Herlocker et al. 2004, Evaluating collaborative filtering recommender systems, p. 40",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    tables=tables,
)
@kernel
def unrepeated(lists, within, cutoffs, n_items, out):
    """Different items up to each cutoff, over the items."""
    is_shown = np.zeros(n_items, dtype=np.bool_)
    for user in range(out.shape[0]):
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                n += not is_shown[item]
                is_shown[item] = True
                place += 1
            out[user, column] = n / place if place > 0 else math.nan
        for each in range(begin, begin + place):
            is_shown[lists.items[each]] = False
