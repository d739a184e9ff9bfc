# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected free discovery: how surprising the hits of the first ranks are."""

import math

import numpy as np

from evalkit.metrics import (
    ATTENTION,
    PATIENCE,
    WORTH,
    choice,
    kernel,
    list_metric,
    log2_of,
    of_items,
)
from evalkit.metrics.lists._hits import answers, share_of_attention


@of_items
def information(values, items):
    """float64[n_items]: -log2 of the share of train's interactions that the item has."""
    counts = items.popularity
    seen = counts[counts > 0]
    if not seen.size:  # a training log without rows says nothing
        return np.full(counts.size, math.nan)
    least = 1 if values["cold"] == "one_user" else seen.min()
    return -log2_of(np.maximum(counts, least) / counts.sum())


def tables(values, context):
    """Right answers and their gains, and the worth of each item."""
    return *answers(values, context), information({"cold": values["cold"]}, context.items)


@list_metric(
    name="EFD",
    aliases=("expected_free_discovery",),
    summary="How surprising the hits of the first ranks are: information of their interactions.",
    formula="sum over hits of w(r) * gain * -log2(interactions of the item / all) / sum of w(r)",
    latex=r"\frac{\sum_r w(r) [i_r \in R] (-\log_2 p(i_r))}{\sum_r w(r)}",
    source="Vargas and Castells 2011, Rank and relevance in novelty and diversity metrics, p. 112",
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "cold",
            {
                "one_user": "counts as of one interaction",
                "least": "counts as the least popular item of train",
            },
            doc="An item that train lacks.",
        ),
        ATTENTION,
        PATIENCE,
        WORTH,
    ),
    needs=("train", "relevant"),
    tables=tables,
)
@kernel(allocates=False)
def efd(lists, within, cutoffs, relevant, gains, worth, cold, attention, patience, gain, out):
    """Attention of the hits, each by its worth, over that of the list."""
    share_of_attention(lists, within, relevant, gains, worth, attention, patience, out)
