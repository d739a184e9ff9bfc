# mypy: disable-error-code="no-untyped-def"
"""Mean squared error of predicted ratings."""

from evalkit.metrics import ROWS, kernel, of_sums, ratio
from evalkit.metrics.ratings._errors import error, error_metric, mean_squares


@error_metric(
    name="MSE",
    aliases=("mean_squared_error",),
    summary="Mean squared difference of predicted and true rating.",
    formula="mean of (prediction - rating)^2",
    latex=r"\frac{1}{n} \sum (\hat r - r)^2",
    over_rows=of_sums((error, "squares"), ROWS, by=ratio),
)
@kernel(allocates=False)
def mse(starts, ratings, predictions, over, out):
    """Mean of (prediction - rating)^2 of each group of rows."""
    mean_squares(starts, ratings, predictions, False, out)
