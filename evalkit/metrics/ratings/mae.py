# mypy: disable-error-code="no-untyped-def"
"""Mean absolute error of predicted ratings."""

import math

from evalkit.metrics import ROWS, kernel, of_sums, ratio
from evalkit.metrics.ratings._errors import distance, error_metric


@error_metric(
    name="MAE",
    aliases=("mean_absolute_error",),
    summary="Mean distance between predicted and true rating.",
    formula="mean of |prediction - rating|",
    latex=r"\frac{1}{n} \sum |\hat r - r|",
    over_rows=of_sums(distance, ROWS, by=ratio),
)
@kernel(allocates=False)
def mae(starts, ratings, predictions, over, out):
    """Mean of |prediction - rating| of each group of rows."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += abs(predictions[row] - ratings[row])
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan
