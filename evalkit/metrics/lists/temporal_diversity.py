# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Temporal diversity: what is new in a list since the one before."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._earlier import share_of_new
from evalkit.metrics.lists._earlier import tables as tables_of


def tables(values, context):
    """The list before."""
    return tables_of(values, context, context.earlier[:1])


@list_metric(
    name="temporal_diversity",
    aliases=("lathia_diversity",),
    summary="Share of the list that the model's list before did not show.",
    formula="items of the list that are not in the list before / items of the list",
    latex=r"\frac{|L_t \setminus L_{t-1}|}{n}",
    source="Lathia et al. 2010, Temporal diversity in recommender systems, p. 215",
    bounds=(0.0, 1.0),
    undefined="for a user without an earlier list",
    higher_is_better=None,
    needs=("earlier",),
    tables=tables,
)
@kernel
def temporal_diversity(lists, within, cutoffs, earlier, ranks, n_items, out):
    """Share of the first items that the first ranks before did not show."""
    share_of_new(lists, within, cutoffs, earlier, ranks, n_items, out)
