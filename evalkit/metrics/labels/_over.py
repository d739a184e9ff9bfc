# mypy: disable-error-code="no-untyped-def"
"""Over what a metric of labels is taken, at which threshold, and what it is where it is not."""

import math
from typing import Any

from evalkit.metrics import Parameter, choice, kernel, number

UNDEFINED, ZERO, ONE = 0, 1, 2


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


def at_threshold() -> tuple[Parameter, Parameter, Parameter]:
    """`threshold`, `rule` and `at`, for metrics of rows that are called positive or negative.

    They stand last: a kernel of counts is given those before them alone.
    """
    return (
        number("threshold", 0.5, doc="A row is called positive from this score on."),
        choice(
            "rule",
            {
                "from": "a row of exactly the threshold is called positive",
                "above": "it is called negative",
            },
            doc="What a score at the threshold is.",
        ),
        choice(
            "at",
            {
                "threshold": "the given threshold",
                "best": "the score at which this very metric is best, the highest of several; "
                "it flatters, for it is chosen on the rows that it is measured on",
            },
            doc="Which threshold is taken.",
        ),
    )


def where_undefined(*, one: bool = False) -> Parameter:
    """`undefined`: what libraries say where there is no value."""
    choices = {
        "undefined": "undefined; users without a value are left out and counted",
        "zero": "0",
        **({"one": "1"} if one else {}),
    }
    return choice("undefined", choices, doc="The value where there is none.")


def defined_or(value: Any, other: Any) -> Any:
    """`value`, or `other` where it is NaN; of arrays or of numbers."""
    import numpy as np  # metrics are listed without it

    return np.where(value == value, value, other)


@kernel(allocates=False)
def or_zero(value, undefined):
    """`value`, or 0 where it is NaN and the choice says so; of arrays or of numbers."""
    return defined_or(value, 0.0) if undefined == ZERO else value


@kernel(allocates=False)
def instead(undefined):
    """What stands for a value that does not exist."""
    return math.nan if undefined == UNDEFINED else (0.0 if undefined == ZERO else 1.0)
