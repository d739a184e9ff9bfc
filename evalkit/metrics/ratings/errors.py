# mypy: disable-error-code="no-untyped-def"
"""Errors of predicted ratings, and the share of the ratings' spread that they leave."""

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
    of_kernels,
    of_sums,
    over_rows_or_users,
    rating_metric,
    ratio,
    square_root,
)

HERLOCKER = (
    "Herlocker, Konstan, Terveen and Riedl 2004, Evaluating collaborative filtering "
    "recommender systems, 4.1"
)
UNDEFINED, FINITE = 0, 1
SMALL, LARGE = 2.0**-400, 2.0**400  # between them squares lose nothing
FAR_UP, FAR_DOWN = 2.0**600, 2.0**-600


def where_undefined() -> Parameter:
    """`undefined`: what libraries say where there is no value."""
    return choice(
        "undefined",
        {"undefined": "undefined; users without a value are left out and counted", "zero": "0"},
        doc="The value where there is none.",
    )


def where_constant() -> Parameter:
    """`constant`: what libraries say where all ratings are equal."""
    return choice(
        "constant",
        {
            "undefined": "undefined; users without a value are left out and counted",
            "finite": "1 where nothing is left to explain, else 0",
        },
        doc="The value where all ratings are equal.",
    )


# a mean of distances, or of their squares: from 0 up, and the less the better
error_metric = of_kernels(
    rating_metric,
    source=HERLOCKER,
    bounds=(0.0, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
)


def error(ratings: Any, predictions: Any) -> Any:
    """How much too high each prediction is."""
    return predictions - ratings


def distance(ratings: Any, predictions: Any) -> Any:
    """How far each prediction is off."""
    return abs(predictions - ratings)


def rating(ratings: Any, predictions: Any) -> Any:
    """The ratings themselves."""
    return ratings


def explained(least_rows: int, constant: object, *, forgives_bias: bool) -> OfSums:
    """1 - squared errors over squared distances from the mean rating.

    `forgives_bias`: errors are taken from their mean. `least_rows`: fewer have no value.
    """

    def value(squares: Any, errors: Any, ratings: Any, rated: Any, n: Any) -> Any:
        spread = n * rated - ratings * ratings
        wrong = n * squares - (errors * errors if forgives_bias else 0)
        if spread or n == 0:
            return 1 - wrong / spread
        if constant == "undefined" or n < least_rows:
            return math.nan
        return 0.0 if wrong else 1.0

    # levels instead of ratings, so that squares of large ratings cancel nothing
    level = ("level",), ("level", "squares"), ROWS
    smooth = Smooth(((error, "squares"), *level), lambda q, r, rr, n: 1 - q / (rr - r * r / n))
    if forgives_bias:
        smooth = Smooth(
            ((error, "squares"), error, *level),
            lambda q, e, r, rr, n: 1 - (q - e * e / n) / (rr - r * r / n),
        )
    return OfSums(((error, "squares"), error, rating, (rating, "squares"), ROWS), value, smooth)


@kernel(allocates=False)
def scale_for(largest):
    """A power of two that keeps squares of numbers up to `largest` within float64; mostly 1."""
    if largest > LARGE:
        return FAR_DOWN
    return FAR_UP if 0.0 < largest < SMALL else 1.0


@kernel(allocates=False)
def mean_squares(starts, ratings, predictions, takes_root, out):
    """Mean of (prediction - rating)^2 of each group of rows, or its root."""
    for group in range(out.size):
        first, end = starts[group], starts[group + 1]
        largest = total = 0.0
        for row in range(first, end):
            largest = max(largest, abs(predictions[row] - ratings[row]))
        scale = scale_for(largest)
        for row in range(first, end):
            error = (predictions[row] - ratings[row]) * scale
            total += error * error
        if end == first:
            out[group] = math.nan
        elif takes_root:
            out[group] = math.sqrt(total / (end - first)) / scale
        else:
            out[group] = total / (end - first) / scale / scale


@kernel(allocates=False)
def explained_shares(starts, ratings, predictions, forgives_bias, least_rows, constant, out):
    """1 - squared errors over squared distances from the mean rating, of each group of rows.

    `forgives_bias`: errors are taken from their mean. `least_rows`: fewer have no value.
    """
    for group in range(out.size):
        first, end = starts[group], starts[group + 1]
        n = end - first
        if n < least_rows:
            out[group] = math.nan
            continue
        largest = largest_error = 0.0
        for row in range(first, end):
            largest = max(largest, abs(ratings[row]))
            largest_error = max(largest_error, abs(predictions[row] - ratings[row]))
        scale, error_scale = scale_for(largest), scale_for(largest_error)
        # from the first row on, so that what ratings far from 0 have in common takes no digits
        base = ratings[first] * scale
        base_error = (predictions[first] - ratings[first]) * error_scale if forgives_bias else 0.0
        total = errors = 0.0
        for row in range(first, end):
            total += ratings[row] * scale - base
            errors += (predictions[row] - ratings[row]) * error_scale - base_error
        mean = total / n
        bias = errors / n if forgives_bias else 0.0
        wrong = spread = 0.0
        is_exact = True
        for row in range(first, end):
            error = (predictions[row] - ratings[row]) * error_scale - base_error - bias
            distance = ratings[row] * scale - base - mean
            wrong += error * error
            spread += distance * distance
            same = predictions[first] - ratings[first] if forgives_bias else 0.0
            is_exact = is_exact and predictions[row] - ratings[row] == same
        if ratings[first] == ratings[end - 1]:  # ratings ascend
            out[group] = (1.0 if is_exact else 0.0) if constant == FINITE else math.nan
        elif is_exact:
            out[group] = 1.0
        elif scale == error_scale:
            out[group] = 1.0 - wrong / spread
        else:
            out[group] = 1.0 - wrong / spread * scale / error_scale * scale / error_scale


@error_metric(
    name="MAE",
    aliases=("mean_absolute_error",),
    summary="Mean distance between predicted and true rating.",
    formula="mean of |prediction - rating|",
    latex=r"\frac{1}{n} \sum |\hat r - r|",
    over_rows=of_sums(distance, ROWS, by=ratio),
)
def mae(starts, ratings, predictions, over, out):
    """Mean of |prediction - rating| of each group of rows."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += abs(predictions[row] - ratings[row])
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan


@error_metric(
    name="MSE",
    aliases=("mean_squared_error",),
    summary="Mean squared difference of predicted and true rating.",
    formula="mean of (prediction - rating)^2",
    latex=r"\frac{1}{n} \sum (\hat r - r)^2",
    over_rows=of_sums((error, "squares"), ROWS, by=ratio),
)
def mse(starts, ratings, predictions, over, out):
    """Mean of (prediction - rating)^2 of each group of rows."""
    mean_squares(starts, ratings, predictions, False, out)


@error_metric(
    name="RMSE",
    aliases=("root_mean_squared_error",),
    summary="Root of the mean squared difference of predicted and true rating.",
    formula="square root of the mean of (prediction - rating)^2",
    latex=r"\sqrt{\frac{1}{n} \sum (\hat r - r)^2}",
    over_rows=of_sums((error, "squares"), ROWS, by=lambda q, n: square_root(q / n)),
)
def rmse(starts, ratings, predictions, over, out):
    """Root of the mean of (prediction - rating)^2 of each group of rows."""
    mean_squares(starts, ratings, predictions, True, out)


@error_metric(
    name="bias",
    aliases=("mean_error", "ME"),
    summary="Mean of prediction less rating: above 0, predictions are too high.",
    formula="mean of prediction - rating",
    latex=r"\frac{1}{n} \sum (\hat r - r)",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2",
    bounds=(-math.inf, math.inf),
    higher_is_better=None,
    over_rows=of_sums(error, ROWS, by=ratio),
)
def bias(starts, ratings, predictions, over, out):
    """Mean of prediction - rating of each group of rows; what rounding loses is carried along."""
    for group in range(out.size):
        total = lost = 0.0
        for row in range(starts[group], starts[group + 1]):
            error = predictions[row] - ratings[row]
            found = total + error
            if abs(total) >= abs(error):
                lost += (total - found) + error
            else:
                lost += (error - found) + total
            total = found
        n = starts[group + 1] - starts[group]
        if lost == lost:  # of infinite errors it is not
            total += lost
        out[group] = total / n if n > 0 else math.nan


def of_shares(asked: Request) -> OfSums:
    """The mean of how far each prediction is off, as a share of its rating."""
    floor = float(dict(asked.parameters)["floor"])

    def relative(ratings: Any, predictions: Any) -> Any:
        import numpy as np  # metrics are listed without it

        with np.errstate(divide="ignore", invalid="ignore"):
            shares = abs(predictions - ratings) / np.maximum(abs(ratings), floor)
            return np.where((ratings != 0.0) | (floor > 0.0), shares, math.nan)

    return of_sums(relative, (relative, "count"), by=ratio)


def floor_parameter() -> Parameter:
    """`floor`: what libraries divide by where a rating is 0."""
    doc = "Ratings closer to 0 are divided by this instead; 0 leaves ratings of 0 out."
    return number("floor", 0.0, doc=doc, above=-5e-324, tried=0.5)


@error_metric(
    name="MAPE",
    aliases=("mean_absolute_percentage_error",),
    summary="Mean error as a share of the true rating. Trap: it explodes near a rating of 0, does "
    "not exist at 0 (such rows are left out and counted), and punishes predictions that are too "
    "high more than those too low.",
    formula="mean of |prediction - rating| / |rating| over ratings other than 0",
    latex=r"\frac{1}{n} \sum \frac{|\hat r - r|}{|r|}",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2.2",
    undefined="without a predicted pair whose rating is not 0",
    parameters=(over_rows_or_users(), floor_parameter()),
    over_rows=of_shares,
)
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


def symmetric(ratings: Any, predictions: Any) -> Any:
    """How far each prediction is off, as a share of the mean size of both; 0 where both are 0."""
    import numpy as np  # metrics are listed without it

    size = abs(predictions) + abs(ratings)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size > 0.0, 2.0 * abs(predictions - ratings) / size, 0.0)


@error_metric(
    name="sMAPE",
    aliases=("symmetric_mean_absolute_percentage_error",),
    summary="Mean error as a share of the mean size of rating and prediction. Trap: it is not "
    "symmetric (a prediction too low costs more), and a rating of 0 costs 2 whatever is "
    "predicted.",
    formula="mean of 2 |prediction - rating| / (|prediction| + |rating|); 0 where both are 0",
    latex=r"\frac{1}{n} \sum \frac{2 |\hat r - r|}{|\hat r| + |r|}",
    source="Makridakis 1993, Accuracy measures: theoretical and practical concerns",
    bounds=(0.0, 2.0),
    over_rows=of_sums(symmetric, ROWS, by=ratio),
)
def smape(starts, ratings, predictions, over, out):
    """Mean of 2 |prediction - rating| / (|prediction| + |rating|) of each group."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            size = abs(predictions[row]) + abs(ratings[row])
            if size > 0.0:
                total += 2.0 * abs(predictions[row] - ratings[row]) / size
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan


def size(ratings: Any, predictions: Any) -> Any:
    """The size of each rating."""
    return abs(ratings)


@error_metric(
    name="WAPE",
    aliases=("MAD_mean_ratio", "weighted_mean_absolute_percentage_error"),
    summary="Absolute errors over ratings, both added up first: the relative that ratings near 0 "
    "do not blow up. Trap: averaged over users, a user whose ratings are all 0 is undefined.",
    formula="sum of |prediction - rating| / sum of |rating|",
    latex=r"\frac{\sum |\hat r - r|}{\sum |r|}",
    source="Kolassa and Schütz 2007, Advantages of the MAD/mean ratio over the MAPE",
    undefined="where all ratings are 0",
    over_rows=of_sums(distance, size, by=ratio),
)
def wape(starts, ratings, predictions, over, out):
    """Sum of |prediction - rating| over sum of |rating| of each group."""
    for group in range(out.size):
        wrong = size = 0.0
        for row in range(starts[group], starts[group + 1]):
            wrong += abs(predictions[row] - ratings[row])
            size += abs(ratings[row])
        out[group] = wrong / size if size > 0.0 else math.nan


@rating_metric(
    name="R2",
    aliases=("rsquared", "r2_score"),
    summary="Share of the ratings' spread that predictions leave no error in; below 0, the mean "
    "rating predicts better.",
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


@rating_metric(
    name="explained-variance",
    aliases=("exp_var", "explained_variance_score"),
    summary="Share of the ratings' variance that predictions explain; unlike R2, a constant bias "
    "costs nothing.",
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
