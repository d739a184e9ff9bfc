# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Mean absolute difference of what showing items brings, between groups of items."""

import math

import numpy as np

from evalkit.metrics import WORTH, list_metric
from evalkit.metrics.lists._groups import BY, mean_difference


@list_metric(
    name="item_mad",
    aliases=("item_mean_absolute_difference",),
    summary="How unequally showing items pays by group: mean difference of their mean gains.",
    formula="mean over pairs of groups of |mean over shown items of one of their mean gain - of "
    "the other|",
    latex=r"\frac{2}{|G|(|G| - 1)} \sum_{g<h} |m_g - m_h|, m_g = \frac{1}{|g|} \sum_{i \in g} "
    r"\frac{1}{c_i} \sum_{u : i \in L_u} \text{gain}(u, i)",
    source="Zhu et al. 2018, Fairness-aware tensor-based recommendation, p. 1157; Deldjoo et al. "
    "2021, A flexible framework for evaluating user and item fairness, p. 482",
    bounds=(0.0, math.inf),
    undefined="with fewer than two groups; for a group of which nothing is shown",
    higher_is_better=False,
    parameters=(BY, WORTH),
    family="counts",
    weighing="gain",
    needs=("by", "relevant"),
)
def item_mad(shown, items, values):
    """The mean over all pairs, and its slopes by rows and gains of each item, as of one less."""
    slopes, group = np.zeros((shown.rows.size, 2)), items.groups[str(values["by"])]
    own = np.flatnonzero((shown.rows > 0) & (group.codes >= 0))
    own = own[np.argsort(items.order[own])]  # floats are added in the order of ids
    rows, codes = shown.rows[own].astype(np.float64), group.codes[own]
    each = shown.gains[own] / rows
    sizes = np.bincount(codes, minlength=len(group.names)).astype(np.float64)
    if sizes.size < 2 or not sizes.all():
        return np.nan, slopes
    means = np.bincount(codes, each, minlength=sizes.size) / sizes
    number, by_mean = mean_difference(means)
    is_lone = rows == 1.0  # without its row the item is none of the group's
    parts = np.where(is_lone, np.maximum(sizes[codes] - 1.0, 1.0), sizes[codes])
    weights = by_mean[codes] / parts / np.where(is_lone, 1.0, rows - 1.0)
    slopes[own, 0] = -weights * np.where(is_lone, means[codes], each)
    slopes[own, 1] = weights
    return number, slopes
