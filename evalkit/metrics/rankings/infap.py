# mypy: disable-error-code="no-untyped-def"
"""infAP: average precision estimated from a pool of which a sample was judged."""

import math

from evalkit.metrics import kernel, metric

EPSILON = 0.00001  # of each kind above, as trec_eval has it


@metric(
    name="infAP",
    aliases=("inferred_average_precision",),
    summary="AP estimated where only a random sample of the pooled items was judged.",
    formula="1/|R| * sum over shown relevant items at rank i of "
    "1/i + pooled above / i * (relevant above + e) / (judged above + 2e)",
    latex=r"\frac{1}{|R|} \sum_r \frac{1}{i_r} + \frac{d_r}{i_r} \cdot"
    r"\frac{q_r + \epsilon}{q_r + m_r + 2 \epsilon}",
    source="Yilmaz and Aslam 2006, Estimating average precision with incomplete and imperfect "
    "judgments, Proceedings of CIKM, pp. 104-106",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    monotone=False,
    view="pool",
)
@kernel(allocates=False)
def infap(hits, relevant, lengths, cutoffs, out):
    """Expected precision at relevant items up to each cutoff, over all of them."""
    for user in range(out.shape[0]):
        n_relevant = 0
        for place in range(relevant.starts[user], relevant.starts[user + 1]):
            n_relevant += relevant.gains[place] > 0.0
        hit, end = hits.starts[user], hits.starts[user + 1]
        total, n_pooled, n_judged, n_hits = 0.0, 0, 0, 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                if hits.gains[hit] > 0.0:
                    share = (n_hits + EPSILON) / (n_judged + 2.0 * EPSILON)
                    total += (1.0 + n_pooled * share) / hits.ranks[hit]
                n_pooled += 1
                n_judged += hits.gains[hit] >= 0.0
                n_hits += hits.gains[hit] > 0.0
                hit += 1
            out[user, column] = total / n_relevant if n_relevant > 0 else math.nan
