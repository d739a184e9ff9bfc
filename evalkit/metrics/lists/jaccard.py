# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Jaccard index of a list and that of another model."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._two_lists import count_common


def tables(values, context):
    """The other lists, and how many items there are."""
    return context.reference, context.items.popularity.size


@list_metric(
    name="jaccard",
    aliases=("jaccard_index",),
    summary="Items that the list and the reference share, of all that either of them shows.",
    formula="items in both lists / items in either",
    latex=r"\frac{|A \cap B|}{|A \cup B|}",
    source="Jaccard 1912, The distribution of the flora in the alpine zone, New Phytologist 11, "
    "p. 44",
    bounds=(0.0, 1.0),
    undefined="for a user whom the reference has no list for",
    higher_is_better=None,
    needs=("reference",),
    tables=tables,
)
@kernel
def jaccard(lists, within, cutoffs, reference, n_items, out):
    """Common items over all items of both."""
    counts = np.empty((out.shape[0], out.shape[1], 3), dtype=np.int64)
    count_common(lists, reference, within, cutoffs, 0, n_items, counts)
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            both, one, other = counts[user, column]
            is_there = one > 0 and other > 0
            out[user, column] = both / (one + other - both) if is_there else math.nan
