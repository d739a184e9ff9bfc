"""How metrics of judges are declared: the function below is plain Python."""

from collections.abc import Callable
from typing import Any

from evalkit.metrics import Metric, metric


def judge_metric(**declared: Any) -> Callable[[Any], Metric]:
    """Makes a metric of judges of the function below it; `declared` as `metric` takes it."""
    return metric(kind="judges", cutoff="never", monotone=False, **declared)
