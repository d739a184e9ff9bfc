# mypy: disable-error-code="no-untyped-def"
"""Symmetric mean absolute percentage error of predicted ratings."""

import math
from typing import Any

from evalkit.metrics import ROWS, kernel, of_sums, over_rows_or_users, rating_metric, ratio


def symmetric(ratings: Any, predictions: Any) -> Any:
    """How far each prediction is off, as a share of the mean size of both; 0 where both are 0."""
    import numpy as np  # metrics are listed without it

    size = abs(predictions) + abs(ratings)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size > 0.0, 2.0 * abs(predictions - ratings) / size, 0.0)


@rating_metric(
    name="sMAPE",
    aliases=("symmetric_mean_absolute_percentage_error",),
    summary=(
        "Mean error as a share of the mean size of rating and prediction. Trap: it is not "
        "symmetric (a prediction too low costs more), and a rating of 0 costs 2 whatever is "
        "predicted."
    ),
    formula="mean of 2 |prediction - rating| / (|prediction| + |rating|); 0 where both are 0",
    latex=r"\frac{1}{n} \sum \frac{2 |\hat r - r|}{|\hat r| + |r|}",
    source="Makridakis 1993, Accuracy measures: theoretical and practical concerns",
    bounds=(0.0, 2.0),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    over_rows=of_sums(symmetric, ROWS, by=ratio),
)
@kernel(allocates=False)
def smape(starts, ratings, predictions, over, out):
    """Mean of 2 |prediction - rating| / (|prediction| + |rating|) of each group."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            size = abs(predictions[row]) + abs(ratings[row])
            if size > 0.0:
                total += 2.0 * abs(predictions[row] - ratings[row]) / size
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan
