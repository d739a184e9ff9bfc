# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""nERR-IA: expected reciprocal rank over the genres that a user wants."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._aspects import ALPHA, GREEDY, OF_ERR, RECIPROCAL, measure
from evalkit.metrics.lists._categories import BY


@list_metric(
    name="nerr_ia",
    summary="ERR-IA as a share of that of the ideal list.",
    formula="ERR-IA / ERR-IA of the relevant items, always the one of most gain next",
    latex=r"\frac{\text{ERR-IA}}{\text{ERR-IA}^*}",
    parameters=(BY, ALPHA),
    **OF_ERR,
)
@kernel
def nerr_ia(lists, within, cutoffs, context, alpha, out):
    """Gain of the list over its ranks."""
    measure(lists, within, cutoffs, context, alpha, RECIPROCAL, 0, GREEDY, 0, 0, out)
