"""What is drawn of errors: their histogram, and how large they are by true rating, with bands."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from evalkit.kernels.arrays import Floats
from evalkit.kinds.pointwise.numbers import RowNumber
from evalkit.kinds.pointwise.spread import TermSums
from evalkit.kinds.pointwise.units import DrawnSums
from evalkit.kinds.ratings._sums import user_sums
from evalkit.kinds.ratings.read import Extremes, PairPart
from evalkit.metrics import Smooth, registry_of, square_root
from evalkit.report import Distribution, Graph
from evalkit.statistics.exact import SCALE_BITS, ExactSums

RESIDUAL_BINS, RATING_BINS = 40, 20
STEPS = (1.0, 2.0, 5.0, 10.0)
SMALLEST_STEP = 1e-11  # of a value: edges have twelve digits
BY_RATING = ("MAE", "RMSE", "bias")


@dataclass(frozen=True, slots=True)
class Edges:
    """Of bins around every error that there can be, and around every rating."""

    residuals: Floats
    ratings: Floats

    @classmethod
    def around(cls, extremes: Extremes) -> "Edges":
        """Of the bins around what lies between these ratings and predictions."""
        low = float(_errors(extremes.high[:1], extremes.low[1:])[0])
        high = float(_errors(extremes.low[:1], extremes.high[1:])[0])
        ratings = _edges(float(extremes.low[0]), float(extremes.high[0]), RATING_BINS)
        if ratings[-1] == extremes.high[0]:  # the highest is not the one below it
            ratings = np.append(ratings, 2.0 * ratings[-1] - ratings[-2])
        return cls(_edges(low, high, RESIDUAL_BINS), ratings)


def _edges(low: float, high: float, most: int) -> Floats:
    size = max(abs(low), abs(high))
    if not math.isfinite(size) or size > 1e300 or 0.0 < size < 1e-280:
        return np.array([-math.inf, math.inf])
    return nice_edges(low, high, most)


def _errors(ratings: Floats, predictions: Floats) -> Floats:
    with np.errstate(over="ignore"):  # the edges take an infinite one
        return predictions - ratings


def _smooth(name: str) -> Smooth:
    found = registry_of("ratings")[name].request().over_rows.smooth
    assert found is not None
    return found


class ErrorDrawing:
    """Errors by bin, and what each user adds to those of a rating; of other users they merge.

    Args:
        bands: users are drawn one by one; otherwise points have no intervals.
    """

    def __init__(self, edges: Edges, *, bands: bool) -> None:
        self.edges = edges
        n_bins = edges.ratings.size - 1
        self.residuals = np.zeros(edges.residuals.size - 1, dtype=np.int64)
        self.sums = ExactSums(3 * n_bins)  # error, distance, rating of each bin of ratings
        numbers = [_smooth(name) for name in BY_RATING]
        self.spreads = [TermSums(numbers) for _ in range(n_bins if bands else 0)]

    def add(self, pairs: PairPart) -> None:
        """The pairs of some users more."""
        ratings, errors = pairs.ratings, _errors(pairs.ratings, pairs.predictions)
        bins = bin_of(errors, self.edges.residuals)
        self.residuals += np.bincount(bins, minlength=self.residuals.size)
        users = np.repeat(np.arange(pairs.keys.size, dtype=np.int32), np.diff(pairs.starts))
        bins = bin_of(ratings, self.edges.ratings)
        order = np.argsort(bins.astype(np.uint8), kind="stable")
        ends = np.cumsum(np.bincount(bins, minlength=self.edges.ratings.size - 1))
        first = 0
        for number, end in enumerate(ends):
            rows = order[first:end]
            if rows.size:
                columns = np.stack([errors[rows], np.abs(errors[rows]), ratings[rows]], axis=1)
                self.sums.add(columns, first_column=3 * number)
            if rows.size and self.spreads:
                begins = np.flatnonzero(np.diff(users[rows], prepend=-1, append=-1))
                spread, own = self.spreads[number], (ratings[rows], pairs.predictions[rows])
                spread.add(user_sums(spread.terms, begins, *own, 0.0))
            first = int(end)

    def merge(self, other: "ErrorDrawing") -> None:
        """Take over the errors of other users."""
        self.residuals += other.residuals
        self.sums.merge(other.sums)
        for mine, theirs in zip(self.spreads, other.spreads, strict=True):
            mine.merge(theirs)

    def kept(self) -> DrawnSums:
        """As others merge it."""
        edges = self.edges.residuals, self.edges.ratings
        return DrawnSums(edges, self.residuals, self.sums, [each.sums for each in self.spreads])

    @classmethod
    def of_kept(cls, kept: DrawnSums) -> "ErrorDrawing":
        """Read back."""
        found = cls(Edges(*kept.edges), bands=bool(kept.spreads))
        found.residuals, found.sums = kept.counts, kept.sums
        for spread, sums in zip(found.spreads, kept.spreads, strict=True):
            spread.sums = sums
        return found

    def histogram(self, model: str) -> Distribution:
        """Errors from the first bin that holds one to the last."""
        there = np.flatnonzero(self.residuals)
        first, last = int(there[0]), int(there[-1])
        edges: tuple[float, ...] = tuple(self.edges.residuals[first : last + 2])
        counts = tuple(map(int, self.residuals[first : last + 1]))
        return Distribution(model, "residual", edges, counts)

    def graphs(self, model: str, *, level: float) -> list[Graph]:
        """MAE, RMSE and bias of each bin of true ratings, at its mean rating.

        The interval of a point is that of the number over the pairs of the bin alone.
        """
        n_bins = self.edges.ratings.size - 1
        bins = [number for number in range(n_bins) if self.sums.sum_of(3 * number).count]
        errors, distances, ratings = (
            [self.sums.sum_of(3 * number + column) for number in bins] for column in range(3)
        )
        squares = [Fraction(each.squares, each.count << 2 * SCALE_BITS) for each in errors]
        values = {
            "MAE": [each.mean for each in distances],
            "RMSE": [square_root(each) for each in squares],
            "bias": [each.mean for each in errors],
        }
        found = []
        for name in BY_RATING:
            numbers = [
                self._number(name, number, value, level=level)
                for number, value in zip(bins, values[name], strict=True)
            ]
            bounds = (-math.inf if name == "bias" else 0.0, math.inf)
            limits = [each.interval.within(bounds) for each in numbers]
            has_limits = any(each.exists for each in limits)
            found.append(
                Graph(
                    model,
                    "error-by-rating",
                    "rating",
                    name,
                    tuple(each.mean for each in ratings),
                    tuple(values[name]),
                    tuple(e.low if e.exists else None for e in limits) if has_limits else (),
                    tuple(e.high if e.exists else None for e in limits) if has_limits else (),
                    rows=tuple(float(each.count) for each in errors),
                )
            )
        return found

    def _number(self, name: str, number: int, value: float, *, level: float) -> RowNumber:
        """One point, with its interval; of users who have a rating in its bin."""
        if not self.spreads:
            return RowNumber.of_rows(value, None, 0, level=level)
        spread = self.spreads[number]
        n_users = spread.sums.sum_of(0).count
        return RowNumber.of_rows(value, spread.std_error(_smooth(name)), n_users, level=level)


def nice_edges(low: float, high: float, most: int) -> Floats:
    """Multiples of 1, 2 or 5 times a power of ten around [low, high], at most about `most` bins."""
    if not high - low > SMALLEST_STEP * most * abs(low):
        high = low + (abs(low) * 2.0**-20 or 1.0)
    wanted = high / most - low / most
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(each * power for each in STEPS if each * power >= wanted * (1 - 1e-9))
    first, last = math.floor(low / step), math.ceil(high / step)
    edges = np.array([_multiple(step, number) for number in range(first, last + 1)])
    while edges[0] > low:  # a quotient was rounded
        edges = np.concatenate([[_multiple(step, first := first - 1)], edges])
    while edges[-1] < high:
        edges = np.concatenate([edges, [_multiple(step, last := last + 1)]])
    return edges


def _multiple(step: float, number: int) -> float:
    return float(f"{step * number:.12g}")  # 0.30000000000000004 is meant as 0.3


def bin_of(values: Floats, edges: Floats) -> npt.NDArray[np.intp]:
    """The bin of each value: from its edge up to the next; the last edge belongs inside."""
    found = np.searchsorted(edges, values, side="right") - 1
    return np.minimum(found, edges.size - 2)
