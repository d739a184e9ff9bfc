# mypy: disable-error-code="no-untyped-def"
"""Hits that count by their weights, 1 / propensity, which stand in place of their gains."""

from evalkit.metrics import kernel


@kernel(allocates=False)
def weight_within(hits, user, cutoff):
    """The weights of a user's hits up to a cutoff, added up by rank."""
    total = 0.0
    for hit in range(hits.starts[user], hits.starts[user + 1]):
        if hits.ranks[hit] > cutoff:
            break
        total += hits.gains[hit]
    return total


@kernel(allocates=False)
def hits_weighted(hits, relevant, lengths, cutoffs, out):
    """Weights of hits up to each cutoff."""
    for user in range(out.shape[0]):
        for column in range(cutoffs.size):
            out[user, column] = weight_within(hits, user, cutoffs[column])
