"""What declarations of ratings and labels share: numbers made of sums by kernels, parameters."""

import math
from collections.abc import Callable
from typing import Any

from ._declare import TARGETS, Request
from ._parameters import Parameter, choice, number
from ._sums import NEGATIVES, POSITIVES, ROWS, OfSums, Smooth, Term, of_sums


def of_kernel(*terms: Term, is_exact: bool = True) -> Callable[[Request], OfSums]:
    """A number that the metric's own kernel makes of sums and of the metric's parameters."""

    def made(asked: Request) -> OfSums:
        kernel, own = asked.metric.kernel.plain, asked.own_arguments
        return of_sums(*terms, by=lambda *sums: kernel(*sums, *own), is_exact=is_exact)

    return made


def called_from(request: Request) -> float:
    """The lowest score that a request at a threshold calls positive."""
    parameters = dict(request.parameters)
    threshold = float(parameters["threshold"])
    return threshold if parameters["rule"] == "from" else math.nextafter(threshold, math.inf)


def target_of(request: Request) -> tuple[str, float] | None:
    """The rate that a request's threshold has to reach, and how much of it; None without one."""
    values = dict(request.parameters)
    if "reaches" in values:
        return str(values["reaches"]), float(values["least"])
    asked = [(name.removeprefix("at_"), float(values.get(name, 0.0))) for name in TARGETS]
    return next((each for each in asked if each[1]), None)


def of_counts(request: Request) -> OfSums:
    """A number of rows called positive or negative, which the metric's kernel makes of counts.

    A best threshold jumps, and has no standard error.
    """
    kernel, extra = request.metric.kernel, request.own_arguments
    threshold, target = called_from(request), target_of(request)
    is_best = dict(request.parameters).get("at") == "best" or target is not None

    def value(called: tuple[float, ...], positives: float, negatives: float) -> Any:
        import numpy as np  # metrics are listed without it

        tp, fp = np.float64(called[0]), np.float64(called[1])
        is_reached = tp + fp or (target is not None and target[0] == "specificity" and negatives)
        if target is not None and not is_reached:
            tp = fp = np.float64(math.nan)
        return kernel.interpret(tp, fp, negatives - fp, positives - tp, *extra)

    def smooth(tp: complex, fp: complex, positives: complex, rows: complex) -> Any:
        return kernel.plain(tp, fp, rows - positives - fp, positives - tp, *extra)

    called: Term = ("best", request) if is_best else ("called", threshold)
    additive = ("tp", threshold), ("fp", threshold), POSITIVES, ROWS
    error = None if is_best else Smooth(additive, smooth)
    return OfSums((called, POSITIVES, NEGATIVES), value, error, is_exact=False)


def over_rows_or_users() -> Parameter:
    """`over`, of ratings."""
    return choice(
        "over",
        {
            "rows": "all rated pairs together, so that people with many count more",
            "users": "the value of each user's rated pairs, averaged over users",
        },
        doc="What is averaged.",
    )


def over_rows_or_groups() -> tuple[Parameter, Parameter]:
    """`over` and `weighting`, for metrics of labels that exist within one user too."""
    return (
        choice(
            "over",
            {
                "rows": "all rows together",
                "users": "the value of each user's rows, averaged over users",
                "sessions": "the value of each session's rows, averaged over sessions",
            },
            doc="What is averaged.",
        ),
        choice(
            "weighting",
            {
                "equal": "every user counts once",
                "impressions": "a user counts by the weight of its rows",
                "positives": "a user counts by the weight of its rows with label 1",
            },
            doc="How users or sessions are weighted in the average; without effect over rows.",
        ),
    )


def at_threshold(*targets: str, best: bool = True) -> tuple[Parameter, ...]:
    """Parameters of metrics of rows that are called positive or negative.

    Args:
        targets: rates that a threshold may have to reach.
        best: whether there is a best one.
    """
    own = (
        *over_rows_or_groups(),
        number("threshold", 0.5, doc="A row is called positive from this score on."),
        choice(
            "rule",
            {
                "from": "a row of exactly the threshold is called positive",
                "above": "it is called negative",
            },
            doc="What a score at the threshold is.",
        ),
    )
    if not best:
        return own
    at = choice(
        "at",
        {
            "threshold": "the given threshold",
            "best": "the score at which this very metric is best, the highest of several; "
            "it flatters, for it is chosen on the rows that it is measured on",
        },
        doc="Which threshold is taken.",
    )
    reached = [
        number(
            f"at_{name}",
            0.0,
            doc=f"The threshold is the one that is best where {name} reaches this, the highest of "
            "several; 0 asks for none.",
            above=-5e-324,
            below=1.0 + 2.0**-52,
        )
        for name in targets
    ]
    return *own, at, *reached
