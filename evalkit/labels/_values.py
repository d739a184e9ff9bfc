"""From the sums of the walk to values."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evalkit.exact import SCALE_BITS
from evalkit.labels._walk import START, Point, Totals, Walked
from evalkit.labels._wanted import CONFUSION, bins_of, is_best, lowest_called, of_counts
from evalkit.metrics import Request

UNIT = 1 << SCALE_BITS


@dataclass(frozen=True, slots=True)
class Values:
    """Values of metrics over all rows of one model."""

    totals: Totals
    walked: Walked

    def of(self, request: Request, place: int) -> float:
        """The value of a request; `place` among those that look for their best threshold."""
        name, parameters = request.metric.name, dict(request.parameters)
        totals, walked = self.totals, self.walked
        if name in CONFUSION:
            point = walked.best[place][1] if is_best(request) and walked.best else START
            if not is_best(request):
                point = walked.called.get(lowest_called(request), START)
            return self._of_point(request, point)
        if name == "AUC":
            return self._or(request, self._auc(str(parameters["ties"])))
        if name == "partial-AUC":
            share = float(parameters["max_fpr"])
            pairs = totals.positives * totals.negatives
            if pairs == 0 or share not in walked.areas:
                return math.nan
            area = walked.areas[share].scaled / UNIT / pairs
            return float(request.metric.kernel.plain(area, *request.encoded))
        if name == "PR-AUC":
            sums = walked.steps if parameters["integration"] == "step" else walked.lines
            return self._or(request, self._over(sums.scaled, totals.positives))
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
            scaled = 0 if bins is None else sum(each.scaled for each in bins.scores)
            predicted = scaled / UNIT
            return float(request.metric.kernel.plain(predicted, totals.positives))
        if name == "base-rate":
            return float(request.metric.kernel.plain(totals.positives, totals.rows))
        if name == "ECE":
            bins = walked.bins.get(bins_of(request))
            if bins is None:
                return math.nan
            scores = np.array([each.total for each in bins.scores])
            found = request.metric.kernel.plain(scores, bins.positives, bins.rows, 0, 0)
            return float(found)
        raise AssertionError(name)

    def _or(self, request: Request, value: float) -> float:
        """The value, or what stands for one that rows do not have."""
        if not math.isnan(value) or not self.totals.rows:
            return value
        instead = {"undefined": math.nan, "zero": 0.0, "one": 1.0}
        return instead[str(dict(request.parameters)["undefined"])]

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
        extra = of_counts(request)
        with np.errstate(all="ignore"):
            fn, tn = self.totals.positives - tp, self.totals.negatives - fp
            return float(request.metric.kernel.plain(tp, fp, tn, fn, *extra))
