"""Why a mean moved between two runs: parts that add up to the whole, exactly."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from evalkit.statistics.exact import SCALE_BITS, ExactSum


@dataclass(frozen=True, slots=True, order=True)
class UserCell:
    """Users who are alike in what a change is explained by.

    Args:
        segment: name of their segment.
        relevant: how many relevant items they have, or the name of a range of such numbers.
        is_ranked: whether they have a ranking.
    """

    segment: str
    relevant: str
    is_ranked: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """What moved a mean, in its unit.

    Args:
        mix: which segments the users are in.
        truth: how many relevant items the users of a segment have.
        coverage: how many of such users have a ranking.
        within: the values of users who are alike in all of these.
    """

    mix: float
    truth: float
    coverage: float
    within: float

    @property
    def total(self) -> float:
        """Their sum; no digit is lost in it."""
        return self.mix + self.truth + self.coverage + self.within


@dataclass(frozen=True, slots=True)
class Change:
    """Why a mean moved.

    Args:
        before: the mean of the earlier run.
        after: the mean of the later one.
        parts: they add up to after - before.
        segments: the share of each segment in the parts; they add up to the parts. A segment's
            part of the mix is its gain of users times its distance from the middle of both means.
    """

    before: float
    after: float
    parts: Parts
    segments: Mapping[str, Parts]


def explain_change(
    before: Mapping[UserCell, ExactSum], after: Mapping[UserCell, ExactSum]
) -> Change:
    """The change of a mean, split into mix, truth, coverage and change within.

    The mean is sum P(segment) P(relevant | segment) P(ranked | segment, relevant) value(cell), so
    it is a function of four factors, each taken from one of the runs. A factor's part is its
    Shapley value: what exchanging it adds, averaged over all orders in which the four can be
    exchanged. The order does not matter, swapping the runs turns every sign, and the parts add
    up to the whole. Of a group that one run lacks, what is within it is taken from the other: its
    coming or going is a matter of the mix (or truth, or coverage), not of its values.

    All of it is rational arithmetic on exact sums. At the end the parts are rounded to one grid,
    fine enough for the largest, so that they add up as printed, too.

    Args:
        before: exact sums of the values in each cell of the earlier run.
        after: the same of the later run. The truths may differ.
    Returns:
        Means and parts; NaN where a run has no users.
    Source:
        Shapley 1953, A Value for n-Person Games; Shorrocks 2013, Journal of Economic Inequality
        11(1), 99-126 (decompositions by it); Kitagawa 1955, JASA 50(272), 1168-1194 (of two
        factors, where it is the midpoint).
    Example:
        >>> few, many = UserCell("new", "1", True), UserCell("old", "1", True)
        >>> half, one = ExactSum(1, 1 << SCALE_BITS - 1), ExactSum(1, 1 << SCALE_BITS)
        >>> found = explain_change({few: half, many: one}, {few: half, many: half})
        >>> found.before, found.after, found.parts.within
        (0.75, 0.5, -0.25)
    """
    runs = [_Run(before), _Run(after)]
    if not (runs[0].n and runs[1].n):
        nothing = Parts(math.nan, math.nan, math.nan, math.nan)
        return Change(_mean(runs[0]), _mean(runs[1]), nothing, {})
    segments = sorted({cell.segment for cell in (*before, *after)})
    cells = {segment: _cells_of(segment, before, after) for segment in segments}
    middle = (runs[0].mean + runs[1].mean) / 2
    exact = [_parts_of(segment, cells[segment], runs, middle) for segment in segments]
    rounded = iter(_round_together([row[factor] for factor in range(4) for row in exact]))
    table = [[next(rounded) for _ in segments] for _ in range(4)]
    return Change(
        _mean(runs[0]),
        _mean(runs[1]),
        Parts(*(math.fsum(row) for row in table)),
        {segment: Parts(*(row[place] for row in table)) for place, segment in enumerate(segments)},
    )


class _Run:
    """Users and sums of a run by cell, and by what cells have in common."""

    def __init__(self, sums: Mapping[UserCell, ExactSum]) -> None:
        self.by_cell = {cell: each for cell, each in sums.items() if each.count}
        self.by_pair: dict[tuple[str, str], int] = {}
        self.by_segment: dict[str, int] = {}
        for cell, sums_of_cell in self.by_cell.items():
            pair = (cell.segment, cell.relevant)
            self.by_pair[pair] = self.by_pair.get(pair, 0) + sums_of_cell.count
            self.by_segment[cell.segment] = (
                self.by_segment.get(cell.segment, 0) + sums_of_cell.count
            )
        self.n = sum(self.by_segment.values())
        scaled = sum(each.scaled for each in self.by_cell.values())
        self.mean = Fraction(scaled, self.n << SCALE_BITS) if self.n else Fraction(0)

    def factors(
        self, cell: UserCell
    ) -> tuple[Fraction, Fraction | None, Fraction | None, Fraction | None]:
        """Shares and value of a cell; None where the run lacks what it is a share of."""
        in_segment = self.by_segment.get(cell.segment, 0)
        in_pair = self.by_pair.get((cell.segment, cell.relevant), 0)
        here = self.by_cell.get(cell)
        return (
            Fraction(in_segment, self.n),
            Fraction(in_pair, in_segment) if in_segment else None,
            Fraction(here.count if here else 0, in_pair) if in_pair else None,
            Fraction(here.scaled, here.count << SCALE_BITS) if here else None,
        )


def _mean(run: _Run) -> float:
    return float(run.mean) if run.n else math.nan


def _cells_of(segment: str, *runs: Mapping[UserCell, ExactSum]) -> list[UserCell]:
    return sorted(
        {
            cell
            for run in runs
            for cell, each in run.items()
            if cell.segment == segment and each.count
        }
    )


# over all orders of four, the chance that just these others were exchanged before, by their number
WEIGHTS = (Fraction(1, 4), Fraction(1, 12), Fraction(1, 12), Fraction(1, 4))


def _parts_of(
    segment: str, cells: Iterable[UserCell], runs: list[_Run], middle: Fraction
) -> list[Fraction]:
    """What each of the four factors adds through one segment."""
    parts = [Fraction(0)] * 4
    for cell in cells:
        pairs = []
        for old, new in zip(*(run.factors(cell) for run in runs), strict=True):
            first = old if old is not None else new
            last = new if new is not None else old
            pairs.append((first or Fraction(0), last or Fraction(0)))
        for factor, (old, new) in enumerate(pairs):
            if old == new:
                continue
            # products of the others' old and new values, by how many are new
            products = [Fraction(1)]
            for place, (first, last) in enumerate(pairs):
                if place != factor:
                    stay = [each * first for each in products] + [Fraction(0)]
                    move = [Fraction(0)] + [each * last for each in products]
                    products = [a + b for a, b in zip(stay, move, strict=True)]
            weighed = (weight * each for weight, each in zip(WEIGHTS, products, strict=True))
            parts[factor] += (new - old) * sum(weighed, Fraction(0))
    shares = [Fraction(run.by_segment.get(segment, 0), run.n) for run in runs]
    parts[0] -= (shares[1] - shares[0]) * middle  # of all segments together nothing
    return parts


def _round_together(exact: list[Fraction]) -> list[float]:
    """Whole multiples of one power of two that are near, and whose sum is near as well."""
    size = sum(map(abs, exact))
    if not size:
        return [0.0] * len(exact)
    exponent = math.frexp(float(size))[1] - 52
    unit = Fraction(2) ** exponent
    rounded, before, running = [], 0, Fraction(0)
    for exact_value in exact:
        running += exact_value
        here = round(running / unit)
        rounded.append(math.ldexp(here - before, exponent))
        before = here
    return rounded
