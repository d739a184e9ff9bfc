"""The curves of the report: ROC, precision-recall, gain, lift and calibration, with their bands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from evalkit.kinds.labels._bands import Bands, Limits, Mark, NoBands
from evalkit.kinds.labels._walk import CURVE, LINE_POINTS, START, Bins, LabelTotals, Point, Walked
from evalkit.metrics import SAYS_OF_WHAT, Request, of_counts
from evalkit.report import Graph

BY_THRESHOLD = 20  # thresholds of a table
NEARBY = 3  # hundredths of the rows on both sides, over which the slope of the gain is taken
Side = tuple[float | None, ...]
NOTHING: Limits = (0.0, 0.0)
WHOLE: Limits = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class ScoreDrawing:
    """What is drawn of one model's scores."""

    model: str
    totals: LabelTotals
    walked: Walked
    lowest: float  # score
    asked: Sequence[Request] = ()  # over all rows

    def marks(self) -> list[Mark]:
        """Where users' rows are to be counted for `Bands`."""
        found = [(score, 1.0) for _, _, score in [*self._roc(), *self._recall()]]
        found += [self.walked.shares[number].mark for number in self._deciles()]
        return found

    def edges(self) -> list[float]:
        """Lower edges of the bins in which users' rows are to be counted."""
        bins = self._bins
        return [] if bins is None or bins.edges is None else bins.edges[1:].tolist()

    def graphs(self, bands: Bands | NoBands) -> list[Graph]:
        """Every curve that these rows have."""
        found = []
        if self.totals.positives and self.totals.negatives:
            found.append(self._draw_roc(bands))
            if any(("equal",) in request.over_rows.terms for request in self.asked):
                found.append(_turn_to_det(found[-1]))
        if self.totals.positives:
            found.append(self._draw_recall(bands))
            found += self._draw_gain_and_lift(bands)
        if self._bins is not None:
            found.append(self._draw_calibration(self._bins, bands))
        return [*found, *self._draw_by_threshold()]

    # ---------------------------------------------------------------- points

    @property
    def _bins(self) -> Bins | None:
        return self.walked.found.get(CURVE)

    def _roc(self) -> list[Point]:
        has_both = self.totals.positives and self.totals.negatives
        return self._points(self.walked.roc) if has_both else []

    def _recall(self) -> list[Point]:
        return self._points(self.walked.recall) if self.totals.positives else []

    def _points(self, by_number: dict[int, Point]) -> list[Point]:
        """The points that were found, each once, ending where every row is called positive."""
        end = (self.totals.positives, self.totals.negatives, self.lowest)
        points = [by_number[number] for number in sorted(by_number) if number < LINE_POINTS]
        return [*(point for point in dict.fromkeys(points) if point[:2] != end[:2]), end]

    def _deciles(self) -> list[int]:
        """Tenths of the rows that end among the rows, as hundredths."""
        return [number for number in range(10, 100, 10) if number in self.walked.shares]

    # ---------------------------------------------------------------- curves

    def _draw_roc(self, bands: Bands | NoBands) -> Graph:
        points = self._roc()
        good, bad = Fraction(self.totals.positives), Fraction(self.totals.negatives)
        x, y = [NOTHING], [NOTHING]
        for tp, fp, score in points:
            hits, alarms = Fraction(tp) / good, Fraction(fp) / bad
            x.append(bands.at((score, 1.0), alarms, (0, 1 / bad, 0, -alarms / bad)))
            y.append(bands.at((score, 1.0), hits, (1 / good, 0, -hits / good, 0)))
        x[-1] = y[-1] = WHOLE
        ways = [START, *points]
        return Graph(
            self.model,
            "roc",
            "false positive rate",
            "true positive rate",
            tuple(fp / self.totals.negatives for _, fp, _ in ways),
            tuple(tp / self.totals.positives for tp, _, _ in ways),
            *_sides(y),
            thresholds=tuple(score for _, _, score in ways),
            x_low=_sides(x)[0],
            x_high=_sides(x)[1],
        )

    def _draw_by_threshold(self) -> Iterator[Graph]:
        """What is asked for at a threshold, at thresholds from the highest score to the lowest."""
        points = sorted({*self._roc(), *self._recall()}, key=lambda point: -point[2])
        if not points:
            return
        places = {place * len(points) // BY_THRESHOLD for place in range(BY_THRESHOLD)}
        points = [points[place] for place in sorted(places)]
        tp, fp, scores = (np.array(column) for column in zip(*points, strict=True))
        drawn = set()
        for request in self.asked:
            named = {k: v for k, v in request.parameters if k not in SAYS_OF_WHAT}
            label = request.metric.request(None, **named).label
            if request.metric.over_rows is not of_counts or label in drawn:
                continue
            drawn.add(label)
            counts = (tp, fp, self.totals.negatives - fp, self.totals.positives - tp)
            values = request.metric.kernel.interpret(*counts, *request.own_arguments)
            there = np.flatnonzero(~np.isnan(values))
            yield Graph(
                self.model,
                "by-threshold",
                "threshold",
                label,
                tuple(scores[there].tolist()),
                tuple(np.asarray(values, dtype=np.float64)[there].tolist()),
                rows=tuple((tp + fp)[there].tolist()),
            )

    def _draw_recall(self, bands: Bands | NoBands) -> Graph:
        points = self._recall()
        good = Fraction(self.totals.positives)
        x, y = [], []
        for tp, fp, score in points:
            hits, called = Fraction(tp) / good, Fraction(tp) + Fraction(fp)
            right = Fraction(tp) / called
            x.append(bands.at((score, 1.0), hits, (1 / good, 0, -hits / good, 0)))
            factors = ((1 - right) / called, -right / called, 0, 0)
            y.append(bands.at((score, 1.0), right, factors))
        x[-1] = WHOLE
        return Graph(
            self.model,
            "precision-recall",
            "recall",
            "precision",
            tuple(tp / self.totals.positives for tp, _, _ in points),
            tuple(tp / (tp + fp) for tp, fp, _ in points),
            *_sides(y),
            thresholds=tuple(score for _, _, score in points),
            x_low=_sides(x)[0],
            x_high=_sides(x)[1],
        )

    def _draw_gain_and_lift(self, bands: Bands | NoBands) -> list[Graph]:
        deciles = self._deciles()
        x = [number / 100 for number in deciles] + [1.0]
        reached = [self.walked.shares[number].positives for number in deciles]
        gain = [each / self.totals.positives for each in reached] + [1.0]
        lift = [each / share for each, share in zip(gain, x, strict=True)]
        rows = tuple(share * self.totals.rows for share in x)
        low, high = _sides([*(self._limits_of_gain(bands, each) for each in deciles), WHOLE])
        name = "share of rows from the highest score"
        return [
            Graph(
                self.model, "gain", name, "share of labels 1", (0.0, *x), (0.0, *gain),
                (0.0, *low) if low else (), (0.0, *high) if high else (), rows=(0.0, *rows),
            ),
            Graph(
                self.model, "lift", name, "gain over share of rows", tuple(x), tuple(lift),
                _over(low, x), _over(high, x), rows=rows,
            ),
        ]  # fmt: skip

    def _limits_of_gain(self, bands: Bands | NoBands, number: int) -> Limits:
        """Limits where the share of rows is given, and so the score that it ends at is not.

        Users with more rows above that score move it up, and rows around it are lost, of which
        so many have label 1 as the slope of the gain says.
        """
        cuts = self.walked.shares
        first, last = cuts.get(number - NEARBY), cuts.get(number + NEARBY)
        if first is None or last is None:
            return None, None
        good, share = Fraction(self.totals.positives), Fraction(number, 100)
        gain = Fraction(cuts[number].positives) / good
        slope = Fraction(last.positives - first.positives) / Fraction(last.rows - first.rows)
        factors = (1 - slope, -slope, slope * share - gain, slope * share)
        return bands.at(cuts[number].mark, gain, tuple(each / good for each in factors))

    def _draw_calibration(self, bins: Bins, bands: Bands | NoBands) -> Graph:
        numbers = [each for each in reversed(range(bins.rows.size)) if bins.rows[each] > 0]
        y = [
            bands.of_bin(each, Fraction(bins.positives[each]), Fraction(bins.rows[each]))
            for each in numbers
        ]
        scores = bins.scores
        return Graph(
            self.model,
            "calibration",
            "mean score",
            "share of labels 1",
            tuple(float(scores[each]) / float(bins.rows[each]) for each in numbers),
            tuple(float(bins.positives[each] / bins.rows[each]) for each in numbers),
            *_sides(y),
            rows=tuple(float(bins.rows[each]) for each in numbers),
        )


def _turn_to_det(roc: Graph) -> Graph:
    """Misses by false alarms, of the ROC curve's points."""
    return replace(
        roc,
        kind="det",
        y_name="false negative rate",
        y=tuple(1.0 - value for value in roc.y),
        low=tuple(None if limit is None else 1.0 - limit for limit in roc.high),
        high=tuple(None if limit is None else 1.0 - limit for limit in roc.low),
    )


def _sides(limits: Sequence[Limits]) -> tuple[Side, Side]:
    """Lower and upper limits; none at all where no point has them but those that are certain."""
    if all(low is None or low == high for low, high in limits):
        return (), ()
    low, high = zip(*limits, strict=True)
    return low, high


def _over(limits: Side, shares: Sequence[float]) -> Side:
    return tuple(
        None if limit is None else limit / share
        for limit, share in zip(limits, shares, strict=False)
    )
