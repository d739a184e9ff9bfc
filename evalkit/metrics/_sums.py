"""Numbers over all rows of ratings or of labels, as functions of sums over these rows.

A sum is named by a term; docs/adding-a-metric.md lists those that ratings and labels have.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Hashable

Term: TypeAlias = "Hashable"

ROWS, POSITIVES, NEGATIVES, PREDICTED = ("rows",), ("positives",), ("negatives",), ("predicted",)

STEP = 1e-30  # of a sum's size; complex steps cancel nothing


@dataclass(frozen=True, slots=True)
class Smooth:
    """A number over all rows, as a function of sums that every user adds to.

    A user's influence is the gradient of the function times the user's own sums.

    Args:
        terms: the sums, in the order of the function's arguments.
        function: of complex numbers too, by whose imaginary part the gradient is taken.
    Source:
        Deville 1999, Variance estimation for complex statistics and estimators, 2; complex steps:
        Squire and Trapp 1998, Using complex variables to estimate derivatives of real functions.
    """

    terms: tuple[Term, ...]
    function: Callable[..., Any]

    def gradient(self, sums: Sequence[float]) -> tuple[float, ...] | None:
        """The derivative by each sum; None where one does not exist."""
        found = []
        for place, total in enumerate(sums):
            step = STEP * (abs(total) or 1.0)
            moved = [complex(each) for each in sums]
            moved[place] += complex(0.0, step)
            try:
                found.append(complex(self.function(*moved)).imag / step)
            except (ZeroDivisionError, OverflowError, ValueError):
                return None
        return tuple(found) if all(map(math.isfinite, found)) else None


@dataclass(frozen=True, slots=True)
class OfSums:
    """A number over all rows, as a function of sums over them.

    Args:
        terms: the sums, in the order of the function's arguments.
        function: a division by 0 says that the number is undefined.
        smooth: what the standard error is made of; None: the number has none.
        is_exact: the function is given fractions, and what it gives is rounded once; otherwise
            each sum is rounded first.
        limits: of a quantile, whose `smooth` is the share of rows up to it: its own limits, by how
            far that share may be off.
        made: of a number that hangs on the order of all ratings: what makes the sums, of all
            ratings and predictions, float64[n_pairs], which are sorted.
    """

    terms: tuple[Term, ...]
    function: Callable[..., Any]
    smooth: Smooth | None
    is_exact: bool = True
    limits: Callable[[float], tuple[float, float]] | None = None
    made: "Callable[[Any, Any], OfSums] | None" = None

    def value(self, sums: Sequence[Any]) -> float:
        """The number; NaN where it is undefined."""
        from fractions import Fraction  # not at the start: it takes time to load

        if not self.is_exact:
            sums = [float(each) if isinstance(each, Fraction) else each for each in sums]
        try:
            return as_float(self._made(sums))
        except ZeroDivisionError:
            return math.nan
        except (TypeError, ValueError) as error:
            message = f"a function of sums fails: {type(error).__name__}: {error}"
            hint = "a function of fractions and of complex numbers that gives one number"
            raise RequestError(
                message, code="bad-metric-file", at="over_rows", hint=hint
            ) from error

    def _made(self, sums: Sequence[Any]) -> Any:
        try:
            return self.function(*sums)
        except OverflowError:  # a sum that no float holds stands beside an infinite one
            return self.function(*map(_held, sums))


def of_sums(
    *terms: Term, by: Callable[..., Any], is_exact: bool = True, is_smooth: bool = True
) -> OfSums:
    """A number by a function of fractions and of complex numbers: its derivative is its error."""
    return OfSums(terms, by, Smooth(terms, by) if is_smooth else None, is_exact)


def of_whole(made: Callable[[Any, Any], OfSums]) -> OfSums:
    """A number of ratings whose sums are not known before all pairs are."""
    return OfSums((), lambda: math.nan, None, made=made)


def _held(each: Any) -> Any:
    """A fraction as the float that is closest; every other number as it is."""
    from fractions import Fraction

    if not isinstance(each, Fraction):
        return each
    return max(-sys.float_info.max, min(sys.float_info.max, as_float(each)))


def ratio(above: Any, below: Any) -> Any:
    """One sum over another."""
    return above / below


def as_float(value: Any) -> float:
    """A number as a float, rounded once; infinite where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def square_root(value: Any) -> Any:
    """The square root of a fraction, also of one too large or too small for a float.

    0 of less than 0; infinite where the root is too large itself; of other numbers by `cmath`.
    """
    import cmath
    from fractions import Fraction

    if not isinstance(value, Fraction):
        return cmath.sqrt(value) if isinstance(value, complex) else math.sqrt(value)
    if value <= 0:
        return 0.0
    halved = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    scale = Fraction(2) ** (2 * halved)
    try:
        return math.ldexp(math.sqrt(value / scale), halved)
    except OverflowError:
        return math.inf
