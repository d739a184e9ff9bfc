# mypy: disable-error-code="no-untyped-def"
"""Precision times recall of what a list shows, which trec_eval calls set_map."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="SetAP",
    aliases=("set_map",),
    summary="Precision times recall of the shown items, whatever their order.",
    formula="hits^2 / (min(k, n) |R|)",
    latex=r"\frac{(\sum_{i=1}^{k} h_i)^2}{\min(k, n) \, |R|}",
    source="Buckley and Voorhees 2005, Retrieval system evaluation, in TREC: Experiment and "
    "Evaluation in Information Retrieval, pp. 53-75",
    bounds=(0.0, 1.0),
    undefined="for a user without relevant items",
    counts_hits=True,
)
@kernel(allocates=False)
def set_ap(hits, relevant, lengths, cutoffs, out):
    """Hits squared up to each cutoff over rows and relevant items."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        hit, end = hits.starts[user], hits.starts[user + 1]
        n_hits = 0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                n_hits += 1
                hit += 1
            divisor = float(min(cutoffs[column], lengths[user])) * n_relevant
            value = n_hits * n_hits / divisor if divisor > 0.0 else 0.0
            out[user, column] = value if n_relevant > 0 else math.nan
