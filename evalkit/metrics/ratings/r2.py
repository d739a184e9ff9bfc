# mypy: disable-error-code="no-untyped-def"
"""Coefficient of determination of predicted ratings."""

import math

from evalkit.metrics import kernel, over_rows_or_users, rating_metric
from evalkit.metrics.ratings._errors import explained, explained_shares, where_constant


@rating_metric(
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
    undefined="where all ratings are equal, and of fewer than two",
    parameters=(over_rows_or_users(), where_constant()),
    over_rows=lambda asked: explained(2, dict(asked.parameters)["constant"], forgives_bias=False),
)
@kernel(allocates=False)
def r_squared(starts, ratings, predictions, over, constant, out):
    """1 - squared errors over squared distances from the group's mean rating."""
    explained_shares(starts, ratings, predictions, False, 2, constant, out)
