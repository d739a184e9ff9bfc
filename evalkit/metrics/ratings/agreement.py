# mypy: disable-error-code="no-untyped-def"
"""How ratings and predictions go together, as functions of sums of squares and products."""

import math
from typing import Any

from evalkit.metrics import (
    ROWS,
    OfSums,
    Request,
    Smooth,
    choice,
    kernel,
    of_kernels,
    of_sums,
    over_rows_or_users,
    rating_metric,
    square_root,
)
from evalkit.metrics.ratings.errors import explained, explained_shares, rating

SAMPLE = 1
LEVELS = (
    ("level",),
    ("level", "squares"),
    ("level", lambda ratings, predictions: predictions),
    ("level", lambda ratings, predictions: predictions * predictions),
    ("level", lambda ratings, predictions: ratings * predictions),
)


def prediction(ratings: Any, predictions: Any) -> Any:
    """The predictions themselves."""
    return predictions


def product(ratings: Any, predictions: Any) -> Any:
    """Of both."""
    return ratings * predictions


def halves(values: Any) -> tuple[Any, Any]:
    """The upper 26 bits of each number, and what is left of it (Veltkamp)."""
    upper = values * 134217729.0
    upper = upper - (upper - values)
    return upper, values - upper


def rest_of_product(ratings: Any, predictions: Any) -> Any:
    """What rounding takes from each product, so that covariances cancel nothing (Dekker 1971)."""
    import numpy as np  # metrics are listed without it

    with np.errstate(over="ignore", invalid="ignore"):
        (r, r_rest), (p, p_rest) = halves(ratings), halves(predictions)
        rest = r * p - ratings * predictions + r * p_rest + r_rest * p + r_rest * p_rest
    return np.where(np.isfinite(rest), rest, 0.0)


SQUARES = ((rating, "squares"), (prediction, "squares"), product)
MOMENTS = (rating, SQUARES[0], prediction, *SQUARES[1:], rest_of_product, ROWS)
agreement = of_kernels(
    rating_metric,
    bounds=(-1.0, 1.0),
    undefined="where all ratings, or all predictions, are equal",
    parameters=(over_rows_or_users(),),
    higher_is_better=True,
)


def cosine_of(rr: Any, pp: Any, rp: Any) -> Any:
    """rp / sqrt(rr pp), rounded once; of complex numbers too."""
    if isinstance(rp, complex):
        return rp / (rr * pp) ** 0.5
    squared = square_root(rp * rp / (rr * pp))
    return -squared if rp < 0 else squared


def of_correlation(asked: Request) -> OfSums:
    """The cosine of what is left of both without their means."""

    def smooth(r: Any, rr: Any, p: Any, pp: Any, rp: Any, n: Any) -> Any:
        return cosine_of(n * rr - r * r, n * pp - p * p, n * rp - r * p)

    def value(r: Any, rr: Any, p: Any, pp: Any, rp: Any, rest: Any, n: Any) -> Any:
        return smooth(r, rr, p, pp, rp + rest, n)

    return OfSums(MOMENTS, value, Smooth((*LEVELS, ROWS), smooth))


def of_concordance(asked: Request) -> OfSums:
    """Covariance over variances and the distance of the means."""
    lost = 1 if dict(asked.parameters)["moments"] == "sample" else 0

    def smooth(r: Any, rr: Any, p: Any, pp: Any, rp: Any, n: Any) -> Any:
        of_r, of_p = n * rr - r * r, n * pp - p * p
        if lost and not isinstance(r, complex) and not (of_r and of_p):
            return math.nan
        spread = of_r + of_p
        return 2 * (n * rp - r * p) / (spread + (r - p) * (r - p) * (n - lost) / n)

    def value(r: Any, rr: Any, p: Any, pp: Any, rp: Any, rest: Any, n: Any) -> Any:
        return smooth(r, rr, p, pp, rp + rest, n)

    return OfSums(MOMENTS, value, Smooth((*LEVELS, ROWS), smooth))


@kernel(allocates=False)
def moments_of(ratings, predictions, first, end):
    """Sums of squares and products around the means, and the distance of the means."""
    n = end - first
    r = p = rr = pp = rp = 0.0
    for row in range(first, end):  # from the first on, so that equal ones leave nothing
        r += ratings[row] - ratings[first]
        p += predictions[row] - predictions[first]
    for row in range(first, end):
        x = ratings[row] - ratings[first] - r / n
        y = predictions[row] - predictions[first] - p / n
        rr += x * x
        pp += y * y
        rp += x * y
    apart = ratings[first] - predictions[first] + (r - p) / n if n > 0 else math.nan
    return rr, pp, rp, apart


@agreement(
    name="Pearson",
    aliases=("pearsonr", "pearson_corrcoef", "correlation", "pearson_correlation_coefficient"),
    summary="Linear correlation of ratings and predictions: bias and scale cost nothing.",
    formula="covariance / (standard deviation of ratings x that of predictions)",
    latex=r"\frac{\mathrm{Cov}(r, \hat r)}{\sigma_r \sigma_{\hat r}}",
    source="Pearson 1895, Notes on regression and inheritance; Herlocker et al. 2004, 4.2",
    over_rows=of_correlation,
)
def pearson(starts, ratings, predictions, over, out):
    """The correlation of each group."""
    for group in range(out.size):
        rr, pp, rp, _ = moments_of(ratings, predictions, starts[group], starts[group + 1])
        is_there = rr > 0.0 and pp > 0.0
        found = rp / math.sqrt(rr) / math.sqrt(pp) if is_there else math.nan
        out[group] = min(1.0, max(-1.0, found)) if is_there else math.nan


@agreement(
    name="concordance",
    aliases=("CCC", "concordance_corrcoef", "Lin"),
    summary="Lin's correlation: Pearson's, less what bias and another scale cost.",
    formula="2 covariance / (both variances + (mean rating - mean prediction)^2)",
    latex=r"\frac{2 \sigma_{r \hat r}}{\sigma_r^2 + \sigma_{\hat r}^2 + (\mu_r - \mu_{\hat r})^2}",
    source="Lin 1989, A concordance correlation coefficient, Biometrics 45, p. 257",
    undefined="where all ratings and predictions are one number",
    parameters=(
        over_rows_or_users(),
        choice(
            "moments",
            {
                "population": "over n, as Lin has them",
                "sample": "over n - 1; undefined where either is constant, as Pearson's is",
            },
            doc="What variances and covariance are divided by.",
        ),
    ),
    over_rows=of_concordance,
)
def concordance(starts, ratings, predictions, over, moments, out):
    """Lin's correlation of each group."""
    for group in range(out.size):
        n = starts[group + 1] - starts[group]
        rr, pp, rp, apart = moments_of(ratings, predictions, starts[group], starts[group + 1])
        below = rr + pp + apart * apart * (n - 1 if moments == SAMPLE else n)
        is_there = rr > 0.0 and pp > 0.0 if moments == SAMPLE else below > 0.0
        out[group] = 2.0 * rp / below if is_there else math.nan


@agreement(
    name="cosine",
    aliases=("cosine_similarity",),
    summary="Cosine of the vectors of ratings and predictions; near 1 wherever both are positive.",
    formula="sum of rating x prediction / (root of squared ratings x that of predictions)",
    latex=r"\frac{\sum r \hat r}{\sqrt{\sum r^2 \sum \hat r^2}}",
    source="Salton and McGill 1983, Introduction to modern information retrieval, 4.1",
    undefined="where all ratings, or all predictions, are 0",
    over_rows=of_sums(*SQUARES, by=cosine_of),
)
def cosine(starts, ratings, predictions, over, out):
    """The cosine of each group."""
    for group in range(out.size):
        rr = pp = rp = 0.0
        for row in range(starts[group], starts[group + 1]):
            rr += ratings[row] * ratings[row]
            pp += predictions[row] * predictions[row]
            rp += ratings[row] * predictions[row]
        is_there = rr > 0.0 and pp > 0.0
        found = rp / math.sqrt(rr) / math.sqrt(pp) if is_there else math.nan
        out[group] = min(1.0, max(-1.0, found)) if is_there else math.nan


def of_rest(asked: Request) -> OfSums:
    """What R2 leaves."""
    found = explained(2, "undefined", forgives_bias=False)
    rest = found.smooth
    assert rest is not None
    return OfSums(
        found.terms,
        lambda *sums: 1 - found.function(*sums),
        Smooth(rest.terms, lambda *sums: 1 - rest.function(*sums)),
    )


@agreement(
    name="relative-squared-error",
    aliases=("RSE",),
    summary="Squared errors over those of the mean rating: 1 - R2.",
    formula="sum of (prediction - rating)^2 / sum of (rating - mean rating)^2",
    latex=r"\frac{\sum (\hat r - r)^2}{\sum (r - \bar r)^2}",
    source="Armstrong and Collopy 1992, Error measures for generalizing about forecasting, 2",
    bounds=(0.0, math.inf),
    undefined="where all ratings are equal, and of fewer than two",
    higher_is_better=False,
    over_rows=of_rest,
)
def relative_squared_error(starts, ratings, predictions, over, out):
    """1 - R2 of each group."""
    explained_shares(starts, ratings, predictions, False, 2, 0, out)
    for group in range(out.size):
        out[group] = 1.0 - out[group]
