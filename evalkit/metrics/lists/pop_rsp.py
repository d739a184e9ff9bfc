# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""popularity RSP: how unequal the odds of head and tail to be shown are."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._head import HEAD
from evalkit.metrics.lists._odds import DECLARED, ITEMS, count


@list_metric(
    name="pop_rsp",
    aliases=("popularity_statistical_parity",),
    summary="How unequal the odds of head and tail to be shown are.",
    formula="standard deviation / mean over head and tail of shown rows / rows not in train",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{shown}_g}{\text{possible}_g}",
    undefined="where the head or the tail has no item that could be shown",
    parameters=(*HEAD, ITEMS),
    needs=("train", "history"),
    **DECLARED,
)
@kernel
def pop_rsp(lists, within, cutoffs, codes, sizes, history, relevant, head, ratio, items, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, False, out)
