# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How popular the items of a list are, by users in train."""

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
    tables=lambda values, context: (popularity(values, context.items),),
)
@kernel(allocates=False)
def avg_popularity(lists, within, cutoffs, popularity, scale, cold, out):
    """Mean popularity of the first items."""
    mean_over_list(lists, within, cutoffs, popularity, 0, out)


def popularity_and_history(values, context):
    """Users of each item, and the items of each user's train rows."""
    return context.items.popularity.astype(np.float64), context.history


@list_metric(
    name="popularity_lift",
    aliases=("PL",),
    summary="How much more popular lists are than what their users have in train.",
    formula="(mean over users of their list's popularity - of their train rows') / the latter",
    latex=r"\frac{\overline{ARP(L)} - \overline{ARP(H)}}{\overline{ARP(H)}}",
    source="Abdollahpouri et al. 2020, The connection between popularity bias, calibration, and "
    "fairness in recommendation, p. 727",
    bounds=(-1.0, math.inf),
    undefined="where no user has both a list and train rows",
    higher_is_better=None,
    family="sums",
    by=lambda values, context, sums: sums[0] / sums[1] - 1.0 if sums[1] != 0 else np.nan,
    needs=("train", "history"),
    tables=popularity_and_history,
)
@kernel(allocates=False)
def popularity_lift(lists, within, cutoffs, popularity, history, out):
    """Mean popularity of the list and of the train rows of each user who has both."""
    for user in range(out.shape[0]):
        first, n = history.starts[user], history.lengths[user]
        had = 0.0
        for place in range(first, first + n):
            had += popularity[history.items[place]]
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                total += popularity[lists.items[begin + place]]
                place += 1
            is_there = place > 0 and n > 0
            out[user, column, 0] = total / place if is_there else math.nan
            out[user, column, 1] = had / n if is_there else math.nan


@of_items
def quantiles(values, items):
    """float64[n_items]: rank of the popularity over the items that train has; 0 for others."""
    counts = items.popularity
    seen = np.sort(counts[counts > 0])
    before = np.searchsorted(seen, counts, "left")
    until = np.searchsorted(seen, counts, "right")
    return np.where(counts > 0, (before + until + 1) / 2.0 / max(seen.size, 1), 0.0)


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
    tables=lambda values, context: (quantiles(values, context.items),),
)
@kernel(allocates=False)
def popularity_quantile(lists, within, cutoffs, quantiles, out):
    """Mean quantile of the first items; one that train lacks counts 0."""
    mean_over_list(lists, within, cutoffs, quantiles, 0, out)
