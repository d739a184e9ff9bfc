# mypy: disable-error-code="no-untyped-def"
"""Bias of predicted ratings."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics._ratings._errors import over_rows_or_users


@metric(
    name="bias",
    aliases=(
        "mean_error",
        "ME",
    ),
    summary="Mean of prediction less rating: above 0, predictions are too high.",
    formula="mean of prediction - rating",
    latex=r"\frac{1}{n} \sum (\hat r - r)",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2",
    bounds=(-math.inf, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=None,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def bias(starts, ratings, predictions, over, out):
    """Mean of prediction - rating of each group of rows."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += predictions[row] - ratings[row]
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan
