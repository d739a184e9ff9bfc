"""Weighted means of the values of groups, exact, with their standard errors."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from evalkit.exact import SCALE_BITS, ExactSums, root_of
from evalkit.metrics import kernel

SPLIT = 134217729.0  # 2^27 + 1
HUGE = 2.0**900


@kernel(allocates=False)
def product_and_rest(a, b, products, rests):  # type: ignore[no-untyped-def]
    """a times b, rounded, and what was lost by that (Dekker 1971); exact below 2^900."""
    for row in range(a.size):
        product = a[row] * b[row]
        products[row] = product
        rests[row] = 0.0
        if product == product and abs(a[row]) < HUGE and abs(b[row]) < HUGE:
            cut = SPLIT * a[row]
            a_high = cut - (cut - a[row])
            a_low = a[row] - a_high
            cut = SPLIT * b[row]
            b_high = cut - (cut - b[row])
            b_low = b[row] - b_high
            rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
            if rest == rest and abs(rest) < HUGE:
                rests[row] = rest


class WeightedMean:
    """The mean of values with weights: sums of w v, of w, and of what the standard error needs.

    The standard error treats groups as drawn at random and their weights with them (the ratio
    estimator of Cochran 1977, Sampling techniques, 6.4, with n / (n - 1)).
    """

    def __init__(self) -> None:
        self.sums = ExactSums(4)  # w v, its rest, w, w times w v
        self.n_infinite = 0
        self.infinite = 0.0  # the sum of infinite values: NaN where they have both signs

    def add(self, values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> None:
        """Some groups more; NaN is a group without a value, which is counted, with no weight."""
        columns = np.empty((values.size, 4))
        is_infinite = np.isinf(values) & (weights > 0)
        if is_infinite.any():
            self._add_infinite(int(is_infinite.sum()), float(values[is_infinite].min()))
            self._add_infinite(0, float(values[is_infinite].max()))
        finite = np.where(np.isinf(values), np.nan, values)
        products, rests = np.empty(values.size), np.empty(values.size)
        product_and_rest(weights, finite, products, rests)
        columns[:, 0] = products
        is_nan = np.isnan(products)
        columns[:, 1] = np.where(is_nan, np.nan, rests)
        columns[:, 2] = np.where(is_nan, np.nan, weights)
        columns[:, 3] = products * weights
        self.sums.add(columns)

    def merge(self, other: "WeightedMean") -> None:
        """Take over another thread's sums."""
        self.sums.merge(other.sums)
        self._add_infinite(other.n_infinite, other.infinite)

    def _add_infinite(self, number: int, value: float) -> None:
        self.n_infinite += number
        self.infinite += value

    @property
    def n_defined(self) -> int:
        """Groups with a value."""
        return self.sums.sum_of(0).count + self.n_infinite

    @property
    def n_undefined(self) -> int:
        """Groups without one."""
        return self.sums.n_undefined(0) - self.n_infinite

    @property
    def value(self) -> float:
        """The correctly rounded mean; infinite if one value is, NaN of nothing or of both signs."""
        if self.n_infinite:
            return self.infinite
        above = self.sums.sum_of(0).scaled + self.sums.sum_of(1).scaled
        below = self.sums.sum_of(2).scaled
        return float(Fraction(above, below)) if below else math.nan

    @property
    def std_error(self) -> float | None:
        """Of the mean; None below two groups or where it is infinite."""
        return self.error_around(self.value)

    def error_around(self, mean: float) -> float | None:
        """The standard error, where `mean` is the mean over all that the weights count."""
        products, weights, cross = (self.sums.sum_of(column) for column in (0, 2, 3))
        n = products.count
        if n < 2 or self.n_infinite or not math.isfinite(mean) or not weights.scaled:
            return None
        unit = 1 << SCALE_BITS
        at = Fraction(mean)
        spread = (
            Fraction(products.squares, unit * unit)
            - 2 * at * Fraction(cross.scaled, unit)
            + at * at * Fraction(weights.squares, unit * unit)
        )
        total = Fraction(weights.scaled, unit)
        error = root_of(spread * n / (n - 1) / (total * total))
        return error if math.isfinite(error) else None
