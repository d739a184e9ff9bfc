# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Serendipity and unexpectedness: what of a list a user would not expect."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, Lists, choice, kernel, list_metric, of_items
from evalkit.metrics.lists._find import NOBODY, stands_in
from evalkit.metrics.lists._means import DEN, OVER_K
from evalkit.metrics.lists.distances import features
from evalkit.metrics.lists.two_lists import clear, mark

POPULAR = 0
REFERENCE = choice(
    "reference",
    {
        "popular": "the most popular items that the user does not have in train",
        "model": "the lists of the model, or of the files, that `reference` names",
    },
    doc="What is expected; as many items of it are looked at as of the list.",
)


def needs_of_reference(values):
    """A reference, or train."""
    return ("reference",) if values["reference"] == "model" else ("train", "history")


@of_items
def by_popularity(values, items):
    """int64[n_items]: places by users in train, of tied ones the smaller id first."""
    places = np.empty(items.popularity.size, dtype=np.int64)
    order = np.lexsort((items.order, -items.popularity))
    places[order] = np.arange(order.size)
    places[items.popularity == 0] = order.size + 1  # nobody expects what train lacks
    return places


def expected_items(values, context):
    """Lists of the reference, train rows, and the place of each item by popularity."""
    if values["reference"] == "model":
        return context.reference, NOBODY, np.zeros(context.items.order.size, dtype=np.int64)
    return NOBODY, context.history, by_popularity({}, context.items)


@kernel(allocates=False)
def popular_rank(history, user, item, places):
    """The rank of an item among the most popular ones that the user does not have; 0 for none."""
    place = places[item]
    if place > places.size or stands_in(history, user, item):
        return 0
    begin, before = history.starts[user], 0
    for each in range(begin, begin + history.lengths[user]):
        before += places[history.items[each]] < place
    return place - before + 1


@kernel(allocates=False)
def begin_user(kind, reference, user, marks):
    """Get ready to ask for the ranks of a user's items; whether there is a reference."""
    if kind == POPULAR:
        return True
    mark(reference, user, marks)
    return reference.lengths[user] > 0


@kernel(allocates=False)
def end_user(kind, reference, user, marks):
    """Forget the user."""
    if kind != POPULAR:
        clear(reference, user, marks)


@list_metric(
    name="unexpectedness",
    summary="Share of the shown items that the most popular unseen items, or a model, lack.",
    formula="items of the list outside the first k of the reference / items of the list",
    latex=r"\frac{|L \setminus E|}{n}",
    source="Murakami et al. 2008, Metrics for evaluating the serendipity of recommendation lists, "
    "p. 43; Ge et al. 2010, Beyond accuracy, p. 259",
    bounds=(0.0, 1.0),
    undefined="for a user whom the reference has no list for",
    parameters=(REFERENCE, DEN),
    needs=needs_of_reference,
    tables=expected_items,
)
@kernel
def unexpectedness(lists, within, cutoffs, expected, history, places, reference, den, out):
    """One less the share of the first items that are expected."""
    marks = np.zeros(places.size, dtype=np.int32)
    counts = np.zeros(out.shape[1], dtype=np.int64)
    for user in range(out.shape[0]):
        is_there = begin_user(reference, expected, user, marks)
        begin, n = lists.starts[user], lists.lengths[user]
        counts[:] = 0
        for place in range(within[user, out.shape[1] - 1]):
            item = lists.items[begin + place]
            if reference == POPULAR:
                rank = popular_rank(history, user, item, places)
            else:
                rank = marks[item]
            for column in range(out.shape[1]):
                depth = n if cutoffs[column] == NO_CUTOFF else cutoffs[column]
                counts[column] += place < within[user, column] and 0 < rank <= depth
        for column in range(out.shape[1]):
            below = within[user, column]
            if below == 0 or not is_there:
                out[user, column] = math.nan
                continue
            if den == OVER_K and cutoffs[column] != NO_CUTOFF:
                below = cutoffs[column]
            out[user, column] = 1.0 - counts[column] / below
        end_user(reference, expected, user, marks)


LIST, ALL = 0, 2


def needs(values):
    """Right answers, and a reference or vectors."""
    if values["of"] == "list":
        return ("relevant", *needs_of_reference(values))
    wanted = ("relevant",) if values["of"] == "content" else ()
    return (*wanted, str(values["features"]), "history")


def tables(values, context):
    """Right answers, then what is expected, or train rows in order of ids, and vectors."""
    nothing = (np.zeros((0, 0)), np.zeros(0))
    if values["of"] == "list":
        return context.relevant, *expected_items(values, context), *nothing
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


@of_items
def dense_ranks(values, items):
    """int64[n_items]: ranks by users of train, tied ones alike, without gaps; 0: not in train."""
    counts = items.popularity
    different = np.unique(counts[counts > 0])
    return np.where(counts > 0, different.size - np.searchsorted(different, counts), 0)


def tables_of_popularity(values, context):
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
    tables=tables_of_popularity,
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
