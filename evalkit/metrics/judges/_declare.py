"""How metrics of judges are declared: the function below is plain Python."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from evalkit.metrics import Metric, metric


class JudgeRecipe(NamedTuple):
    """Which coefficient of `statistics.agreement` it is, and with what."""

    name: str
    arguments: Mapping[str, str | None]


def judge_metric(**declared: Any) -> Callable[[Any], Metric]:
    """Makes a metric of judges of the function below it; `declared` as `metric` takes it."""
    return metric(kind="judges", cutoff="never", monotone=False, **declared)
