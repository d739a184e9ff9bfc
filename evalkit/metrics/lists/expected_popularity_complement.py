# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Expected popularity complement: how unpopular the hits of the first ranks are."""

import math

from evalkit.metrics import ATTENTION, PATIENCE, WORTH, kernel, list_metric, of_items
from evalkit.metrics.lists._hits import answers, share_of_attention
from evalkit.metrics.lists.novelty import refuse_more_than_all


@of_items
def complements(values, items):
    """float64[n_items]: share of train's users who do not have the item."""
    refuse_more_than_all(items.popularity, items.n_train_users)
    return 1.0 - items.popularity / (items.n_train_users or math.nan)


def tables(values, context):
    """Right answers and their gains, and the worth of each item."""
    return *answers(values, context), complements({}, context.items)


@list_metric(
    name="expected_popularity_complement",
    aliases=("EPC",),
    summary="How unpopular the hits of the first ranks are.",
    formula="sum over hits of w(r) * gain * (1 - users of the item / users of train) / sum of w(r)",
    latex=r"\frac{\sum_r w(r) [i_r \in R] (1 - pop(i_r) / T)}{\sum_r w(r)}",
    source="Vargas and Castells 2011, Rank and relevance in novelty and diversity metrics, p. 112",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(ATTENTION, PATIENCE, WORTH),
    needs=("train", "relevant"),
    tables=tables,
)
@kernel(allocates=False)
def expected_popularity_complement(
    lists, within, cutoffs, relevant, gains, worth, attention, patience, gain, out
):
    """Attention of the hits, each by its worth, over that of the list."""
    share_of_attention(lists, within, relevant, gains, worth, attention, patience, out)
