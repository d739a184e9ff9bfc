# mypy: disable-error-code="no-untyped-def"
"""Mean squared error of predicted ratings."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics._ratings._errors import HERLOCKER, mean_squares, over_rows_or_users


@metric(
    name="MSE",
    aliases=("mean_squared_error",),
    summary="Mean squared difference of predicted and true rating.",
    formula="mean of (prediction - rating)^2",
    latex=r"\frac{1}{n} \sum (\hat r - r)^2",
    source=HERLOCKER,
    bounds=(0.0, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def mse(starts, ratings, predictions, over, out):
    """Mean of (prediction - rating)^2 of each group of rows."""
    mean_squares(starts, ratings, predictions, out)
