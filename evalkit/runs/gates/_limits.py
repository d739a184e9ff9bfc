"""Limits that gates go by: those of a value, and those of a difference."""

import math

from evalkit.config import GateRule
from evalkit.report import Comparison, Estimate, Report
from evalkit.statistics.intervals import NO_INTERVAL, Interval, exact_interval, mean_interval
from evalkit.statistics.paired import p_alike
from evalkit.statistics.unseen import FEWEST_APART, FEWEST_UNKNOWN

Limits = tuple[Interval, Interval]  # those that a gate goes by, and those that the report shows
MAY_BE_CHANCE = (
    "; by the limits of the report it would {}, which few large values may make (large-values)"
)
FEW_MAKE_IT = "; too few units make that to go by its limits (large-values)"
NONE_TO_GO_BY = "run {} has no limits that gates go by, as older runs have none"


def limits_of(report: Report, of: Estimate | Comparison, prefix: str = "") -> Limits:
    """Of experiments they count what few large values do to means and variances.

    Elsewhere they count users not seen where nobody knows how large a difference can be.

    Args:
        prefix: `relative_`, or nothing.
    """
    shown = Interval(*(_end_of(of, f"{prefix}{end}") for end in ("low", "high")))
    used = report.statistics
    if report.kind == "judges" and of.df is not None and used is not None:
        if p_alike(of.df) > 1.0 - used.level:  # so few judges may all say the same by chance
            return NO_INTERVAL, shown
    low, high = (_end_of(of, f"{prefix}{end}_gate") for end in ("low", "high"))
    if math.isnan(low) and math.isnan(high):
        return shown if report.kind != "experiment" else NO_INTERVAL, shown
    return Interval(
        -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
    ), shown


def none_to_go_by(report: Report) -> str:
    """What is said of an experiment without any such limits, or nothing."""
    found: list[Estimate | Comparison] = [*report.estimates, *report.comparisons]
    if report.kind != "experiment" or any(
        (each.low_gate, each.high_gate) != (None, None) for each in found
    ):
        return ""
    return NONE_TO_GO_BY.format(report.run_id)


def fewest_users(report: Report, rule: GateRule) -> int:
    """Users that a gate asks for: more where nobody knows how far a value can lie.

    Of experiments and judges it is as the rule says: other conditions hold there.
    """
    from evalkit.metrics import load_metric_files
    from evalkit.runs.history.compare import is_mean_of_users, kind_of

    kind, least = kind_of(report), rule.min_users
    estimate = next((each for each in report.estimates if each.metric == rule.metric), None)
    if estimate is not None and kind == "logged" and estimate.low_gate is not None:
        fewest = {"min": FEWEST_APART, "max": FEWEST_UNKNOWN}
        return max([least, *(n for end, n in fewest.items() if getattr(rule, end) is not None)])
    if estimate is None or kind not in ("rankings", "ratings", "labels"):
        return least
    known = load_metric_files((), kind).get(estimate.name)
    if known is None or math.isfinite(known.bounds[1] - known.bounds[0]):
        return least
    request = known.request(estimate.cutoff, **estimate.parameters)
    if kind == "rankings" and not is_mean_of_users(request, kind):
        return least  # of all lists errors are known to hold
    return max(least, FEWEST_UNKNOWN if rule.min is None else FEWEST_APART)


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


def with_exact(limits: Limits, estimate: Estimate, level: float) -> Limits:
    """Limits of a value; of a share also those that hold of rare events, where Wilson's are near.

    Of one mean no other values than 0 and 1 vary so far. Alike ones have limits where they may be.
    """
    n, value, error = estimate.n_users, estimate.value, estimate.std_error
    gate, shown = limits
    if estimate.n_clusters is not None or error is None or not shown.low < shown.high:
        return limits
    if not gate.exists or not math.isclose(max(0, n - 1) * error**2, value * (1.0 - value)):
        return limits
    return gate.around(exact_interval(round(value * n), n, level=level)), shown


def told(limits: Limits) -> Interval:
    """Those of the gate, or of the report where it has none."""
    return limits[0] if limits[0].exists else limits[1]


def turned(interval: Interval, is_turned: bool) -> Interval:
    """Limits of the opposite, where that is asked for."""
    return Interval(-interval.high, -interval.low) if is_turned else interval


def spell_number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"


def spell_limits(interval: Interval) -> str:
    if not interval.exists:
        return " (no interval)"
    return f" ({spell_number(interval.low)} … {spell_number(interval.high)})"
