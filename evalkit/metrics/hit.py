# mypy: disable-error-code="no-untyped-def"
"""Hit: whether the ranking shows any relevant item; its mean is the hit rate."""

from evalkit.metrics import kernel, metric


@metric(
    name="hit",
    aliases=("HR", "hit_rate", "hit_ratio", "success", "success_at"),
    summary="1 if the ranking shows a relevant item, else 0; its mean is the hit rate.",
    formula="1 if a relevant item stands at ranks 1 to k, else 0",
    latex=r"\max_{1 \le i \le k} h_i",
    source=(
        "Deshpande and Karypis 2004, Item-Based Top-N Recommendation Algorithms, "
        "ACM Transactions on Information Systems 22(1), pp. 143-177, section 6.1"
    ),
    bounds=(0.0, 1.0),
    undefined="never; 0 for a user without relevant items",
)
@kernel(allocates=False)
def hit(hits, relevant, lengths, cutoffs, out):
    """1 where the first hit is within the cutoff."""
    for user in range(out.shape[0]):
        first, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            is_hit = first < end and hits.ranks[first] <= cutoffs[column]
            out[user, column] = 1.0 if is_hit else 0.0
