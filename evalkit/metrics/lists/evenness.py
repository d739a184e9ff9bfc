# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Evenness: one less the Gini index of how often items are shown."""

from evalkit.metrics import Ends, list_metric
from evalkit.metrics.lists._counts import GINI, ends_of_gini, gini_of, needs_of_items


def ends(shown, items, values):
    """What one item that has all would give."""
    return Ends(least=1.0 - ends_of_gini(shown, items, values).most)


@list_metric(
    name="evenness",
    aliases=("gini_diversity",),
    summary="How evenly lists are spread over the items: 1 less the Gini index.",
    formula="1 - sum of (2 j - m - 1) c_j / (m S), c ascending over the m items, S their sum",
    latex=r"1 - \frac{\sum_j (2j - m - 1) c_{(j)}}{m S}",
    source="Castells et al. 2015, Novelty and diversity in recommender systems, p. 896",
    bounds=(0.0, 1.0),
    undefined="where no item is shown",
    parameters=GINI,
    family="counts",
    needs=needs_of_items,
    ends=ends,
)
def evenness(shown, items, values):
    """One less the index of how many lists show each item."""
    number, slopes = gini_of(shown.lists, shown.lists, items, values)
    return 1.0 - number, -slopes
