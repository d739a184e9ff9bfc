"""What the metrics over all rows need from the walk over distinct scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.metrics import Request

CONFUSION = (
    "accuracy",
    "balanced-accuracy",
    "F",
    "MCC",
    "precision",
    "recall",
    "specificity",
)
PROBABILITIES = ("log-loss", "normalised-entropy", "Brier", "ECE", "calibration")
LINE_POINTS = 100  # of a curve


def is_grouped(request: Request) -> bool:
    """Whether a request is averaged over users or sessions."""
    return dict(request.parameters).get("over", "rows") != "rows"


def is_best(request: Request) -> bool:
    """Whether a request looks for its best threshold."""
    return dict(request.parameters).get("at") == "best"


def lowest_called(request: Request) -> float:
    """The lowest score that a request at a given threshold calls positive."""
    parameters = dict(request.parameters)
    threshold = float(parameters["threshold"])
    return threshold if parameters["rule"] == "from" else math.nextafter(threshold, math.inf)


def of_counts(request: Request) -> tuple[int | float, ...]:
    """The parameters that a kernel of counts takes: all but where the threshold is."""
    pairs = zip(request.parameters, request.encoded, strict=True)
    return tuple(code for (name, _), code in pairs if name not in ("threshold", "rule", "at"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requests over all rows, sorted by what they need; each value once."""

    requests: tuple[Request, ...]
    ties: tuple[str, ...]
    precision: tuple[str, ...]
    clips: tuple[float, ...]
    squares: bool
    bins: tuple[tuple[int, str], ...]
    thresholds: tuple[float, ...]
    best: tuple[Request, ...]
    shares: tuple[float, ...]  # false positive rates of partial areas

    @property
    def probabilities(self) -> bool:
        """Whether scores must lie between 0 and 1."""
        return any(request.metric.name in PROBABILITIES for request in self.requests)

    @classmethod
    def of(cls, requests: Sequence[Request]) -> "Wanted":
        """What these requests need; those over users or sessions are left out."""
        ours = [request for request in requests if not is_grouped(request)]

        def values(names: Sequence[str], parameter: str) -> list[object]:
            found = [dict(r.parameters)[parameter] for r in ours if r.metric.name in names]
            return list(dict.fromkeys(found))

        names = {request.metric.name for request in ours}
        confusion = [r for r in ours if r.metric.name in CONFUSION]
        bins = [bins_of(r) for r in ours if r.metric.name == "ECE"]
        if names & set(PROBABILITIES):
            bins.append((10, "width"))  # of the calibration curve
        return cls(
            tuple(ours),
            tuple(str(each) for each in values(["AUC"], "ties")),
            tuple(str(each) for each in values(["PR-AUC"], "integration")),
            tuple(float(str(e)) for e in values(["log-loss", "normalised-entropy"], "clip")),
            "Brier" in names,
            tuple(dict.fromkeys(bins)),
            tuple(dict.fromkeys(lowest_called(r) for r in confusion if not is_best(r))),
            tuple(r for r in confusion if is_best(r)),
            tuple(float(str(each)) for each in values(["partial-AUC"], "max_fpr")),
        )


def bins_of(request: Request) -> tuple[int, str]:
    """Number and kind of the bins of an ECE."""
    parameters = dict(request.parameters)
    return int(parameters["bins"]), str(parameters["binning"])
