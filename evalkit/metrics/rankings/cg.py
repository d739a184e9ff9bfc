# mypy: disable-error-code="no-untyped-def"
"""CG: the gain of everything that the ranking shows."""

import math

from evalkit.metrics import Unbiased, kernel, metric
from evalkit.metrics.rankings._gain import BELOW_THRESHOLD, GAIN, gain_of, view_of_gain


@metric(
    name="CG",
    aliases=("cumulated_gain", "cumulative_gain"),
    summary="Sum of the gains that the ranking shows, whatever their rank.",
    formula="sum over hits at ranks 1 to k of gain",
    latex=r"\sum_{i=1}^{k} g_i",
    source="Järvelin and Kekäläinen 2002, Cumulated Gain-Based Evaluation of IR Techniques, "
    "ACM Transactions on Information Systems 20(4), p. 425",
    bounds=(0.0, math.inf),
    undefined="never; 0 for a user without relevant items",
    parameters=(GAIN, BELOW_THRESHOLD),
    view=view_of_gain,
    unbiased=Unbiased(),
)
@kernel(allocates=False)
def cg(hits, relevant, lengths, cutoffs, gain, below_threshold, out):
    """Gains up to each cutoff."""
    for user in range(out.shape[0]):
        hit, end = hits.starts[user], hits.starts[user + 1]
        total = 0.0
        for column in range(cutoffs.size):
            while hit < end and hits.ranks[hit] <= cutoffs[column]:
                total += gain_of(hits.gains[hit], gain)
                hit += 1
            out[user, column] = total
