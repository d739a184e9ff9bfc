# mypy: disable-error-code="no-untyped-def"
"""Linear utility of TREC's filtering tracks."""

import math

from evalkit.metrics import kernel, metric, number
from evalkit.metrics.rankings.confusion import CANDIDATES, shown_and_others


@metric(
    name="utility",
    summary="Worth of hits, misses, missed items and the rest, added up; it grows with the list.",
    formula="a * hits + b * shown others + c * missed relevant items + d * the rest",
    latex=r"a \, TP + b \, FP + c \, FN + d \, TN",
    source="Lewis 1996, The TREC-4 filtering track, Proceedings of TREC-4, NIST, pp. 165-180",
    bounds=(-math.inf, math.inf),
    undefined="never",
    parameters=(
        number("a", 1.0, tried=2.0, doc="Of a relevant item that is shown."),
        number("b", -1.0, tried=-0.5, doc="Of another one that is shown."),
        number("c", 0.0, tried=-0.25, doc="Of a relevant item that is not shown."),
        number("d", 0.0, tried=0.125, doc="Of another candidate that is not shown."),
        CANDIDATES,
    ),
)
@kernel(allocates=False)
def utility(hits, relevant, lengths, cutoffs, a, b, c, d, candidates, out):
    """Worth of the table of shown and relevant items at each cutoff."""
    for user in range(out.shape[0]):
        n_relevant = relevant.starts[user + 1] - relevant.starts[user]
        for column in range(cutoffs.size):
            tp, fp, n_others = shown_and_others(
                hits, user, lengths[user], cutoffs[column], n_relevant, candidates
            )
            missed = max(n_relevant - tp, 0.0)
            out[user, column] = a * tp + b * fp + c * missed + d * max(n_others - fp, 0.0)
