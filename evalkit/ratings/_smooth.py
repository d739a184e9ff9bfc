"""Errors over all pairs as smooth functions of sums that users add to."""

import cmath
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.ratings._sums import TERMS
from evalkit.rows import Floats, Smooth, Term


def _terms(*names: str) -> tuple[Term, ...]:
    return tuple((name,) for name in names)


# level: the rating less the middle of all ratings, so that squares of large ratings cancel nothing
SMOOTH: Mapping[str, Smooth] = {
    "MAE": Smooth(_terms("distance", "rows"), lambda d, n: d / n),
    "MSE": Smooth(_terms("error^2", "rows"), lambda q, n: q / n),
    "RMSE": Smooth(_terms("error^2", "rows"), lambda q, n: cmath.sqrt(q / n)),
    "bias": Smooth(_terms("error", "rows"), lambda e, n: e / n),
    "R2": Smooth(
        _terms("error^2", "level", "level^2", "rows"), lambda q, r, rr, n: 1 - q / (rr - r * r / n)
    ),
    "explained-variance": Smooth(
        _terms("error^2", "error", "level", "level^2", "rows"),
        lambda q, e, r, rr, n: 1 - (q - e * e / n) / (rr - r * r / n),
    ),
    "MAPE": Smooth(_terms("relative", "relatives"), lambda r, n: r / n),
    "sMAPE": Smooth(_terms("symmetric", "rows"), lambda s, n: s / n),
    "WAPE": Smooth(_terms("distance", "size"), lambda d, s: d / s),
}


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
    terms: tuple[Term, ...],
    starts: npt.NDArray[np.int64],
    ratings: Floats,
    predictions: Floats,
    middle: float,
) -> Floats:
    """float64[n_users, n_terms], the sums of each user's pairs."""
    columns = np.empty((starts.size - 1, len(terms)))
    room = np.empty(starts.size - 1)
    for place, (name,) in enumerate(terms):
        add_up_rows(starts, _values(str(name), ratings, predictions, middle), room)
        columns[:, place] = room
    return columns


def _values(name: str, ratings: Floats, predictions: Floats, middle: float) -> Floats:
    if name == "rows":
        return np.ones(ratings.size)
    if name == "relatives":
        counted: Floats = (ratings != 0.0).astype(np.float64)
        return counted
    base, _, power = name.partition("^")
    with np.errstate(over="ignore"):  # an infinite sum has no standard error
        values = ratings - middle if base == "level" else TERMS[base](ratings, predictions)
        found: Floats = values * values if power else values
    return found
