# mypy: disable-error-code="no-untyped-def"
"""Root of the mean squared error of predicted ratings."""

from evalkit.metrics import ROWS, kernel, of_sums, square_root
from evalkit.metrics.ratings._errors import error, error_metric, mean_squares


@error_metric(
    name="RMSE",
    aliases=("root_mean_squared_error",),
    summary="Root of the mean squared difference of predicted and true rating.",
    formula="square root of the mean of (prediction - rating)^2",
    latex=r"\sqrt{\frac{1}{n} \sum (\hat r - r)^2}",
    over_rows=of_sums((error, "squares"), ROWS, by=lambda q, n: square_root(q / n)),
)
@kernel(allocates=False)
def rmse(starts, ratings, predictions, over, out):
    """Root of the mean of (prediction - rating)^2 of each group of rows."""
    mean_squares(starts, ratings, predictions, True, out)
