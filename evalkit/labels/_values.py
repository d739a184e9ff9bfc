"""From the sums of the walk to values, and to the curves of the report."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evalkit.exact import SCALE_BITS
from evalkit.labels._walk import START, Bins, Point, Totals, Walked
from evalkit.labels._wanted import CONFUSION, LINE_POINTS, bins_of, is_best
from evalkit.metrics import Request
from evalkit.report import Graph

UNIT = 1 << SCALE_BITS


@dataclass(frozen=True, slots=True)
class Values:
    """Values of metrics over all rows of one model."""

    model: str
    totals: Totals
    walked: Walked
    score_range: tuple[float, float]

    def of(self, request: Request, place: int) -> float:
        """The value of a request; `place` among those that look for their best threshold."""
        name, parameters = request.metric.name, dict(request.parameters)
        totals, walked = self.totals, self.walked
        if name in CONFUSION:
            point = walked.best[place][1] if is_best(request) and walked.best else START
            if not is_best(request):
                point = walked.called.get(float(parameters["threshold"]), START)
            return self._of_point(request, point)
        if name == "AUC":
            return self._auc(str(parameters["ties"]))
        if name == "partial-AUC":
            share = float(parameters["max_fpr"])
            pairs = totals.positives * totals.negatives
            if pairs == 0 or share not in walked.areas:
                return math.nan
            area = walked.areas[share].scaled / UNIT / pairs
            return float(request.metric.kernel.plain(area, *request.encoded))
        if name == "PR-AUC":
            sums = walked.steps if parameters["integration"] == "step" else walked.lines
            return self._over(sums.scaled, totals.positives)
        if name in ("log-loss", "normalised-entropy"):
            loss = self._log_loss(float(parameters["clip"]))
            if name == "log-loss":
                return loss
            share = self._share
            return float(request.metric.kernel.plain(loss, share, *request.encoded))
        if name == "Brier":
            return self._over(walked.squares.scaled, totals.rows)
        if name == "calibration":
            bins = walked.bins.get((10, "width"))
            scaled = (
                0
                if bins is None
                else sum(bins.scores.sum_of(number).scaled for number in range(bins.rows.size))
            )
            predicted = scaled / UNIT
            return float(request.metric.kernel.plain(predicted, totals.positives))
        if name == "base-rate":
            return float(request.metric.kernel.plain(totals.positives, totals.rows))
        if name == "ECE":
            bins = walked.bins.get(bins_of(request))
            if bins is None:
                return math.nan
            scores = np.array([bins.scores.sum_of(n).total for n in range(bins.rows.size)])
            found = request.metric.kernel.plain(scores, bins.positives, bins.rows, 0, 0)
            return float(found)
        raise AssertionError(name)

    @property
    def _share(self) -> float:
        return self.totals.positives / self.totals.rows if self.totals.rows else math.nan

    @staticmethod
    def _over(scaled: int, below: float) -> float:
        """An exact sum over a weight, rounded once."""
        if not below:
            return math.nan
        return float(Fraction(scaled, UNIT) / Fraction(below))

    def _auc(self, ties: str) -> float:
        pairs = 2 * Fraction(self.totals.positives) * Fraction(self.totals.negatives)
        if not pairs:
            return math.nan
        if not self.totals.weighted:
            return float(self.walked.won[ties] / pairs)
        return float(Fraction(self.walked.won_weight[ties].scaled, UNIT) / pairs)

    def _log_loss(self, clip: float) -> float:
        if self.walked.infinite.get(clip):
            return math.inf
        losses = self.walked.losses.get(clip)
        return math.nan if losses is None else self._over(losses.scaled, self.totals.rows)

    def _of_point(self, request: Request, point: Point) -> float:
        if not self.totals.rows:
            return math.nan
        tp, fp = (np.float64(each) for each in point[:2])
        extra = request.encoded[:-2]
        with np.errstate(all="ignore"):
            fn, tn = self.totals.positives - tp, self.totals.negatives - fp
            return float(request.metric.kernel.plain(tp, fp, tn, fn, *extra))

    # ---------------------------------------------------------------- curves

    def graphs(self) -> list[Graph]:
        """Curves over thresholds: ROC, precision-recall, gain, lift and calibration."""
        totals, model = self.totals, self.model
        found = []
        if totals.positives and totals.negatives:
            points = [START, *self._points(self.walked.roc)]
            found.append(
                Graph(
                    model,
                    "roc",
                    "false positive rate",
                    "true positive rate",
                    tuple(fp / totals.negatives for _, fp, _ in points),
                    tuple(tp / totals.positives for tp, _, _ in points),
                    thresholds=tuple(score for _, _, score in points),
                )
            )
        if totals.positives:
            points = self._points(self.walked.recall)
            found.append(
                Graph(
                    model,
                    "precision-recall",
                    "recall",
                    "precision",
                    tuple(tp / totals.positives for tp, _, _ in points),
                    tuple(tp / (tp + fp) for tp, fp, _ in points),
                    thresholds=tuple(score for _, _, score in points),
                )
            )
            found += self._gain_and_lift()
        bins = self.walked.bins.get((10, "width"))
        if bins is not None:
            found.append(self._calibration(bins))
        return found

    def _points(self, by_number: dict[int, Point]) -> list[Point]:
        """The points that were found, each once, ending where every row is called positive."""
        end = (self.totals.positives, self.totals.negatives, self.score_range[0])
        points = [by_number[number] for number in sorted(by_number) if number < LINE_POINTS]
        return [*(point for point in dict.fromkeys(points) if point[:2] != end[:2]), end]

    def _gain_and_lift(self) -> list[Graph]:
        x = [decile / 10 for decile in sorted(self.walked.shares)] + [1.0]
        reached = [self.walked.shares[decile][1] for decile in sorted(self.walked.shares)]
        gain = [each / self.totals.positives for each in reached] + [1.0]
        lift = [each / share for each, share in zip(gain, x, strict=True)]
        rows = tuple(share * self.totals.rows for share in x)
        name = "share of rows from the highest score"
        return [
            Graph(self.model, "gain", name, "share of labels 1", (0.0, *x), (0.0, *gain),
                  rows=(0.0, *rows)),
            Graph(self.model, "lift", name, "gain over share of rows", tuple(x), tuple(lift),
                  rows=rows),
        ]  # fmt: skip

    def _calibration(self, bins: Bins) -> Graph:
        x, y, rows = [], [], []
        for number in reversed(range(bins.rows.size)):
            if bins.rows[number] > 0:
                x.append(bins.scores.sum_of(number).total / float(bins.rows[number]))
                y.append(float(bins.positives[number] / bins.rows[number]))
                rows.append(float(bins.rows[number]))
        return Graph(
            self.model, "calibration", "mean score", "share of labels 1", tuple(x), tuple(y),
            rows=tuple(rows),
        )  # fmt: skip
