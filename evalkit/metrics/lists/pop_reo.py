# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""popularity REO: how unequal the odds of relevant items of head and tail to be shown are."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._head import HEAD
from evalkit.metrics.lists._odds import ITEMS, count, n_sums, spread, tables


@list_metric(
    name="pop_reo",
    aliases=("popularity_equal_opportunity",),
    summary="How unequal the odds of relevant items of head and tail to be shown are.",
    formula="standard deviation / mean over head and tail of shown relevant rows / relevant rows",
    latex=r"\frac{\sigma(P)}{\mu(P)}, P_g = \frac{\text{hits of } g}{\text{relevant rows of } g}",
    source="Zhu et al. 2020, Measuring and mitigating item under-recommendation bias, p. 451",
    bounds=(0.0, math.inf),
    undefined="where the head or the tail has no relevant item",
    higher_is_better=False,
    parameters=(*HEAD, ITEMS),
    family="sums",
    n_sums=n_sums,
    by=spread,
    needs=("train", "history", "relevant"),
    tables=tables,
)
@kernel
def pop_reo(lists, within, cutoffs, codes, sizes, history, relevant, head, ratio, items, out):
    """Rows of each group that are shown, and that could be."""
    count(lists, within, cutoffs, codes, sizes, history, relevant, True, out)
