"""Records of a report of judges, with the fields that all of them have."""

from collections.abc import Callable
from typing import Any

from evalkit.metrics import Request
from evalkit.report import Estimate, StatisticsUsed
from evalkit.statistics.agreement import Coefficient, Values, coefficient_named
from evalkit.statistics.intervals import Interval


def used_statistics(config: Any, n_tests: int = 0) -> StatisticsUsed:
    """How limits were made."""
    chosen = config.statistics
    return StatisticsUsed(
        level=chosen.level,
        method="bootstrap",
        test="bootstrap",
        correction=chosen.correction,
        family="report",
        n_tests=n_tests,
        baseline=None,
        margin=None,
        replicates=chosen.replicates,
        seed=chosen.seed,
        power=chosen.power,
    )


def estimate(
    request: Request, model: str, value: float, interval: Interval, n_units: int, **fields: Any
) -> Estimate:
    """One number of the report."""
    return Estimate(
        model=model,
        metric=request.label,
        name=request.metric.name,
        cutoff=None,
        parameters=dict(request.parameters),
        value=value,
        n_users=n_units,
        n_undefined=fields.pop("n_undefined", 0),
        low=interval.low if interval.exists else None,
        high=interval.high if interval.exists else None,
        higher_is_better=request.metric.higher_is_better,
        **fields,
    )


def maker_of(request: Request, levels: Values, kind: str) -> Callable[[int], Coefficient]:
    """The coefficient that a metric asks for, by the number of judges."""
    parameters = {name: str(value) for name, value in request.parameters}
    name, arguments = request.metric.function(kind, **parameters)
    return lambda n_judges: coefficient_named(name, levels, n_judges, arguments)
