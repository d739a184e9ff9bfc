"""Geometric means: measured as means of logarithms, shown as they are; their differences, ratios.

Intervals and tests are those of the mean logarithm; exp takes limits to limits.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from evalkit.aggregate.user_values.gather import rounded
from evalkit.config import Policies, policies_of
from evalkit.metrics import Request, is_gmean
from evalkit.report import Comparison, Estimate

LIMITS = (
    *("low", "high", "low_adjusted", "high_adjusted", "low_margin", "high_margin"),
    "smallest_difference",
)


def shown_means(
    estimates: Sequence[Estimate], requests: Sequence[Request], policies: Policies
) -> Iterator[Estimate]:
    """Estimates, of which mean logarithms become geometric means; errors by the delta method."""
    decimals = {
        each.label: policies_of(each, policies).round_mean for each in requests if is_gmean(each)
    }
    for estimate in estimates:
        if estimate.metric not in decimals or not estimate.n_users:
            yield estimate
            continue
        value = math.exp(estimate.value)
        error = None if estimate.std_error is None else value * estimate.std_error
        low, high = (
            None if end is None else math.exp(end) for end in (estimate.low, estimate.high)
        )
        shown = rounded(value, decimals[estimate.metric])
        yield replace(estimate, value=shown, std_error=error, low=low, high=high)


def shown_ratios(
    comparisons: Sequence[Comparison], requests: Sequence[Request]
) -> Iterator[Comparison]:
    """Comparisons, of which differences of mean logarithms become ratios less 1."""
    labels = {each.label for each in requests if is_gmean(each)}
    for compared in comparisons:
        if compared.metric not in labels:
            yield compared
            continue
        limits: dict[str, Any] = {
            name: None if (end := getattr(compared, name)) is None else math.expm1(end)
            for name in LIMITS
        }
        delta = math.expm1(compared.delta)
        error = None if compared.std_error is None else (1.0 + delta) * compared.std_error
        yield replace(
            compared,
            **limits,
            delta=delta,
            std_error=error,
            relative=delta,
            relative_low=limits["low"],
            relative_high=limits["high"],
            users_needed=None,
        )


def margin_of(request: Request, margin: float) -> float:
    """A margin of a ratio as one of logarithms: the nearer of its two sides."""
    return math.log1p(margin) if is_gmean(request) else margin
