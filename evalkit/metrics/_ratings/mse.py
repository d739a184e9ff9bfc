# mypy: disable-error-code="no-untyped-def"
"""Mean squared error of predicted ratings."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics._ratings._over import over_rows_or_users


@metric(
    name="MSE",
    aliases=("mean_squared_error",),
    summary="Mean squared difference of predicted and true rating.",
    formula="mean of (prediction - rating)^2",
    latex=r"\frac{1}{n} \sum (\hat r - r)^2",
    source=(
        "Herlocker, Konstan, Terveen and Riedl 2004, Evaluating collaborative filtering "
        "recommender systems, 4.1"
    ),
    bounds=(0.0, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def mse(starts, ratings, predictions, out):
    """Mean of (prediction - rating)^2 of each group of rows."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            error = predictions[row] - ratings[row]
            total += error * error
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan
