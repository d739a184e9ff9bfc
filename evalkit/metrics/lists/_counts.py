# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How often items are shown, on the items that a number is taken over."""

import numpy as np

from evalkit.kernels.logarithm import BITS
from evalkit.metrics import Ends, choice, kernel, log2, minus_ln_of_rest

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


def n_items_of(values, items, numbers):
    """How many items the number is taken over."""
    is_chosen, n_more = chosen(values, items, numbers)
    return int(is_chosen.sum()) + n_more


@kernel(allocates=False)
def fill_steps(counts, out):
    """c log2 c - (c - 1) log2 (c - 1), which no rounding of large numbers spoils."""
    for place in range(counts.size):
        c = counts[place]
        out[place] = log2(c)
        if c > 1.0:
            out[place] += (c - 1.0) * minus_ln_of_rest(1.0 / c) * BITS


def log_steps(counts):
    """What each of some counts adds to the sum of c log2 c above one less."""
    given = counts.astype(np.float64)
    out = np.empty_like(given)
    fill_steps(given, out)
    return out


def gini_of(numbers, lists, items, values):
    """The Gini index of numbers of items by its parameters, and its slope by each.

    The slope is what one list less takes away: so few lists show most items that the derivative
    would be too small.
    """
    is_chosen, n_more = chosen(values, items, numbers)
    slopes = np.zeros(numbers.size)
    own = numbers[is_chosen].astype(np.float64)
    ascending = np.sort(own)
    total, m = ascending.sum(), own.size + n_more
    if total == 0.0:
        return np.nan, slopes
    own_below = m - 1.0 if values["over"] == "m-1" else float(m)
    below = own_below * total
    if below == 0.0:
        return np.nan, slopes
    places = np.arange(n_more + 1, m + 1)
    number = float(((2.0 * places - m - 1.0) * ascending).sum() / below)
    is_shown = is_chosen & (numbers > 0)
    own, sums = numbers[is_shown], np.concatenate([[0.0], np.cumsum(ascending)])
    step = own / lists[is_shown]

    def passed(height):
        """How far all items lie below a height, together."""
        n = np.searchsorted(ascending, height, "left")
        return (n + n_more) * height - sums[n]

    ranks = 2.0 * (passed(own) - passed(own - step)) / step + 1.0
    slopes[is_shown] = (ranks - m) / below - number / total
    if values["items"] == "shown" and own_below > 1.0:  # who shows an item alone takes it along
        slopes[is_shown] += (lists[is_shown] == 1) * (1.0 - number) / (own_below - 1.0) / step
    return number, slopes


def ends_of_gini(shown, items, values):
    """What one item that has all would give."""
    m = max(1, n_items_of(values, items, shown.lists))
    return Ends(most=1.0 if values["over"] == "m-1" else (m - 1.0) / m)


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


def needs_of_items(values):
    """What the choice of items needs."""
    return {"train": ("train",), "shown": ()}.get(str(values["items"]), ("items",))
