"""One part of the scores, walked from the highest to the lowest, and what it adds up to."""

# Long: one walk and what it leaves behind, which are read together.

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from evalkit import metrics
from evalkit.errors import RequestError
from evalkit.kernels.arrays import Bytes, Flags, Floats, Ints
from evalkit.kinds.labels import _kernels
from evalkit.kinds.pointwise.means import product_and_rest
from evalkit.statistics.exact import LIMB_BITS, SCALE_BITS, SUM_LIMBS

LINE_POINTS = 100  # of a curve
BLOCK = 64  # scores, of which the best is only looked for where it may be
MARGIN = 1e-9  # of values of metrics, far more than rounding moves them


# a point of a curve: rows called positive with label 1 and 0, and the lowest score among them
Point = tuple[float, float, float]
START: Point = (0.0, 0.0, np.inf)


@dataclass(frozen=True, slots=True)
class LabelTotals:
    """Weight of all rows with label 1 and 0."""

    positives: float
    negatives: float
    weighted: bool

    @property
    def rows(self) -> float:
        return self.positives + self.negatives


@dataclass(frozen=True, slots=True)
class ShareCut:
    """Where a share of the rows ends, from the highest score.

    Args:
        rows, positives: above it, of the rows with the score it ends at in equal parts.
        mark: that score, and the part of its rows that is above.
    """

    rows: float
    positives: float
    mark: tuple[float, float]


@dataclass(slots=True, kw_only=True)
class TermSum:
    """An exact sum of finite numbers, and of products of such.

    Without the squares that `ExactSums` keeps, which took labels of 10M rows 10 % more time.
    """

    limbs: Ints = field(default_factory=lambda: np.zeros(SUM_LIMBS, dtype=np.int64))

    def add_values(self, values: Floats) -> None:
        """Some numbers."""
        _kernels.add_values(values, self.limbs)

    def add_products(self, values: Floats, weights: Floats, *, weighted: bool) -> None:
        """Numbers times their weights, exactly; these are whole where rows have none."""
        if not weighted:
            _kernels.add_multiples(values, weights, self.limbs)
            return
        products, rests = np.empty(values.size), np.empty(values.size)
        product_and_rest(values, weights, products, rests)
        self.add_values(products)
        self.add_values(rests)

    def merge(self, other: Any) -> None:
        """Take over what was added to another one."""
        self.limbs += other.limbs

    def value(self) -> Fraction | float:
        """The exact sum."""
        limbs = enumerate(map(int, self.limbs))
        return Fraction(sum(limb << LIMB_BITS * place for place, limb in limbs), 1 << SCALE_BITS)


class WalkTerms(Protocol):
    """What one sum is made of, on the walk over distinct scores; that of lower ones merges."""

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        """Some scores; `above`: the weight of rows with higher ones, with label 1 and 0."""

    def merge(self, other: Any) -> None:
        """Take in what the next lower scores give."""

    def value(self) -> Any:
        """The sum, as a fraction; infinite where a loss is."""


@dataclass(slots=True)
class Bins:
    """Sums of scores, labels and rows in bins of the score."""

    edges: Floats | None  # of the score, descending; None: bins of equally many rows
    sums: list[TermSum]
    positives: Floats
    rows: Floats

    @classmethod
    def make(cls, n_bins: int, binning: str) -> "Bins":
        edges = np.arange(n_bins, -1, -1) / n_bins if binning != "mass" else None
        if binning == "width_and_one":
            edges, n_bins = np.concatenate([[np.inf], edges]), n_bins + 1
        sums = [TermSum() for _ in range(n_bins)]
        return cls(edges, sums, np.zeros(n_bins), np.zeros(n_bins))

    @property
    def scores(self) -> list[Fraction | float]:
        """The sum of the scores in each bin."""
        return [each.value() for each in self.sums]

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        scores, positives, negatives = ties.scores, ties.positives, ties.negatives
        ends = np.empty(len(self.sums), dtype=np.int64)
        if self.edges is not None:  # from the highest bin down; an edge belongs to the upper bin
            _kernels.count_from(scores, self.edges[1:], ends)
        else:  # by the rows above
            total = max(totals.rows, 1e-300)
            _kernels.find_bin_ends(ties.sum_1, ties.sum_0, positives, negatives, total, ends)
        ends[-1] = scores.size
        first = 0
        for number, end in enumerate(map(int, ends)):
            if end > first:
                good, bad = positives[first:end], negatives[first:end]
                weights = good + bad
                self.sums[number].add_products(scores[first:end], weights, weighted=totals.weighted)
                self.positives[number] += _total(good, totals)
                self.rows[number] += _total(weights, totals)
            first = max(first, end)

    def merge(self, other: "Bins") -> None:
        for mine, theirs in zip(self.sums, other.sums, strict=True):
            mine.merge(theirs)
        self.positives += other.positives
        self.rows += other.rows

    def value(self) -> "Bins":
        return self


@dataclass(slots=True)
class Won:
    """Twice the pairs of a 1 and a 0 in which the 1 has the higher score."""

    ties: str
    pairs: int = 0  # where rows weigh 1
    weight: TermSum = field(default_factory=TermSum)

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        half = self.ties == "half"
        if not totals.weighted:
            won = _kernels.count_won_pairs(ties.positives, ties.negatives, above[0], int(half))
            self.pairs += int(won)
            return
        before = np.concatenate([above[:1], ties.sum_1[:-1]])
        doubled = 2.0 * before + (ties.positives if half else 0.0)
        self.weight.add_products(ties.negatives, doubled, weighted=True)

    def merge(self, other: "Won") -> None:
        self.pairs += other.pairs
        self.weight.merge(other.weight)

    def value(self) -> Fraction | float:
        return self.pairs + self.weight.value()


@dataclass(slots=True)
class Precision(TermSum):
    """Recall that each score adds, times precision, times rows with label 1."""

    integration: str

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        rows = above[0] + above[1]
        before = above[0] / rows if rows > 0 else 1.0
        steps, lines = np.empty(ties.scores.size), np.empty(ties.scores.size)
        n = _kernels.precision_terms(ties.positives, ties.sum_1, ties.sum_0, before, steps, lines)
        self.add_values((steps if self.integration == "step" else lines)[:n])


@dataclass(slots=True)
class Area(TermSum):
    """Pairs under the ROC curve up to a share of the rows with label 0."""

    share: float

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        area, most = np.empty(ties.scores.size), self.share * totals.negatives
        n = int(_kernels.area_up_to(ties.positives, ties.negatives, *above, most, area))
        self.add_values(area[:n])


def losses_of(request: metrics.Request, scores: Floats, labels: Bytes) -> Floats:
    """What each row loses.

    Raises:
        RequestError: a metric of somebody's own gives no number for a row [own-metric-fails].
    """
    losses = np.full(scores.size, np.nan)
    request.call(scores, labels, *request.own_arguments, losses)
    if math.isnan(float(losses.sum())) and np.isnan(losses).any():
        message = f"the metric {request.metric.name!r} gives NaN for rows"
        hint = "every row has a loss; leave rows out by where under [labels]"
        at = request.metric.function.__code__.co_filename
        raise RequestError(message, code="own-metric-fails", at=at, hint=hint)
    return losses


@dataclass(slots=True)
class Loss(TermSum):
    """The losses of rows times their weights; `infinite`: the weight of those without a number."""

    request: metrics.Request
    infinite: float = 0.0

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        for label in (0, 1):
            scores, weights = ties.weighty(label)
            labels = np.full(scores.size, label, dtype=np.uint8)
            losses = losses_of(self.request, scores, labels)
            self.infinite += float(_kernels.set_infinite_aside(losses, weights))
            self.add_products(losses, weights, weighted=totals.weighted)

    def merge(self, other: "Loss") -> None:
        TermSum.merge(self, other)
        self.infinite += other.infinite

    def value(self) -> Fraction | float:
        return math.inf if self.infinite else TermSum.value(self)


@dataclass(slots=True)
class Called:
    """Rows from a threshold on."""

    threshold: float
    point: Point = START

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        n_called = np.empty(1, dtype=np.int64)
        _kernels.count_from(ties.scores, np.array([self.threshold]), n_called)
        if n_called[0]:
            self.point = ties.point(int(n_called[0]) - 1)

    def merge(self, other: "Called") -> None:
        self.point = self.point if other.point is START else other.point

    def value(self) -> Point:
        return self.point


@dataclass(slots=True)
class BestThreshold:
    """Rows from the score on at which a metric of counts is best, and its value there."""

    request: metrics.Request
    point: Point = START
    most: float = math.nan

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        place, self.most = _find_best(self.request, ties.sum_1, ties.sum_0, totals)
        self.point = ties.point(place)

    def merge(self, other: "BestThreshold") -> None:
        if not self.most >= other.most:  # the highest score of several wins
            self.most, self.point = other.most, other.point

    def value(self) -> Point:
        return START if self.most == -math.inf and metrics.target_of(self.request) else self.point


@dataclass(slots=True)
class EqualErrors:
    """Rows from the score on at which both kinds of labels are called wrong most alike."""

    point: Point = START
    apart: float = math.inf

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        if totals.positives and totals.negatives:
            missed = (totals.positives - ties.sum_1) / totals.positives
            apart = np.abs(missed - ties.sum_0 / totals.negatives)
            place = int(np.argmin(apart))
            self.point, self.apart = ties.point(place), float(apart[place])

    def merge(self, other: "EqualErrors") -> None:
        if other.apart < self.apart:  # the highest score of several wins
            self.point, self.apart = other.point, other.apart

    def value(self) -> Point:
        return self.point


@dataclass(slots=True)
class LogArea(TermSum):
    """Rows with label 1 above a false positive rate, over its bits between two rates."""

    low: float
    high: float

    def add(self, ties: "Ties", above: tuple[float, float], totals: LabelTotals) -> None:
        if not totals.negatives:
            return
        x = np.concatenate([[above[1]], ties.sum_0]) / totals.negatives
        y = np.concatenate([[above[0]], ties.sum_1])
        ends = np.clip(x, self.low, self.high)
        wide = np.flatnonzero(ends[1:] > ends[:-1])
        slope = (y[wide + 1] - y[wide]) / (x[wide + 1] - x[wide])
        heights = [y[wide] + slope * (ends[wide + side] - x[wide]) for side in (0, 1)]
        bits = metrics.log2_of(ends[wide + 1]) - metrics.log2_of(ends[wide])
        self.add_values((heights[0] + heights[1]) / 2.0 * bits)


OF_TOTALS: Mapping[metrics.Term, Callable[[LabelTotals], float]] = {
    metrics.ROWS: lambda totals: totals.rows,
    metrics.POSITIVES: lambda totals: totals.positives,
    metrics.NEGATIVES: lambda totals: totals.negatives,
    metrics.PREDICTED: lambda totals: math.nan,  # of the bins of the curve
}
CURVE = ("bins", 10, "width")  # of the calibration curve, and of all scores together
SUMS: Mapping[str, Callable[..., WalkTerms]] = {
    "won": Won,
    "precision": Precision,
    "area": Area,
    "bins": Bins.make,
    "called": Called,
    "best": BestThreshold,
    "equal": EqualErrors,
    "log area": LogArea,
}


def terms_of(requests: Sequence[metrics.Request]) -> tuple[metrics.Term, ...]:
    """What the walk adds up for requests over all rows; each term once."""
    found = [term for each in requests for term in each.over_rows.terms]
    if any(each.metric.of_probabilities for each in requests) or metrics.PREDICTED in found:
        found.append(CURVE)
    return tuple(each for each in dict.fromkeys(found) if each not in OF_TOTALS)


def has_sum(term: Any) -> bool:
    """Whether labels have a sum."""
    if isinstance(term, metrics.Request):
        return term.metric.is_loss
    return term in OF_TOTALS or (isinstance(term, tuple) and term[0] in SUMS)


def _start(term: Any) -> WalkTerms:
    return Loss(term) if isinstance(term, metrics.Request) else SUMS[term[0]](*term[1:])


@dataclass(slots=True)
class Walked:
    """What the walk over some distinct scores gives; those of neighbours merge."""

    found: dict[metrics.Term, Any]
    roc: dict[int, Point] = field(default_factory=dict)
    recall: dict[int, Point] = field(default_factory=dict)
    shares: dict[int, ShareCut] = field(default_factory=dict)  # by hundredths of the rows

    @classmethod
    def start(cls, terms: Sequence[metrics.Term]) -> "Walked":
        """Of no scores."""
        return cls({term: _start(term) for term in terms})

    def merge(self, other: "Walked") -> None:
        """Take in what the next lower scores give."""
        for term, found in self.found.items():
            found.merge(other.found[term])
        for mine, theirs in ((self.roc, other.roc), (self.recall, other.recall)):
            for number, point in theirs.items():
                mine.setdefault(number, point)
        self.shares.update(other.shares)

    def value(self, request: metrics.Request, totals: LabelTotals) -> float:
        """A request over all rows; NaN where it is undefined."""
        if not totals.rows:
            return math.nan
        known = request.over_rows
        return known.value([self._sum(term, totals) for term in known.terms])

    def _sum(self, term: metrics.Term, totals: LabelTotals) -> Any:
        if term == metrics.PREDICTED:
            return sum(self.found[CURVE].scores)
        if term in OF_TOTALS:
            return Fraction(OF_TOTALS[term](totals))
        return self.found[term].value()


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

    def point(self, place: int) -> Point:
        """Rows called positive from a score on."""
        return float(self.sum_1[place]), float(self.sum_0[place]), float(self.scores[place])

    def weighty(self, label: int) -> tuple[Floats, Floats]:
        """The scores of rows with a label that weigh anything, and their weight."""
        weights = self.positives if label else self.negatives
        own, own_weights = np.empty(weights.size), np.empty(weights.size)
        n = _kernels.choose_weighty(self.scores, weights, own, own_weights)
        return own[:n], own_weights[:n]

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
    _kernels.cumulate(weights, start, sums)
    np.minimum(sums, end, out=sums)
    there = np.flatnonzero(weights)
    sums[there[-1] if there.size else 0 :] = end
    return sums


def walk(
    ties: Ties, above: tuple[float, float], totals: LabelTotals, terms: Sequence[metrics.Term]
) -> Walked:
    """Walk over distinct scores.

    Args:
        above: weight of rows with higher scores, with label 1 and 0.
        totals: of all rows.
    """
    walked = Walked.start(terms)
    for each in walked.found.values():
        each.add(ties, above, totals)
    _draw(walked, ties, above, totals)
    return walked


def _total(values: Floats, totals: LabelTotals) -> float:
    if not totals.weighted:
        return float(values.sum())  # whole numbers below 2^53
    room = np.empty(values.size)
    return float(_kernels.cumulate(values, 0.0, room))


def _find_best(
    request: metrics.Request, sum_1: Floats, sum_0: Floats, totals: LabelTotals
) -> tuple[int, float]:
    """The first place where a metric of counts is best, and its value, or less that.

    No such metric falls with a row more of label 1 among those called positive, or rises with one
    of label 0. So what a block of scores has at its end of the former and at its begin of the
    latter bounds all its values, and blocks whose bound is lower than another's value are left
    out; not so of weights, whose sums are rounded. Where lower is better all is turned.
    """
    extra, is_turned = request.own_arguments, request.metric.higher_is_better is False

    def values_of(tp: Floats, fp: Floats, undefined: float = -np.inf) -> Floats:
        with np.errstate(all="ignore"):
            values = request.metric.kernel.plain(
                tp, fp, totals.negatives - fp, totals.positives - tp, *extra
            )
        return np.where(np.isnan(values), undefined, -values if is_turned else values)

    n, target = sum_1.size, metrics.target_of(request)
    if n > BLOCK and not totals.weighted and target is None:
        ends = np.minimum(np.arange(BLOCK, n + BLOCK, BLOCK), n)
        at_ends = values_of(sum_1[ends - 1], sum_0[ends - 1])
        bounds = values_of(sum_1[ends - 1], sum_0[::BLOCK], np.inf)
        may_hold = np.maximum(at_ends, bounds) >= at_ends.max() - MARGIN
        chosen = np.flatnonzero(np.repeat(may_hold, BLOCK)[:n])
    else:
        chosen = np.arange(n)
    values = values_of(sum_1[chosen], sum_0[chosen])
    if target is not None:
        values = np.where(_reached(*target, sum_1, sum_0, totals), values, -np.inf)
    place = int(np.argmax(values))
    return int(chosen[place]), float(values[place])


def _reached(name: str, least: float, sum_1: Floats, sum_0: Floats, totals: LabelTotals) -> Flags:
    """Where a rate reaches a target."""
    with np.errstate(all="ignore"):
        rates = {
            "precision": lambda: sum_1 / (sum_1 + sum_0),
            "recall": lambda: sum_1 / totals.positives,
            "specificity": lambda: (totals.negatives - sum_0) / totals.negatives,
        }
        reached: Flags = rates[name]() >= least
    return reached


def _draw(found: Walked, ties: Ties, above: tuple[float, float], totals: LabelTotals) -> None:
    """The first score at which each hundredth of an axis is reached."""
    sum_1, sum_0 = ties.sum_1, ties.sum_0
    for points, sums, before, total in (
        (found.roc, sum_0, above[1], totals.negatives),
        (found.recall, sum_1, above[0], totals.positives),
    ):
        if total <= 0:
            continue
        targets = total * np.arange(1, LINE_POINTS + 1) / LINE_POINTS  # exact where whole
        targets[-1] = min(targets[-1], total)
        first = int(np.searchsorted(targets, before, side="right"))
        for number in range(first, LINE_POINTS):
            place = int(np.searchsorted(sums, targets[number], side="left"))
            if place == sums.size:
                break
            points[number] = ties.point(place)
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
        cut = ShareCut(float(target), float(reached), (float(ties.scores[place]), float(part)))
        first += 1
        found.shares[first] = cut
