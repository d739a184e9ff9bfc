# mypy: disable-error-code="no-untyped-def"
"""Gini index of how often items are shown."""

import numpy as np

from evalkit.metrics import list_metric


@list_metric(
    name="gini",
    aliases=("gini_index",),
    summary="How unevenly lists are spread over the items: 0 when each is shown equally often.",
    formula="sum of (2 j - m - 1) c_j / (m S), c ascending over the m items, S their sum",
    latex=r"\frac{\sum_j (2j - m - 1) c_{(j)}}{m S}",
    source="Shani and Gunawardana 2011, Evaluating recommendation systems, p. 289",
    bounds=(0.0, 1.0),
    undefined="where no item is shown",
    higher_is_better=False,
    family="counts",
    needs=("items",),
)
def gini(shown, items, values):
    """The index over all items of the table, and its slope by each item's count."""
    counts = shown.lists[items.is_listed].astype(np.float64)
    m, total = counts.size, counts.sum()
    if total == 0.0:
        return np.nan, np.zeros(items.is_listed.size)
    order = np.sort(counts)
    number = float(((2.0 * np.arange(1, m + 1) - m - 1.0) * order).sum() / (m * total))
    first = np.searchsorted(order, counts, "left") + 1.0
    last = np.searchsorted(order, counts, "right")
    slopes = np.zeros(items.is_listed.size)
    slopes[items.is_listed] = (first + last - m - 1.0) / (m * total) - number / total
    return number, slopes
