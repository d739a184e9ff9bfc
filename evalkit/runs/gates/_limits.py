"""Limits that gates go by: those of a value, and those of a difference."""

import math

from evalkit.report import Comparison, Estimate, Report
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval

Limits = tuple[Interval, Interval]  # those that a gate goes by, and those that the report shows
MAY_BE_CHANCE = (
    "; by the limits of the report it would {}, which few large values may make (large-values)"
)
FEW_MAKE_IT = "; too few units make that to go by its limits (large-values)"


def limits_of(report: Report, of: Estimate | Comparison, prefix: str = "") -> Limits:
    """Of experiments they count what few large values do to means and variances.

    Elsewhere they count users not seen where nobody knows how large a difference can be.

    Args:
        prefix: `relative_`, or nothing.
    """
    shown = Interval(*(_end_of(of, f"{prefix}{end}") for end in ("low", "high")))
    low, high = (_end_of(of, f"{prefix}{end}_gate") for end in ("low", "high"))
    if math.isnan(low) and math.isnan(high):
        return shown if report.kind != "experiment" else NO_INTERVAL, shown
    return Interval(
        -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
    ), shown


def _end_of(of: Estimate | Comparison, name: str) -> float:
    end = getattr(of, name)
    return math.nan if end is None else float(end)


def limits_of_value(report: Report, estimate: Estimate, level: float) -> Limits:
    """Limits of a value: those of its report; by the error where the report makes none at all."""
    limits = limits_of(report, estimate)
    if limits[0].exists or report.statistics is not None:
        return limits
    n, error = estimate.n_users, estimate.std_error
    return (mean_interval(estimate.value, error, n, level=level),) * 2


def told(limits: Limits) -> Interval:
    """Those of the gate, or of the report where it has none."""
    return limits[0] if limits[0].exists else limits[1]


def turned(interval: Interval, is_turned: bool) -> Interval:
    """Limits of the opposite, where that is asked for."""
    return Interval(-interval.high, -interval.low) if is_turned else interval
