# mypy: disable-error-code="no-untyped-def"
"""Bias of predicted ratings."""

import math

from evalkit.metrics import ROWS, kernel, of_sums, over_rows_or_users, rating_metric, ratio
from evalkit.metrics.ratings._errors import error


@rating_metric(
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
    over_rows=of_sums(error, ROWS, by=ratio),
)
@kernel(allocates=False)
def bias(starts, ratings, predictions, over, out):
    """Mean of prediction - rating of each group of rows; what rounding loses is carried along."""
    for group in range(out.size):
        total = lost = 0.0
        for row in range(starts[group], starts[group + 1]):
            error = predictions[row] - ratings[row]
            found = total + error
            if abs(total) >= abs(error):
                lost += (total - found) + error
            else:
                lost += (error - found) + total
            total = found
        n = starts[group + 1] - starts[group]
        if lost == lost:  # of infinite errors it is not
            total += lost
        out[group] = total / n if n > 0 else math.nan
