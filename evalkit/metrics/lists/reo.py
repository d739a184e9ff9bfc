# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""REO: how unequal the odds of groups of relevant items to be shown are."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._groups import BY
from evalkit.metrics.lists._odds import DECLARED, GROUP, count


@list_metric(
    name="reo",
    aliases=("ranking_based_equal_opportunity",),
    summary="How unequal the odds of groups of relevant items to be shown are.",
    formula="standard deviation / mean over groups of shown relevant rows / relevant rows",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{hits of } g}{\text{relevant rows of } g}",
    undefined="for a group without a relevant item that could be shown",
    parameters=(BY, GROUP),
    needs=("by", "history", "relevant"),
    **DECLARED,
)
@kernel
def reo(lists, within, cutoffs, codes, sizes, history, relevant, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, True, out)
