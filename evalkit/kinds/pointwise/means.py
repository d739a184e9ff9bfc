"""Weighted means of the values of groups, exact, with their standard errors."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats
from evalkit.metrics import square_root
from evalkit.statistics.exact import SCALE_BITS, ExactSums

SPLIT = 134217729.0  # 2^27 + 1
HUGE = 2.0**900


@kernel(allocates=False)
def rest_of_product(a, b, product):  # type: ignore[no-untyped-def]
    """What was lost when a times b was rounded (Dekker 1971); exact below 2^900."""
    if not (product == product and abs(a) < HUGE and abs(b) < HUGE):
        return 0.0
    cut = SPLIT * a
    a_high = cut - (cut - a)
    a_low = a - a_high
    cut = SPLIT * b
    b_high = cut - (cut - b)
    b_low = b - b_high
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return rest if rest == rest and abs(rest) < HUGE else 0.0


@kernel(allocates=False)
def product_and_rest(a, b, products, rests):  # type: ignore[no-untyped-def]
    """a times b, rounded, and what was lost by that."""
    for row in range(a.size):
        products[row] = a[row] * b[row]
        rests[row] = rest_of_product(a[row], b[row], products[row])


@kernel(allocates=False)
def weigh_values(values, weights, columns):  # type: ignore[no-untyped-def]
    """Fill the columns of a weighted mean; how many infinite values have a weight, and their sum.

    `columns` float64[n, 4]: w v, what was lost when it was rounded, w, and w times w v; NaN where
    there is no finite value.
    """
    n_infinite = 0
    infinite = 0.0
    for row in range(values.size):
        value, weight = values[row], weights[row]
        if abs(value) == math.inf:
            if weight > 0.0:
                n_infinite += 1
                infinite += value
            value = math.nan
        product = weight * value
        is_nan = product != product
        columns[row, 0] = product
        columns[row, 1] = math.nan if is_nan else rest_of_product(weight, value, product)
        columns[row, 2] = math.nan if is_nan else weight
        columns[row, 3] = product * weight
    return n_infinite, infinite


@dataclass(slots=True)
class WeightedMean:
    """The mean of values with weights: sums of w v, of w, and of what the standard error needs.

    The standard error treats groups as drawn at random and their weights with them (the ratio
    estimator of Cochran 1977, Sampling techniques, 6.4, with n / (n - 1)).

    Args:
        sums: of w v, its rest, w, w times w v.
        infinite: the sum of infinite values: NaN where they have both signs.
    """

    sums: ExactSums = field(default_factory=lambda: ExactSums(4))
    n_infinite: int = 0
    infinite: float = 0.0

    def add(self, values: Floats, weights: Floats) -> None:
        """Some groups more; NaN is a group without a value, which is counted, with no weight."""
        columns = np.empty((values.size, 4))
        number, infinite = weigh_values(values, weights, columns)
        self._add_infinite(int(number), float(infinite))
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
        error = square_root(spread * n / (n - 1) / (total * total))
        return error if math.isfinite(error) else None
