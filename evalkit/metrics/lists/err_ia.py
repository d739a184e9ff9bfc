# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""ERR-IA: expected reciprocal rank over the genres that a user wants."""

import math

from evalkit.metrics import choice, kernel, list_metric
from evalkit.metrics.lists._aspects import (
    ALPHA,
    EVERY,
    NONE,
    RECIPROCAL,
    measure,
    needs,
    tables,
)
from evalkit.metrics.lists._categories import BY


@list_metric(
    name="err_ia",
    aliases=(),
    summary="Gain of genres over the rank, each worth less with every hit that it has had.",
    formula="sum of sum over genres of (1 - alpha)^(earlier hits with it) / rank, over genres of R",
    latex=r"\frac{1}{|G(R)|} \sum_{i} \frac{r_i}{i} \sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}",
    source="Chapelle et al. 2011, Intent-based diversification of web search results, p. 577; "
    "Agrawal et al. 2009, Diversifying search results, p. 9",
    bounds=(0.0, math.inf),
    undefined="where no relevant item has a genre",
    parameters=(
        BY,
        ALPHA,
        choice(
            "norm",
            {
                "genres": "the genres of the relevant items",
                "every": "the gain of items that have all of them",
            },
            doc="What the gain is divided by.",
        ),
    ),
    needs=needs,
    tables=tables,
)
@kernel
def err_ia(
    lists, within, cutoffs, starts, codes, n_categories, relevant, text_order, alpha, norm, out
):
    """Gain of the list over its ranks."""
    ideal = EVERY if norm == 1 else NONE
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
        ideal,
        0,
        out,
    )
