# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""REO: how unequal the odds of groups of relevant items to be shown are."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._groups import BY
from evalkit.metrics.lists._odds import GROUP, count, n_sums, spread, tables


@list_metric(
    name="reo",
    aliases=("ranking_based_equal_opportunity",),
    summary="How unequal the odds of groups of relevant items to be shown are.",
    formula="standard deviation / mean over groups of shown relevant rows / relevant rows",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{hits of } g}{\text{relevant rows of } g}",
    source="Zhu et al. 2020, Measuring and mitigating item under-recommendation bias, p. 451",
    bounds=(0.0, math.inf),
    undefined="for a group without a relevant item that could be shown",
    higher_is_better=False,
    parameters=(BY, GROUP),
    family="sums",
    n_sums=n_sums,
    by=spread,
    needs=("by", "history", "relevant"),
    tables=tables,
)
@kernel
def reo(lists, within, cutoffs, codes, sizes, history, relevant, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, True, out)
