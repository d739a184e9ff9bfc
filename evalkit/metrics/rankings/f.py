# mypy: disable-error-code="no-untyped-def"
"""F: the weighted harmonic mean of precision and recall; F1 weighs both the same."""

import math

from evalkit.metrics import NO_CUTOFF, Values, choice, kernel, metric, number
from evalkit.metrics.rankings._ties import hits_within

K, LENGTH = 0, 1
RELEVANT, MIN_K = 0, 1
USERS, MEANS = 0, 1


@kernel(allocates=False)
def f_tied(hits, relevant, lengths, cutoffs, beta, precision_over, recall_over, mean, out):
    """Expected F at each cutoff: with both divisors fixed it is a multiple of the hits."""
    # Wide: what a metric of its kind is given, and its own parameters.
    weight = beta * beta
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        begin, end = hits.starts[user], hits.starts[user + 1]
        for column in range(cutoffs.size):
            n_ranks = cutoff = cutoffs[column]
            n_hits = hits_within(hits.firsts, hits.lasts, begin, end, cutoff)
            if cutoff == NO_CUTOFF or precision_over == LENGTH:
                n_ranks = min(cutoff, lengths[user])
            n_possible = min(cutoff, n_relevant) if recall_over == MIN_K else n_relevant
            value = (1.0 + weight) * n_hits / (weight * n_possible + n_ranks) if n_hits > 0 else 0.0
            out[user, column] = value if n_relevant > 0 else math.nan


def _is_of_users(values: Values) -> bool:
    return values["mean"] == "users"


@metric(
    name="F",
    suffix="beta",
    aliases=(
        "F_beta",
        "F_measure",
        "F_score",
        "F1_score",
        "F1_measure",
        "set_F(precision_over='length')",
    ),
    summary="Weighted harmonic mean of a user's precision and recall: F1, F2, F0.5.",
    formula="(1 + beta^2) P R / (beta^2 P + R), 0 where P and R are 0",
    latex=r"\frac{(1 + \beta^2) P R}{\beta^2 P + R}",
    source="Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.3, p. 156",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    parameters=(
        number(
            "beta",
            1.0,
            above=0.0,
            tried=0.5,
            doc="Recall weighs beta times as much as precision; written in the name, as in F2.",
        ),
        choice(
            "precision_over",
            {"k": "the cutoff", "length": "min(k, length of the list)"},
            doc="What hits are divided by in the precision.",
        ),
        choice(
            "recall_over",
            {"relevant": "all relevant items", "min_k": "min(k, relevant items)"},
            doc="What hits are divided by in the recall.",
        ),
        choice(
            "mean",
            {
                "users": "the mean of the users' F",
                "means": "F of the mean precision and the mean recall, undefined where both are 0; "
                "without interval",
            },
            doc="What the number over many users is.",
        ),
    ),
    tied=f_tied,
    counts_hits=True,
    has_closed_form=_is_of_users,
)
@kernel(allocates=False)
def f(hits, relevant, lengths, cutoffs, beta, precision_over, recall_over, mean, out):
    """F of precision and recall at each cutoff; NaN for a user without relevant items."""
    weight = beta * beta
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            cutoff = cutoffs[column]
            while hit < end and hits.ranks[hit] <= cutoff:
                n_hits += 1
                hit += 1
            n_ranks = cutoff
            if cutoff == NO_CUTOFF or precision_over == LENGTH:
                n_ranks = min(cutoff, lengths[user])
            n_possible = min(cutoff, n_relevant) if recall_over == MIN_K else n_relevant
            # with P = hits / ranks and R = hits / possible, the hits of the fraction cancel
            value = (1.0 + weight) * n_hits / (weight * n_possible + n_ranks) if n_hits > 0 else 0.0
            out[user, column] = value if n_relevant > 0 else math.nan
