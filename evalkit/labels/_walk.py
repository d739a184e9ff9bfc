"""One part of the scores, walked from the highest to the lowest, and what it adds up to."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.exact import LIMB_BITS, SCALE_BITS, SUM_LIMBS, rounded
from evalkit.labels._kernels import (
    add_multiples,
    add_values,
    area_up_to,
    choose_weighty,
    count_from,
    count_won_pairs,
    cumulate,
    find_bin_ends,
    log_losses,
    precision_terms,
    square_losses,
)
from evalkit.labels._wanted import LINE_POINTS, Wanted, of_counts
from evalkit.metrics import Request
from evalkit.rows import product_and_rest

BLOCK = 64  # scores, of which the best is only looked for where it may be
MARGIN = 1e-9  # of values of metrics, far more than rounding moves them

Floats = npt.NDArray[np.float64]

# a point of a curve: rows called positive with label 1 and 0, and the lowest score among them
Point = tuple[float, float, float]
START: Point = (0.0, 0.0, np.inf)


@dataclass(frozen=True, slots=True)
class Totals:
    """Weight of all rows with label 1 and 0."""

    positives: float
    negatives: float
    weighted: bool

    @property
    def rows(self) -> float:
        return self.positives + self.negatives


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a share of the rows ends, from the highest score.

    Args:
        rows, positives: above it, of the rows with the score it ends at in equal parts.
        mark: that score, and the part of its rows that is above.
    """

    rows: float
    positives: float
    mark: tuple[float, float]


@dataclass(slots=True)
class Sums:
    """An exact sum of finite numbers, and of products of such."""

    limbs: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(SUM_LIMBS, dtype=np.int64)
    )

    def add(self, values: Floats) -> None:
        """Some numbers."""
        add_values(values, self.limbs)

    def add_products(self, values: Floats, weights: Floats, *, weighted: bool) -> None:
        """Numbers times their weights, exactly; these are whole where rows have none."""
        if not weighted:
            add_multiples(values, weights, self.limbs)
            return
        products, rests = np.empty(values.size), np.empty(values.size)
        product_and_rest(values, weights, products, rests)
        self.add(products)
        self.add(rests)

    def merge(self, other: "Sums") -> None:
        """Take over what was added to another one."""
        self.limbs += other.limbs

    @property
    def scaled(self) -> int:
        """The exact sum times 2^1074."""
        return sum(int(limb) << LIMB_BITS * place for place, limb in enumerate(self.limbs))

    @property
    def total(self) -> float:
        """The sum, correctly rounded."""
        return rounded(Fraction(self.scaled, 1 << SCALE_BITS))


@dataclass(slots=True)
class Bins:
    """Sums of scores, labels and rows in bins of the score."""

    edges: Floats | None  # of the score, descending; None: bins of equally many rows
    scores: list[Sums]
    positives: Floats
    rows: Floats

    @classmethod
    def make(cls, n_bins: int, binning: str) -> "Bins":
        edges = np.arange(n_bins, -1, -1) / n_bins if binning != "mass" else None
        if binning == "width_and_one":
            edges, n_bins = np.concatenate([[np.inf], edges]), n_bins + 1
        sums = [Sums() for _ in range(n_bins)]
        return cls(edges, sums, np.zeros(n_bins), np.zeros(n_bins))


@dataclass(slots=True)
class Walked:
    """What the walk over some distinct scores gives; those of neighbours merge."""

    won: dict[str, int] = field(default_factory=dict)  # twice the pairs; rows weigh 1
    won_weight: dict[str, Sums] = field(default_factory=dict)
    steps: Sums = field(default_factory=Sums)
    lines: Sums = field(default_factory=Sums)
    losses: dict[float, Sums] = field(default_factory=dict)
    infinite: dict[float, float] = field(default_factory=dict)
    squares: Sums = field(default_factory=Sums)
    bins: dict[tuple[int, str], Bins] = field(default_factory=dict)
    called: dict[float, Point] = field(default_factory=dict)  # by threshold
    best: list[tuple[float, Point]] = field(default_factory=list)  # value; of each request
    areas: dict[float, Sums] = field(default_factory=dict)
    roc: dict[int, Point] = field(default_factory=dict)
    recall: dict[int, Point] = field(default_factory=dict)
    shares: dict[int, Cut] = field(default_factory=dict)  # by hundredths of the rows

    def merge(self, other: "Walked") -> None:
        """Take in what the next lower scores give."""
        for tie, pairs in other.won.items():
            self.won[tie] = self.won.get(tie, 0) + pairs
        for mine, theirs in (
            (self.won_weight, other.won_weight),
            (self.losses, other.losses),
            (self.areas, other.areas),
        ):
            for key, sums in theirs.items():
                _merge_sums(mine, key, sums)
        for clip, weight in other.infinite.items():
            self.infinite[clip] = self.infinite.get(clip, 0.0) + weight
        for one, more in (
            (self.steps, other.steps),
            (self.lines, other.lines),
            (self.squares, other.squares),
        ):
            one.merge(more)
        for kind, bins in other.bins.items():
            if kind in self.bins:
                known = self.bins[kind]
                for bin_, more_of_it in zip(known.scores, bins.scores, strict=True):
                    bin_.merge(more_of_it)
                known.positives += bins.positives
                known.rows += bins.rows
            else:
                self.bins[kind] = bins
        self.called.update(other.called)
        for place, (value, point) in enumerate(other.best):
            if place == len(self.best):
                self.best.append((value, point))
            elif not self.best[place][0] >= value:  # the highest score of several wins
                self.best[place] = (value, point)
        for number, point in other.roc.items():
            self.roc.setdefault(number, point)
        for number, point in other.recall.items():
            self.recall.setdefault(number, point)
        self.shares.update(other.shares)


def _merge_sums(mine: dict[Any, Sums], key: Any, sums: Sums) -> None:
    if key in mine:
        mine[key].merge(sums)
    else:
        mine[key] = sums


@dataclass(frozen=True, slots=True)
class Ties:
    """Distinct scores, which descend, and the weight of their rows.

    Args:
        positives, negatives: of the rows with label 1 and 0 at each score.
        sum_1, sum_0: of those down to it, from the highest score of all on.
    """

    scores: Floats
    positives: Floats
    negatives: Floats
    sum_1: Floats
    sum_0: Floats

    @classmethod
    def of(
        cls,
        scores: Floats,
        positives: Floats,
        negatives: Floats,
        above: tuple[float, float],
        down_to: tuple[float, float],
    ) -> "Ties":
        """Sums are made here, and what rounding loses is carried along.

        Args:
            above: weight of rows with higher scores, with label 1 and 0.
            down_to: of those with these scores besides, rounded once.
        """
        sum_1 = _running(positives, above[0], down_to[0])
        sum_0 = _running(negatives, above[1], down_to[1])
        return cls(scores, positives, negatives, sum_1, sum_0)


def _running(weights: Floats, start: float, end: float) -> Floats:
    """Sums from `start` on; where no weight is left they are `end`, to the last bit."""
    sums = np.empty(weights.size)
    cumulate(weights, start, sums)
    np.minimum(sums, end, out=sums)
    there = np.flatnonzero(weights)
    sums[there[-1] if there.size else 0 :] = end
    return sums


def walk(ties: Ties, above: tuple[float, float], totals: Totals, wanted: Wanted) -> Walked:
    """Walk over distinct scores.

    Args:
        above: weight of rows with higher scores, with label 1 and 0.
        totals: of all rows.
    """
    found = Walked()
    scores, positives, negatives = ties.scores, ties.positives, ties.negatives
    sum_1, sum_0 = ties.sum_1, ties.sum_0
    for tie in wanted.ties:
        half = tie == "half"
        if totals.weighted:
            before = np.concatenate([above[:1], sum_1[:-1]])
            sums = found.won_weight.setdefault(tie, Sums())
            doubled = 2.0 * before + (positives if half else 0.0)
            sums.add_products(negatives, doubled, weighted=True)
        else:
            found.won[tie] = int(count_won_pairs(positives, negatives, above[0], int(half)))
    if wanted.precision:
        rows = above[0] + above[1]
        before_1 = above[0] / rows if rows > 0 else 1.0
        steps, lines = np.empty(scores.size), np.empty(scores.size)
        n = precision_terms(positives, sum_1, sum_0, before_1, steps, lines)
        if "step" in wanted.precision:
            found.steps.add(steps[:n])
        if "trapezoid" in wanted.precision:
            found.lines.add(lines[:n])
    _add_losses(found, scores, (negatives, positives), totals, wanted)
    for kind in wanted.bins:
        _add_bins(found, kind, ties, totals)
    _find_thresholds(found, scores, sum_1, sum_0, wanted)
    for request in wanted.best:
        place, value = _find_best(request, sum_1, sum_0, totals)
        found.best.append((value, _point(sum_1, sum_0, scores, place)))
    for share in wanted.shares:
        area = np.empty(scores.size)
        n = int(area_up_to(positives, negatives, *above, share * totals.negatives, area))
        found.areas.setdefault(share, Sums()).add(area[:n])
    _draw(found, scores, sum_1, sum_0, above, totals)
    return found


def _add_losses(
    found: Walked, scores: Floats, by_label: tuple[Floats, Floats], totals: Totals, wanted: Wanted
) -> None:
    """Losses of the rows with label 0 and 1 at each score."""
    for clip in wanted.clips:
        found.losses.setdefault(clip, Sums())
        found.infinite.setdefault(clip, 0.0)
    if not wanted.clips and not wanted.squares:
        return
    for label, weights in enumerate(by_label):
        own, own_weights, losses = (np.empty(scores.size) for _ in range(3))
        n = choose_weighty(scores, weights, own, own_weights)
        own, own_weights, losses = own[:n], own_weights[:n], losses[:n]
        for clip in wanted.clips:
            found.infinite[clip] += float(log_losses(own, own_weights, label, clip, losses))
            found.losses[clip].add_products(losses, own_weights, weighted=totals.weighted)
        if wanted.squares:
            square_losses(own, float(label), losses)
            found.squares.add_products(losses, own_weights, weighted=totals.weighted)


def _add_bins(found: Walked, kind: tuple[int, str], ties: Ties, totals: Totals) -> None:
    scores, positives, negatives = ties.scores, ties.positives, ties.negatives
    bins = found.bins.setdefault(kind, Bins.make(*kind))
    ends = np.empty(len(bins.scores), dtype=np.int64)
    if bins.edges is not None:  # from the highest bin down; an edge belongs to the upper bin
        count_from(scores, bins.edges[1:], ends)
    else:  # by the rows above
        total = max(totals.rows, 1e-300)
        find_bin_ends(ties.sum_1, ties.sum_0, positives, negatives, total, ends)
    ends[-1] = scores.size
    first = 0
    for number, end in enumerate(map(int, ends)):
        if end > first:
            good, bad = positives[first:end], negatives[first:end]
            weights = good + bad
            bins.scores[number].add_products(scores[first:end], weights, weighted=totals.weighted)
            bins.positives[number] += _total(good, totals)
            bins.rows[number] += _total(weights, totals)
        first = max(first, end)


def _total(values: Floats, totals: Totals) -> float:
    if not totals.weighted:
        return float(values.sum())  # whole numbers below 2^53
    room = np.empty(values.size)
    return float(cumulate(values, 0.0, room))


def _find_thresholds(
    found: Walked, scores: Floats, sum_1: Floats, sum_0: Floats, wanted: Wanted
) -> None:
    n_called = np.empty(len(wanted.thresholds), dtype=np.int64)
    count_from(scores, np.array(wanted.thresholds, dtype=np.float64), n_called)
    for threshold, number in zip(wanted.thresholds, map(int, n_called), strict=True):
        if number:
            found.called[threshold] = _point(sum_1, sum_0, scores, number - 1)


def _find_best(request: Request, sum_1: Floats, sum_0: Floats, totals: Totals) -> tuple[int, float]:
    """The first place where a metric of counts is highest, and its value.

    No such metric falls with a row more of label 1 among those called positive, or rises with one
    of label 0. So what a block of scores has at its end of the former and at its begin of the
    latter bounds all its values, and blocks whose bound is lower than another's value are left
    out; not so of weights, whose sums are rounded.
    """
    extra = of_counts(request)

    def values_of(tp: Floats, fp: Floats, undefined: float = -np.inf) -> Floats:
        with np.errstate(all="ignore"):
            values = request.metric.kernel.plain(
                tp, fp, totals.negatives - fp, totals.positives - tp, *extra
            )
        return np.where(np.isnan(values), undefined, values)

    n = sum_1.size
    if n > BLOCK and not totals.weighted:
        ends = np.minimum(np.arange(BLOCK, n + BLOCK, BLOCK), n)
        at_ends = values_of(sum_1[ends - 1], sum_0[ends - 1])
        bounds = values_of(sum_1[ends - 1], sum_0[::BLOCK], np.inf)
        may_hold = np.maximum(at_ends, bounds) >= at_ends.max() - MARGIN
        chosen = np.flatnonzero(np.repeat(may_hold, BLOCK)[:n])
    else:
        chosen = np.arange(n)
    values = values_of(sum_1[chosen], sum_0[chosen])
    place = int(np.argmax(values))
    return int(chosen[place]), float(values[place])


def _point(sum_1: Floats, sum_0: Floats, scores: Floats, place: int) -> Point:
    return float(sum_1[place]), float(sum_0[place]), float(scores[place])


def _draw(
    found: Walked,
    scores: Floats,
    sum_1: Floats,
    sum_0: Floats,
    above: tuple[float, float],
    totals: Totals,
) -> None:
    """The first score at which each hundredth of an axis is reached."""
    for points, sums, before, total in (
        (found.roc, sum_0, above[1], totals.negatives),
        (found.recall, sum_1, above[0], totals.positives),
    ):
        if total <= 0:
            continue
        targets = np.arange(1, LINE_POINTS + 1) * (total / LINE_POINTS)
        targets[-1] = min(targets[-1], total)
        first = int(np.searchsorted(targets, before, side="right"))
        for number in range(first, LINE_POINTS):
            place = int(np.searchsorted(sums, targets[number], side="left"))
            if place == sums.size:
                break
            points[number] = _point(sum_1, sum_0, scores, place)
    if totals.rows <= 0:
        return
    rows, start = sum_1 + sum_0, above[0] + above[1]
    targets = totals.rows * np.arange(1, 100) / 100
    first = int(np.searchsorted(targets, start, side="right"))
    for target in targets[first:]:
        place = int(np.searchsorted(rows, target, side="left"))
        if place == rows.size:
            break
        low = (rows[place - 1], sum_1[place - 1]) if place else (start, above[0])
        part = (target - low[0]) / (rows[place] - low[0])
        reached = low[1] + part * (sum_1[place] - low[1])
        cut = Cut(float(target), float(reached), (float(scores[place]), float(part)))
        first += 1
        found.shares[first] = cut
