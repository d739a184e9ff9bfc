# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Popularity quantile: where the items of a list stand among those of train."""

import numpy as np

from evalkit.metrics import kernel, list_metric, of_items
from evalkit.metrics.lists._means import mean_over_list


@of_items
def quantiles(values, items):
    """float64[n_items]: rank of the popularity over the items that train has; 0 for others."""
    counts = items.popularity
    seen = np.sort(counts[counts > 0])
    before = np.searchsorted(seen, counts, "left")
    until = np.searchsorted(seen, counts, "right")
    return np.where(counts > 0, (before + until + 1) / 2.0 / max(seen.size, 1), 0.0)


def tables(values, context):
    """The quantile of each item."""
    return (quantiles(values, context.items),)


@list_metric(
    name="popularity_quantile",
    aliases=("mean_popularity_rank",),
    summary="How popular the shown items are: the share of train's items that are no more so.",
    formula="mean over the list of rank of the item's popularity / items of train, ties shared",
    latex=r"\frac{1}{n} \sum_{i \in L} \frac{rank(pop(i))}{|\{j : pop(j) > 0\}|}",
    source="Ekstrand and Mahant 2017, Sturgeon and the cool kids, Proceedings of FLAIRS, p. 641",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    higher_is_better=False,
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def popularity_quantile(lists, within, cutoffs, quantiles, out):
    """Mean quantile of the first items; one that train lacks counts 0."""
    mean_over_list(lists, within, cutoffs, quantiles, 0, out)
