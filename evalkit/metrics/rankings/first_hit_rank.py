# mypy: disable-error-code="no-untyped-def"
"""First-hit rank: how far a user must look to meet a relevant item."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="first_hit_rank",
    aliases=("first_hit", "first_relevant_rank"),
    summary="Rank of the first relevant item that the ranking shows; lower is better.",
    formula="rank of the first hit at ranks 1 to k",
    latex=r"\min \{ i \le k : h_i = 1 \}",
    source="Cooper 1968, Expected Search Length, American Documentation 19(1), pp. 30-41 "
    "(the search length for one item, plus 1)",
    bounds=(1.0, math.inf),
    undefined="for a user without a hit within the cutoff",
    higher_is_better=False,
    monotone=False,
)
@kernel(allocates=False)
def first_hit_rank(hits, relevant, lengths, cutoffs, out):
    """Rank of the first hit within each cutoff; NaN without one."""
    for user in range(out.shape[0]):
        first, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            is_hit = first < end and hits.ranks[first] <= cutoffs[column]
            out[user, column] = float(hits.ranks[first]) if is_hit else math.nan
