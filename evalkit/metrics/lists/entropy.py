# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Entropy of how often items are shown."""

import math

import numpy as np

from evalkit.metrics import Ends, choice, list_metric, log2_of
from evalkit.metrics.lists._counts import (
    ITEMS,
    chosen,
    log_steps,
    n_items_of,
    needs_of_items,
    shares,
)


def divisor(values, unit, n_items, n_shown):
    """What the entropy is divided by."""
    return {
        "bits": 1.0,
        "share": math.log2(max(n_items, 1)) * unit,
        "per_item": float(n_shown),
    }[values["scale"]]


def ends(shown, items, values):
    """What items that are all shown alike would give."""
    unit = 1.0 if values["log_base"] == "2" else math.log(2.0)
    bits = math.log2(max(1, n_items_of(values, items, shown.lists))) * unit
    return Ends(most={"bits": bits, "share": 1.0}.get(values["scale"], math.inf))


@list_metric(
    name="entropy",
    aliases=("shannon_entropy", "distributional_coverage"),
    summary="How evenly lists are spread over the items: bits of the share of each.",
    formula="-sum of p log2 p, p = lists that show the item / their sum over all items",
    latex=r"-\sum_i p_i \log_2 p_i",
    source="Shani and Gunawardana 2011, Evaluating recommendation systems, p. 289",
    bounds=(0.0, math.inf),
    undefined="where no item is shown",
    parameters=(
        ITEMS,
        choice("log_base", {"2": "bits", "e": "nats"}, doc="The unit of information."),
        choice(
            "scale",
            {
                "bits": "as it is",
                "share": "over the largest it can be, the logarithm of the number of items",
                "per_item": "over the number of items that are shown",
            },
            doc="What the entropy is divided by.",
        ),
    ),
    family="counts",
    needs=needs_of_items,
    ends=ends,
)
def entropy(shown, items, values):
    """The entropy, and its slope by each item's count: what one list less takes away."""
    slopes = np.zeros(shown.lists.size)
    is_chosen, n_more = chosen(values, items, shown.lists)
    p, total = shares(shown.lists, is_chosen)
    if total == 0.0:
        return np.nan, slopes
    unit = 1.0 if values["log_base"] == "2" else math.log(2.0)
    n_items = int(is_chosen.sum()) + n_more
    below = divisor(values, unit, n_items, p.size)
    if below == 0.0:
        return np.nan, slopes
    bits = 0.0 - float((p * log2_of(p)).sum())  # of one item 0.0, not -0.0
    is_shown = is_chosen & (shown.lists > 0)
    steps = log_steps(shown.lists[is_shown]) - 1.0 / math.log(2.0)
    slopes[is_shown] = -(steps - math.log2(total) + bits) / total * unit / below
    left = divisor(values, unit, n_items - (values["items"] == "shown"), p.size - 1)
    if left > 0.0:  # who shows an item alone takes it along
        slopes[is_shown & (shown.lists == 1)] += bits * unit * (1.0 / below - 1.0 / left)
    return bits * unit / below, slopes
