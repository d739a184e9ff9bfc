"""Everything that one share of the users leaves behind; shares add up in any order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from evalkit.aggregate.accumulators.curves import CurveSums
from evalkit.aggregate.accumulators.histograms import Histograms
from evalkit.aggregate.accumulators.kept import KeptUsers
from evalkit.aggregate.accumulators.parts import add_parts
from evalkit.aggregate.accumulators.resampling import Draws
from evalkit.aggregate.accumulators.weighted import Ratios
from evalkit.aggregate.segments import SeenValues, Segment
from evalkit.aggregate.sums import GrandTotals, add_all
from evalkit.errors import DataError, Faults
from evalkit.kernels.arrays import Keys
from evalkit.kinds.rankings._steps import RANKINGS
from evalkit.metrics import as_float
from evalkit.planning.counters import RowCounts
from evalkit.planning.meeting import Meeting
from evalkit.planning.tables import Tables
from evalkit.report import Warning_
from evalkit.statistics.exact import ExactSums
from evalkit.truth import Truth, relevant_weights

if TYPE_CHECKING:
    from evalkit.aggregate.accumulators.items import ItemSums
    from evalkit.aggregate.accumulators.shown import ShownSums

MOST_FIRST = 4096  # users who tell whether a log is laid out by user: 8 bytes each


class Origin(NamedTuple):
    """Where what was measured came from: what is said of the whole names it.

    Args:
        truth, rankings: where their tables stand.
        user_columns: names of the users' ids.
        sources: the segmentations of each table of segments.
    """

    truth: str
    rankings: tuple[str, ...]
    user_columns: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, tables: Tables) -> "Origin":
        """What is known of opened tables."""
        return cls(
            tables.truth.at,
            tuple(table.at for _, table in tables.rankings),
            tuple(tables.truth.user_names),
            tuple(each.names for each in tables.segments),
        )


@dataclass(frozen=True, slots=True)
class WeightSums:
    """What relevant items of users count by, added up.

    Args:
        count, total, squares: how many there are, and `ExactSum.scaled` and `squares` of them.
        n_raised: of how many the propensity was raised to the floor.
    """

    count: int
    total: int
    squares: int
    largest: float
    n_raised: int

    @classmethod
    def of(cls, truth: Truth) -> "WeightSums | None":
        """Those of one share of the users."""
        if truth.weights is None:
            return None
        sums, n, largest = ExactSums(1), 0, 0.0
        for weights in relevant_weights(truth):
            sums.add(weights[:, None])
            n, largest = n + weights.size, max(largest, float(weights.max(initial=0.0)))
        found = sums.sum_of(0)
        return cls(n, found.scaled, found.squares, largest, truth.weights.n_raised)

    def merge(self, other: "WeightSums") -> "WeightSums":
        """Those of both."""
        return WeightSums(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            max(self.largest, other.largest),
            self.n_raised + other.n_raised,
        )

    @property
    def effective(self) -> float:
        """The effective sample size: (sum w)^2 / sum w^2."""
        return as_float(Fraction(self.total**2, self.squares)) if self.squares else 0.0


@dataclass(slots=True)
class RankingSums:
    """What was measured of some users, and what was found on the way.

    Args:
        origin: the same of all shares, but for the paths of logs laid out by user.
        models: counts of rows and users of each model.
        tables: the table of the rankings that each model stands in, by its number.
        largest: relevance of the truth.
        first_users: of logs laid out by user the smallest hashes of their ids, in order.
        is_cut: two shares have a user in common.
        together: models that shares with users have rankings of.
        kept: values of users whose sums by share say too little.
        ordered: values of users that numbers are made of by their order.
        weights: what relevant items count by, where their propensities are known.
        tie_shifts: what the best and the worst order of equal scores change, by segment and model,
            of each request that they may move; where hits share their score.
        shown: what metrics of all lists together are made of, as `conclusions.shown` names it.
        ratios: where users count differently, or vary together.
        items: where items are drawn as users are.
        users: values of each user, by model, where they are kept in memory.
        meetings: whether ids of a model's rankings are among those of another table, by what they
            are ids of, the other table and the model.
        warnings: of policies that the columns of the rankings leave without effect.
    """

    origin: Origin
    truth: RowCounts = field(default_factory=RowCounts)
    train_rows: int = 0
    largest: float = 0.0
    models: dict[str, RowCounts] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    first_users: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    is_cut: bool = False
    together: set[frozenset[str]] = field(default_factory=set)
    totals: GrandTotals = field(default_factory=GrandTotals)
    histograms: Histograms = field(default_factory=Histograms)
    curves: CurveSums = field(default_factory=CurveSums)
    parts: pl.DataFrame | None = None
    weights: "WeightSums | None" = None
    draws: Draws = field(default_factory=Draws)
    ratios: Ratios = field(default_factory=Ratios)
    items: "ItemSums | None" = None
    kept: KeptUsers = field(default_factory=KeptUsers)
    ordered: KeptUsers = field(default_factory=KeptUsers)
    tie_shifts: dict[tuple[Segment, str], ExactSums] = field(default_factory=dict)
    shown: dict[str, "ShownSums"] = field(default_factory=dict)
    seen_values: SeenValues = field(default_factory=SeenValues)
    users: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    meetings: dict[str, Meeting] = field(default_factory=dict)
    warnings: tuple[Warning_, ...] = ()
    faults: Faults = field(default_factory=Faults)

    @staticmethod
    def late_types() -> dict[str, Any]:
        """Types of fields that are loaded where a partial is written or read."""
        from evalkit.aggregate.accumulators.items import ItemSums
        from evalkit.aggregate.accumulators.shown import ShownSums

        return {"ShownSums": ShownSums, "ItemSums": ItemSums}

    def note_users(self, hashes: Keys) -> None:
        """Remember some users, each of whom is new."""
        known = np.sort(np.concatenate([self.first_users, hashes]))
        self.is_cut |= bool((known[1:] == known[:-1]).any())
        self.first_users = known[:MOST_FIRST]

    def note_table(self, number: int, models: Iterable[str]) -> None:
        """Remember the table of the rankings that models stand in, or that they stand in two."""
        for name in models:
            first, second = sorted((number, self.tables.setdefault(name, number)))
            self.tables[name] = first
            if second != first:
                message, at = f"two tables have rows of {name!r}", self.origin.rankings[second]
                hint = "leave out or rename one"
                error = DataError(message, code="duplicate-model", at=at, hint=hint)
                self.faults.note(error, (RANKINGS,), second)

    def note_meeting(self, key: str, meeting: Meeting) -> None:
        """Remember whether ids meet; one share in which they do is enough."""
        known = self.meetings.get(key)
        self.meetings[key] = meeting if known is None else known.merge(meeting)

    def note_warnings(self, warnings: Sequence[Warning_]) -> None:
        """Remember warnings, each once."""
        self.warnings = tuple(dict.fromkeys([*self.warnings, *warnings]))

    def merge(self, other: "RankingSums") -> None:
        """Take over what other users left behind, which must not be used again."""
        self.origin = min(self.origin, other.origin)
        self.truth.merge(other.truth)
        self.train_rows += other.train_rows
        self.largest = max(self.largest, other.largest)
        add_all(self.models, other.models)
        for name, number in other.tables.items():
            self.note_table(number, [name])
        self.note_users(other.first_users)
        self.is_cut |= other.is_cut
        self.together |= other.together
        self.totals.merge(other.totals)
        self.histograms.merge(other.histograms)
        self.curves.merge(other.curves)
        self.parts = add_parts(self.parts, other.parts)
        if self.weights is None or other.weights is None:
            self.weights = self.weights or other.weights
        else:
            self.weights = self.weights.merge(other.weights)
        self.draws.merge(other.draws)
        self.ratios.merge(other.ratios)
        if self.items is None or other.items is None:
            self.items = self.items or other.items
        else:
            self.items.merge(other.items)
        self.kept.merge(other.kept)
        self.ordered.merge(other.ordered)
        add_all(self.tie_shifts, other.tie_shifts)
        add_all(self.shown, other.shown)
        self.seen_values.merge(other.seen_values)
        for key, meeting in other.meetings.items():
            self.note_meeting(key, meeting)
        for name, frames in other.users.items():
            self.users.setdefault(name, []).extend(frames)
        self.warnings = max(  # a share may end at a fault
            self.warnings, other.warnings, key=lambda each: (len(each), repr(each))
        )
        self.faults.merge(other.faults)

    @property
    def in_order(self) -> tuple[str, ...]:
        """The models, table by table as the config lists them, then by name."""
        return tuple(sorted(self.models, key=lambda name: (self.tables[name], name)))
