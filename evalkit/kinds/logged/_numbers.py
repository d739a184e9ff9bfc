"""Estimators as numbers of sums: their values, and what each user adds to them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Floats
from evalkit.kinds.logged._units import OF_SQUARES, sum_of_parts
from evalkit.kinds.logged.measure import PLACE, SQUARES, TermColumns
from evalkit.kinds.logged.merge import LoggedSums, RoundCounts
from evalkit.metrics.logged import Recipe, Term
from evalkit.sources.ids import as_array
from evalkit.statistics.exact import ExactSums
from evalkit.statistics.intervals import Interval, rare_interval

FEW_REWARDS = 15


@dataclass(frozen=True, slots=True)
class LoggedNumber:
    """A value with what each user adds to it, float64[n_users], whose mean is 0."""

    value: float
    influence: Floats
    std_error: float  # over n - 1 users; NaN below two

    @classmethod
    def of(cls, value: float, influence: Floats) -> "LoggedNumber":
        """With its error."""
        return cls(value, influence, error_of(influence))

    @property
    def skewness(self) -> float:
        """Of what users add; NaN where they add nothing."""
        n = len(self.influence)
        spread = math.sqrt(_total(self.influence**2) / n)
        return _total((self.influence / spread) ** 3) / n if spread > 0.0 else math.nan


def error_of(influence: Floats) -> float:
    n = len(influence)
    if n < 2:
        return math.nan
    return math.sqrt(n / (n - 1) * _total(influence**2))


def _total(values: Floats) -> float:
    """The correctly rounded sum, as `math.fsum` has it."""
    sums = ExactSums(1)
    sums.add(values[:, None])
    return sums.sum_of(0).total


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """Users of one segment, or all of them."""

    segmentation: str | None
    segment: str | None
    users: pl.DataFrame
    weights: pl.DataFrame
    positions: tuple[pl.DataFrame, ...] = ()
    totals: dict[str, float] = field(default_factory=dict)

    @property
    def at_positions(self) -> "list[SegmentSums]":
        """The same users, with what they have at each position of slates."""
        return [replace(self, users=each, totals={}) for each in self.positions]

    def total(self, column: str) -> float:
        """A term of all users."""
        if column not in self.totals:
            self.totals[column] = _total(self.sums(column))
        return self.totals[column]

    def sum_of_weights(self, column: str) -> float:
        """Of all rounds: squares of weights, or how many are 0."""
        return sum_of_parts(self.weights, column)

    def sums(self, column: str) -> Floats:
        """A term of each user."""
        return as_array(self.users[column])


def number_of(
    cell: SegmentSums, wanted: TermColumns, place: int, recipe: Recipe, *, fixed: bool = False
) -> LoggedNumber:
    """An estimator of one target: ratios of sums, and their influence by user.

    Args:
        fixed: denominators are taken as known, as obp's bootstrap has them.
    """
    if recipe.by_position:
        plain = recipe._replace(by_position=False)
        found = [number_of(e, wanted, place, plain, fixed=fixed) for e in cell.at_positions]
        whole = math.fsum(each.value for each in found)
        return LoggedNumber.of(whole, np.sum([each.influence for each in found], axis=0))
    value, influence = 0.0, np.zeros(cell.users.height)
    for above, below in recipe.pairs:
        top = cell.sums(wanted.column(place, above))
        bottom = cell.sums(wanted.column(place, below))
        total = cell.total(wanted.column(place, below))
        if total == 0:
            return LoggedNumber(math.nan, np.full(len(influence), np.nan), math.nan)
        ratio = cell.total(wanted.column(place, above)) / total
        value += ratio
        centre = top.mean() if fixed else ratio * bottom
        influence = influence + (top - centre) / total
    return LoggedNumber.of(value, influence)


def effective_rewards(
    cell: SegmentSums, wanted: TermColumns, place: int | None, rewards: tuple[float, float]
) -> tuple[float, float]:
    """How many effective rounds earn another reward than most, and what one of them weighs.

    Effective rounds times the share of the rewards' span, as the normal law of shares has it.

    Args:
        place: of the target; None: the logging policy.
        rewards: the least and the largest.
    """
    low, high = rewards
    if place is None:
        weights = squares = cell.total(wanted.column(0, Term("ones")))
        earned = cell.total(wanted.column(0, Term("reward")))
    else:
        weights = cell.total(wanted.column(place, Term("weight")))
        squares = cell.sum_of_weights(f"{place}:{SQUARES}") / OF_SQUARES
        earned = cell.total(wanted.column(place, Term("weighted")))
    if not (weights > 0.0 and squares > 0.0 and high > low):
        return math.inf, 1.0
    share = (earned / weights - low) / (high - low)
    return weights**2 / squares * max(min(share, 1.0 - share), 0.0), squares / weights


def rare_limits(
    cell: SegmentSums, wanted: TermColumns, place: int | None, recipe: Recipe,
    rewards: tuple[float, float], level: float,
) -> Interval | None:  # fmt: skip
    """Limits of a weighted reward where few effective rounds earn another one than most."""
    n_rewards, size = effective_rewards(cell, wanted, place, rewards)
    (top, bottom), *others = recipe.pairs
    is_other = top.name == "predicted" or top.residual or top.plus_predicted or top.weight != "item"
    if n_rewards >= FEW_REWARDS or others or recipe.by_position or is_other:
        return None
    above, below = (cell.sums(wanted.column(place or 0, term)) for term in (top, bottom))
    total = cell.total(wanted.column(place or 0, bottom))
    value = cell.total(wanted.column(place or 0, top)) / total
    low, high = rewards
    most = low if value - low <= high - value else high  # what most rounds earn
    if most != 0.0 and (top.name, bottom.name) not in (("weighted", "weight"), ("reward", "ones")):
        return None
    sign, span = (1.0 if most == low else -1.0), high - low
    own, rate = sign * (above - most * below) / total, max(sign * (value - most), 0.0)
    unseen, df = span * size / total, cell.users.height - 1
    found = rare_interval(rate, _total(own**2), unseen, level=level, df=df)
    most_of_all = math.inf if bottom.name == "slates" else max(span, rate)
    ends = (most + sign * each for each in (found.low, min(found.high, most_of_all)))
    return Interval(*sorted(ends))


def widest_of(recipe: Recipe, n_users: int, counts: RoundCounts) -> float:
    """What a user who was not seen can move a value by, times the users: one round of the smallest
    propensity that was logged, with the reward that lies farthest from the others, or from 0
    where weights are not divided out. Infinite where rewards do not differ.
    """
    (low, high), largest = counts.rewards, 1.0
    for term, below in recipe.pairs:
        if term.name != "weighted":
            continue
        if below.name != "weight" and not term.residual:
            low, high = min(low, 0.0), max(high, 0.0)
        own = "propensity" if term.weight == "item" else f"propensity_{term.weight}"
        weight = 1.0 / counts.least[own]
        for cap in (term.cap, term.tau, math.sqrt(term.shrink) / 2.0):
            weight = min(weight, cap) if cap > 0.0 else weight
        largest = max(largest, weight)
    return largest * (high - low) * n_users / max(counts.rows, 1) if high > low else math.inf


def of_logging(recipe: Recipe) -> Recipe:
    """What the logging policy earned: a round, or of estimators of slates a slate."""
    return Recipe(((Term("reward"), Term("slates" if recipe.is_of_slates else "ones")),))


def cells_of(sums: LoggedSums, segmentations: Sequence[str]) -> Iterator[SegmentSums]:
    """All users, then those of every segment; a user may have rounds in several."""
    rows = sums.frame
    terms = [name for name in rows.columns if ":" in name]
    keys = [name for name in rows.columns if ":" not in name and not is_split(name)]
    weights = pl.concat([sums.weights[share] for share in sorted(sums.weights)])

    def cell(
        named: tuple[str | None, str | None], some: pl.DataFrame, own: pl.DataFrame
    ) -> SegmentSums:
        users = some
        if segmentations or PLACE in rows.columns:
            users = some.group_by(keys, maintain_order=True).agg(pl.col(terms).sum()).sort(keys)
        at = some.partition_by(PLACE) if PLACE in rows.columns else []
        positions = (each.group_by(keys).agg(pl.col(terms).sum()) for each in at)
        whole = [
            users.select(keys).join(e, on=keys, how="left", maintain_order="left").fill_null(0.0)
            for e in positions
        ]
        return SegmentSums(*named, users, own, tuple(whole))

    yield cell((None, None), rows, weights)
    for place, name in enumerate(segmentations):
        column = pl.col(f"segment_{place}").cast(pl.String)
        for segment in rows.select(column).to_series().drop_nulls().unique().sort():
            some, own = rows.filter(column == segment), weights.filter(column == segment)
            yield cell((name, segment), some, own)


def is_split(name: str) -> bool:
    """Whether a column of sums splits the rounds of a user."""
    return name.startswith("segment_") or name == PLACE
