# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Least item promoted: how far down a reranking reached for what it shows."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric
from evalkit.metrics.lists._two_lists import clear, mark


def tables(values, context):
    """The lists before, and how many items there are."""
    return context.reference, context.items.popularity.size


@list_metric(
    name="least_item_promoted",
    aliases=("LIP",),
    summary="Ranks below the cutoff from which the first items were brought up, in the reference.",
    formula="max(0, largest rank in the reference of the first k items - k)",
    latex=r"\max\left(0, \max_{i \in L_{1:k}} rank_B(i) - k\right)",
    source="Ekstrand et al. 2024, LensKit for Python, metrics/reranking/_lip.py",
    bounds=(0.0, math.inf),
    undefined="for a user whom the reference has no list for",
    higher_is_better=None,
    parameters=(
        choice(
            "ranks",
            {"one": "count from 1", "zero": "count from 0, so that one promotion less is seen"},
            doc="Ranks of the reference.",
        ),
    ),
    needs=("reference",),
    tables=tables,
)
@kernel
def least_item_promoted(lists, within, cutoffs, reference, n_items, ranks, out):
    """The worst rank so far less the cutoff; items that the reference lacks are left out."""
    marks = np.zeros(n_items, dtype=np.int32)
    for user in range(out.shape[0]):
        mark(reference, user, marks)
        begin, place, worst = lists.starts[user], 0, 0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                worst = max(worst, marks[lists.items[begin + place]])
                place += 1
            k = place if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            is_there = reference.lengths[user] > 0
            out[user, column] = max(0, worst - ranks - k) if is_there else math.nan
        clear(reference, user, marks)
