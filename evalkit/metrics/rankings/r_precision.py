# mypy: disable-error-code="no-untyped-def"
"""R-precision: precision at as many ranks as there are relevant items."""

import math

from evalkit.metrics import choice, kernel, metric

TOP_R, MIN_K = 0, 1


@metric(
    name="R-precision",
    aliases=("Rprec",),
    summary="Share of the first |R| ranks that hold a relevant item, |R| being how many there are.",
    formula="hits at ranks 1 to |R| / |R|; with a cutoff: hits at ranks 1 to min(k, |R|) / |R|",
    latex=r"\frac{1}{|R|} \sum_{i=1}^{\min(k, |R|)} h_i",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.4, p. 161",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "form",
            {
                "top_r": "hits at ranks 1 to min(k, |R|) / |R|",
                "min_k": "hits at ranks 1 to k / min(k, |R|), which RecTools calls by this name",
            },
            doc="Which hits count, and what they are divided by.",
        ),
    ),
)
@kernel(allocates=False)
def r_precision(hits, relevant, lengths, cutoffs, form, out):
    """Hits among the first |R| ranks over |R|; NaN for a user without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            n_possible = min(cutoffs[column], n_relevant)
            last = cutoffs[column] if form == MIN_K else n_possible
            while hit < end and hits.ranks[hit] <= last:
                n_hits += 1
                hit += 1
            divisor = n_possible if form == MIN_K else n_relevant
            out[user, column] = n_hits / divisor if n_relevant > 0 else math.nan
