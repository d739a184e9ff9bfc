# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Temporal novelty: what is new in a list since all before."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._earlier import share_of_new
from evalkit.metrics.lists._earlier import tables as tables_of


def tables(values, context):
    """All earlier lists."""
    return tables_of(values, context, context.earlier)


@list_metric(
    name="temporal_novelty",
    aliases=("lathia_novelty",),
    summary="Share of the list that none of the model's earlier lists showed.",
    formula="items of the list that are in no earlier list / items of the list",
    latex=r"\frac{|L_t \setminus \bigcup_{s<t} L_s|}{n}",
    source="Lathia et al. 2010, Temporal diversity in recommender systems, p. 216",
    bounds=(0.0, 1.0),
    undefined="for a user without an earlier list",
    higher_is_better=None,
    needs=("earlier",),
    tables=tables,
)
@kernel
def temporal_novelty(lists, within, cutoffs, earlier, ranks, n_items, out):
    """Share of the first items that the first ranks before did not show."""
    share_of_new(lists, within, cutoffs, earlier, ranks, n_items, out)
