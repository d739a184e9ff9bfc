# mypy: disable-error-code="no-untyped-def"
"""Metrics of leave-one-out studies that rank one relevant item among a sample of others."""

import math

from evalkit.metrics import choice, kernel, metric, number

RECALL, NDCG, RR = 0, 1, 2


@metric(
    name="sampled",
    summary="Recall, nDCG or reciprocal rank where a user's one relevant item was ranked among a "
    "sample of others: as it is, or estimated for the whole catalogue.",
    formula="of rank r, or of 1 + (r - 1) (catalogue - 1) / sample: 1 up to the cutoff, "
    "1 / log2(1 + rank), or 1 / rank",
    latex=r"f\left(1 + (r - 1) \frac{n - 1}{m}\right)",
    source="Krichene and Rendle 2020, On sampled metrics for item recommendation, KDD, p. 1753",
    bounds=(0.0, 1.0),
    undefined="for a user with none or several relevant items, and where the list is longer than "
    "the sample and that item",
    parameters=(
        choice(
            "of",
            {
                "recall": "1 up to the cutoff, which is also the hit rate",
                "nDCG": "1 / log2(1 + rank) up to the cutoff",
                "RR": "1 / rank up to the cutoff, which is also the average precision",
            },
            doc="What is measured; each has one value a rank, for one item is relevant.",
        ),
        number(
            "catalogue",
            0.0,
            above=-1.0,
            doc="Items that could have been ranked, for the estimate; 0: the rank as it is.",
        ),
        number(
            "sample",
            0.0,
            above=-1.0,
            doc="Others that were drawn beside the relevant item; 0: all other rows of the list.",
        ),
    ),
)
@kernel(allocates=False)
def sampled(hits, relevant, lengths, cutoffs, of, catalogue, sample, out):
    """The value of each user's rank, scaled to the catalogue by the unbiased estimate of it."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_listed = lengths[user] - (1.0 if end > hit else 0.0)
        n_others = sample if sample > 0.0 else n_listed
        known = n_relevant == 1 and n_listed <= n_others
        rank = math.inf
        if hit < end:
            rank = float(hits.ranks[hit])
            if catalogue > 0.0 and rank > 1.0 and n_others > 0.0:
                rank = 1.0 + (rank - 1.0) * ((catalogue - 1.0) / n_others)
        for column in range(cutoffs.size):
            if not known:
                out[user, column] = math.nan
            elif rank > cutoffs[column]:
                out[user, column] = 0.0
            elif of == RECALL:
                out[user, column] = 1.0
            else:
                out[user, column] = 1.0 / (math.log2(1.0 + rank) if of == NDCG else rank)
