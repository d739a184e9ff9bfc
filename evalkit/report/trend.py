"""A metric of one model over the runs of a job, as records that pages and terminals show."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One run's value; `started` in UTC, ISO 8601."""

    run_id: str
    started: str
    value: float
    low: float | None
    high: float | None
    n_users: int
    is_fine: bool
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trend:
    """The values of one model, the oldest first; there is one at least."""

    job: str
    metric: str
    model: str
    segmentation: str | None
    segment: str | None
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class PastRun:
    """One line of the page over all runs; `page` is the way to its own page, where it has one."""

    run_id: str
    job: str
    started: str
    is_fine: bool
    n_warnings: int
    first: str  # the first model and metric, which have `value`
    value: float | None
    tags: tuple[str, ...]
    page: str | None
