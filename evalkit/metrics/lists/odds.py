# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""How unequal the odds of groups of items to be shown are: REO, RSP, and both by popularity."""

import math
from functools import partial

import numpy as np

from evalkit.metrics import choice, kernel, list_metric, text
from evalkit.metrics.lists._find import NOBODY, stands_in
from evalkit.metrics.lists.groups import BY, group_of, sizes_of
from evalkit.metrics.lists.tail import HEAD, is_tail

GROUP = text("group", "", doc="The odds of one group by its name; without it how they differ.")
ITEMS = choice(
    "items",
    {"all": "the table of items; what train lacks is tail", "train": "items that train has"},
    doc="The items that have a group.",
)


def tables(values, context):
    """Groups of items, items of the table in each, train rows and right answers."""
    if "by" in values:
        codes, sizes = group_of(values, context)[0], sizes_of(values, context.items)
    else:
        head = {"head": values["head"], "ratio": values["ratio"]}
        codes = is_tail(head, context.items).astype(np.int32)
        has = context.items.is_listed
        if values["items"] == "train":
            has = context.items.popularity > 0
        codes = np.where(has, codes, -1).astype(np.int32)
        sizes = np.bincount(codes[has], minlength=2)
    return codes, sizes.astype(np.int64), context.history, context.relevant or NOBODY


def spread(values, context, sums):
    """Standard deviation of the groups' odds over their mean, or the odds of one group."""
    n = len(sums) // 2
    shown, possible = sums[:n], sums[n:]
    group = str(values.get("group", ""))
    if group:
        names = context.items.groups[str(values["by"])].names
        at = names.index(group) if group in names else -1
        return shown[at] / possible[at] if at >= 0 and possible[at] != 0 else np.nan
    if any(each == 0 for each in possible):
        return np.nan
    odds = [one / other for one, other in zip(shown, possible, strict=True)]
    mean = sum(odds) / n
    if mean == 0:
        return np.nan
    return (sum((each - mean) ** 2 for each in odds) / n) ** 0.5 / mean


odds_metric = partial(
    list_metric,
    source="Zhu et al. 2020, Measuring and mitigating item under-recommendation bias, p. 451",
    bounds=(0.0, math.inf),
    higher_is_better=False,
    family="sums",
    n_sums=lambda values, context: 2 * group_of(values, context)[1] if "by" in values else 4,
    by=spread,
    tables=tables,
)


@kernel
def count(lists, within, cutoffs, codes, sizes, history, relevant, of_relevant, out):
    """Fill `out` float64[n_users, n_cutoffs, 2 * n_groups]: shown rows, then possible ones."""
    # Wide: what a metric of its kind is given, and its own parameters.
    n_groups = sizes.size
    for user in range(out.shape[0]):
        begin, place = lists.starts[user], 0
        n_wanted = relevant.lengths[user] if of_relevant else 1
        for column in range(out.shape[1]):
            if history.lengths[user] == 0 or n_wanted == 0:
                for each in range(2 * n_groups):
                    out[user, column, each] = np.nan
                continue
            for each in range(n_groups):
                out[user, column, each] = out[user, column - 1, each] if column > 0 else 0.0
            while place < within[user, column]:
                item = lists.items[begin + place]
                place += 1
                if codes[item] >= 0 and (not of_relevant or stands_in(relevant, user, item)):
                    out[user, column, codes[item]] += 1.0
            for position in range(n_groups):
                possible = 0 if of_relevant else sizes[position]
                out[user, column, n_groups + position] = possible
            if of_relevant:
                first = relevant.starts[user]
                for number in range(first, first + relevant.lengths[user]):
                    item = relevant.items[number]
                    if codes[item] >= 0 and not stands_in(history, user, item):
                        out[user, column, n_groups + codes[item]] += 1.0
            else:
                first = history.starts[user]
                for index in range(first, first + history.lengths[user]):
                    if codes[history.items[index]] >= 0:
                        out[user, column, n_groups + codes[history.items[index]]] -= 1.0


@odds_metric(
    name="reo",
    aliases=("ranking_based_equal_opportunity",),
    summary="How unequal the odds of groups of relevant items to be shown are.",
    formula="standard deviation / mean over groups of shown relevant rows / relevant rows",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{hits of } g}{\text{relevant rows of } g}",
    undefined="for a group without a relevant item that could be shown",
    parameters=(BY, GROUP),
    needs=("by", "history", "relevant"),
)
@kernel
def reo(lists, within, cutoffs, codes, sizes, history, relevant, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, True, out)


@odds_metric(
    name="rsp",
    aliases=("ranking_based_statistical_parity",),
    summary="How unequal the odds of groups of items to be shown are.",
    formula="standard deviation / mean over groups of shown rows / rows not in train",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{shown}_g}{\text{possible}_g}",
    undefined="for a group without an item that could be shown",
    parameters=(BY, GROUP),
    needs=("by", "history"),
)
@kernel
def rsp(lists, within, cutoffs, codes, sizes, history, relevant, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, False, out)


@odds_metric(
    name="pop_reo",
    aliases=("popularity_equal_opportunity",),
    summary="How unequal the odds of relevant items of head and tail to be shown are.",
    formula="standard deviation / mean over head and tail of shown relevant rows / relevant rows",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{hits of } g}{\text{relevant rows of } g}",
    undefined="where the head or the tail has no relevant item",
    parameters=(*HEAD, ITEMS),
    needs=("train", "history", "relevant"),
)
@kernel
def pop_reo(lists, within, cutoffs, codes, sizes, history, relevant, head, ratio, items, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, True, out)


@odds_metric(
    name="pop_rsp",
    aliases=("popularity_statistical_parity",),
    summary="How unequal the odds of head and tail to be shown are.",
    formula="standard deviation / mean over head and tail of shown rows / rows not in train",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{shown}_g}{\text{possible}_g}",
    undefined="where the head or the tail has no item that could be shown",
    parameters=(*HEAD, ITEMS),
    needs=("train", "history"),
)
@kernel
def pop_rsp(lists, within, cutoffs, codes, sizes, history, relevant, head, ratio, items, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, False, out)
