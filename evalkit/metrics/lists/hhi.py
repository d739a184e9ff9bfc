# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Herfindahl index of how often items are shown."""

import numpy as np

from evalkit.metrics import Ends, list_metric
from evalkit.metrics.lists._counts import ITEMS, chosen, n_items_of, needs_of_items, shares


def herfindahl(shown, items, values):
    """The sum of squared shares, and its slope by each item's count."""
    slopes = np.zeros(shown.lists.size)
    is_chosen, _ = chosen(values, items, shown.lists)
    p, total = shares(shown.lists, is_chosen)
    if total == 0.0:
        return np.nan, slopes
    number = float((p * p).sum())
    slopes[is_chosen] = 2.0 * (shown.lists[is_chosen] / total - number) / total
    return number, slopes


def ends(shown, items, values):
    """What items that are all shown alike would give."""
    return Ends(least=1.0 / max(1, n_items_of(values, items, shown.lists)))


@list_metric(
    name="hhi",
    aliases=("herfindahl", "simpson"),
    summary="How concentrated lists are on few items: sum of the squared share of each.",
    formula="sum of p^2, p = lists that show the item / their sum over all items",
    latex=r"\sum_i p_i^2",
    source="Herfindahl 1950, Concentration in the steel industry; Simpson 1949, Measurement of "
    "diversity, Nature 163, p. 688",
    bounds=(0.0, 1.0),
    undefined="where no item is shown",
    higher_is_better=False,
    parameters=(ITEMS,),
    family="counts",
    needs=needs_of_items,
    ends=ends,
)
def hhi(shown, items, values):
    """The sum of squared shares of the lists that show each item."""
    return herfindahl(shown, items, values)
