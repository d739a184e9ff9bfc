# mypy: disable-error-code="no-untyped-def"
"""The mean of recall over cutoffs, which Elliot calls MAR."""

import math

from evalkit.metrics import NO_CUTOFF, kernel, metric


@metric(
    name="mean_recall",
    summary="Mean of the recall at cutoffs 1 to k.",
    formula="1/k * sum over cutoffs 1 to k of recall; without a cutoff, k is the list's length",
    latex=r"\frac{1}{k |R|} \sum_{m=1}^{k} \sum_{i=1}^{m} h_i",
    source="Anelli et al. 2021, Elliot: a comprehensive and rigorous framework for reproducible "
    "recommender systems evaluation, Proceedings of SIGIR, pp. 2405-2414",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
)
@kernel(allocates=False)
def mean_recall(hits, relevant, lengths, cutoffs, out):
    """Recall added up over cutoffs, over their number; NaN for a user without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            k = lengths[user] if cutoffs[column] == NO_CUTOFF else cutoffs[column]
            total = 0
            for hit in range(hits.starts[user], hits.starts[user + 1]):
                total += max(k - hits.ranks[hit] + 1, 0)
            value = total / (float(k) * n_relevant) if total > 0 else 0.0
            out[user, column] = value if n_relevant > 0 else math.nan
