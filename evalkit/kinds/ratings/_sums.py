"""Exact sums over all rated pairs, and over those of each user."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evalkit.errors import RequestError
from evalkit.kernels import kernel
from evalkit.metrics import ROWS, Request, Term
from evalkit.statistics.exact import SCALE_BITS, ExactSums

Floats = npt.NDArray[np.float64]
Column = Callable[[Floats, Floats], Floats]

UNIT = 1 << SCALE_BITS


def _parts(term: Term) -> tuple[Any, str]:
    """A function of ratings and predictions, or a word, and what is taken of its values."""
    what, *how = term if isinstance(term, tuple) else (term,)
    return what, cast(str, how[0]) if how else "sum"


def has_sum(term: Term) -> bool:
    """Whether ratings have a sum."""
    what, how = _parts(term)
    return term == ROWS or (callable(what) and how in ("sum", "squares", "count"))


def has_part(term: Term) -> bool:
    """Whether it is known what each user adds to a sum."""
    return has_sum(term) or term in (("level",), ("level", "squares"))


def _values(column: Column, ratings: Floats, predictions: Floats) -> Floats:
    try:
        with np.errstate(over="ignore"):  # an infinite value is told by its sum
            values = np.asarray(column(ratings, predictions), dtype=np.float64)
        if values.shape != ratings.shape:
            raise ValueError(f"{values.shape} values of {ratings.shape} pairs")
    except Exception as error:  # of a user's own
        raise RequestError(
            f"the sum {column.__name__} fails: {type(error).__name__}: {error}",
            code="bad-metric-file",
            at="over_rows",
            hint="a function of arrays of ratings and of predictions that gives one value each",
        ) from error
    return values


class ErrorSums:
    """Sums that some requests over all pairs are made of."""

    def __init__(self, requests: Sequence[Request]) -> None:
        found = [_parts(term)[0] for each in requests for term in each.over_rows.terms]
        self.columns = tuple(dict.fromkeys(each for each in found if callable(each)))
        self.sums = ExactSums(len(self.columns))
        self.n_rows = 0

    def add(self, ratings: Floats, predictions: Floats) -> None:
        """Some pairs more."""
        self.n_rows += ratings.size
        values = np.empty((ratings.size, len(self.columns)))
        for place, column in enumerate(self.columns):
            values[:, place] = _values(column, ratings, predictions)
        self.sums.add(values)

    def merge(self, other: "ErrorSums") -> None:
        """Take over another thread's sums."""
        self.sums.merge(other.sums)
        self.n_rows += other.n_rows

    def value(self, request: Request) -> float:
        """A request over all pairs, rounded once; NaN where it is undefined.

        An error that no float holds makes sums of distances infinite, and others undefined.
        """
        known = request.over_rows
        infinite = [each for each in known.terms if self._n_infinite(each)]
        if infinite and request.metric.bounds[0] == -math.inf:
            return math.nan
        return known.value([self._sum(term) for term in known.terms])

    def _n_infinite(self, term: Term) -> int:
        what, _ = _parts(term)
        return self.sums.n_infinite(self.columns.index(what)) if callable(what) else 0

    def _sum(self, term: Term) -> Fraction | float:
        what, how = _parts(term)
        if not callable(what):
            return Fraction(self.n_rows)
        found = self.sums.sum_of(self.columns.index(what))
        n_infinite = self._n_infinite(term)
        if how == "count":
            return Fraction(found.count + n_infinite)
        if n_infinite:
            return math.inf
        return Fraction(found.scaled, UNIT) if how == "sum" else Fraction(found.squares, UNIT**2)


@kernel(allocates=False)
def add_up_rows(starts, values, out):  # type: ignore[no-untyped-def]
    """The sum of each group's values, of which NaN counts nothing."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            if values[row] == values[row]:
                total += values[row]
        out[group] = total


def user_sums(
    terms: Sequence[Term],
    starts: npt.NDArray[np.int64],
    ratings: Floats,
    predictions: Floats,
    middle: float,
) -> Floats:
    """float64[n_users, n_terms], the sums of each user's pairs; levels are from `middle` on."""
    columns = np.empty((starts.size - 1, len(terms)))
    room = np.empty(starts.size - 1)
    for place, term in enumerate(terms):
        what, how = _parts(term)
        if term == ROWS:
            values = np.ones(ratings.size)
        elif callable(what):
            values = _values(what, ratings, predictions)
        else:
            values = ratings - middle
        if how == "squares":
            with np.errstate(over="ignore"):  # an infinite sum has no standard error
                values = values * values
        elif how == "count":
            values = (~np.isnan(values)).astype(np.float64)
        add_up_rows(starts, np.ascontiguousarray(values), room)
        columns[:, place] = room
    return columns
