# mypy: disable-error-code="no-untyped-def"
"""Precision: the share of the shown ranks that hold a relevant item."""

from evalkit.metrics import NO_CUTOFF, Unbiased, choice, kernel, metric
from evalkit.metrics.rankings._ties import hits_within
from evalkit.metrics.rankings._weights import weight_within

K, LENGTH = 0, 1


@kernel(allocates=False)
def precision_tied(hits, relevant, lengths, cutoffs, over, out):
    """Expected hits up to each cutoff over the ranks looked at."""
    for user in range(out.shape[0]):
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            n_ranks = cutoff = cutoffs[column]
            if cutoff == NO_CUTOFF or over == LENGTH:
                n_ranks = min(cutoff, lengths[user])
            n_hits = hits_within(hits.firsts, hits.lasts, begin, end, cutoff)
            out[user, column] = n_hits / n_ranks if n_ranks > 0 else 0.0


@kernel(allocates=False)
def precision_weighted(hits, relevant, lengths, cutoffs, over, out):
    """Weights of hits up to each cutoff over the ranks looked at."""
    for user in range(out.shape[0]):
        for column in range(cutoffs.size):
            n_ranks = cutoff = cutoffs[column]
            if cutoff == NO_CUTOFF or over == LENGTH:
                n_ranks = min(cutoff, lengths[user])
            total = weight_within(hits, user, cutoff)
            out[user, column] = total / n_ranks if n_ranks > 0 else 0.0


@metric(
    name="precision",
    aliases=("P", "prec", "set_P(over='length')"),
    summary="Share of the first k ranks that hold a relevant item.",
    formula="hits at ranks 1 to k / k; without a cutoff: hits / length of the list",
    latex=r"\frac{1}{k} \sum_{i=1}^{k} h_i",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.4, p. 161",
    bounds=(0.0, 1.0),
    undefined="never; 0 for an empty list and for a user without relevant items",
    parameters=(
        choice(
            "over",
            {
                "k": "the cutoff: ranks that a short list lacks are misses",
                "length": "min(k, length of the list)",
            },
            doc="What hits are divided by.",
        ),
    ),
    tied=precision_tied,
    over_hits="hits",
    unbiased=Unbiased(precision_weighted),
    counts_hits=True,
)
@kernel(allocates=False)
def precision(hits, relevant, lengths, cutoffs, over, out):
    """Hits up to each cutoff over the ranks looked at."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            while hit < end and hits.ranks[hit] <= cutoff:
                n_hits += 1
                hit += 1
            n_ranks = cutoff
            if cutoff == NO_CUTOFF or over == LENGTH:
                n_ranks = min(cutoff, lengths[user])
            out[user, column] = n_hits / n_ranks if n_ranks > 0 else 0.0
