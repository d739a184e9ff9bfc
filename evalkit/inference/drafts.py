"""Comparisons while they are made: test by test, so that each record is made once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter

import numpy as np

from evalkit.aggregate.segments import ALL, Segment
from evalkit.aggregate.sums import Pair
from evalkit.inference.spread import DifferenceSpread
from evalkit.kernels.arrays import Floats
from evalkit.kernels.memory import give_back_freed
from evalkit.report import Comparison
from evalkit.report.frames import make_records
from evalkit.statistics.distributions import find_t_quantiles, normal_quantiles, t_quantile
from evalkit.statistics.many import difference_limits, relative_limits, within
from evalkit.statistics.proportions import paired_limits
from evalkit.statistics.unseen import AGAINST, FEWEST_AGAINST, SQUARES, reach_unseen

reach_alone = lru_cache(maxsize=4096)(reach_unseen)  # of segments of as many users


@dataclass(slots=True)
class Draft:
    """A comparison while it is made: its fields as they are found, and what its error stands on."""

    baseline: str
    candidate: str
    metric: str
    segmentation: str | None
    segment: str | None
    spread: DifferenceSpread
    delta: float
    std_error: float | None
    low: float | None
    high: float | None
    relative: float
    relative_low: float | None
    relative_high: float | None
    effect_size: float
    n_users: int
    wins: int | None
    ties: int | None
    losses: int | None
    margin: float | None
    p_value: float = math.nan
    test: str = ""
    n_clusters: int | None = None
    df: float | None = None
    p_adjusted: float | None = None
    low_adjusted: float | None = None
    high_adjusted: float | None = None
    smallest_difference: float | None = None
    users_needed: int | None = None
    family: str | None = None
    family_size: int | None = None
    p_equivalent: float | None = None
    p_not_inferior: float | None = None
    low_margin: float | None = None
    high_margin: float | None = None
    verdict: str = ""
    caveats: str | None = None
    judged_at: float = math.nan  # the p at which it was judged in its family
    of_both: tuple[float, float, float] = (math.nan,) * 3  # baseline, its error, the candidate's
    way: float = 0.0  # of a test by ranks, which the mean may not go
    seen: DifferenceSpread | None = None  # bounded by what was seen, where no bound is known
    n_carrying: float = math.inf  # users who would make the squares, were all the largest
    p_seen: float = 0.0  # what p_adjusted is at least, then
    margin_seen: tuple[float, float] = 0.0, 0.0  # the same of p_equivalent and p_not_inferior
    low_gate: float | None = None
    high_gate: float | None = None
    is_withheld: bool = False  # p alone would give another verdict

    @property
    def df_carrying(self) -> float:
        """Degrees of freedom, were those alone there who make the squares."""
        return min(self.spread.df, self.n_carrying - 1.0)

    @property
    def place(self) -> tuple[Segment, Pair]:
        """The segment and the pair, as sums have them."""
        segment = ALL if self.segmentation is None else (self.segmentation, self.segment or "")
        return segment, (self.baseline, self.candidate)


FINISHED_TOGETHER = 1 << 12
_FIELDS = tuple(each.name for each in fields(Draft) if each.name in Comparison.__slots__)


def finished(drafts: Sequence[Draft]) -> list[Comparison]:
    """The comparisons; their fields stand in columns for some of them at a time."""
    made: list[Comparison] = []
    for begin in range(0, len(drafts), FINISHED_TOGETHER):
        some = drafts[begin : begin + FINISHED_TOGETHER]
        columns = zip(*map(attrgetter(*_FIELDS), some), strict=True)
        made += make_records(Comparison, dict(zip(_FIELDS, columns, strict=True)))
    if len(made) > FINISHED_TOGETHER:  # what they were made of was more than they are
        give_back_freed()
    return made


def limits_of(drafts: Sequence[Draft], levels: Sequence[float]) -> tuple[Floats, Floats]:
    """Limits of each difference at a level of its own, as `DifferenceSpread.limits` has them."""
    errors = [0.5 * (1.0 - level) for level in levels]
    spreads = [each.spread for each in drafts]
    dfs = [each.df for each in spreads]
    find_t_quantiles(zip(errors, dfs, strict=True))
    ts = -np.array([*map(t_quantile, errors, dfs)])
    deltas, ns = np.array([each.delta for each in drafts]), np.array([each.n for each in spreads])
    std_errors = np.array([each.std_error for each in drafts], dtype=np.float64)
    widest = np.array([each.widest for each in spreads])
    std_errors[ns < 2] = np.nan
    skewnesses = np.array([each.plain_skewness for each in spreads], dtype=np.float64)
    low, high = difference_limits(deltas, std_errors, ns, skewnesses, ts)
    down, up = _reaches(spreads, deltas, std_errors, errors, widest)
    low, high = (
        np.where(is_little, unseen, limit)
        for unseen, limit, is_little in (
            (deltas - down, low, (down > 0.0) & (deltas - down < low)),
            (deltas + up, high, (up > 0.0) & (deltas + up > high)),
        )
    )
    limits = within((low, high), -widest, widest)
    exact = [place for place, each in enumerate(spreads) if each.is_exact]
    if exact:
        tables = np.array([spreads[place].table for place in exact])
        of_exact = np.array([levels[place] for place in exact])
        own = paired_limits(tables[:, 1], tables[:, 2], tables.sum(axis=1), of_exact)
        limits[0][exact], limits[1][exact] = own
    for place, (draft, level) in enumerate(zip(drafts, levels, strict=True)):
        spread = draft.spread
        is_other = draft.std_error == 0.0 or spread.is_clustered or spread.table is not None
        if is_other and not spread.is_exact:
            found = spread.limits(draft.delta, draft.std_error, level=level)
            limits[0][place], limits[1][place] = found.low, found.high
    return limits


def note_relative(drafts: Sequence[Draft], level: float) -> None:
    """Note limits of relative differences, from those of the differences that stand now."""
    if not drafts:
        return
    error = 0.5 * (1.0 - level)
    find_t_quantiles((error, each.spread.df) for each in drafts)
    ts = -np.array([t_quantile(error, each.spread.df) for each in drafts])
    columns = [(*each.of_both, each.delta, each.std_error, each.low, each.high) for each in drafts]
    baselines, errors, others, deltas, own, low, high = np.array(columns, dtype=np.float64).T
    limits = relative_limits((baselines, errors), (deltas, own), others, ts, (low, high))
    for each, *found in zip(drafts, *(limit.tolist() for limit in limits), strict=True):
        each.relative_low, each.relative_high = (math.nan if n != n else n for n in found)


def _reaches(
    spreads: Sequence[DifferenceSpread],
    deltas: Floats,
    std_errors: Floats,
    errors: Sequence[float],
    widest: Floats,
) -> tuple[Floats, Floats]:
    """How far limits below and above are from differences that vary at least, for users not seen.

    As `DifferenceSpread.reach_unseen` has it, which is asked where rounding might decide.
    """
    known = [not each.is_plain and each.n_below is not None for each in spreads]
    sides = (
        np.array([each.n_below or 0 for each in spreads]),
        np.array([each.n_above or 0 for each in spreads]),
    )
    has_sizes = np.array([not each.is_weighted for each in spreads], dtype=bool)
    is_known = np.array(known, dtype=bool) & np.isfinite(widest) & (std_errors > 0.0)
    ns = np.array([each.df for each in spreads]) + 1.0
    z_of = normal_quantiles(errors)
    zs = -np.array([z_of[error] for error in errors])
    with np.errstate(invalid="ignore"):
        squares = ns * ((ns - 1.0) * std_errors * std_errors + deltas * deltas)
        by_squares = np.sqrt(np.sqrt(SQUARES * squares) / widest)
    found = []
    for is_above, (against, others) in ((True, sides), (False, sides[::-1])):
        seen = np.minimum(by_squares, np.sqrt(against / AGAINST))
        seen[against < FEWEST_AGAINST] = -math.inf
        total, n_all = ns * (deltas if is_above else -deltas), against + others
        with np.errstate(all="ignore"):  # as `size_against` and `reach_few`
            apart = np.sqrt(np.maximum(n_all * squares - total * total, 0.0) * (others / against))
            sizes = np.maximum(apart - total, 0.0) / n_all
            count = against + 0.5
            root = 1.0 - 1.0 / (9.0 * count) + zs / (3.0 * np.sqrt(count))
            few = sizes * (count * root * root * root - against) / ns
        reaches = np.where(
            is_known & has_sizes & (against > 0) & (zs > 0.0) & (sizes > 0.0), few, 0.0
        )
        nearly = 1e-9 * (1.0 + zs)
        for place in np.flatnonzero(is_known & (seen < zs + nearly)).tolist():
            if seen[place] < zs[place] - nearly[place]:
                alone = reach_alone(errors[place], spreads[place].widest, float(ns[place]))
                reach = max(float(reaches[place]), alone)
            else:
                reach = spreads[place].reach_unseen(
                    float(deltas[place]),
                    float(std_errors[place]),
                    error=errors[place],
                    is_above=is_above,
                )
            reaches[place] = reach
        found.append(reaches)
    return found[0], found[1]
