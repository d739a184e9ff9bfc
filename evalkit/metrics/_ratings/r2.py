# mypy: disable-error-code="no-untyped-def"
"""Coefficient of determination of predicted ratings."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics._ratings._over import over_rows_or_users


@metric(
    name="R2",
    aliases=(
        "rsquared",
        "r2_score",
    ),
    summary=(
        "Share of the ratings' spread that predictions leave no error in; below 0, the mean "
        "rating predicts better."
    ),
    formula="1 - sum of (prediction - rating)^2 / sum of (rating - mean rating)^2",
    latex=r"1 - \frac{\sum (\hat r - r)^2}{\sum (r - \bar r)^2}",
    source="Draper and Smith 1998, Applied regression analysis, 1.3",
    bounds=(-math.inf, 1.0),
    undefined="where all ratings are equal",
    parameters=(over_rows_or_users(),),
    higher_is_better=True,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def r_squared(starts, ratings, predictions, out):
    """1 - squared errors over squared distances from the group's mean rating."""
    for group in range(out.size):
        first, end = starts[group], starts[group + 1]
        total = 0.0
        for row in range(first, end):
            total += ratings[row]
        mean = total / (end - first) if end > first else math.nan
        wrong = spread = 0.0
        for row in range(first, end):
            error = predictions[row] - ratings[row]
            wrong += error * error
            spread += (ratings[row] - mean) * (ratings[row] - mean)
        same = end == first or ratings[first] == ratings[end - 1]  # ratings ascend
        out[group] = math.nan if same else 1.0 - wrong / spread
