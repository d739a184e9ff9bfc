# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Exposure parity: whether groups of items get as much attention by their size."""

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, list_metric
from evalkit.metrics.lists._groups import BY, least_of_most, sizes_of


@list_metric(
    name="exposure_parity",
    aliases=("demographic_parity_of_exposure",),
    summary="Attention that an item of the group with least gets, of that with most.",
    formula="smallest / largest of attention of the group / items of the group",
    latex=r"\frac{\min_g E(g) / |g|}{\max_g E(g) / |g|}",
    source="Singh and Joachims 2018, Fairness of exposure in rankings, p. 2223",
    bounds=(0.0, 1.0),
    undefined="with fewer than two groups; where none is shown",
    parameters=(BY, ATTENTION, PATIENCE),
    family="counts",
    weighing="attention",
    needs=("by",),
)
def exposure_parity(shown, items, values):
    """The ratio, and its slope by the attention of each item."""
    slopes = np.zeros(shown.exposure.size)
    codes, sizes = items.groups[str(values["by"])].codes, sizes_of(values, items)
    has = codes >= 0
    if sizes.size < 2:
        return np.nan, slopes
    each = np.argsort(items.order[has])  # floats are added in the order of ids
    totals = np.bincount(codes[has][each], shown.exposure[has][each], minlength=sizes.size)
    means = totals / sizes
    number, low, high = least_of_most(means.tolist())
    if np.isnan(number):
        return np.nan, slopes
    slopes[codes == low] += 1.0 / sizes[low] / means[high]
    slopes[codes == high] -= number / sizes[high] / means[high]
    return number, slopes
