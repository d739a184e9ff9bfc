# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Serendipity: what of a list is relevant and not expected."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, Lists, choice, kernel, list_metric
from evalkit.metrics.lists._expected import (
    POPULAR,
    REFERENCE,
    begin_user,
    end_user,
    needs_of,
    popular_rank,
)
from evalkit.metrics.lists._expected import tables as tables_of
from evalkit.metrics.lists._find import NOBODY, stands_in
from evalkit.metrics.lists._pairs import features

LIST, ALL = 0, 2


def needs(values):
    """Right answers, and a reference or vectors."""
    if values["of"] == "list":
        return ("relevant", *needs_of(values))
    return (
        str(values["features"]),
        "history",
        *(["relevant"] if values["of"] == "content" else []),
    )


def tables(values, context):
    """Right answers, then what is expected, or train rows in order of ids, and vectors."""
    nothing = (np.zeros((0, 0)), np.zeros(0))
    if values["of"] == "list":
        return context.relevant, *tables_of(values, context), *nothing
    history = context.history
    user = np.repeat(np.arange(history.lengths.size), history.lengths)
    begins = np.cumsum(history.lengths) - history.lengths
    rows = np.repeat(history.starts - begins, history.lengths) + np.arange(user.size)
    items = history.items[rows]
    ordered = Lists(begins, history.lengths, items[np.lexsort((context.items.order[items], user))])
    is_genres = values["features"] == "genres"
    some = features({"distance": "cosine_genres" if is_genres else "cosine"}, context.items)
    places = np.zeros(context.items.order.size, dtype=np.int64)
    norms = np.where(some.state < 0, -1.0, some.norms)
    relevant = NOBODY if values["of"] == "content_all" else context.relevant
    return relevant, NOBODY, ordered, places, some.rows, norms


@kernel(allocates=False)
def add_units(history, user, rows, norms, sums):
    """Fill `sums` with the unit vectors of the user's train rows; how many have a vector."""
    sums[:] = 0.0
    n, begin = 0, history.starts[user]
    for place in range(begin, begin + history.lengths[user]):
        item = history.items[place]
        n += norms[item] >= 0.0
        if norms[item] > 0.0:
            for column in range(sums.size):
                sums[column] += rows[item, column] / norms[item]
    return n


@kernel(allocates=False)
def mean_cosine(rows, norms, item, sums, n):
    """Mean cosine of an item to those whose unit vectors were added."""
    if norms[item] <= 0.0:
        return 0.0
    total = 0.0
    for column in range(sums.size):
        total += sums[column] * rows[item, column]
    return total / (norms[item] * n)


@list_metric(
    name="serendipity",
    summary="Share of the shown items that are relevant and not expected.",
    formula="hits of the list outside the first k of the reference / items of the list",
    latex=r"\frac{|(L \cap R) \setminus E|}{n}",
    source="Ge et al. 2010, Beyond accuracy, p. 259; Zhang et al. 2012, Auralist: introducing "
    "serendipity into music recommendation, p. 16 ('content')",
    bounds=(0.0, 2.0),
    undefined="for a user without relevant items; of contents without train rows",
    parameters=(
        choice(
            "of",
            {
                "list": "hits count that the reference does not show",
                "content": "hits count 1 less their mean cosine to the user's train rows",
                "content_all": "every shown item counts as such a hit",
            },
            doc="What is not expected.",
        ),
        REFERENCE,
        choice(
            "features",
            {"vector": "vectors", "genres": "genres, as vectors of 0 and 1"},
            doc="What the cosine is taken of.",
        ),
    ),
    needs=needs,
    tables=tables,
)
@kernel
def serendipity(
    lists,
    within,
    cutoffs,
    relevant,
    expected,
    history,
    places,
    rows,
    norms,
    of,
    reference,
    features,
    out,
):
    """Mean over the first items of what each hit counts."""
    marks = np.zeros(places.size, dtype=np.int32)
    sums, totals = np.zeros(rows.shape[1]), np.zeros(out.shape[1])
    for user in range(out.shape[0]):
        if of == LIST:
            is_there, n_known = begin_user(reference, expected, user, marks), 0
        else:
            n_known = add_units(history, user, rows, norms, sums)
            is_there = n_known > 0
        begin, n = lists.starts[user], lists.lengths[user]
        totals[:] = 0.0
        for place in range(within[user, out.shape[1] - 1]):
            item = lists.items[begin + place]
            if of != ALL and not stands_in(relevant, user, item):
                continue
            rank, worth = 0, 1.0
            if of != LIST:
                worth = 0.0
                if n_known > 0 and norms[item] >= 0.0:
                    worth = 1.0 - mean_cosine(rows, norms, item, sums, n_known)
            elif reference == POPULAR:
                rank = popular_rank(history, user, item, places)
            else:
                rank = marks[item]
            for column in range(out.shape[1]):
                depth = n if cutoffs[column] == NO_CUTOFF else cutoffs[column]
                if place < within[user, column] and not 0 < rank <= depth:
                    totals[column] += worth
        for column in range(out.shape[1]):
            n = within[user, column]
            is_known = n > 0 and is_there and (of == ALL or relevant.lengths[user] > 0)
            out[user, column] = totals[column] / n if is_known else math.nan
            n = lists.lengths[user]
        if of == LIST:
            end_user(reference, expected, user, marks)
