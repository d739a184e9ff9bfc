# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Share of a list that is in the long tail."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._head import HEAD, tables
from evalkit.metrics.lists._means import mean_over_list


@list_metric(
    name="tail_share",
    aliases=("APLT", "average_percentage_of_long_tail_items", "tail_percentage"),
    summary="Share of the shown items that are in the long tail of train.",
    formula="items of the list outside the head / items of the list",
    latex=r"\frac{1}{n} \sum_{i \in L} [i \notin head]",
    source="Abdollahpouri et al. 2017, Controlling popularity bias in learning-to-rank "
    "recommendation, p. 44",
    bounds=(0.0, 1.0),
    undefined="for a user without a list",
    parameters=HEAD,
    needs=("train",),
    tables=tables,
)
@kernel(allocates=False)
def tail_share(lists, within, cutoffs, tail, head, ratio, out):
    """Share of the first items that are in the tail."""
    mean_over_list(lists, within, cutoffs, tail, 0, out)
