"""What declarations of ratings and labels share: numbers made of sums by kernels, parameters."""

import math
from collections.abc import Callable
from typing import Any

from ._declare import Request
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


def of_counts(request: Request) -> OfSums:
    """A number of rows called positive or negative, which the metric's kernel makes of counts.

    A best threshold jumps, and has no standard error.
    """
    kernel, extra = request.metric.kernel, request.own_arguments
    threshold = called_from(request)
    is_best = dict(request.parameters).get("at") == "best"

    def value(called: tuple[float, ...], positives: float, negatives: float) -> Any:
        import numpy as np  # metrics are listed without it

        tp, fp = np.float64(called[0]), np.float64(called[1])
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


def at_threshold(*, best: bool = True) -> tuple[Parameter, ...]:
    """Parameters of metrics of rows that are called positive or negative; `best`: also `at`."""
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
    return *own, at
