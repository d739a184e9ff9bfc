# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Categories of items: their genres, or a column of the items' table."""

import math
from typing import Any, NamedTuple

import numpy as np

from evalkit.metrics import kernel, of_items, text

BY = text("by", "genres", doc="Genres, or the column of the items' table that has the categories.")
MOST_IN_WORDS = 64  # categories, whose sets are looked for
WIDEST = 8  # sets that are walked alike
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


class Sets(NamedTuple):
    """Sets of categories that items have: many items share one, so that all stay at hand.

    `of_items` int32[n_items], which one each has; `sizes` int64[n_sets]; `begins` int64[n_sets] and
    `members` int32: the categories of a set, ascending, then up to `width` a number that is none,
    so that all sets are walked alike; 0: none follow.

    `rows` float64[n_sets, n_categories]: 1 for those that a set has; `shares` this over its size,
    `parts` the same on the grid. They are none where there are more than 64 categories. `starts`,
    `codes`: the categories of each item.
    """

    of_items: Any
    sizes: Any
    begins: Any
    members: Any
    width: int
    rows: Any
    shares: Any
    parts: Any
    n_categories: int
    starts: Any
    codes: Any


@of_items
def sets(values, items):
    """The sets of categories; of many categories each item has its own."""
    starts, codes, n = categories(values, items)
    begins, sizes, members, width = starts[:-1], np.diff(starts), codes, 0
    rows, of_items = np.zeros((0, n)), np.arange(sizes.size, dtype=np.int32)
    if n <= MOST_IN_WORDS:
        own = np.zeros(sizes.size, dtype=np.uint64)
        np.bitwise_or.at(own, np.repeat(of_items, sizes), np.uint64(1) << codes.astype(np.uint64))
        bits, first, which = np.unique(own, return_index=True, return_inverse=True)
        of_items, begins, sizes = which.astype(np.int32), begins[first], sizes[first]
        rows = (bits[:, None] >> np.arange(n, dtype=np.uint64) & np.uint64(1)).astype(np.float64)
    if 0 < sizes.max(initial=0) <= WIDEST:
        width = int(sizes.max())
        places = begins[:, None] + np.arange(width)
        named = codes[np.minimum(places, codes.size - 1)]
        members = np.where(np.arange(width) < sizes[:, None], named, n).astype(np.int32).ravel()
        begins = np.arange(sizes.size) * width
    below = np.maximum(sizes, 1)[: rows.shape[0], None]
    tables = rows, rows / below, rows * np.floor(GRID / below + 0.5)
    return Sets(of_items, sizes, begins, members, width, *tables, n, starts, codes)


def only(values, *names):
    """Some parameters, so that what is kept of items is kept once."""
    return {name: values[name] for name in names}


@kernel(allocates=False)
def size_of(sets, item):
    """How many categories an item has."""
    return float(sets.sizes[sets.of_items[item]])


@kernel(allocates=False)
def add_masses(sets, item, weight, on_grid, masses):
    """Add an item's weight to its categories, split evenly; whether it has any.

    Args:
        on_grid: add parts of 1 instead, as multiples of the grid.
    """
    which = sets.of_items[item]
    size = sets.sizes[which]
    if sets.rows.shape[0] > 0:
        if on_grid or weight == 1.0:
            own = sets.parts[which] if on_grid else sets.shares[which]
            for each in range(masses.size):
                masses[each] += own[each]
        else:
            share, row = weight / max(size, 1), sets.rows[which]
            for each in range(masses.size):
                masses[each] += share * row[each]
        return size > 0
    begin = sets.begins[which]
    share = math.floor(GRID / max(size, 1) + 0.5) if on_grid else weight / max(size, 1)
    for place in range(begin, begin + size):
        masses[sets.members[place]] += share
    return size > 0


@kernel(allocates=False)
def fill_masses(lists, user, stop, sets, masses):
    """Fill masses with those of a user's items, in any order; their sum."""
    masses[:] = 0.0
    begin = lists.starts[user]
    for place in range(begin, begin + stop):
        add_masses(sets, lists.items[place], 1.0, True, masses)
    total = 0.0
    for each in range(masses.size):
        total += masses[each]
    return total
