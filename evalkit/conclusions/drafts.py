"""Comparisons while they are made: test by test, so that each record is made once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from evalkit.conclusions.spread import Spread
from evalkit.report import Comparison
from evalkit.report.frames import make_records
from evalkit.segments import ALL, Segment
from evalkit.statistics.distributions import find_t_quantiles, t_quantile
from evalkit.statistics.many import within
from evalkit.sums import Pair

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Draft:
    """A comparison while it is made: its fields as they are found, and what its error stands on."""

    baseline: str
    candidate: str
    metric: str
    segmentation: str | None
    segment: str | None
    spread: Spread
    delta: float
    std_error: float | None
    low: float | None
    high: float | None
    relative: float
    relative_low: float
    relative_high: float
    effect_size: float
    n_users: int
    wins: int | None
    ties: int | None
    losses: int | None
    margin: float | None
    p_value: float = math.nan
    test: str = "t"
    n_clusters: int | None = None
    df: float | None = None
    p_adjusted: float | None = None
    low_adjusted: float | None = None
    high_adjusted: float | None = None
    smallest_difference: float | None = None
    users_needed: int | None = None
    family: str | None = None
    p_equivalent: float | None = None
    p_not_inferior: float | None = None
    low_margin: float | None = None
    high_margin: float | None = None
    verdict: str = ""
    judged_at: float = math.nan  # the p at which it was judged in its family

    @property
    def place(self) -> tuple[Segment, Pair]:
        """The segment and the pair, as sums have them."""
        segment = ALL if self.segmentation is None else (self.segmentation, self.segment or "")
        return segment, (self.baseline, self.candidate)


_FIELDS = tuple(each.name for each in fields(Draft) if each.name in Comparison.__slots__)


def finished(drafts: Sequence[Draft]) -> list[Comparison]:
    """The comparisons."""
    columns = zip(*map(attrgetter(*_FIELDS), drafts), strict=True)
    return make_records(Comparison, dict(zip(_FIELDS, columns, strict=True))) if drafts else []


def limits_of(drafts: Sequence[Draft], levels: Sequence[float]) -> tuple[Floats, Floats]:
    """Limits of each difference at a level of its own, as `Spread.limits` has them."""
    below = [0.5 * (1.0 - level) for level in levels]
    spreads = [each.spread for each in drafts]
    dfs = [each.df for each in spreads]
    find_t_quantiles(zip(below, dfs, strict=True))
    ts = -np.array([*map(t_quantile, below, dfs)])
    deltas, ns = np.array([each.delta for each in drafts]), np.array([each.n for each in spreads])
    errors = np.array([each.std_error for each in drafts], dtype=np.float64)
    widest = np.array([each.widest for each in spreads])
    errors[ns < 2] = np.nan
    limits = within((deltas - ts * errors, deltas + ts * errors), -widest, widest)
    for place, (each, level) in enumerate(zip(drafts, levels, strict=True)):
        spread = each.spread
        if spread.table is not None or each.std_error == 0.0 or spread.is_clustered:
            found = spread.limits(each.delta, each.std_error, level=level)
            limits[0][place], limits[1][place] = found.low, found.high
    return limits
