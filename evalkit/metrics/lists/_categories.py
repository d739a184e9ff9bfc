# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Categories of items: their genres, or a column of the items' table."""

import math
from typing import Any, NamedTuple

import numpy as np

from evalkit.metrics import kernel, of_items, text

BY = text("by", "genres", doc="Genres, or the column of the items' table that has the categories.")
MOST_IN_ROWS = 64  # categories; items of more are looked at one category at a time
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
    """Sets of categories that items have: `of_items` int32[n_items], which one each has.

    `sizes` float64[n_sets], and `parts` of 1 on the grid by size; `rows` float64[n_sets,
    n_categories], 1 for those that a set has; `starts`, `codes`: the categories of each item, for
    where `rows` are none.
    """

    of_items: Any
    sizes: Any
    parts: Any
    rows: Any
    starts: Any
    codes: Any


@of_items
def sets(values, items):
    """The sets of categories; many items share one, so that all of them stay at hand."""
    starts, codes, n = categories(values, items)
    if n > MOST_IN_ROWS:
        none = np.zeros(0)
        return Sets(np.zeros(0, np.int32), none, none, np.zeros((0, n)), starts, codes)
    bits = np.zeros(starts.size - 1, dtype=np.uint64)
    owners = np.repeat(np.arange(bits.size), np.diff(starts))
    np.bitwise_or.at(bits, owners, np.uint64(1) << codes.astype(np.uint64))
    found, of_items = np.unique(bits, return_inverse=True)
    rows = (found[:, None] >> np.arange(n, dtype=np.uint64) & np.uint64(1)).astype(np.float64)
    sizes = rows.sum(axis=1)
    parts = np.floor(GRID / np.maximum(sizes, 1.0) + 0.5)
    return Sets(of_items.astype(np.int32), sizes, parts, rows, starts, codes)


def only(values, *names):
    """Some parameters, so that what is kept of items is kept once."""
    return {name: values[name] for name in names}


@kernel(allocates=False)
def size_of(sets, item):
    """How many categories an item has."""
    if sets.rows.shape[0] > 0:
        return sets.sizes[sets.of_items[item]]
    return float(sets.starts[item + 1] - sets.starts[item])


@kernel(allocates=False)
def add_masses(sets, item, weight, on_grid, masses):
    """Add an item's weight to its categories, split evenly; whether it has any.

    Args:
        on_grid: add parts of 1 instead, as multiples of the grid.
    """
    if sets.rows.shape[0] > 0:
        which = sets.of_items[item]
        size, row = sets.sizes[which], sets.rows[which]
        share = sets.parts[which] if on_grid else weight / max(size, 1.0)
        for each in range(masses.size):
            masses[each] += share * row[each]
        return size > 0.0
    begin, end = sets.starts[item], sets.starts[item + 1]
    for place in range(begin, end):
        share = math.floor(GRID / (end - begin) + 0.5) if on_grid else weight / (end - begin)
        masses[sets.codes[place]] += share
    return end > begin


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
