# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How many categories a list shows."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric
from evalkit.metrics.lists._categories import BY, categories, needs_of

COUNT, OWN = 0, 1


def tables(values, context):
    """Categories of items."""
    return categories({"by": values["by"]}, context.items)


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
    tables=tables,
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
