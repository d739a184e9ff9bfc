# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Average popularity of the items of a list, by users in train."""

import math

import numpy as np

from evalkit.metrics import choice, kernel, list_metric, of_items
from evalkit.metrics.lists._means import mean_over_list


@of_items
def popularity(values, items):
    """float64[n_items]: how many users of train have the item, on the scale asked for."""
    counts = items.popularity.astype(np.float64)
    whole = {
        "count": 1.0,
        "share": float(items.n_train_users),
        "interactions": counts.sum(),
        "most": counts.max(initial=0.0),
    }[values["scale"]]
    found = counts / whole
    if values["cold"] == "left_out":
        found[counts == 0.0] = math.nan
    return found


def tables(values, context):
    """The popularity of each item."""
    return (popularity(values, context.items),)


@list_metric(
    name="avg_popularity",
    aliases=("ARP", "average_recommendation_popularity"),
    summary="How popular the shown items are: the mean of their users in train.",
    formula="mean over the list of the users of the item in train",
    latex=r"\frac{1}{n} \sum_{i \in L} pop(i)",
    source="Yin et al. 2012, Challenging the long tail recommendation, p. 905; "
    "Abdollahpouri et al. 2019, Managing popularity bias, 5",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    higher_is_better=False,
    parameters=(
        choice(
            "scale",
            {
                "count": "users",
                "share": "their share of all users of train",
                "interactions": "their share of all interactions of train",
                "most": "their share of those of the most popular item",
            },
            doc="The unit of popularity.",
        ),
        choice(
            "cold",
            {"zero": "has popularity 0", "left_out": "is left out"},
            doc="An item that train lacks.",
        ),
    ),
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def avg_popularity(lists, within, cutoffs, popularity, scale, cold, out):
    """Mean popularity of the first items."""
    mean_over_list(lists, within, cutoffs, popularity, 0, out)
