# mypy: disable-error-code="no-untyped-def"
"""Metrics that are a mean of something that each pair has, or a function of it: one family."""

import math
from typing import Any

from evalkit.metrics import (
    ROWS,
    OfSums,
    Request,
    kernel,
    minus_ln_of_rest,
    number,
    of_kernels,
    of_sums,
    over_rows_or_users,
    rating_metric,
    square_root,
)

ABOVE = "ratings and predictions above -1"
LN2 = math.log(2.0)
SMALL = 0.02  # below it four terms of the series are exact

loss_metric = of_kernels(
    rating_metric,
    bounds=(0.0, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    is_loss=True,
)


@kernel(allocates=False)
def squared_log_error(rating, prediction):
    """(ln(1 + prediction) - ln(1 + rating))^2; NaN at -1 and below."""
    if not (rating > -1.0 and prediction > -1.0):
        return math.nan
    error = minus_ln_of_rest(-rating) - minus_ln_of_rest(-prediction)
    return error * error


@loss_metric(
    name="MSLE",
    aliases=("mean_squared_log_error",),
    summary="Mean squared difference of the logarithms: errors count by ratio, not by distance.",
    formula="mean of (ln(1 + prediction) - ln(1 + rating))^2",
    latex=r"\frac{1}{n} \sum (\ln(1 + \hat r) - \ln(1 + r))^2",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2",
    domain=ABOVE,
)
def msle(ratings, predictions, losses):
    """The squared difference of logarithms of each pair."""
    for row in range(losses.size):
        losses[row] = squared_log_error(ratings[row], predictions[row])


def of_root(asked: Request) -> OfSums:
    """The root of the mean loss."""
    return of_sums(msle.request(), ROWS, by=lambda q, n: square_root(q / n))


@loss_metric(
    name="RMSLE",
    aliases=("root_mean_squared_log_error",),
    summary="Root of MSLE.",
    formula="square root of the mean of (ln(1 + prediction) - ln(1 + rating))^2",
    latex=r"\sqrt{\frac{1}{n} \sum (\ln(1 + \hat r) - \ln(1 + r))^2}",
    source="Hyndman and Koehler 2006, Another look at measures of forecast accuracy, 2",
    domain=ABOVE,
    is_loss=False,
    over_rows=of_root,
)
def rmsle(starts, ratings, predictions, over, out):
    """The root of each group's mean."""
    for group in range(out.size):
        total, n = 0.0, starts[group + 1] - starts[group]
        for row in range(starts[group], starts[group + 1]):
            total += squared_log_error(ratings[row], predictions[row])
        out[group] = math.sqrt(total / n) if n > 0 else math.nan


@loss_metric(
    name="log-cosh",
    aliases=("log_cosh_error",),
    summary="Mean of ln cosh of the error: half its square where it is small, its size beyond.",
    formula="mean of ln(cosh(prediction - rating))",
    latex=r"\frac{1}{n} \sum \ln \cosh(\hat r - r)",
    source="Saleh and Saleh 2022, Statistical properties of the log-cosh loss function, 2",
)
def log_cosh(ratings, predictions, losses):
    """ln cosh of each error, which neither overflows nor cancels."""
    for row in range(losses.size):
        far = abs(predictions[row] - ratings[row])
        if far < SMALL:
            z = far * far
            losses[row] = z * (0.5 - z * (1.0 / 12.0 - z * (1.0 / 45.0 - z * 17.0 / 2520.0)))
        else:
            losses[row] = far - minus_ln_of_rest(-math.exp(-2.0 * far)) - LN2


@loss_metric(
    name="pinball",
    aliases=("mean_pinball_loss", "quantile_loss"),
    summary="Mean error, a prediction too low costing q and one too high 1 - q of its distance.",
    formula="mean of q max(rating - prediction, 0) + (1 - q) max(prediction - rating, 0)",
    latex=r"\frac{1}{n} \sum q (r - \hat r)^+ + (1 - q) (\hat r - r)^+",
    source="Koenker and Bassett 1978, Regression quantiles, Econometrica 46, p. 38",
    parameters=(
        over_rows_or_users(),
        number("q", 0.5, doc="The quantile that is predicted.", above=0.0, below=1.0),
    ),
)
def pinball(ratings, predictions, q, losses):
    """What each pair costs."""
    for row in range(losses.size):
        error = ratings[row] - predictions[row]
        losses[row] = q * error if error > 0.0 else (q - 1.0) * error


@loss_metric(
    name="within-tolerance",
    aliases=("share_within",),
    summary="Share of predictions that are off by no more than a tolerance.",
    formula="pairs with |prediction - rating| <= t / pairs",
    latex=r"\frac{1}{n} \sum [|\hat r - r| \le t]",
    source="Pelánek 2015, Metrics for evaluation of student models, 3",
    bounds=(0.0, 1.0),
    parameters=(
        over_rows_or_users(),
        number("tolerance", 0.5, doc="The largest error that is near enough.", above=-5e-324),
    ),
    higher_is_better=True,
)
def within_tolerance(ratings, predictions, tolerance, losses):
    """1 for each pair that is near enough."""
    for row in range(losses.size):
        losses[row] = 1.0 if abs(predictions[row] - ratings[row]) <= tolerance else 0.0


@kernel(allocates=False)
def powers(ratings, predictions, p, losses):
    """|prediction - rating|^p of each pair."""
    for row in range(losses.size):
        losses[row] = math.pow(abs(predictions[row] - ratings[row]), p)


def of_powers(asked: Request) -> OfSums:
    """The root of the sum of powers."""
    p = float(dict(asked.parameters)["p"])

    def column(ratings: Any, predictions: Any) -> Any:
        import numpy as np  # metrics are listed without it

        found = np.empty(ratings.size)
        powers(ratings, predictions, p, found)
        return found

    return of_sums(column, by=lambda total: total ** (1.0 / p), is_exact=False)


@loss_metric(
    name="Minkowski",
    aliases=("minkowski_distance",),
    summary="Distance of all predictions and ratings; a sum, so it grows with the pairs.",
    formula="(sum of |prediction - rating|^p)^(1 / p)",
    latex=r"\left(\sum |\hat r - r|^p\right)^{1/p}",
    source="Deza and Deza 2009, Encyclopedia of distances, 5.2",
    undefined="never; 0 without a predicted pair",
    parameters=(
        over_rows_or_users(),
        number(
            "p", 2.0, doc="The power: 1 city blocks, 2 Euclid.", above=1.0 - 2.0**-53, tried=3.0
        ),
    ),
    is_loss=False,
    over_rows=of_powers,
)
def minkowski(starts, ratings, predictions, over, p, out):
    """The distance of each group's predictions and ratings."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += math.pow(abs(predictions[row] - ratings[row]), p)
        out[group] = math.pow(total, 1.0 / p)
