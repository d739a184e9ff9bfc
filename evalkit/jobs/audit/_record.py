"""What an audit found."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evalkit.metrics import Value


@dataclass(frozen=True, slots=True)
class ProfileStanding:
    """The metric under profiles that give one number for one reason: the same conventions.

    Args:
        profiles: that agree in every convention that can matter on these logs.
        metric: the label that the first of them gives the metric.
    """

    profiles: tuple[str, ...]
    metric: str
    value: float
    n_users: int


@dataclass(frozen=True, slots=True)
class Contribution:
    """One convention that moves the number from one profile's to another's."""

    axis: str
    before: Value
    after: Value
    delta: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Why two profiles differ.

    Args:
        axes: the smallest set of conventions that, switched from `one` to `other`, gives the
            other's number; their contributions add up to `delta`.
        method: "Shapley": the mean over all orders of switching; "path": one after the other in
            the order of `axes`, where there are too many for all orders.
        is_smallest: no smaller set does; else none of the set can be left out.
        recomputed: the number under all conventions of `one` but for `axes`, which are the other's.
        comes_out: it is the other's number; where it is not, `axes` are no explanation.
    """

    one: str
    other: str
    delta: float
    axes: tuple[Contribution, ...]
    method: str
    is_smallest: bool
    recomputed: float = math.nan
    comes_out: bool = False


@dataclass(frozen=True, slots=True)
class Audit:
    """One metric of one model under every profile.

    Args:
        standings: by value, the largest first.
        left_out: profiles without the metric, or that cannot measure it here, and why.
        inert: conventions that cannot matter on these logs, and why.
        n_readings: how often the logs were read.
        tie_bounds: the smallest and the largest value over all orders of equal scores, by
            evalkit's own conventions; None where no scores are equal or nobody knows.
    """

    metric: str
    model: str
    standings: tuple[ProfileStanding, ...]
    pairs: tuple[Pair, ...]
    left_out: Mapping[str, str]
    inert: Mapping[str, str]
    n_readings: int
    tie_bounds: tuple[float, float] | None = None
