# mypy: disable-error-code="no-untyped-def"
"""Novelty: how surprising the items of a list are, by how many users have each in train."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._means import mean_over_list


def self_information(values, beside):
    """float64[n_items]: -log2 of the share of train's users who have the item."""
    items = beside.items
    return (-np.log2(np.maximum(items.popularity, 1) / items.n_train_users),)


@list_metric(
    name="novelty",
    aliases=("MIUF", "mean_self_information"),
    summary="How surprising the shown items are: information of each by its users in train.",
    formula="mean over the list of -log2(users of the item / users of train)",
    latex=r"\frac{1}{n} \sum_{i \in L} -\log_2 \frac{pop(i)}{T}",
    source="Zhou et al. 2010, Solving the apparent diversity-accuracy dilemma, p. 4512",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    needs=("train",),
    tables=self_information,
)
@kernel(allocates=False)
def novelty(lists, within, cutoffs, information, out):
    """Mean self-information of the first items; one that train lacks counts as of one user."""
    mean_over_list(lists, within, information, out)
