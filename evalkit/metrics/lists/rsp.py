# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""RSP: how unequal the odds of groups of items to be shown are."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._groups import BY
from evalkit.metrics.lists._odds import GROUP, count, n_sums, spread, tables


@list_metric(
    name="rsp",
    aliases=("ranking_based_statistical_parity",),
    summary="How unequal the odds of groups of items to be shown are.",
    formula="standard deviation / mean over groups of shown rows / rows not in train",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{shown}_g}{\text{possible}_g}",
    source="Zhu et al. 2020, Measuring and mitigating item under-recommendation bias, p. 451",
    bounds=(0.0, math.inf),
    undefined="for a group without an item that could be shown",
    higher_is_better=False,
    parameters=(BY, GROUP),
    family="sums",
    n_sums=n_sums,
    by=spread,
    needs=("by", "history"),
    tables=tables,
)
@kernel
def rsp(lists, within, cutoffs, codes, sizes, history, relevant, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, False, out)
