# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Categories of items, their genres or a column: how many lists show, and how evenly."""

import math
from typing import Any, NamedTuple

import numpy as np

from evalkit.metrics import (
    NO_CUTOFF,
    PATIENCE,
    choice,
    kernel,
    list_metric,
    log2,
    minus_ln,
    number,
    of_items,
    text,
)
from evalkit.metrics.lists._find import NOBODY, stands_in

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


COUNT, OWN = 0, 1


@list_metric(
    name="category_count",
    aliases=("categorical_diversity(scale='share')",),
    summary="How many different categories the list shows.",
    formula="different categories of the items of the list",
    latex=r"|\bigcup_{i \in L} G(i)|",
    source="Vargas 2014, Novelty and diversity enhancement and evaluation, p. 30",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    parameters=(
        BY,
        choice("scale", {"count": "how many", "share": "over the cutoff"}, doc="The unit."),
        choice(
            "unknown",
            {"nothing": "adds nothing", "category": "is of a category of its own"},
            doc="An item without a category.",
        ),
    ),
    needs=needs_of,
    tables=lambda values, context: categories(only(values, "by"), context.items),
)
@kernel
def category_count(lists, within, cutoffs, starts, codes, n_categories, scale, unknown, out):
    """Different categories up to each cutoff."""
    found = np.zeros(n_categories + 1, dtype=np.bool_)
    for user in range(out.shape[0]):
        found[:] = False
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                place += 1
                if unknown == OWN and starts[item] == starts[item + 1]:
                    n += not found[n_categories]
                    found[n_categories] = True
                for position in range(starts[item], starts[item + 1]):
                    n += not found[codes[position]]
                    found[codes[position]] = True
            below = 1 if scale == COUNT else min(cutoffs[column], NO_CUTOFF - 1)
            if scale != COUNT and cutoffs[column] == NO_CUTOFF:
                below = place
            out[user, column] = n / below if place > 0 else math.nan


FLAT, LOG2 = 0, 1
NATS = 1


@kernel(allocates=False)
def weight_of(rank, weighting, patience):
    """What an item at a rank weighs."""
    if weighting == FLAT:
        return 1.0
    return 1.0 / log2(1.0 + rank) if weighting == LOG2 else patience ** (rank - 1.0)


@kernel(allocates=False)
def fill_terms(masses, smoothing, total, log_base, terms):
    """p log p of each category, many at a time; 0 where p is 0."""
    if log_base == NATS:
        for place in range(masses.size):
            p = (masses[place] + smoothing) / total
            terms[place] = p * (0.0 - minus_ln(p)) if p > 0.0 else 0.0
    else:
        for position in range(masses.size):
            p = (masses[position] + smoothing) / total
            terms[position] = p * log2(p)


@list_metric(
    name="genre_entropy",
    aliases=("category_entropy",),
    summary="How evenly a list is spread over genres: bits of the share of each.",
    formula="-sum over genres of p log2 p, an item's mass split evenly over its genres",
    latex=r"-\sum_g p_g \log_2 p_g",
    source="Vargas 2014, Novelty and diversity enhancement and evaluation, p. 88; "
    "Shannon 1948, A mathematical theory of communication",
    bounds=(0.0, math.inf),
    undefined="for a list without an item that has a genre",
    parameters=(
        BY,
        choice(
            "weighting",
            {
                "flat": "each item as much",
                "log2": "1 / log2(1 + rank)",
                "geometric": "patience ^ (rank - 1)",
            },
            doc="What an item at a rank weighs.",
        ),
        PATIENCE,
        choice("log_base", {"2": "bits", "e": "nats"}, doc="The unit of information."),
        number(
            "smoothing",
            0.0,
            above=-1.0,
            below=1.0,
            tried=0.5,
            doc="Mass that every genre has more.",
        ),
    ),
    needs=needs_of,
    tables=lambda values, context: (
        sets(only(values, "by"), context.items),
        context.items.is_listed,
    ),
)
@kernel
def genre_entropy(
    lists, within, cutoffs, sets, is_listed, weighting, patience, log_base, smoothing, out
):
    """Entropy of the masses of categories up to each cutoff."""
    n_categories = sets.n_categories
    masses, terms = np.zeros(n_categories), np.empty(n_categories)
    for user in range(out.shape[0]):
        masses[:] = 0.0
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                weight = weight_of(place + 1, weighting, patience)
                item = lists.items[begin + place]
                n += add_masses(sets, item, weight, False, masses)
                n += smoothing > 0.0 and is_listed[item]
                place += 1
            total = entropy = 0.0
            for each in range(n_categories):
                total += masses[each] + smoothing
            fill_terms(masses, smoothing, total if total > 0.0 else 1.0, log_base, terms)
            for each in range(n_categories):
                entropy -= terms[each]
            out[user, column] = abs(entropy) if n > 0 else math.nan


RELEVANT, ANY = 0, 1


def needs(values):
    """Genres, and what says which of them are asked for."""
    more = {"relevant": ("relevant",), "any": (), "train": ("relevant", "train")}
    return (*needs_of(values), *more[str(values["aspects"])])


def tables_of_recall(values, context):
    """Categories of items, right answers, and how many categories train has."""
    starts, codes, n = categories(only(values, "by"), context.items)
    is_asked = context.items.popularity > 0
    of_train = np.unique(codes[np.repeat(is_asked, np.diff(starts))]).size
    return starts, codes, n, of_train, context.relevant if context.relevant is not None else NOBODY


@list_metric(
    name="subtopic_recall",
    aliases=("S_recall", "StRecall"),
    summary="Share of the genres of the relevant items that the hits bring.",
    formula="genres of the hits / genres of the relevant items",
    latex=r"\frac{|\bigcup_{i \in L \cap R} G(i)|}{|\bigcup_{i \in R} G(i)|}",
    source="Zhai et al. 2003, Beyond independent relevance, Proceedings of SIGIR, p. 12",
    bounds=(0.0, 1.0),
    undefined="where no relevant item has a genre",
    parameters=(
        BY,
        choice(
            "aspects",
            {
                "relevant": "genres of the hits, of those of the relevant items",
                "any": "genres of all shown items, of all genres there are",
                "train": "genres of the hits, of those of the items of train",
            },
            doc="Which genres count, of which.",
        ),
    ),
    needs=needs,
    tables=tables_of_recall,
)
@kernel
def subtopic_recall(
    lists, within, cutoffs, starts, codes, n_categories, n_train, relevant, aspects, out
):
    """Different categories up to each cutoff, over those that could be found."""
    found = np.zeros(n_categories, dtype=np.bool_)
    for user in range(out.shape[0]):
        below = n_categories if aspects == ANY else n_train
        is_there = True
        if aspects != ANY:
            first, last = relevant.starts[user], relevant.starts[user] + relevant.lengths[user]
            is_there = last > first
        if aspects == RELEVANT:
            below = 0
            found[:] = False
            for place in range(first, last):
                item = relevant.items[place]
                for position in range(starts[item], starts[item + 1]):
                    below += not found[codes[position]]
                    found[codes[position]] = True
        found[:] = False
        begin, place, n = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                item = lists.items[begin + place]
                place += 1
                if aspects != ANY and not stands_in(relevant, user, item):
                    continue
                for position in range(starts[item], starts[item + 1]):
                    n += not found[codes[position]]
                    found[codes[position]] = True
            out[user, column] = n / below if below > 0 and is_there else math.nan
