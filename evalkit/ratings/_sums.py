"""Exact sums over all rated pairs, and what they give."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from evalkit.exact import SCALE_BITS, ExactSum, ExactSums, root_of, rounded

Floats = npt.NDArray[np.float64]

# column -> its values
TERMS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "error": lambda ratings, predictions: predictions - ratings,
    "distance": lambda ratings, predictions: np.abs(predictions - ratings),
    "rating": lambda ratings, predictions: ratings,
    "size": lambda ratings, predictions: np.abs(ratings),
    "relative": lambda ratings, predictions: _over(
        np.abs(predictions - ratings), np.abs(ratings), math.nan
    ),
    "symmetric": lambda ratings, predictions: _over(
        2.0 * np.abs(predictions - ratings), np.abs(predictions) + np.abs(ratings), 0.0
    ),
}

# metric -> the columns that it takes
NEEDS: Mapping[str, tuple[str, ...]] = {
    "MAE": ("distance",),
    "MSE": ("error",),
    "RMSE": ("error",),
    "bias": ("error",),
    "R2": ("error", "rating"),
    "explained-variance": ("error", "rating"),
    "MAPE": ("relative",),
    "sMAPE": ("symmetric",),
    "WAPE": ("distance", "size"),
}


def _over(above: Floats, below: Floats, otherwise: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0.0, above / below, otherwise)


class PairSums:
    """Sums of the terms that some metrics need."""

    def __init__(self, metrics: tuple[str, ...]) -> None:
        self.metrics = metrics
        self.terms = tuple(
            term for term in TERMS if any(term in NEEDS[metric] for metric in metrics)
        )
        self.sums = ExactSums(len(self.terms))

    def add(self, ratings: Floats, predictions: Floats) -> None:
        """Some pairs more."""
        if not self.terms:
            return
        values = np.empty((ratings.size, len(self.terms)))
        with np.errstate(over="ignore"):  # an infinite error is told by its sum
            for column, term in enumerate(self.terms):
                values[:, column] = TERMS[term](ratings, predictions)
        self.sums.add(values)

    def merge(self, other: "PairSums") -> None:
        """Take over another thread's sums."""
        self.sums.merge(other.sums)

    def of(self, term: str) -> ExactSum:
        """The sum of one term."""
        return self.sums.sum_of(self.terms.index(term))

    def undefined_rows(self, metric: str) -> int:
        """Pairs that a metric leaves out, as MAPE does where the rating is 0."""
        return self.sums.n_undefined(self.terms.index(NEEDS[metric][0]))

    def value(self, metric: str, constant: str = "undefined") -> float:
        """A metric over all pairs, rounded once or twice; NaN where it is undefined.

        An error that no float holds makes sums of distances infinite, and others undefined.
        `constant` "finite": what explains equal ratings has a value nonetheless.
        """
        first = self.of(NEEDS[metric][0])
        n = first.count
        if any(self.sums.n_infinite(self.terms.index(term)) for term in NEEDS[metric]):
            return math.nan if metric in ("bias", "R2", "explained-variance") else math.inf
        if n == 0:
            return math.nan
        if metric in ("MAE", "bias", "MAPE", "sMAPE"):
            return first.mean
        if metric in ("MSE", "RMSE"):
            mean = Fraction(first.squares, n << 2 * SCALE_BITS)
            return root_of(mean) if metric == "RMSE" else rounded(mean)
        second = self.of(NEEDS[metric][1])
        if metric == "WAPE":
            return rounded(Fraction(first.scaled, second.scaled)) if second.scaled else math.nan
        spread = n * second.squares - second.scaled * second.scaled
        wrong = n * first.squares
        if metric == "explained-variance":
            wrong -= first.scaled * first.scaled
        if spread == 0:
            if constant == "undefined" or (n < 2 and metric == "R2"):
                return math.nan
            return 0.0 if wrong else 1.0
        return rounded(1 - Fraction(wrong, spread))
