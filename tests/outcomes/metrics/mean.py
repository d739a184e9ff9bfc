"""The mean outcome."""

import math

from evalkit.metrics import kernel, metric


@metric(
    name="mean",
    summary="Mean outcome of a user.",
    formula="sum of the outcomes over their number",
    latex=r"\bar y",
    source="Somebody 2026, A metric of our own",
    bounds=(-math.inf, math.inf),
    undefined="without an outcome",
    kind="outcomes",
    cutoff="never",
    monotone=False,
)
@kernel(allocates=False)
def mean(starts, outcomes, out):
    """Mean of the outcomes from `starts[user]` to `starts[user + 1]`."""
    for user in range(out.size):
        total = 0.0
        for row in range(starts[user], starts[user + 1]):
            total += outcomes[row]
        n = starts[user + 1] - starts[user]
        out[user] = total / n if n > 0 else math.nan
