# mypy: disable-error-code="no-untyped-def"
"""What metrics of predicted ratings share: over what they are averaged, and sums of squares."""

import math
from functools import partial

from evalkit.metrics import Parameter, choice, kernel, metric

HERLOCKER = (
    "Herlocker, Konstan, Terveen and Riedl 2004, Evaluating collaborative filtering "
    "recommender systems, 4.1"
)
UNDEFINED, FINITE = 0, 1


def over_rows_or_users() -> Parameter:
    """The parameter `over`."""
    return choice(
        "over",
        {
            "rows": "all rated pairs together, so that people with many count more",
            "users": "the value of each user's rated pairs, averaged over users",
        },
        doc="What is averaged.",
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
    metric,
    source=HERLOCKER,
    bounds=(0.0, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    monotone=False,
    cutoff="never",
)


@kernel(allocates=False)
def mean_squares(starts, ratings, predictions, out):
    """Mean of (prediction - rating)^2 of each group of rows."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            error = predictions[row] - ratings[row]
            total += error * error
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan


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
        total = errors = 0.0
        for row in range(first, end):
            total += ratings[row]
            errors += predictions[row] - ratings[row]
        mean = total / n
        bias = errors / n if forgives_bias else 0.0
        wrong = spread = 0.0
        is_exact = True
        for row in range(first, end):
            error = predictions[row] - ratings[row] - bias
            wrong += error * error
            spread += (ratings[row] - mean) * (ratings[row] - mean)
            same = predictions[first] - ratings[first] if forgives_bias else 0.0
            is_exact = is_exact and predictions[row] - ratings[row] == same
        if ratings[first] != ratings[end - 1]:  # ratings ascend
            out[group] = 1.0 - wrong / spread
        else:
            out[group] = (1.0 if is_exact else 0.0) if constant == FINITE else math.nan
