# mypy: disable-error-code="no-untyped-def"
"""Hits: how many relevant items the ranking shows."""

import math

from evalkit.metrics import Unbiased, kernel, metric
from evalkit.metrics.rankings._ties import hits_within
from evalkit.metrics.rankings._weights import hits_weighted


@kernel(allocates=False)
def hits_tied(hits, relevant, lengths, cutoffs, out):
    """Expected hits up to each cutoff."""
    for user in range(out.shape[0]):
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            out[user, column] = hits_within(hits.firsts, hits.lasts, begin, end, cutoffs[column])


@metric(
    name="hits",
    aliases=("hit_count", "num_hits", "num_rel_ret"),
    summary="Number of relevant items that the ranking shows.",
    formula="number of relevant items at ranks 1 to k",
    latex=r"\sum_{i=1}^{k} h_i",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.3, p. 155",
    bounds=(0.0, math.inf),
    undefined="never; 0 for a user without relevant items",
    tied=hits_tied,
    over_hits="hits",
    counts_hits=True,
    unbiased=Unbiased(hits_weighted),
)
@kernel(allocates=False)
def hits(hits, relevant, lengths, cutoffs, out):
    """Hits up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                n_hits += 1
                hit += 1
            out[user, column] = float(n_hits)
