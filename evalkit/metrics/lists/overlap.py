# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Overlap of a list with that of another model."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric, number
from evalkit.metrics.lists._two_lists import count_common

OVER_K, ZERO = 0, 1


def tables(values, context):
    """The other lists, and how many items there are."""
    return context.reference, context.items.popularity.size


@list_metric(
    name="overlap",
    aliases=("intersection",),
    summary="Share of the list that the reference shows this user too.",
    formula="items in both lists / k",
    latex=r"\frac{|A \cap B|}{k}",
    source="Webber et al. 2010, A similarity measure for indefinite rankings, p. 20:6",
    bounds=(0.0, 1.0),
    undefined="for a user whom the reference has no list for",
    higher_is_better=None,
    parameters=(
        choice(
            "den",
            {"k": "the cutoff", "n": "the items that are shown"},
            doc="What the common items are divided by.",
        ),
        number(
            "ref_k",
            0.0,
            above=-1.0,
            is_whole=True,
            tried=3.0,
            doc="Ranks of the reference that are looked at; 0: as many as of the list.",
        ),
        choice(
            "lacking",
            {"nan": "has no value", "zero": "has nothing in common with it"},
            doc="A user whom the reference has no list for.",
        ),
    ),
    needs=("reference",),
    tables=tables,
)
@kernel
def overlap(lists, within, cutoffs, reference, n_items, den, ref_k, lacking, out):
    """Common items over the cutoff; without one over the length of the list."""
    counts = np.empty((out.shape[0], out.shape[1], 3), dtype=np.int64)
    count_common(lists, reference, within, cutoffs, int(ref_k), n_items, counts)
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            below = within[user, column]
            if below > 0 and den == OVER_K and cutoffs[column] != NO_CUTOFF:
                below = cutoffs[column]
            is_there = below > 0 and (reference.lengths[user] > 0 or lacking == ZERO)
            out[user, column] = counts[user, column, 0] / below if is_there else math.nan
