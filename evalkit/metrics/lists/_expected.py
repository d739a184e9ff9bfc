# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""What a user might expect: the first items of a reference, or the most popular unseen ones."""

import numpy as np

from evalkit.metrics import choice, kernel, of_items
from evalkit.metrics.lists._find import NOBODY, stands_in
from evalkit.metrics.lists._two_lists import clear, mark

POPULAR = 0
REFERENCE = choice(
    "reference",
    {
        "popular": "the most popular items that the user does not have in train",
        "model": "the lists of the model, or of the files, that `reference` names",
    },
    doc="What is expected; as many items of it are looked at as of the list.",
)


def needs_of(values):
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


def tables(values, context):
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
