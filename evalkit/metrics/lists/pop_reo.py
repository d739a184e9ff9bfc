# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""popularity REO: how unequal the odds of relevant items of head and tail to be shown are."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._head import HEAD
from evalkit.metrics.lists._odds import DECLARED, ITEMS, count


@list_metric(
    name="pop_reo",
    aliases=("popularity_equal_opportunity",),
    summary="How unequal the odds of relevant items of head and tail to be shown are.",
    formula="standard deviation / mean over head and tail of shown relevant rows / relevant rows",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{hits of } g}{\text{relevant rows of } g}",
    undefined="where the head or the tail has no relevant item",
    parameters=(*HEAD, ITEMS),
    needs=("train", "history", "relevant"),
    **DECLARED,
)
@kernel
def pop_reo(lists, within, cutoffs, codes, sizes, history, relevant, head, ratio, items, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, True, out)
