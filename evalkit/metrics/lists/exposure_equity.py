# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Exposure equity: whether groups of items get as much attention by their merit."""

import math

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, kernel, list_metric
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._groups import BY, group_of, least_of_most


def tables(values, context):
    """Groups of items, and right answers."""
    return *group_of(values, context), context.relevant


def n_sums(values, context):
    """Attention and merit of each group."""
    return 2 * group_of(values, context)[1]


def ratio(values, context, sums):
    """Attention over merit, of the group with least over that with most."""
    n = len(sums) // 2
    if n < 2 or any(merit == 0 for merit in sums[n:]):
        return np.nan
    return least_of_most([sums[each] / sums[n + each] for each in range(n)])[0]


@list_metric(
    name="exposure_equity",
    aliases=("disparate_treatment_ratio",),
    summary="Attention by relevant row of the group of items with least, of that with most.",
    formula="smallest / largest of attention of the group / relevant rows of the group",
    latex=r"\frac{\min_g E(g) / M(g)}{\max_g E(g) / M(g)}",
    source="Singh and Joachims 2018, Fairness of exposure in rankings, p. 2224; Biega et al. 2018, "
    "Equity of attention, p. 407",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items; with fewer than two groups; for a group "
    "without a relevant row",
    parameters=(BY, ATTENTION, PATIENCE),
    family="sums",
    n_sums=n_sums,
    by=ratio,
    needs=("by", "relevant"),
    tables=tables,
)
@kernel(allocates=False)
def exposure_equity(lists, within, cutoffs, codes, n_groups, relevant, attention, patience, out):
    """Attention of each group up to each cutoff, then its relevant rows."""
    for user in range(out.shape[0]):
        begin, place = lists.starts[user], 0
        if relevant.lengths[user] == 0:
            out[user, :, :] = math.nan
            continue
        for column in range(out.shape[1]):
            for position in range(n_groups):
                out[user, column, position] = out[user, column - 1, position] if column > 0 else 0.0
                out[user, column, n_groups + position] = 0.0
            while place < within[user, column]:
                group = codes[lists.items[begin + place]]
                place += 1
                if group >= 0:
                    out[user, column, group] += attention_of(place, attention, patience)
            first = relevant.starts[user]
            for number in range(first, first + relevant.lengths[user]):
                group = codes[relevant.items[number]]
                if group >= 0:
                    out[user, column, n_groups + group] += 1.0
