# mypy: disable-error-code="no-untyped-def"
"""Weighted absolute percentage error of predicted ratings."""

import math
from typing import Any

from evalkit.metrics import kernel, of_sums, over_rows_or_users, rating_metric, ratio
from evalkit.metrics.ratings._errors import distance


def size(ratings: Any, predictions: Any) -> Any:
    """The size of each rating."""
    return abs(ratings)


@rating_metric(
    name="WAPE",
    aliases=(
        "MAD_mean_ratio",
        "weighted_mean_absolute_percentage_error",
    ),
    summary=(
        "Absolute errors over ratings, both added up first: the relative that ratings near 0 do "
        "not blow up. Trap: averaged over users, a user whose ratings are all 0 is undefined."
    ),
    formula="sum of |prediction - rating| / sum of |rating|",
    latex=r"\frac{\sum |\hat r - r|}{\sum |r|}",
    source="Kolassa and Schütz 2007, Advantages of the MAD/mean ratio over the MAPE",
    bounds=(0.0, math.inf),
    undefined="where all ratings are 0",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    over_rows=of_sums(distance, size, by=ratio),
)
@kernel(allocates=False)
def wape(starts, ratings, predictions, over, out):
    """Sum of |prediction - rating| over sum of |rating| of each group."""
    for group in range(out.size):
        wrong = size = 0.0
        for row in range(starts[group], starts[group + 1]):
            wrong += abs(predictions[row] - ratings[row])
            size += abs(ratings[row])
        out[group] = wrong / size if size > 0.0 else math.nan
