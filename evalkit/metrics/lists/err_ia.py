# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""ERR-IA: expected reciprocal rank over the genres that a user wants."""

from evalkit.metrics import choice, kernel, list_metric
from evalkit.metrics.lists._aspects import (
    ALPHA,
    EVERY,
    EVERY_LATER,
    NONE,
    OF_ERR,
    RECIPROCAL,
    measure,
)
from evalkit.metrics.lists._categories import BY


@list_metric(
    name="err_ia",
    summary="Gain of genres over the rank, each worth less with every hit that it has had.",
    formula="sum of sum over genres of (1 - alpha)^(earlier hits with it) / rank, over genres of R",
    latex=r"\frac{1}{|G(R)|} \sum_{i} \frac{r_i}{i} \sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}",
    parameters=(
        BY,
        ALPHA,
        choice(
            "norm",
            {
                "genres": "the genres of the relevant items",
                "every": "the gain of items that have all of them",
                "every_later": "the same, but nothing at rank 1",
            },
            doc="What the gain is divided by.",
        ),
    ),
    **OF_ERR,
)
@kernel
def err_ia(lists, within, cutoffs, context, alpha, norm, out):
    """Gain of the list over its ranks."""
    ideal = (NONE, EVERY, EVERY_LATER)[norm]
    measure(lists, within, cutoffs, context, alpha, RECIPROCAL, 0, ideal, 0, 0, out)
