# mypy: disable-error-code="no-untyped-def"
"""Explained variance of predicted ratings."""

import math

from evalkit.metrics import kernel, over_rows_or_users, rating_metric
from evalkit.metrics.ratings._errors import explained, explained_shares, where_constant


@rating_metric(
    name="explained-variance",
    aliases=(
        "exp_var",
        "explained_variance_score",
    ),
    summary=(
        "Share of the ratings' variance that predictions explain; unlike R2, a constant bias "
        "costs nothing."
    ),
    formula="1 - variance of (prediction - rating) / variance of ratings",
    latex=r"1 - \frac{\mathrm{Var}(\hat r - r)}{\mathrm{Var}(r)}",
    source="Kent 1983, Information gain and a general measure of correlation",
    bounds=(-math.inf, 1.0),
    undefined="where all ratings are equal",
    parameters=(over_rows_or_users(), where_constant()),
    over_rows=lambda asked: explained(1, dict(asked.parameters)["constant"], forgives_bias=True),
)
@kernel(allocates=False)
def explained_variance(starts, ratings, predictions, over, constant, out):
    """1 - variance of the errors over variance of the ratings of each group."""
    explained_shares(starts, ratings, predictions, True, 1, constant, out)
