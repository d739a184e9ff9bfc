# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Entropy of the genres of a list."""

import math

import numpy as np

from evalkit.metrics import PATIENCE, choice, kernel, list_metric, log2, minus_ln, number
from evalkit.metrics.lists._categories import BY, add_masses, needs_of, only, sets

FLAT, LOG2 = 0, 1
NATS = 1


def tables(values, context):
    """Categories of items, and which items the table has."""
    return sets(only(values, "by"), context.items), context.items.is_listed


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
    tables=tables,
)
@kernel
def genre_entropy(
    lists,
    within,
    cutoffs,
    sets,
    is_listed,
    weighting,
    patience,
    log_base,
    smoothing,
    out,
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
