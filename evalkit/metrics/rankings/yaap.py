# mypy: disable-error-code="no-untyped-def"
"""yaap: the log-odds of a smoothed average precision."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="yaap",
    summary="Log-odds of the average precision, smoothed; without bounds, below 0 for most lists.",
    formula="log((1 + s) / (1 + |R| - s)), s the sum of the precision at hits",
    latex=r"\log \frac{1 + \sum_i h_i P_i}{1 + |R| - \sum_i h_i P_i}",
    source="Robertson 2012, On smoothing average precision, Proceedings of ECIR, pp. 158-169",
    bounds=(-math.inf, math.inf),
    undefined="never",
)
@kernel(allocates=False)
def yaap(hits, relevant, lengths, cutoffs, out):
    """Log-odds of precision summed over hits up to each cutoff."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        begin = hit = hits.starts[user]
        end = hits.starts[user + 1]
        total = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                hit += 1
                total += (hit - begin) / hits.ranks[hit - 1]
            total = min(total, float(n_relevant))  # copies hit more often than there are items
            out[user, column] = math.log((1.0 + total) / (1.0 + n_relevant - total))
