# mypy: disable-error-code="no-untyped-def"
"""NCRR: reciprocal ranks of all hits, over those of the ideal list."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="NCRR",
    aliases=("normalized_cumulative_reciprocal_rank",),
    summary="Reciprocal ranks of the hits as a share of those of the ideal list.",
    formula="sum over hits of 1/rank / sum over ranks 1 to min(|R|, k, n) of 1/rank",
    latex=r"\frac{\sum_{i=1}^{k} h_i / i}{\sum_{j=1}^{\min(|R|, k, n)} 1 / j}",
    source="Salah, Truong and Lauw 2020, Cornac: a comparative framework for multimodal "
    "recommender systems, Journal of Machine Learning Research 21(95), pp. 1-5",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
)
@kernel(allocates=False)
def ncrr(hits, relevant, lengths, cutoffs, out):
    """Reciprocal ranks up to each cutoff over the ideal ones; NaN without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            total = ideal = 0.0
            for hit in range(hits.starts[user], hits.starts[user + 1]):
                if hits.ranks[hit] <= cutoffs[column]:
                    total += 1.0 / hits.ranks[hit]
            for rank in range(1, min(n_relevant, cutoffs[column], lengths[user]) + 1):
                ideal += 1.0 / rank
            value = min(total / ideal, 1.0) if ideal > 0.0 else 0.0
            out[user, column] = value if n_relevant > 0 else math.nan
