# mypy: disable-error-code="no-untyped-def"
"""R-precision: precision at as many ranks as there are relevant items."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="R-precision",
    aliases=("Rprec",),
    summary="Share of the first |R| ranks that hold a relevant item, |R| being how many there are.",
    formula="hits at ranks 1 to |R| / |R|; with a cutoff: hits at ranks 1 to min(k, |R|) / |R|",
    latex=r"\frac{1}{|R|} \sum_{i=1}^{\min(k, |R|)} h_i",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.4, p. 161",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
)
@kernel(allocates=False)
def r_precision(hits, relevant, lengths, cutoffs, out):
    """Hits among the first |R| ranks over |R|; NaN for a user without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            last = min(cutoffs[column], n_relevant)
            while hit < end and hits.ranks[hit] <= last:
                n_hits += 1
                hit += 1
            out[user, column] = n_hits / n_relevant if n_relevant > 0 else math.nan
