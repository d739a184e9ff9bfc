# mypy: disable-error-code="no-untyped-def"
"""Explained variance of predicted ratings."""

import math

from evalkit.metrics import kernel, metric
from evalkit.metrics._ratings._over import over_rows_or_users


@metric(
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
    parameters=(over_rows_or_users(),),
    higher_is_better=True,
    monotone=False,
    cutoff="never",
)
@kernel(allocates=False)
def explained_variance(starts, ratings, predictions, out):
    """1 - variance of the errors over variance of the ratings of each group."""
    for group in range(out.size):
        first, end = starts[group], starts[group + 1]
        total = errors = 0.0
        for row in range(first, end):
            total += ratings[row]
            errors += predictions[row] - ratings[row]
        n = end - first
        mean = total / n if n > 0 else math.nan
        bias = errors / n if n > 0 else math.nan
        wrong = spread = 0.0
        for row in range(first, end):
            error = predictions[row] - ratings[row] - bias
            wrong += error * error
            spread += (ratings[row] - mean) * (ratings[row] - mean)
        same = end == first or ratings[first] == ratings[end - 1]  # ratings ascend
        out[group] = math.nan if same else 1.0 - wrong / spread
