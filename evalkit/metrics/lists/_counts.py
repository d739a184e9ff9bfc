# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How often items are shown, on the items that a number is taken over."""

import numpy as np

from evalkit.metrics import choice

ITEMS = choice(
    "items",
    {
        "catalogue": "all of the table of items, and no others",
        "catalogue_and_one": "as many as the table of items has, and one; all shown ones count",
        "train": "as many as train has; all shown ones count",
        "shown": "those that are shown",
    },
    doc="The items that the number is taken over.",
)


def chosen(values, items, numbers):
    """bool[n_items]: items whose `numbers` are looked at; and how many more are never shown."""
    if values["items"] == "catalogue":
        return items.is_listed, 0
    is_shown = numbers > 0
    n_items = {
        "catalogue_and_one": int(items.is_listed.sum()) + 1,
        "train": int((items.popularity > 0).sum()),
        "shown": int(is_shown.sum()),
    }[str(values["items"])]
    return is_shown, n_items - int(is_shown.sum())


def concentration(numbers, is_chosen, *, n_more=0, minus_one=False):
    """The Gini index of numbers of items, and its slope by each.

    Args:
        n_more: items beside them that are never shown.
        minus_one: whether the number of items less one divides, so that one item alone gives 1.
    """
    slopes = np.zeros(numbers.size)
    own = numbers[is_chosen].astype(np.float64)
    ascending = np.sort(own)
    total, m = ascending.sum(), own.size + n_more
    if total == 0.0:
        return np.nan, slopes
    below = (m - 1.0 if minus_one else m) * total
    if below == 0.0:
        return np.nan, slopes
    places = np.arange(n_more + 1, m + 1)
    number = float(((2.0 * places - m - 1.0) * ascending).sum() / below)
    first = np.searchsorted(ascending, own, "left") + 1.0 + n_more
    last = np.searchsorted(ascending, own, "right") + n_more
    slopes[is_chosen] = (first + last - m - 1.0) / below - number / total
    return number, slopes


def shares(numbers, is_chosen):
    """Shares of the items that are shown, ascending, so that sums have one order; and their sum."""
    own = np.sort(numbers[is_chosen & (numbers > 0.0)].astype(np.float64))
    total = own.sum()
    return own / total if own.size else own, total


GINI = (
    ITEMS,
    choice(
        "over",
        {"m": "the number of items", "m-1": "that less one, so that one item alone gives 1"},
        doc="What the sum is divided by.",
    ),
)


def gini_of(numbers, items, values):
    """The Gini index of numbers of items by its parameters, and its slopes."""
    is_chosen, n_more = chosen(values, items, numbers)
    return concentration(numbers, is_chosen, n_more=n_more, minus_one=values["over"] == "m-1")


def needs_of_items(values):
    """What the choice of items needs."""
    return {"train": ("train",), "shown": ()}.get(str(values["items"]), ("items",))
