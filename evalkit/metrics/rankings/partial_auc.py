# mypy: disable-error-code="no-untyped-def"
"""Partial AUC of a ranked list: its first misses against the relevant items."""

import math

from evalkit.metrics import NO_CUTOFF, choice, kernel, metric

RELEVANT, MIN_K = 0, 1


@metric(
    name="partial-AUC",
    aliases=("pAUC", "PAP(positives='min_k')"),
    summary="Chance that a relevant item stands above one of the first k others of the list; what "
    "the list lacks counts as lost.",
    formula="sum over hits of max(k - others above it, 0) / (k * relevant items)",
    latex=r"\frac{\sum_j \max(k - (r_j - j), 0)}{k |R|}",
    source="Dodd and Pepe 2003, Partial AUC estimation and regression, Biometrics 59, p. 614",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items; without a cutoff, k is the number of others that "
    "the list shows, and a list without any is undefined",
    parameters=(
        choice(
            "positives",
            {
                "relevant": "all relevant items",
                "min_k": "min(k, relevant items), the first hits of the list",
            },
            doc="Which relevant items are compared.",
        ),
    ),
    monotone=False,
)
@kernel(allocates=False)
def partial_auc(hits, relevant, lengths, cutoffs, positives, out):
    """Of each user and each number k of misses."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        first, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            most = cutoffs[column]
            if most == NO_CUTOFF:
                most = max(lengths[user] - (end - first), 0)
            if n_relevant <= 0 or most <= 0:
                out[user, column] = math.nan
                continue
            n_wanted = min(most, n_relevant) if positives == MIN_K else n_relevant
            won = 0
            for hit in range(first, min(end, first + n_wanted)):
                others = max(hits.ranks[hit] - 1 - (hit - first), 0)
                won += max(most - others, 0)
            out[user, column] = won / (most * n_wanted)
