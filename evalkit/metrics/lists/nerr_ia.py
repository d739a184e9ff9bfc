# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""nERR-IA: expected reciprocal rank over the genres that a user wants."""

import math

from evalkit.metrics import kernel, list_metric
from evalkit.metrics.lists._aspects import (
    ALPHA,
    GREEDY,
    RECIPROCAL,
    measure,
    needs,
    tables,
)
from evalkit.metrics.lists._categories import BY


@list_metric(
    name="nerr_ia",
    aliases=(),
    summary="ERR-IA as a share of that of the ideal list.",
    formula="ERR-IA / ERR-IA of the relevant items, always the one of most gain next",
    latex=r"\frac{\text{ERR-IA}}{\text{ERR-IA}^*}",
    source="Chapelle et al. 2011, Intent-based diversification of web search results, p. 577; "
    "Agrawal et al. 2009, Diversifying search results, p. 9",
    bounds=(0.0, math.inf),
    undefined="where no relevant item has a genre",
    parameters=(
        BY,
        ALPHA,
    ),
    needs=needs,
    tables=tables,
)
@kernel
def nerr_ia(lists, within, cutoffs, starts, codes, n_categories, relevant, text_order, alpha, out):
    """Gain of the list over its ranks."""
    measure(
        lists,
        within,
        cutoffs,
        starts,
        codes,
        n_categories,
        relevant,
        text_order,
        alpha,
        RECIPROCAL,
        0,
        GREEDY,
        0,
        out,
    )
