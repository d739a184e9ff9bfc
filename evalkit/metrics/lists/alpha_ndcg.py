# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""alpha-nDCG: gains of genres that fall with every hit they have had."""

from evalkit.metrics import choice, kernel, list_metric
from evalkit.metrics.lists._aspects import (
    ALPHA,
    ASPECTS,
    DECLARED,
    LOG2,
    PENALTY,
    UNKNOWN,
    measure,
)
from evalkit.metrics.lists._categories import BY


@list_metric(
    name="alpha_ndcg",
    aliases=("alpha_dcg(ideal='every')",),
    summary="Discounted gain of genres, each worth less with every hit it has had, of the ideal's.",
    formula="sum of sum over genres of (1 - alpha)^(earlier hits with it) / log2(1 + rank) / ideal",
    latex=r"\frac{\sum_{i} \frac{r_i}{\log_2(1 + i)} \sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}}"
    r"{\text{ideal}}",
    source="Clarke et al. 2008, Novelty and diversity in information retrieval evaluation, p. 663",
    parameters=(
        BY,
        ALPHA,
        ASPECTS,
        choice(
            "ideal",
            {
                "greedy": "the relevant items, always the one of most gain next",
                "own": "the list's own gains, the largest first",
                "ones": "of as many items: gain 1 while all genres fit in turn, then 1 - alpha to "
                "the power of these turns; whose relevant items have no genre has 0",
                "every": "items that have every wanted genre",
                "none": "nothing: the gain itself",
                "every_later": "as every, but nothing at rank 1",
            },
            doc="What the gain is divided by.",
        ),
        PENALTY,
        UNKNOWN,
    ),
    **DECLARED,
)
@kernel
def alpha_ndcg(lists, within, cutoffs, context, alpha, aspects, ideal, penalty, unknown, out):
    """Gain of the list over that of the ideal."""
    measure(lists, within, cutoffs, context, alpha, LOG2, aspects, ideal, penalty, unknown, out)
