# mypy: disable-error-code="no-untyped-def"
"""Interpolated precision at points of recall, and its mean over eleven of them."""

import math

from evalkit.metrics import choice, kernel, metric, number

CEIL, TREC_EVAL, ROUND = 0, 1, 2
SLACK = 1e-9  # so that 0.7 of 10 items are 7 in floats too
POINTS = choice(
    "points",
    {
        "ceil": "the least number of items that reaches it",
        "trec_eval": "int(recall |R| + 0.9), as trec_eval 9: one item short below a tenth of one",
        "round": "the nearest number, as trec_eval 10: 3 of 4 items reach 0.8",
    },
    doc="How many relevant items a recall stands for.",
)
SOURCE = "Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, 8.4, p. 158"


@kernel(allocates=False)
def items_of(recall, n_relevant, points):
    """How many relevant items have to be shown for a recall."""
    if points == CEIL:
        return max(1, math.ceil(recall * n_relevant - SLACK))
    half = 0.9 if points == TREC_EVAL else 0.5
    return max(1, math.floor(recall * n_relevant + half))


@kernel(allocates=False)
def best_precision(hits, user, cutoff, n_wanted):
    """The largest precision at ranks up to the cutoff with so many hits; 0 where none has."""
    begin, best = hits.starts[user], 0.0
    for hit in range(begin + n_wanted - 1, hits.starts[user + 1]):
        if hits.ranks[hit] > cutoff:
            break
        best = max(best, (hit - begin + 1) / hits.ranks[hit])
    return best


@metric(
    name="iprec",
    aliases=("iprec_at_recall", "interpolated_precision"),
    summary="The best precision at any rank that reaches a recall.",
    formula="largest precision at ranks with at least recall * |R| hits",
    latex=r"\max_{i \,:\, H_i \ge x |R|} \frac{H_i}{i}",
    source=SOURCE,
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    parameters=(
        number("recall", 0.1, above=-1e-9, below=1.0 + 1e-9, tried=0.5, doc="The recall x."),
        POINTS,
    ),
)
@kernel(allocates=False)
def iprec(hits, relevant, lengths, cutoffs, recall, points, out):
    """Interpolated precision up to each cutoff; NaN for a user without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        n_wanted = items_of(recall, n_relevant, points)
        for column in range(cutoffs.size):
            best = best_precision(hits, user, cutoffs[column], n_wanted)
            out[user, column] = best if n_relevant > 0 else math.nan


@metric(
    name="11pt_avg",
    aliases=("eleven_point_average",),
    summary="Mean of the interpolated precision at the recalls 0, 0.1 to 1.",
    formula="(iprec(recall=0) + iprec(recall=0.1) + ... + iprec(recall=1)) / 11",
    latex=r"\frac{1}{11} \sum_{j=0}^{10} \max_{i \,:\, H_i \ge j |R| / 10} \frac{H_i}{i}",
    source=SOURCE,
    bounds=(0.0, math.inf),
    undefined="for a user without relevant items",
    parameters=(POINTS,),
)
@kernel(allocates=False)
def eleven_points(hits, relevant, lengths, cutoffs, points, out):
    """Mean interpolated precision up to each cutoff; NaN for a user without relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            total = 0.0
            for point in range(11):
                n_wanted = items_of(point / 10, n_relevant, points)
                total += best_precision(hits, user, cutoffs[column], n_wanted)
            out[user, column] = total / 11 if n_relevant > 0 else math.nan
