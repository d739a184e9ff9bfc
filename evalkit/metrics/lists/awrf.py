# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Attention-weighted rank fairness of each list."""

import math

import numpy as np

from evalkit.metrics import ATTENTION, PATIENCE, choice, kernel, list_metric, log2
from evalkit.metrics.lists._attention import attention_of
from evalkit.metrics.lists._find import NOBODY
from evalkit.metrics.lists._groups import BY, group_of, sizes_of

CATALOGUE, NATS = 0, 1


def needs(values):
    """Groups, and right answers where these are the target."""
    return ("by", "relevant") if values["target"] == "relevant" else ("by",)


def tables(values, context):
    """Groups of items, items of the table in each, and right answers."""
    sizes = sizes_of(values, context.items).astype(np.float64)
    relevant = NOBODY if context.relevant is None else context.relevant
    return group_of(values, context)[0], sizes, relevant


@list_metric(
    name="awrf",
    aliases=("attention_weighted_rank_fairness",),
    summary="How near the attention of groups of items comes to their target.",
    formula="1 - Jensen-Shannon divergence of shares of attention and of target, by group",
    latex=r"1 - JS(a \,\|\, t)",
    source="Sapiezynski et al. 2019, Quantifying the impact of user attention on fair group "
    "representation in ranked lists, p. 556; Ekstrand et al. 2022, Overview of the TREC fair "
    "ranking track, 4",
    bounds=(0.0, 1.0),
    undefined="for a list without an item that has a group",
    parameters=(
        BY,
        choice(
            "target",
            {"items": "the share of the items", "relevant": "the share of the relevant items"},
            doc="The share of attention that a group should have.",
        ),
        choice("log_base", {"2": "bits", "e": "nats"}, doc="The unit of the divergence."),
        ATTENTION,
        PATIENCE,
    ),
    needs=needs,
    tables=tables,
)
@kernel
def awrf(
    lists, within, cutoffs, codes, sizes, relevant, target, log_base, attention, patience, out
):
    """One less the divergence, up to each cutoff."""
    goal, shown = np.zeros(sizes.size), np.zeros(sizes.size)
    for user in range(out.shape[0]):
        shown[:] = 0.0
        of_goal = 0.0
        for position in range(sizes.size):
            goal[position] = sizes[position] if target == CATALOGUE else 0.0
            of_goal += goal[position]
        if target != CATALOGUE:
            first = relevant.starts[user]
            for number in range(first, first + relevant.lengths[user]):
                group = codes[relevant.items[number]]
                if group >= 0:
                    goal[group] += 1.0
                    of_goal += 1.0
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                group = codes[lists.items[begin + place]]
                place += 1
                if group >= 0:
                    weight = attention_of(place, attention, patience)
                    shown[group] += weight
                    total += weight
            if total == 0.0 or of_goal == 0.0:
                out[user, column] = math.nan
                continue
            far = 0.0
            for index in range(sizes.size):
                one, other = shown[index] / total, goal[index] / of_goal
                mean = (one + other) / 2.0
                if one > 0.0:
                    far += one * log2(one / mean) / 2.0
                if other > 0.0:
                    far += other * log2(other / mean) / 2.0
            out[user, column] = 1.0 - far * (math.log(2.0) if log_base == NATS else 1.0)
