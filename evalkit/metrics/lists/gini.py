# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Gini index of how often items are shown."""

from evalkit.metrics import list_metric
from evalkit.metrics.lists._counts import GINI, ends_of_gini, gini_of, needs_of_items


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
    parameters=GINI,
    family="counts",
    needs=needs_of_items,
    ends=ends_of_gini,
)
def gini(shown, items, values):
    """The index of how many lists show each item."""
    return gini_of(shown.lists, shown.lists, items, values)
