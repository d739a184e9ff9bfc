# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""NRBP: rank-biased precision over the genres that a user wants."""

from evalkit.metrics import choice, kernel, list_metric, number
from evalkit.metrics.lists._aspects import ALPHA, DECLARED, GREEDY, NONE, measure
from evalkit.metrics.lists._categories import BY


@list_metric(
    name="NRBP",
    aliases=("nNRBP(norm='ideal')",),
    summary="Gain of genres by who looks so far, each worth less with every hit that it has had.",
    formula="(1 - (1 - alpha) beta) / genres of R * sum over ranks r of beta^(r - 1) * sum over "
    "genres of (1 - alpha)^(earlier hits with it)",
    latex=r"\frac{1 - (1 - \alpha) \beta}{|G(R)|} \sum_{i} r_i \beta^{i - 1} "
    r"\sum_{g \in G(i)} (1 - \alpha)^{n_g(i)}",
    source="Clarke, Kolla and Vechtomova 2009, An effectiveness measure for ambiguous and "
    "underspecified queries, ICTIR, p. 193",
    parameters=(
        BY,
        ALPHA,
        number("beta", 0.5, above=0.0, below=1.0, doc="Who looks one rank further."),
        choice(
            "norm",
            {
                "every": "the gain of an endless list of items that have all wanted genres",
                "ideal": "the gain of the relevant items, always the one of most gain next",
            },
            doc="What the gain is divided by.",
        ),
    ),
    **DECLARED,
)
@kernel
def nrbp(lists, within, cutoffs, context, alpha, beta, norm, out):
    """Gain of the list by its ranks; an endless list of all genres gains 1."""
    measure(
        lists, within, cutoffs, context, alpha, beta, 0, NONE if norm == 0 else GREEDY, 0, 0, out
    )
    if norm == 0:
        for user in range(out.shape[0]):
            for column in range(out.shape[1]):
                out[user, column] *= 1.0 - (1.0 - alpha) * beta
