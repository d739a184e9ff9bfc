"""Metrics of labels over all rows as smooth functions of sums that users add to."""

import cmath
from collections.abc import Callable

from evalkit.labels._placements import AREAS, area_of
from evalkit.labels._wanted import CONFUSION, is_best, lowest_called, of_counts
from evalkit.metrics import Request
from evalkit.rows import Smooth

ROWS, POSITIVES, PREDICTED = ("rows",), ("positives",), ("predicted",)


def smooth_of(request: Request) -> Smooth | None:
    """A request over all rows as a function of sums; None where it is not a smooth one.

    A best threshold jumps, and a calibration error has a kink wherever a bin is well calibrated.
    """
    name, parameters = request.metric.name, dict(request.parameters)
    if name in CONFUSION:
        return None if is_best(request) else _confusion(request)
    if name in AREAS:
        return Smooth((area_of(request),), _area(request))
    if name == "log-loss":
        return Smooth((("loss", float(parameters["clip"])), ROWS), _over)
    if name == "normalised-entropy":
        return Smooth((("loss", float(parameters["clip"])), POSITIVES, ROWS), _over_entropy)
    if name == "Brier":
        return Smooth((("square",), ROWS), _over)
    if name == "calibration":
        return Smooth((PREDICTED, POSITIVES), _over)
    return Smooth((POSITIVES, ROWS), _over) if name == "base-rate" else None


def _area(request: Request) -> Callable[[complex], complex]:
    if request.metric.name != "partial-AUC":
        return complex
    kernel, encoded = request.metric.kernel.plain, request.encoded
    return lambda area: complex(kernel(area, *encoded))


def _over(above: complex, below: complex) -> complex:
    return above / below


def _over_entropy(loss: complex, positives: complex, rows: complex) -> complex:
    share = positives / rows
    entropy = -(share * cmath.log(share) + (1.0 - share) * cmath.log(1.0 - share))
    return loss / rows / entropy


def _confusion(request: Request) -> Smooth:
    kernel, extra = request.metric.kernel.plain, of_counts(request)
    threshold = lowest_called(request)

    def function(tp: complex, fp: complex, positives: complex, rows: complex) -> complex:
        return complex(kernel(tp, fp, rows - positives - fp, positives - tp, *extra))

    return Smooth((("tp", threshold), ("fp", threshold), POSITIVES, ROWS), function)
