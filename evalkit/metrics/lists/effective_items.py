# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Effective number of items: how many equally shown ones are as concentrated."""

import math

from evalkit.metrics import Ends, list_metric
from evalkit.metrics.lists._counts import ITEMS, n_items_of, needs_of_items
from evalkit.metrics.lists.hhi import herfindahl


def ends(shown, items, values):
    """What items that are all shown alike would give."""
    return Ends(most=max(1, n_items_of(values, items, shown.lists)))


@list_metric(
    name="effective_items",
    aliases=("inverse_simpson", "effective_catalog_size"),
    summary="How many items, equally often shown, would be as concentrated as these.",
    formula="1 / sum of p^2, p = lists that show the item / their sum over all items",
    latex=r"\frac{1}{\sum_i p_i^2}",
    source="Simpson 1949, Measurement of diversity, Nature 163, p. 688; Jost 2006, Entropy and "
    "diversity, Oikos 113, p. 364",
    bounds=(1.0, math.inf),
    undefined="where no item is shown",
    parameters=(ITEMS,),
    family="counts",
    needs=needs_of_items,
    ends=ends,
)
def effective_items(shown, items, values):
    """One over the Herfindahl index."""
    number, slopes = herfindahl(shown, items, values)
    return 1.0 / number, -slopes / (number * number)
