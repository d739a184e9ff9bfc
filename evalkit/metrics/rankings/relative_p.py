# mypy: disable-error-code="no-untyped-def"
"""Precision relative to the best that the numbers of items and ranks allow."""

import math

from evalkit.metrics import NO_CUTOFF, kernel, metric


@metric(
    name="relative_P",
    aliases=("relative_precision", "set_relative_P"),
    summary="Hits as a share of the most that there could be at so many ranks.",
    formula="hits at ranks 1 to k / min(k, |R|); without a cutoff, k is the list's length",
    latex=r"\frac{1}{\min(k, |R|)} \sum_{i=1}^{k} h_i",
    source="Buckley and Voorhees 2005, Retrieval system evaluation, in TREC: Experiment and "
    "Evaluation in Information Retrieval, pp. 53-75",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    counts_hits=True,
)
@kernel(allocates=False)
def relative_p(hits, relevant, lengths, cutoffs, out):
    """Hits up to each cutoff over those possible; NaN for a user without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                n_hits += 1
                hit += 1
            k = lengths[user] if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            value = n_hits / min(k, n_relevant) if n_hits > 0 and n_relevant > 0 else 0.0
            out[user, column] = value if n_relevant > 0 else math.nan
