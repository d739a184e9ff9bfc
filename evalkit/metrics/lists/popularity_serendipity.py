# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Serendipity as RecTools has it: hits that stand above what their popularity promises."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric, of_items
from evalkit.metrics.lists._find import stands_in


@of_items
def dense_ranks(values, items):
    """int64[n_items]: ranks by users of train, tied ones alike, without gaps; 0: not in train."""
    counts = items.popularity
    different = np.unique(counts[counts > 0])
    return np.where(counts > 0, different.size - np.searchsorted(different, counts), 0)


def tables(values, context):
    """Right answers, the rank of each item by popularity, and how many items there are."""
    items = context.items
    return context.relevant, dense_ranks({}, items), int(items.is_listed.sum())


@list_metric(
    name="popularity_serendipity",
    summary="How far hits stand above what the popularity of their items promises.",
    formula="sum over hits of max(0, 1 - r / m - share of popularity) / items of the list, where "
    "r counts from 0 and the share is (m + 1 - rank by popularity) / m, 0 for an item new to train",
    latex=r"\frac{1}{n} \sum_{i} r_i \max\left(0, \frac{m + 1 - i}{m} - "
    r"\frac{m + 1 - pop(i)}{m}\right)",
    source="RecTools 0.19, metrics/serendipity.py; Ge et al. 2010, Beyond accuracy, p. 259",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    needs=("train", "relevant", "items"),
    tables=tables,
)
@kernel(allocates=False)
def popularity_serendipity(lists, within, cutoffs, relevant, ranks, n_items, out):
    """Mean over the first items; of m items the least popular one has at most rank m."""
    for user in range(out.shape[0]):
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                if stands_in(relevant, user, item):
                    worth = (n_items - place) / n_items
                    if ranks[item] > 0:
                        worth -= (n_items + 1 - ranks[item]) / n_items
                    total += max(0.0, worth)
                place += 1
            out[user, column] = total / place if place > 0 else math.nan
