# mypy: disable-error-code="no-untyped-def"
"""The largest error, errors in units of the ratings, and what both put above a threshold."""

import math
from typing import Any

from evalkit.metrics import (
    ROWS,
    OfSums,
    Parameter,
    Request,
    Smooth,
    choice,
    kernel,
    number,
    of_sums,
    over_rows_or_users,
    rating_metric,
    ratio,
    square_root,
)
from evalkit.metrics.ratings.deviances import rating
from evalkit.metrics.ratings.errors import distance, error, error_metric, where_undefined

MEAN, RANGE, STD = 0, 1, 2
UNDEFINED = 0
INSTEAD = {"undefined": math.nan, "zero": 0.0}


@error_metric(
    name="max-error",
    aliases=("maximum_error",),
    summary="The largest distance of a prediction and its rating; it only grows with the pairs.",
    formula="largest |prediction - rating|",
    latex=r"\max |\hat r - r|",
    over_rows=of_sums(
        (distance, "highest"), ROWS, by=lambda far, n: far * (n / n), is_smooth=False
    ),
)
def max_error(starts, ratings, predictions, over, out):
    """The largest distance of each group."""
    for group in range(out.size):
        largest = 0.0
        for row in range(starts[group], starts[group + 1]):
            largest = max(largest, abs(predictions[row] - ratings[row]))
        out[group] = largest if starts[group + 1] > starts[group] else math.nan


def by_parameter() -> Parameter:
    """`by`, which no label leaves out."""
    return choice(
        "by",
        {
            "mean": "the size of the mean rating",
            "range": "the largest rating less the smallest; without a standard error",
            "std": "the standard deviation of the ratings, over n",
            "l2": "the root of the sum of squared ratings",
        },
        doc="What RMSE is divided by.",
        is_written=True,
    )


def of_units(asked: Request) -> OfSums:
    """RMSE over what stands for the size of ratings."""
    by, squares = dict(asked.parameters)["by"], (error, "squares")
    if by == "mean":
        return of_sums(
            *(squares, rating, ROWS), by=lambda q, r, n: square_root(q * n / (r * r)) * (n / n)
        )
    if by == "l2":
        return of_sums(
            *(squares, (rating, "squares"), ROWS), by=lambda q, rr, n: square_root(q / n / rr)
        )
    if by == "range":
        ends = (rating, "lowest"), (rating, "highest")
        return of_sums(
            *(squares, ROWS, *ends),
            by=lambda q, n, low, high: square_root(q / n) / (high - low),
            is_smooth=False,
        )
    terms = (squares, rating, (rating, "squares"), ROWS)
    levels = (squares, ("level",), ("level", "squares"), ROWS)

    def value(q: Any, r: Any, rr: Any, n: Any) -> Any:
        return square_root(q * n / (n * rr - r * r))

    return OfSums(terms, value, Smooth(levels, value))


@error_metric(
    name="nRMSE",
    aliases=("NRMSE", "normalized_root_mean_squared_error"),
    summary="RMSE in units of the ratings; four units have this one name, so say which: by=.",
    formula="RMSE / mean, range, standard deviation or norm of the ratings",
    latex=r"\frac{\mathrm{RMSE}}{|\bar r|}",
    undefined="where what it is divided by is 0",
    parameters=(over_rows_or_users(), by_parameter()),
    over_rows=of_units,
)
def nrmse(starts, ratings, predictions, over, by, out):
    """RMSE over the unit of each group; ratings ascend."""
    for group in range(out.size):
        first, end = starts[group], starts[group + 1]
        n = end - first
        wrong = total = squares = apart = 0.0
        for row in range(first, end):
            far = predictions[row] - ratings[row]
            wrong += far * far
            total += ratings[row]
            squares += ratings[row] * ratings[row]
            apart += ratings[row] - ratings[first]
        unit = 0.0
        if by == MEAN and n > 0:
            unit = abs(total) / n
        elif by == RANGE and n > 0:
            unit = ratings[end - 1] - ratings[first]
        elif by == STD and n > 0:
            spread = 0.0
            for row in range(first, end):
                level = ratings[row] - ratings[first] - apart / n
                spread += level * level
            unit = math.sqrt(spread / n)
        elif n > 0:
            unit = math.sqrt(squares)
        out[group] = math.sqrt(wrong / n) / unit if unit > 0.0 else math.nan


def of_threshold(asked: Request) -> OfSums:
    """Pairs both of whose numbers reach a threshold, over those of which one does."""
    values = dict(asked.parameters)
    least, nothing = float(values["threshold"]), INSTEAD[str(values["undefined"])]

    def both(ratings: Any, predictions: Any) -> Any:
        return (ratings >= least) & (predictions >= least)

    def either(ratings: Any, predictions: Any) -> Any:
        return (ratings >= least) | (predictions >= least)

    return of_sums(both, either, by=lambda reached, n: ratio(reached, n) if n else nothing)


@rating_metric(
    name="threat-score",
    aliases=("critical_success_index", "CSI"),
    summary="Pairs whose rating and prediction reach a threshold, over those of which one does.",
    formula="pairs with both >= t / pairs with either >= t",
    latex=r"\frac{\sum [r \ge t \wedge \hat r \ge t]}{\sum [r \ge t \vee \hat r \ge t]}",
    source="Schaefer 1990, The critical success index as an indicator of warning skill, 2",
    bounds=(0.0, 1.0),
    undefined="where no rating and no prediction reaches the threshold",
    parameters=(
        over_rows_or_users(),
        where_undefined(),
        number("threshold", 4.0, doc="What counts as high."),
    ),
    over_rows=of_threshold,
)
@kernel(allocates=False)
def threat_score(starts, ratings, predictions, over, undefined, threshold, out):
    """Both over either of each group."""
    for group in range(out.size):
        both = either = 0.0
        for row in range(starts[group], starts[group + 1]):
            is_rated, is_predicted = ratings[row] >= threshold, predictions[row] >= threshold
            both += is_rated and is_predicted
            either += is_rated or is_predicted
        nothing = math.nan if undefined == UNDEFINED else 0.0
        out[group] = both / either if either > 0.0 else nothing
