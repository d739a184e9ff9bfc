"""A metric of one model over the runs of a job, as records that pages and terminals show."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from evalkit.report.text import show_values


@dataclass(frozen=True, slots=True)
class Point:
    """One run's value; `started` in UTC, ISO 8601; `at` is what the run stands at on an axis.

    Args:
        page: the way to the run's own page, where it has one.
        level: the mean of earlier runs since the level last shifted.
        expected_low, expected_high: where this run was expected by that and by its standard error.
        signals: `outside` of these, `two of three`, `shift`, `trend` (docs/statistics.md).
        shifted: the run with which the level shifted, where this one shows it.
        replaced: values of earlier runs at the same place, which do not count; the oldest first.
    """

    run_id: str
    started: str
    value: float
    low: float | None
    high: float | None
    n_users: int
    is_fine: bool
    tags: tuple[str, ...] = ()
    at: str = ""
    page: str | None = None
    std_error: float | None = None
    level: float | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    signals: tuple[str, ...] = ()
    shifted: str | None = None
    replaced: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Trend:
    """The values of one model, the oldest first; there is one at least.

    Args:
        by: what `at` of the points is: `started`, or the name of a variable of the config.
        bounds: of the gates that the latest run had on it, `("min", 0.12)`.
    """

    job: str
    metric: str
    model: str
    segmentation: str | None
    segment: str | None
    points: tuple[Point, ...]
    by: str = "started"
    bounds: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PastRun:
    """One line of the page over all runs; `page` is the way to its own page, where it has one.

    Args:
        metric: the one that decides.
        failed: what the gates that failed say.
        variables: of the config, as `{"day": "2026-11-20"}`.
    """

    run_id: str
    job: str
    started: str
    is_fine: bool
    n_warnings: int
    answer: str  # which model is better, in a sentence
    best: str  # the best model and the metric that decides, which have `value`
    value: float | None
    tags: tuple[str, ...]
    page: str | None
    metric: str = ""
    failed: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def tell_signals(trend: Trend) -> list[str]:
    """A line for each run that is out of order, the oldest first."""
    found = []
    for point in trend.points:
        is_date = days_of(point.at) is not None
        at = (point.at[:19].replace("T", " ") if is_date else point.at) or point.run_id
        for signal in point.signals:
            said = f"{trend.model}, {at}: {signal}"
            if signal == "outside":
                numbers = point.value, point.expected_low or 0.0, point.expected_high or 0.0
                value, low, high = show_values(numbers)
                said += f", {value} where {low} … {high} was expected"
            elif signal == "shift":
                said += f" of the level since run {point.shifted}"
            found.append(said)
    if len(trend.points) > 2 and all(not point.std_error for point in trend.points):
        found.append(f"{trend.model}: no standard errors, so nothing is expected of a run")
    return found


def order_of(at: str) -> tuple[float, str]:
    """Where a value stands on an axis: dates by days since 1970, numbers by size, then words."""
    place = days_of(at)
    if place is None:
        try:
            place = float(at)
        except ValueError:
            place = math.inf
    return (math.inf if math.isnan(place) else place), at


def days_of(at: str) -> float | None:
    """Days since 1970 in UTC, of `2026-11-20` and of ISO 8601 with a time; None of no date."""
    if at.isdigit() and len(at) != len("20261120"):
        return None  # milliseconds, of which some would be read as dates
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.timestamp() / 86_400
