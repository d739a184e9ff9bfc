"""Exact sums over all rated pairs, and over those of each user."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from evalkit.errors import CountedError, RequestError
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.pointwise.job import RowJob
from evalkit.metrics import ROWS, OfSums, Request, Term
from evalkit.statistics.exact import SCALE_BITS, ExactSums

Column = Callable[[Floats, Floats], Floats]

UNIT = 1 << SCALE_BITS
ENDS = ("lowest", "highest")  # of values, which are no sums but merge as well


def _parts(term: Term) -> tuple[Any, Any]:
    """A function of ratings and predictions, or a word, and what is taken of its values.

    Of `level`, ratings and predictions from a middle on, that may be a function of them.
    """
    if isinstance(term, Request):
        return losses_of(term), "sum"
    what, *how = term if isinstance(term, tuple) else (term,)
    return what, how[0] if how else "sum"


@cache
def losses_of(request: Request) -> Column:
    """A metric of losses as a function of ratings and predictions."""

    def losses(ratings: Floats, predictions: Floats) -> Floats:
        found = np.empty(ratings.size)
        request.call(ratings, predictions, *request.own_arguments, found)
        return found

    return losses


def has_sum(term: Term) -> bool:
    """Whether ratings have a sum."""
    what, how = _parts(term)
    if isinstance(term, Request):
        return term.metric.is_loss
    return term == ROWS or (callable(what) and how in ("sum", "squares", "count", *ENDS))


def has_part(term: Term) -> bool:
    """Whether it is known what each user adds to a sum."""
    what, how = _parts(term)
    is_level = what == "level" and (callable(how) or how in ("sum", "squares"))
    return is_level or (has_sum(term) and how not in ENDS)


def _values(column: Column, ratings: Floats, predictions: Floats) -> Floats:
    try:
        with np.errstate(over="ignore"):  # an infinite value is told by its sum
            values = np.asarray(column(ratings, predictions), dtype=np.float64)
        if values.shape != ratings.shape:
            raise ValueError(f"{values.shape} values of {ratings.shape} pairs")
    except Exception as error:  # of a user's own
        message = f"the sum {column.__name__} fails: {type(error).__name__}: {error}"
        hint = "a function of arrays of ratings and of predictions that gives one value each"
        raise RequestError(message, code="bad-metric-file", at="over_rows", hint=hint) from error
    return values


class ErrorSums:
    """Sums that some requests over all pairs are made of, each with its terms."""

    def __init__(self, made: Mapping[Request, OfSums]) -> None:
        self.made = made
        found = [_parts(term)[0] for known in made.values() for term in known.terms]
        self.columns = tuple(dict.fromkeys(each for each in found if callable(each)))
        self.sums = ExactSums(len(self.columns))
        self.ends = np.tile([[math.inf], [-math.inf]], len(self.columns))
        self.n_rows = 0

    def add(self, ratings: Floats, predictions: Floats) -> None:
        """Some pairs more."""
        self.n_rows += ratings.size
        values = np.empty((ratings.size, len(self.columns)))
        for place, column in enumerate(self.columns):
            values[:, place] = _values(column, ratings, predictions)
        if ratings.size:
            self._stretch(np.array([np.fmin.reduce(values), np.fmax.reduce(values)]))
        self.sums.add(values)

    def merge(self, other: "ErrorSums") -> None:
        """Take over another thread's sums."""
        self.sums.merge(other.sums)
        self._stretch(other.ends)
        self.n_rows += other.n_rows

    def _stretch(self, ends: Floats) -> None:
        self.ends = np.array([np.fmin(self.ends[0], ends[0]), np.fmax(self.ends[1], ends[1])])

    def n_outside(self, request: Request) -> int:
        """Pairs that have no value of a metric of losses, or of one that is made of them."""
        columns = [_parts(term)[0] for term in self.made[request].terms]
        places = [self.columns.index(column) for column in columns if callable(column)]
        known = [self.sums.sum_of(place).count + self.sums.n_infinite(place) for place in places]
        return self.n_rows - min(known, default=self.n_rows)

    def value(self, request: Request) -> float:
        """A request over all pairs, rounded once; NaN where it is undefined.

        An error that no float holds makes sums of distances infinite, and others undefined.
        """
        known = self.made[request]
        infinite = [each for each in known.terms if self._n_infinite(each)]
        if infinite and request.metric.bounds != (0.0, math.inf):
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
        if how in ENDS:
            return float(self.ends[ENDS.index(how), self.columns.index(what)])
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
    terms: Sequence[Term], starts: Ints, ratings: Floats, predictions: Floats, middle: float
) -> Floats:
    """float64[n_users, n_terms], the sums of each user's pairs; levels are from `middle` on."""
    columns = np.empty((starts.size - 1, len(terms)))
    room = np.empty(starts.size - 1)
    for place, term in enumerate(terms):
        what, how = _parts(term)
        if callable(how):
            values = _values(how, ratings - middle, predictions - middle)
        elif term == ROWS:
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


def mean_losses(
    request: Request, starts: Ints, ratings: Floats, predictions: Floats, out: Floats
) -> None:
    """The mean loss of each user's pairs; NaN of none."""
    losses = losses_of(request.ungrouped)(ratings, predictions)
    add_up_rows(starts, losses, out)
    with np.errstate(invalid="ignore"):
        out /= np.diff(starts)


def check_domains(job: RowJob, pairs: ErrorSums, at: str) -> None:
    """Refuse ratings and predictions that a metric has no value of.

    Raises:
        DataError: there are some [outside-domain].
    """
    for request in job.requests:
        domain = request.metric.domain
        if domain is None or not (number := pairs.n_outside(request.ungrouped)):
            continue
        raise CountedError(
            f"{{n}} pairs have no {request.label}, which needs {domain(dict(request.parameters))}",
            number,
            code="outside-domain",
            at=at,
            hint="leave the metric out, or shift or cut ratings and predictions under columns",
        )
