# mypy: disable-error-code="no-untyped-def"
"""What metrics of predicted ratings share: over what they are averaged, and sums of squares."""

import math
from functools import partial
from typing import Any

from evalkit.metrics import (
    ROWS,
    OfSums,
    Parameter,
    Smooth,
    choice,
    kernel,
    over_rows_or_users,
    rating_metric,
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
error_metric = partial(
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
