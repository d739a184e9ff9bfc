"""Records of a report of judges, with the fields that all of them have."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalkit.inference.comparisons import or_nan
from evalkit.inference.conclude import Inference
from evalkit.inference.verdicts import verdict_of
from evalkit.kernels.arrays import Floats
from evalkit.metrics import Request
from evalkit.report import Comparison, Estimate, ModelCounts, Standing, StatisticsUsed
from evalkit.statistics.agreement import Coefficient, coefficient_named
from evalkit.statistics.corrections import adjust
from evalkit.statistics.intervals import Interval
from evalkit.statistics.paired import p_alike

FEW_JUDGES = 10


def inference_of(
    config: Any,
    estimates: Sequence[Estimate],
    comparisons: Sequence[Comparison],
    standings: Sequence[Standing] = (),
) -> Inference:
    """What was found, and how limits were made."""
    chosen = config.statistics
    used = StatisticsUsed(
        level=chosen.level, method="bootstrap", test="bootstrap", correction=chosen.correction,
        family="report", n_tests=len(comparisons), replicates=chosen.replicates, seed=chosen.seed,
        power=chosen.power,
    )  # fmt: skip
    return Inference(tuple(estimates), tuple(comparisons), tuple(standings), (), (), used, ())


def estimate(
    request: Request, model: str, value: float, interval: Interval, n_units: int, **fields: Any
) -> Estimate:
    """One number of the report."""
    return Estimate(
        model=model, metric=request.label, name=request.metric.name, cutoff=None,
        parameters=dict(request.parameters), value=value, n_users=n_units,
        n_undefined=fields.pop("n_undefined", 0), **_limits(interval),
        higher_is_better=request.metric.higher_is_better, **fields,
    )  # fmt: skip


def comparison(
    request: Request, pair: tuple[str, str], delta: float, interval: Interval, p_value: float,
    std_error: float, **fields: Any,
) -> Comparison:  # fmt: skip
    """One difference before any correction; without limits there is no error and no test."""
    known = interval.exists
    return Comparison(
        **_limits(interval), **fields,
        baseline=pair[0], candidate=pair[1], metric=request.label, delta=delta,
        std_error=std_error if known else None, p_value=p_value if known else None, verdict="",
    )  # fmt: skip


def _limits(interval: Interval) -> dict[str, Any]:
    low, high = (interval.low, interval.high) if interval.exists else (None, None)
    return {"low": low, "high": high}


def corrected(
    comparisons: Sequence[Comparison], chosen: Any, better: Mapping[str, bool | None]
) -> list[Comparison]:
    """Comparisons with adjusted p-values, family by family, and verdicts.

    Args:
        chosen: `[statistics]`; Holm's correction stands in for Tukey's test.
        better: by metric, whether higher is better.
    """
    correction = "holm" if chosen.correction == "tukey" else chosen.correction
    found = list(comparisons)
    for family in dict.fromkeys(each.family for each in comparisons):
        places = [place for place, each in enumerate(comparisons) if each.family == family]
        p_values = [or_nan(comparisons[place].p_value) for place in places]
        for place, p in zip(places, adjust(p_values, correction).p_adjusted, strict=True):
            own = replace(found[place], p_adjusted=None if math.isnan(p) else p)
            least = 0.0 if own.df is None else p_alike(own.df)  # of so few judges
            sure = own if least <= or_nan(p) else replace(own, p_adjusted=max(p, least))
            verdict = verdict_of(sure, better[own.metric], 1 - chosen.level)
            found[place] = replace(own, verdict=verdict)
    return found


def counts_of(n: int, users: int, *, without: int = 0, depth: int) -> ModelCounts:
    """What one model, or group of judges, did."""
    return ModelCounts(n, n, {}, users, without, 0, 0, "all", None, 0, 0, depth)


def maker_of(request: Request, levels: Floats, kind: str) -> Callable[[int], Coefficient]:
    """The coefficient that a metric asks for, by the number of judges."""
    parameters = {name: str(value) for name, value in request.parameters}
    name, arguments = request.metric.function(kind, **parameters)
    return lambda n_judges: coefficient_named(name, levels, n_judges, arguments)
