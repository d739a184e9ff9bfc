# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Popularity lift: how much more popular lists are than what their users have in train."""

import math

import numpy as np

from evalkit.metrics import kernel, list_metric


def lift(values, context, sums):
    """The one mean over the other, less 1."""
    return sums[0] / sums[1] - 1.0 if sums[1] != 0 else np.nan


def tables(values, context):
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
    n_sums=2,
    by=lift,
    needs=("train", "history"),
    tables=tables,
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
