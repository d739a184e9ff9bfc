# mypy: disable-error-code="no-untyped-def"
"""Mean absolute percentage error of predicted ratings."""

import math
from typing import Any

from evalkit.metrics import (
    OfSums,
    Request,
    kernel,
    number,
    of_sums,
    over_rows_or_users,
    rating_metric,
    ratio,
)


def of_shares(asked: Request) -> OfSums:
    """The mean of how far each prediction is off, as a share of its rating."""
    floor = float(dict(asked.parameters)["floor"])

    def relative(ratings: Any, predictions: Any) -> Any:
        import numpy as np  # metrics are listed without it

        with np.errstate(divide="ignore", invalid="ignore"):
            shares = abs(predictions - ratings) / np.maximum(abs(ratings), floor)
            return np.where((ratings != 0.0) | (floor > 0.0), shares, math.nan)

    return of_sums(relative, (relative, "count"), by=ratio)


@rating_metric(
    name="MAPE",
    aliases=("mean_absolute_percentage_error",),
    summary=(
        "Mean error as a share of the true rating. Trap: it explodes near a rating of 0, does not "
        "exist at 0 (such rows are left out and counted), and punishes predictions that are too "
        "high more than those too low."
    ),
    formula="mean of |prediction - rating| / |rating| over ratings other than 0",
    latex=r"\frac{1}{n} \sum \frac{|\hat r - r|}{|r|}",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2.2",
    bounds=(0.0, math.inf),
    undefined="without a predicted pair whose rating is not 0",
    parameters=(
        over_rows_or_users(),
        number(
            "floor",
            0.0,
            doc="Ratings closer to 0 are divided by this instead; 0 leaves ratings of 0 out.",
            above=-5e-324,
            tried=0.5,
        ),
    ),
    higher_is_better=False,
    over_rows=of_shares,
)
@kernel(allocates=False)
def mape(starts, ratings, predictions, over, floor, out):
    """Mean of |prediction - rating| / |rating| of each group, without ratings of 0."""
    for group in range(out.size):
        total = 0.0
        n = 0
        for row in range(starts[group], starts[group + 1]):
            size = max(abs(ratings[row]), floor)
            if size > 0.0:
                total += abs(predictions[row] - ratings[row]) / size
                n += 1
        out[group] = total / n if n > 0 else math.nan
