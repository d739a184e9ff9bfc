# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Number of items of a list that are in the long tail."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._head import HEAD, tables


@list_metric(
    name="tail_count",
    aliases=("ACLT", "average_coverage_of_long_tail_items"),
    summary="How many of the shown items are in the long tail of train.",
    formula="items of the list outside the head",
    latex=r"\sum_{i \in L} [i \notin head]",
    source="Abdollahpouri et al. 2019, Managing popularity bias in recommender systems with "
    "personalized re-ranking, 5",
    bounds=(0.0, math.inf),
    undefined="for a user without a list",
    parameters=HEAD,
    needs=("train",),
    most=lambda values, cutoff: cutoff,
    tables=tables,
)
@kernel(allocates=False)
def tail_count(lists, within, cutoffs, tail, head, ratio, out):
    """How many of the first items are in the tail."""
    for user in range(out.shape[0]):
        begin, place, total = lists.starts[user], 0, 0.0
        for column in range(out.shape[1]):
            while place < within[user, column]:
                total += tail[lists.items[begin + place]]
                place += 1
            out[user, column] = total if place > 0 else math.nan
