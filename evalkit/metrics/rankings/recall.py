# mypy: disable-error-code="no-untyped-def"
"""Recall: the share of the relevant items that the ranking shows."""

import math

from evalkit.metrics import Unbiased, choice, kernel, metric
from evalkit.metrics.rankings._ties import hits_within
from evalkit.metrics.rankings._weights import weight_within

RELEVANT, MIN_K = 0, 1


@kernel(allocates=False)
def recall_tied(hits, relevant, lengths, cutoffs, over, out):
    """Expected hits up to each cutoff over relevant items; NaN for a user without any."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            n_hits = hits_within(hits.firsts, hits.lasts, begin, end, cutoffs[column])
            n_possible = min(cutoffs[column], n_relevant) if over == MIN_K else n_relevant
            out[user, column] = n_hits / n_possible if n_relevant > 0 else math.nan


@kernel(allocates=False)
def recall_weighted(hits, relevant, lengths, cutoffs, over, out):
    """Weights of hits up to each cutoff."""
    for user in range(out.shape[0]):
        for column in range(cutoffs.size):
            out[user, column] = weight_within(hits, user, cutoffs[column])


@metric(
    name="recall",
    aliases=("R", "set_R", "set_recall"),
    summary="Share of a user's relevant items that the ranking shows.",
    formula="hits at ranks 1 to k / number of relevant items",
    latex=r"\frac{1}{|R|} \sum_{i=1}^{k} h_i",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.3, p. 155",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(
        choice(
            "over",
            {
                "relevant": "all relevant items",
                "min_k": "min(k, relevant items), so that a list of k items can reach 1",
            },
            doc="What hits are divided by.",
        ),
    ),
    tied=recall_tied,
    over_hits="hits",
    unbiased=Unbiased(recall_weighted, per={}, only={"over": ("relevant",)}),
    counts_hits=True,
)
@kernel(allocates=False)
def recall(hits, relevant, lengths, cutoffs, over, out):
    """Hits up to each cutoff over relevant items; NaN for a user without any."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                n_hits += 1
                hit += 1
            n_possible = min(cutoffs[column], n_relevant) if over == MIN_K else n_relevant
            out[user, column] = n_hits / n_possible if n_relevant > 0 else math.nan
