# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""RSP: how unequal the odds of groups of items to be shown are."""

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._groups import BY
from evalkit.metrics.lists._odds import DECLARED, GROUP, count


@list_metric(
    name="rsp",
    aliases=("ranking_based_statistical_parity",),
    summary="How unequal the odds of groups of items to be shown are.",
    formula="standard deviation / mean over groups of shown rows / rows not in train",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{shown}_g}{\text{possible}_g}",
    undefined="for a group without an item that could be shown",
    parameters=(BY, GROUP),
    needs=("by", "history"),
    **DECLARED,
)
@kernel
def rsp(lists, within, cutoffs, codes, sizes, history, relevant, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, False, out)
