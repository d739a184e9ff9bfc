"""Standard errors of the parts of a change, from counts and sums by cell."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from evalkit.kernels.arrays import Floats, Ints
from evalkit.statistics.exact import ExactSum

from .change import WEIGHTS, Parts, UserCell

FACTORS = 4
LEAST = 1e-24  # of the largest variance: what is below it is rounding
CHOICES = (*product((0, 1), repeat=FACTORS),)  # of the run that each factor is taken from


@dataclass(frozen=True, slots=True)
class ChangeErrors:
    """Standard errors of a change, of its parts, and of the parts of each segment."""

    total: float
    parts: Parts
    segments: Mapping[str, Parts]


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the values of a run's users lie apart.

    Args:
        squares: sum of squared distances from the mean of a segment, by segment; or from the mean
            of all users, under None.
        bounds: of the metric, infinite where unknown.
    """

    squares: Mapping[str | None, float]
    bounds: tuple[float, float] = (-math.inf, math.inf)


def change_errors(
    runs: tuple[Mapping[UserCell, ExactSum], Mapping[UserCell, ExactSum]],
    spreads: tuple[Spread, Spread],
) -> ChangeErrors | None:
    """Errors of what `explain_change` gives, as if the users of each run were drawn for it.

    What a user moves a part by, to the first order, follows from the four factors' derivatives;
    the squares of that, added up over the users of both runs, are the variance. Sums by cell say
    where the mean of a cell lies, but not how far its users lie apart: of that the whole of a
    segment is known alone. It is shared out among its cells as makes the variance largest, within
    what the bounds of the metric allow; where runs have the same kinds of users that changes
    nothing. Users of both runs count twice: where they are alike in both, errors are too large.

    Args:
        runs: exact sums in each cell, of the earlier run and of the later one.
        spreads: of the values of both.
    Returns:
        None where a run has fewer than two users.
    Source:
        Deville 1999, Survey Methodology 25(2), 193-203 (linearisation of what is a function of
        sums); Bhatia and Davis 2000, American Mathematical Monthly 107(4), 353-357 (the largest
        variance within bounds).
    Example:
        >>> from evalkit.statistics.exact import SCALE_BITS
        >>> users, half = UserCell("all", "1", True), Spread({None: 1.0})
        >>> two_of_four = {users: ExactSum(4, 2 << SCALE_BITS)}  # values 0, 0, 1 and 1
        >>> errors = change_errors((two_of_four, two_of_four), (half, half))
        >>> round(errors.total**2, 4), errors.parts.mix
        (0.1667, 0.0)
    """
    cells = sorted({cell for run in runs for cell, each in run.items() if each.count})
    sides = [_Side(cells, run, each) for run, each in zip(runs, spreads, strict=True)]
    if min(each.n for each in sides) < 2:
        return None
    slopes = _slopes(sides)
    variances = _variances(sides, np.concatenate([slopes, slopes.sum(axis=0, keepdims=True)]))
    names = [cells[first].segment for first in sides[0].segments]
    middle = (sides[0].mean + sides[1].mean) / 2.0
    own = {
        name: _variances(sides, slopes * (sides[0].segment_of == place), place, middle)
        for place, name in enumerate(names)
    }
    of_segments = {name: Parts(*np.sqrt(each).tolist()) for name, each in own.items()}
    errors = np.sqrt(variances).tolist()
    return ChangeErrors(errors[-1], Parts(*errors[:-1]), of_segments)


class _Side:
    """One run: counts, means and factors of the cells of both, in their order.

    Args:
        segments, pairs: where each segment, and each pair of it and a number of relevant items,
            begins among the cells; `segment_of` and `pair_of` are the way back.
        factors: float64[4, n_cells]; `has`: whether the run has what a factor is a share of.
    """

    def __init__(
        self, cells: list[UserCell], sums: Mapping[UserCell, ExactSum], spread: Spread
    ) -> None:
        found = [sums.get(cell, ExactSum()) for cell in cells]
        self.counts = np.array([each.count for each in found], dtype=np.float64)
        means = np.array([each.mean if each.count else 0.0 for each in found])
        self.segments, self.segment_of = _starts([(each.segment,) for each in cells])
        self.pairs, self.pair_of = _starts([(each.segment, each.relevant) for each in cells])
        self.n = self.counts.sum()
        self.in_segment = np.add.reduceat(self.counts, self.segments)[self.segment_of]
        self.in_pair = np.add.reduceat(self.counts, self.pairs)[self.pair_of]
        shares = [
            np.divide(part, whole, out=np.zeros_like(self.counts), where=whole > 0)
            for part, whole in (
                (self.in_segment, np.full_like(self.counts, self.n)),
                (self.in_pair, self.in_segment),
                (self.counts, self.in_pair),
            )
        ]
        self.factors = np.array([*shares, means])
        wholes = (np.ones_like(self.counts), self.in_segment, self.in_pair, self.counts)
        self.has = np.array(wholes) > 0.0
        self.mean = float(self.counts @ means / self.n) if self.n else math.nan
        self.pools = _pools(cells, self, spread)


def _starts(names: list[tuple[str, ...]]) -> tuple[Ints, Ints]:
    is_first = np.array([n == 0 or name != names[n - 1] for n, name in enumerate(names)], bool)
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def _pools(cells: list[UserCell], side: _Side, spread: Spread) -> list[tuple[Ints, Floats, float]]:
    """Cells whose squared distances from their own means are known together.

    Each with the most that every cell can have of them, and with their sum.
    """
    counts, means = side.counts, side.factors[3]
    low, high = spread.bounds
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.minimum(
            counts * (means - low) * (high - means), counts * (counts - 1.0) * (means - low) ** 2
        )
    most[np.isnan(most)] = math.inf
    most[counts < 2] = 0.0
    found = []
    for name, squares in spread.squares.items():
        own = [n for n, cell in enumerate(cells) if name is None or cell.segment == name]
        places = np.array(own, dtype=np.int64)
        if n_users := counts[places].sum():
            middle = counts[places] @ means[places] / n_users
            between = float(counts[places] @ (means[places] - middle) ** 2)
            within, caps = max(0.0, squares - between), most[places]
            if caps.sum() < within * (1.0 - 1e-9):  # values lie beyond the bounds
                caps = np.full_like(caps, math.inf)
            found.append((places, caps, within))
    return found


def _slopes(sides: list[_Side]) -> Floats:
    """How fast each part grows with each factor of each run: float64[4 parts, 2, 4, n_cells].

    What a run lacks is taken from the other, and so is its slope.
    """
    has = np.array([each.has for each in sides])
    own = np.array([each.factors for each in sides])
    factors = np.where(has, own, own[::-1])
    found = np.zeros((FACTORS, *factors.shape))
    for choice in CHOICES:
        for factor in range(FACTORS):
            others = [factors[choice[n], n] for n in range(FACTORS) if n != factor]
            rest = np.prod(others, axis=0)
            for part in range(FACTORS):
                sign = 1.0 if choice[part] else -1.0
                weight = float(WEIGHTS[sum(choice) - choice[part]])
                found[part, choice[factor], factor] += sign * weight * rest
    return np.where(has, found, 0.0) + np.where(~has[::-1], found[:, ::-1], 0.0)


def _variances(
    sides: list[_Side], slopes: Floats, segment: int | None = None, middle: float = 0.0
) -> Floats:
    """The variance of each row of slopes, over the users of both runs.

    Args:
        segment: place of the segment that the first row is the mix of: its gain of users times
            its distance from the middle of both means.
    """
    found = np.zeros(slopes.shape[0])
    gain = 0.0
    if segment is not None:
        first = sides[0].segments[segment]
        gain = sides[1].factors[0, first] - sides[0].factors[0, first]
    for run, (side, sign) in enumerate(zip(sides, (-1.0, 1.0), strict=True)):
        mix, truth, coverage, within = np.moveaxis(slopes[:, run], 1, 0)
        of_segment = np.add.reduceat(mix, side.segments, axis=1)
        if segment is not None:
            of_segment[0, segment] -= sign * middle
        of_segment = of_segment[:, side.segment_of]
        of_pair = np.add.reduceat(truth, side.pairs, axis=1)[:, side.pair_of]
        shares, middles = side.factors, side.factors[3] - side.mean
        expected = np.add.reduceat(shares[1] * truth, side.segments, axis=1)[:, side.segment_of]
        ranked = np.add.reduceat(shares[2] * coverage, side.pairs, axis=1)[:, side.pair_of]
        here = side.counts > 0
        counts = np.where(here, side.counts, 1.0)
        moved = (of_segment - (of_segment @ side.counts / side.n)[:, None]) / side.n
        moved += (of_pair - expected) / np.where(here, side.in_segment, 1.0)
        moved += (coverage - ranked) / np.where(here, side.in_pair, 1.0)
        by_value = within / counts
        moved[0] -= gain * middles / (2.0 * side.n)
        by_value[0] -= gain / (2.0 * side.n)
        variance = np.square(moved) @ side.counts
        for places, most, squares in side.pools:
            variance += _most_of(np.square(by_value[:, places]), most, squares)
        found += variance * side.n / (side.n - 1.0)
    found[found < LEAST * found.max()] = 0.0
    return found


def _most_of(weights: Floats, most: Floats, squares: float) -> Floats:
    """The largest sum of weights times shares of `squares`, none of them above its `most`."""
    order = np.argsort(-weights, axis=1, kind="stable")
    filled = np.minimum(np.cumsum(most[order], axis=1), squares)
    shares = np.diff(filled, axis=1, prepend=0.0)
    found: Floats = np.sum(np.take_along_axis(weights, order, axis=1) * shares, axis=1)
    return found
