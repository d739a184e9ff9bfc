# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Categories of items: their genres, or a column of the items' table."""

import numpy as np

from evalkit.metrics import kernel, of_items, text

BY = text("by", "genres", doc="Genres, or the column of the items' table that has the categories.")
GRID = 2.0**44  # what an item's share of a category is a multiple of, so that no order matters


def needs_of(values):
    """The genres, or a column."""
    return ("genres",) if values["by"] == "genres" else ("by",)


@of_items
def categories(values, items):
    """int64[n_items + 1] and int32: the categories of each item; and how many there are."""
    if values["by"] == "genres":
        return items.genres.starts, items.genres.codes, len(items.genres.names)
    group = items.groups[str(values["by"])]
    has = group.codes >= 0
    starts = np.concatenate([[0], np.cumsum(has)]).astype(np.int64)
    return starts, group.codes[has].astype(np.int32), len(group.names)


def only(values, *names):
    """Some parameters, so that what is kept of items is kept once."""
    return {name: values[name] for name in names}


@kernel(allocates=False)
def add_masses(starts, codes, item, weight, masses):
    """Add an item's weight to its categories, split evenly; whether it has any."""
    begin, end = starts[item], starts[item + 1]
    for place in range(begin, end):
        masses[codes[place]] += weight / (end - begin)
    return end > begin


@kernel(allocates=False)
def fill_masses(lists, user, stop, starts, codes, masses):
    """Fill masses with those of a user's items, in any order; their sum."""
    masses[:] = 0.0
    begin = lists.starts[user]
    for place in range(begin, begin + stop):
        first, last = starts[lists.items[place]], starts[lists.items[place] + 1]
        for each in range(first, last):
            masses[codes[each]] += float(int(GRID / (last - first) + 0.5))
    total = 0.0
    for each in range(masses.size):
        total += masses[each]
    return total
