"""Comparisons while they are made: test by test, so that each record is made once."""

import math
from dataclasses import dataclass, fields
from operator import attrgetter

from evalkit.conclusions.spread import Spread
from evalkit.report import Comparison
from evalkit.segments import ALL, Segment
from evalkit.sums import Pair

_FIELDS = attrgetter(*(each.name for each in fields(Comparison)))


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

    def finish(self) -> Comparison:
        """The comparison."""
        return Comparison(*_FIELDS(self))
