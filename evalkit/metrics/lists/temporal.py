# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Temporal diversity and novelty: what of a list earlier lists lack."""

import math
from functools import partial

import numpy as np

from evalkit.metrics import Lists, kernel, list_metric


def joined(several):
    """All lists of each user as one row, and the rank of each of its items."""
    users = np.concatenate([np.repeat(np.arange(e.lengths.size), e.lengths) for e in several])
    places = [each.starts.repeat(each.lengths) for each in several]
    ranks = [
        np.arange(each.lengths.sum())
        - np.repeat(np.cumsum(each.lengths) - each.lengths, each.lengths)
        for each in several
    ]
    items = [e.items[start + rank] for e, start, rank in zip(several, places, ranks, strict=True)]
    order = np.argsort(users, kind="stable")
    lengths = np.sum([each.lengths for each in several], axis=0)
    lists = Lists(np.cumsum(lengths) - lengths, lengths, np.concatenate(items)[order])
    return lists, np.concatenate(ranks)[order] + 1


def earlier_of(context, several):
    """Earlier items of each user, their ranks, and how many items there are."""
    return *joined(several), context.items.popularity.size


new_metric = partial(
    list_metric,
    bounds=(0.0, 1.0),
    undefined="for a user without an earlier list",
    higher_is_better=None,
    needs=("earlier",),
)


@kernel
def share_of_new(lists, within, cutoffs, earlier, ranks, n_items, out):
    """Fill `out` with the share of each list that the first ranks of no earlier list show."""
    marks = np.zeros(n_items, dtype=np.int32)
    n_cutoffs = out.shape[1]
    counts = np.zeros(n_cutoffs)
    for user in range(out.shape[0]):
        begin, first = lists.starts[user], earlier.starts[user]
        n = earlier.lengths[user]
        for place in range(first, first + n):
            item = earlier.items[place]
            if marks[item] == 0 or ranks[place] < marks[item]:
                marks[item] = ranks[place]
        for column in range(n_cutoffs):
            counts[column] = 0.0
        for place in range(within[user, n_cutoffs - 1]):
            rank = marks[lists.items[begin + place]]
            for column in range(n_cutoffs):
                shows = place < within[user, column]
                counts[column] += shows and (rank == 0 or rank > cutoffs[column])
        for column in range(n_cutoffs):
            is_there = n > 0 and within[user, column] > 0
            out[user, column] = counts[column] / within[user, column] if is_there else math.nan
        for place in range(first, first + n):
            marks[earlier.items[place]] = 0


@new_metric(
    name="temporal_diversity",
    aliases=("lathia_diversity",),
    summary="Share of the list that the model's list before did not show.",
    formula="items of the list that are not in the list before / items of the list",
    latex=r"\frac{|L_t \setminus L_{t-1}|}{n}",
    source="Lathia et al. 2010, Temporal diversity in recommender systems, p. 215",
    tables=lambda values, context: earlier_of(context, context.earlier[:1]),
)
@kernel
def temporal_diversity(lists, within, cutoffs, earlier, ranks, n_items, out):
    """Share of the first items that the first ranks before did not show."""
    share_of_new(lists, within, cutoffs, earlier, ranks, n_items, out)


@new_metric(
    name="temporal_novelty",
    aliases=("lathia_novelty",),
    summary="Share of the list that none of the model's earlier lists showed.",
    formula="items of the list that are in no earlier list / items of the list",
    latex=r"\frac{|L_t \setminus \bigcup_{s<t} L_s|}{n}",
    source="Lathia et al. 2010, Temporal diversity in recommender systems, p. 216",
    tables=lambda values, context: earlier_of(context, context.earlier),
)
@kernel
def temporal_novelty(lists, within, cutoffs, earlier, ranks, n_items, out):
    """Share of the first items that the first ranks before did not show."""
    share_of_new(lists, within, cutoffs, earlier, ranks, n_items, out)
