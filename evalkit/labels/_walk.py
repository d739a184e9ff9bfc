"""One part of the scores, walked from the highest to the lowest, and what it adds up to."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evalkit.exact import ExactSums
from evalkit.labels._kernels import (
    area_up_to,
    count_won_pairs,
    cumulate,
    log_losses,
    precision_terms,
    square_losses,
)
from evalkit.labels._wanted import LINE_POINTS, Wanted, of_counts
from evalkit.rows import product_and_rest

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
    """Sums of numbers that may be products, as columns of rounded products and of their rests."""

    exact: ExactSums = field(default_factory=lambda: ExactSums(2))

    def add(self, values: Floats) -> None:
        """Some numbers."""
        self.exact.add(values.reshape(-1, 1))

    def add_products(self, values: Floats, counts: Floats) -> None:
        """Numbers, each as often as its count says, exactly."""
        products, rests = np.empty(values.size), np.empty(values.size)
        product_and_rest(values, counts, products, rests)
        self.exact.add(products.reshape(-1, 1))
        rests = rests[rests != 0.0]
        if rests.size:
            self.exact.add(rests.reshape(-1, 1), first_column=1)

    @property
    def scaled(self) -> int:
        """The exact sum times 2^1074."""
        return self.exact.sum_of(0).scaled + self.exact.sum_of(1).scaled


@dataclass(slots=True)
class Bins:
    """Sums of scores, labels and rows in bins of the score."""

    edges: Floats | None  # of the score, descending; None: bins of equally many rows
    scores: ExactSums
    positives: Floats
    rows: Floats

    @classmethod
    def make(cls, n_bins: int, binning: str) -> "Bins":
        edges = np.arange(n_bins, -1, -1) / n_bins if binning == "width" else None
        return cls(edges, ExactSums(n_bins), np.zeros(n_bins), np.zeros(n_bins))


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
            one.exact.merge(more.exact)
        for kind, bins in other.bins.items():
            if kind in self.bins:
                known = self.bins[kind]
                known.scores.merge(bins.scores)
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
        mine[key].exact.merge(sums.exact)
    else:
        mine[key] = sums


def walk(
    scores: Floats,
    positives: Floats,
    negatives: Floats,
    above: tuple[float, float],
    totals: Totals,
    wanted: Wanted,
) -> Walked:
    """Walk over distinct scores, which descend.

    Args:
        positives, negatives: weight of the rows with label 1 and 0 at each score.
        above: weight of those with higher scores.
        totals: of all rows.
    """
    found = Walked()
    sum_1 = _running(positives, above[0], totals)
    sum_0 = _running(negatives, above[1], totals)
    for tie in wanted.ties:
        half = tie == "half"
        if totals.weighted:
            before = np.concatenate([above[:1], sum_1[:-1]])
            sums = found.won_weight.setdefault(tie, Sums())
            sums.add_products(negatives, 2.0 * before + (positives if half else 0.0))
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
    _add_losses(found, scores, positives, negatives, wanted)
    if wanted.bins:
        weights = positives + negatives
        columns = np.zeros((scores.size, 2))
        products, rests = np.empty(scores.size), np.empty(scores.size)
        product_and_rest(scores, weights, products, rests)
        columns[:, 0], columns[:, 1] = products, rests
        for kind in wanted.bins:
            _add_bins(found, kind, scores, positives, weights, columns, sum_1 + sum_0, totals)
    _find_thresholds(found, scores, sum_1, sum_0, totals, wanted)
    for share in wanted.shares:
        area = np.empty(scores.size)
        area_up_to(positives, negatives, *above, share * totals.negatives, area)
        found.areas.setdefault(share, Sums()).add(area)
    _draw(found, scores, sum_1, sum_0, above, totals)
    return found


def _running(values: Floats, start: float, totals: Totals) -> Floats:
    """Sums up to and with each value, from `start` on."""
    sums = np.empty(values.size)
    if totals.weighted:
        cumulate(values, start, sums)
    else:  # whole numbers below 2^53 lose nothing
        np.cumsum(values, out=sums)
        sums += start
    return sums


def _add_losses(
    found: Walked, scores: Floats, positives: Floats, negatives: Floats, wanted: Wanted
) -> None:
    losses, counts = np.empty(2 * scores.size), np.empty(2 * scores.size)
    for clip in wanted.clips:
        infinite = np.zeros(1)
        n = log_losses(scores, positives, negatives, clip, losses, counts, infinite)
        found.losses.setdefault(clip, Sums()).add_products(losses[:n], counts[:n])
        found.infinite[clip] = float(infinite[0])
    if wanted.squares:
        n = square_losses(scores, positives, negatives, losses, counts)
        found.squares.add_products(losses[:n], counts[:n])


def _add_bins(
    found: Walked,
    kind: tuple[int, str],
    scores: Floats,
    positives: Floats,
    rows: Floats,
    products: Floats,
    rows_so_far: Floats,
    totals: Totals,
) -> None:
    """Add to bins; `products` float64[n, 2] are scores times rows and what rounding lost."""
    bins = found.bins.setdefault(kind, Bins.make(*kind))
    n_bins = kind[0]
    if bins.edges is not None:  # from the highest bin down; an edge belongs to the upper bin
        ends = np.searchsorted(-scores, -bins.edges[1:], side="right")
    else:  # by the rows above
        before = rows_so_far - rows
        numbers = np.minimum(before * n_bins / max(totals.rows, 1e-300), n_bins - 1)
        ends = np.searchsorted(numbers.astype(np.int64), np.arange(n_bins), side="right")
    ends[-1] = scores.size
    first = 0
    exact = not products[:, 1].any()
    for number, end in enumerate(ends):
        if end > first:
            bins.scores.add(products[first:end, :1], first_column=number)
            if not exact:
                bins.scores.add(products[first:end, 1:], first_column=number)
            bins.positives[number] += _total(positives[first:end], totals)
            bins.rows[number] += _total(rows[first:end], totals)
        first = max(first, int(end))


def _total(values: Floats, totals: Totals) -> float:
    if not totals.weighted:
        return float(values.sum())  # whole numbers below 2^53
    room = np.empty(values.size)
    return float(cumulate(values, 0.0, room))


def _find_thresholds(
    found: Walked,
    scores: Floats,
    sum_1: Floats,
    sum_0: Floats,
    totals: Totals,
    wanted: Wanted,
) -> None:
    for threshold in wanted.thresholds:
        n_called = int(np.searchsorted(-scores, -threshold, side="right"))
        if n_called:
            last = n_called - 1
            found.called[threshold] = _point(sum_1, sum_0, scores, last)
    for request in wanted.best:
        extra = of_counts(request)
        with np.errstate(all="ignore"):
            values = request.metric.kernel.plain(
                sum_1, sum_0, totals.negatives - sum_0, totals.positives - sum_1, *extra
            )
        values = np.where(np.isnan(values), -np.inf, values)
        place = int(np.argmax(values))
        found.best.append((float(values[place]), _point(sum_1, sum_0, scores, place)))


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
