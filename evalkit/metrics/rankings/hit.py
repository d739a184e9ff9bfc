# mypy: disable-error-code="no-untyped-def"
"""Hit: whether the ranking shows any relevant item; its mean is the hit rate."""

from evalkit.metrics import Unbiased, kernel, metric
from evalkit.metrics.rankings._ties import chance_of_none, end_of_tie
from evalkit.metrics.rankings._weights import hits_weighted


@kernel(allocates=False)
def hit_tied(hits, relevant, lengths, cutoffs, out):
    """The probability of a hit within each cutoff."""
    firsts, lasts = hits.firsts, hits.lasts
    for user in range(out.shape[0]):
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            value = 0.0
            if begin < end and firsts[begin] <= cutoffs[column]:  # later ties need not be asked
                n_hits = end_of_tie(firsts, begin, end) - begin
                n_rows = lasts[begin] - firsts[begin] + 1
                n_ranks = min(n_rows, cutoffs[column] - firsts[begin] + 1)
                value = 1.0 - chance_of_none(n_hits, n_rows, n_ranks)
            out[user, column] = value


@metric(
    name="hit",
    aliases=("HR", "hit_rate", "hit_ratio", "success", "success_at"),
    summary="1 if the ranking shows a relevant item, else 0; its mean is the hit rate.",
    formula="1 if a relevant item stands at ranks 1 to k, else 0",
    latex=r"\max_{1 \le i \le k} h_i",
    source="Deshpande and Karypis 2004, Item-Based Top-N Recommendation Algorithms, "
    "ACM Transactions on Information Systems 22(1), pp. 143-177, section 6.1",
    bounds=(0.0, 1.0),
    undefined="never; 0 for a user without relevant items",
    tied=hit_tied,
    counts_hits=True,
    unbiased=Unbiased(hits_weighted),
)
@kernel(allocates=False)
def hit(hits, relevant, lengths, cutoffs, out):
    """1 where the first hit is within the cutoff."""
    for user in range(out.shape[0]):
        first, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            is_hit = first < end and hits.ranks[first] <= cutoffs[column]
            out[user, column] = 1.0 if is_hit else 0.0
