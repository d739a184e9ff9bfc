# mypy: disable-error-code="no-untyped-def"
"""What a metric of labels is where it is not."""

import math
from typing import Any

from evalkit.metrics import Parameter, choice, kernel

UNDEFINED, ZERO, ONE = 0, 1, 2
INSTEAD = {"undefined": math.nan, "zero": 0.0, "one": 1.0}


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
