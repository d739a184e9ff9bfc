# mypy: disable-error-code="no-untyped-def"
"""Deviances of exponential families, and shares of them that predictions explain."""

import cmath
import math
from typing import Any

from evalkit.metrics import (
    ROWS,
    OfSums,
    Request,
    Smooth,
    Values,
    kernel,
    minus_ln,
    number,
    over_rows_or_users,
    rating_metric,
)
from evalkit.metrics.ratings.errors import explained, rating
from evalkit.metrics.ratings.losses import loss_metric

SOURCE = "Jorgensen 1987, Exponential dispersion models, J. R. Stat. Soc. B 49, 2"


def domain(values: Values) -> str:
    """What ratings and predictions have to be."""
    power = float(values["power"])
    if power >= 2.0:
        return "ratings and predictions above 0"
    return "ratings of 0 or above, and predictions above 0" if power >= 1.0 else "any number"


def power_parameter() -> Any:
    """`power`, of the variance."""
    return number(
        "power",
        1.5,
        doc="The variance goes with the mean to this power: 0 normal, 1 Poisson, 2 gamma, "
        "3 inverse Gaussian; between 0 and 1 there is no such family.",
        above=-5e-324,
        tried=3.0,
    )


@kernel(allocates=False)
def unit_deviance(rating, prediction, power):
    """Twice what the prediction lacks in log-likelihood; NaN outside of the family's domain."""
    error = rating - prediction
    if power == 0.0:
        return error * error
    if not (prediction > 0.0 and (rating > 0.0 or (rating == 0.0 and power < 2.0))):
        return math.nan
    if power == 1.0:
        ratio = minus_ln(prediction) - minus_ln(rating) if rating > 0.0 else 0.0
        found = rating * ratio - error
    elif power == 2.0:
        found = minus_ln(rating) - minus_ln(prediction) + error / prediction
    else:
        left, rest = 1.0 - power, 2.0 - power
        own = math.pow(rating, rest) / (left * rest)
        at = math.pow(prediction, left)
        found = own - rating * at / left + prediction * at / rest
    return max(2.0 * found, 0.0)


@loss_metric(
    name="Tweedie-deviance",
    aliases=(
        "mean_tweedie_deviance(power=0)",
        "tweedie_deviance_score(power=0)",
        "mean_poisson_deviance(power=1)",
        "Poisson_deviance(power=1)",
        "mean_gamma_deviance(power=2)",
        "gamma_deviance(power=2)",
    ),
    summary="Mean deviance of a family whose variance is a power of its mean.",
    formula="mean of 2 (r^(2-p) / ((1-p)(2-p)) - r s^(1-p) / (1-p) + s^(2-p) / (2-p)), s predicted",
    latex=r"\frac{2}{n} \sum \frac{r^{2-p}}{(1-p)(2-p)} - \frac{r \hat r^{1-p}}{1-p} "
    r"+ \frac{\hat r^{2-p}}{2-p}",
    source=SOURCE,
    parameters=(over_rows_or_users(), power_parameter()),
    domain=domain,
)
def tweedie(ratings, predictions, power, losses):
    """The deviance of each pair; of powers 1 and 2 the limits of the formula."""
    for row in range(losses.size):
        losses[row] = unit_deviance(ratings[row], predictions[row], power)


def of_deviance(asked: Request) -> OfSums:
    """1 - deviance / that of the mean rating, which sums of ratings' powers or logarithms give."""
    power = float(dict(asked.parameters)["power"])
    if power == 0.0:
        return explained(2, "undefined", forgives_bias=False)

    def shape(ratings: Any, predictions: Any) -> Any:
        import numpy as np  # metrics are listed without it

        with np.errstate(divide="ignore", invalid="ignore"):
            if power == 1.0:
                return np.where(ratings > 0.0, ratings * np.log(ratings), 0.0 * ratings)
            return np.log(ratings) if power == 2.0 else ratings ** (2.0 - power)

    def of_mean(total: Any, shaped: Any, n: Any) -> Any:
        ln = cmath.log if isinstance(total, complex) else math.log
        if power == 1.0:
            return 2.0 * (shaped - total * ln(total / n))
        if power == 2.0:
            return 2.0 * (n * ln(total / n) - shaped)
        return 2.0 * (shaped - n * (total / n) ** (2.0 - power)) / ((1.0 - power) * (2.0 - power))

    def value(deviance: Any, total: Any, shaped: Any, n: Any, low: Any, high: Any) -> Any:
        return math.nan if not low < high else 1.0 - deviance / of_mean(total, shaped, n)

    def smooth(deviance: Any, total: Any, shaped: Any, n: Any) -> Any:
        return 1.0 - deviance / of_mean(total, shaped, n)

    terms = (tweedie.request(power=power), rating, shape, ROWS)
    ends = ((rating, "lowest"), (rating, "highest"))
    return OfSums((*terms, *ends), value, Smooth(terms, smooth), is_exact=False)


@rating_metric(
    name="D2-Tweedie",
    aliases=("d2_tweedie_score(power=0)", "D2_Poisson(power=1)", "D2_gamma(power=2)"),
    summary="Share of the deviance that predictions take away from that of the mean rating.",
    formula="1 - sum of deviances / sum of those of the mean rating",
    latex=r"1 - \frac{\sum d(r, \hat r)}{\sum d(r, \bar r)}",
    source="Hastie, Tibshirani and Wainwright 2015, Statistical learning with sparsity, 3.2",
    bounds=(-math.inf, 1.0),
    undefined="where all ratings are equal",
    parameters=(over_rows_or_users(), power_parameter()),
    domain=domain,
    over_rows=of_deviance,
)
@kernel(allocates=False)
def d2_tweedie(starts, ratings, predictions, over, power, out):
    """1 - deviances over those of the group's mean rating; ratings ascend."""
    for group in range(out.size):
        first, end = starts[group], starts[group + 1]
        total = wrong = at_mean = 0.0
        for row in range(first, end):
            total += ratings[row]
        for row in range(first, end):
            wrong += unit_deviance(ratings[row], predictions[row], power)
            at_mean += unit_deviance(ratings[row], total / (end - first), power)
        is_spread = end > first and ratings[first] < ratings[end - 1]
        out[group] = 1.0 - wrong / at_mean if is_spread and at_mean > 0.0 else math.nan
