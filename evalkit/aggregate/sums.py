"""Exact sums of all that is measured: by model, by pair of models, and by cell of the users.

Users are put into cells so fine that every segment is made of whole cells. A value is then added
once, however many segmentations there are; sums of segments, and of all users, are put together
from those of cells, exactly.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from threading import Lock
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np

from evalkit.aggregate.segments import ALL, SMALL, SMALL_KEY, Segment, SortKey, UserSegments
from evalkit.config import StatisticsSection
from evalkit.errors import DataError, did_you_mean
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints
from evalkit.statistics import exact

Pair: TypeAlias = tuple[str, str]  # baseline, candidate

MANY_CUTOFFS = 16  # of a metric, whose values at most of them are those at the one before


def pairs_among(models: Sequence[str], chosen: StatisticsSection, *, at: str) -> list[Pair]:
    """The models that are compared, baseline first.

    Raises:
        DataError: the baseline is none of the models [unknown-model].
    """
    baseline = chosen.baseline
    if baseline is not None and baseline not in models:
        message = f"the baseline {baseline!r} is no model of the rankings"
        hint = did_you_mean(baseline, models, f"they hold {', '.join(models)}")
        raise DataError(message, code="unknown-model", at=at, hint=hint)
    others = [each for each in models if each != baseline]
    if chosen.pairs == "all":
        return list(combinations(models if baseline is None else [baseline, *others], 2))
    return [] if baseline is None else [(baseline, each) for each in others]


@dataclass(slots=True)
class PairSums:
    """What two models give on the users whom both have a value of.

    Args:
        deltas: candidate less baseline.
        baseline_alone, candidate_alone: values of users who have only one of them; of no cell
            where there are none, as sums take much room.
        outcomes: int64[n_cells, n_columns, 3], wins, ties, losses of the candidate.
    """

    deltas: exact.ExactSums
    baseline_alone: exact.ExactSums
    candidate_alone: exact.ExactSums
    outcomes: Ints

    @property
    def has_alone(self) -> bool:
        """Whether any user has one value alone."""
        return self.baseline_alone.n_cells > 0

    @classmethod
    def empty(cls, n_columns: int, n_cells: int = 1) -> "PairSums":
        """Nothing added yet."""
        deltas, one, other = (exact.ExactSums(n_columns, n) for n in (n_cells, 0, 0))
        return cls(deltas, one, other, np.zeros((n_cells, n_columns, 3), dtype=np.int64))

    def make_alone(self) -> None:
        """Room for users who have one value alone, if there is none yet."""
        if not self.has_alone:
            n_columns, n_cells = self.deltas.n_columns, self.deltas.n_cells
            self.baseline_alone = exact.ExactSums(n_columns, n_cells)
            self.candidate_alone = exact.ExactSums(n_columns, n_cells)

    def over(self, cells: Ints) -> "PairSums":
        """The sums over some of the cells."""
        return self.over_each([cells], np.arange(self.deltas.n_columns))[0]

    def over_each(self, groups: Sequence[Ints], columns: Ints) -> "list[PairSums]":
        """The sums over each group of the cells, of some columns."""
        ones, others = (
            each.over_each(groups, columns)
            if self.has_alone
            else [each.take(columns) for _ in groups]
            for each in (self.baseline_alone, self.candidate_alone)
        )
        outcomes = [self.outcomes[cells].sum(axis=0, keepdims=True)[:, columns] for cells in groups]
        deltas = self.deltas.over_each(groups, columns)
        return [*map(PairSums, deltas, ones, others, outcomes)]

    def take(self, columns: Ints) -> "PairSums":
        """The same sums with columns in another order."""
        return PairSums(
            self.deltas.take(columns),
            self.baseline_alone.take(columns),
            self.candidate_alone.take(columns),
            np.ascontiguousarray(self.outcomes[:, columns]),
        )

    def merge(self, other: "PairSums") -> None:
        """Take over what was added elsewhere."""
        self.deltas.merge(other.deltas)
        if other.has_alone:
            self.make_alone()
            self.baseline_alone.merge(other.baseline_alone)
            self.candidate_alone.merge(other.candidate_alone)
        self.outcomes += other.outcomes


class Totals:
    """Sums of every model and pair while blocks of users are folded in, from any thread.

    Args:
        models: whose values come by.
        pairs: which of them are compared.
        n_columns: values of a user and model.
        n_cells: cells of the users.
        by_steps: metrics of many cutoffs may be added by what differs from the cutoff before;
            they count after `finish`.
    """

    def __init__(
        self,
        models: Iterable[str],
        pairs: Sequence[Pair],
        n_columns: int,
        n_cells: int,
        *,
        by_steps: bool = False,
    ) -> None:
        self.n_cells = n_cells
        self._by_steps = by_steps and n_cells == 1
        self._steps: dict[tuple[str, int], exact.StepSums] = {}  # of a model, from a column on
        self.models = {name: exact.ExactSums(n_columns, n_cells) for name in models}
        self.pairs = {pair: PairSums.empty(n_columns, n_cells) for pair in pairs}
        self._locks = {each: Lock() for each in (*self.models, *self.pairs)}

    def add(
        self,
        values: Mapping[str, Sequence[Floats]],
        higher_is_better: Sequence[bool],
        cells: Int32s,
        n_added: int | None = None,
    ) -> None:
        """Fold in a block of users.

        Args:
            values: for each model, for each metric float64[n_users, n_cutoffs].
            higher_is_better: of each metric.
            cells: int32[n_users], the cell of each user.
            n_added: how many of the metrics count in the sums of models; all when left out.
        """
        rows = exact.CellRows.of(cells, self.n_cells)
        for name, sums in self.models.items():
            with self._locks[name]:
                first = 0
                for array in values[name][:n_added]:
                    width = array.shape[1]
                    if self._by_steps and width >= MANY_CUTOFFS:
                        if (name, first) not in self._steps:
                            self._steps[name, first] = exact.StepSums((width,))
                        self._steps[name, first].add(array, first_column=0)
                    else:
                        sums.add(array, first_column=first, rows=rows)
                    first += width
        for pair, found in self.pairs.items():
            baseline, candidate = values[pair[0]], values[pair[1]]
            with self._locks[pair]:
                first = 0
                for old, new, higher in zip(baseline, candidate, higher_is_better, strict=True):
                    self._add_pair(found, old, new, rows, first, higher_is_better=higher)
                    first += old.shape[1]

    def finish(self, others: "Sequence[Totals]" = ()) -> None:
        """Let all count that was added here, and by other threads."""
        for sums_of_one in (self, *others):
            for (name, first), steps in sums_of_one._steps.items():
                self.models[name].merge_columns(steps.sums(), first)
            sums_of_one._steps.clear()
        for each in others:
            self.merge(each)

    def merge(self, other: "Totals") -> None:
        """Take over what another thread added."""
        for name, sums in self.models.items():
            sums.merge(other.models[name])
        for pair, found in self.pairs.items():
            found.merge(other.pairs[pair])

    def _add_pair(
        self,
        found: PairSums,
        old: Floats,
        new: Floats,
        rows: exact.CellRows,
        first: int,
        *,
        higher_is_better: bool,
    ) -> None:
        paired = exact.Paired(old, found.outcomes, higher_is_better=higher_is_better)
        n_alone = found.deltas.add(new, first_column=first, rows=rows, paired=paired)
        if n_alone:
            lone_old = np.where(np.isnan(new), old, np.nan)
            lone_new = np.where(np.isnan(old), new, np.nan)
            found.make_alone()
            found.baseline_alone.add(lone_old, first_column=first, rows=rows)
            found.candidate_alone.add(lone_new, first_column=first, rows=rows)


@dataclass(frozen=True, slots=True)
class PairTotal:
    """One metric of two models on the users whom both have a value of."""

    delta: exact.ExactSum
    baseline: exact.ExactSum
    candidate: exact.ExactSum
    wins: int
    ties: int
    losses: int


class Merges(Protocol):
    """What takes over its like: in any order, exactly."""

    def merge(self, other: Self, /) -> None: ...


Who = TypeVar("Who")
Sums = TypeVar("Sums", bound=Merges)


def add_to(table: dict[Who, Sums], key: Who, sums: Sums) -> None:
    """Add sums to those of a key, which become these where there are none."""
    if key in table:
        table[key].merge(sums)
    else:
        table[key] = sums


def add_all(table: dict[Who, Sums], others: Mapping[Who, Sums]) -> None:
    """Add the sums of each key to those of the same key."""
    for key, sums in others.items():
        add_to(table, key, sums)


def pool(table: dict[tuple[Segment, Who], Sums], pooled: Mapping[Segment, Segment]) -> None:
    """Put the sums of some segments together as those of others."""
    for segment, who in [key for key in table if key[0] in pooled]:
        add_to(table, (pooled[segment], who), table.pop((segment, who)))


@dataclass(slots=True)
class Lacking:
    """What shares of the users add to segments of items that they have no items of.

    Args:
        n_users: who count, though nothing is relevant to them.
        models, pairs: sums over these users, one column a request.
    """

    n_users: int = 0
    models: dict[str, exact.ExactSums] = field(default_factory=dict)
    pairs: dict[Pair, PairSums] = field(default_factory=dict)

    def take(self, totals: Totals, columns: Ints) -> None:
        """Take over sums of one cell; `columns` are those that each request stands in."""
        for name, sums in totals.models.items():
            add_to(self.models, name, sums.take(columns))
        for pair, found in totals.pairs.items():
            add_to(self.pairs, pair, found.take(columns))

    def merge(self, other: "Lacking") -> None:
        """Take over what other shares of the users add."""
        self.n_users += other.n_users
        add_all(self.models, other.models)
        add_all(self.pairs, other.pairs)


@dataclass(slots=True)
class GrandTotals:
    """Sums of all shares of the users, by segment.

    Args:
        models: of each segment and model, one column a request.
        pairs: of each segment and pair.
        users: how many users of a segment count.
        keys: what segments are put in order by.
        names: of segmentations, in their order; others follow as they are noted.
        pooled: segments that were too small, and what they went into.
        lacking: by the segments of items that shares have, what they add to all others.
        extra: users of a segment whom the truth lacks, and metrics of lists alone count.
    """

    models: dict[tuple[Segment, str], exact.ExactSums] = field(default_factory=dict)
    pairs: dict[tuple[Segment, Pair], PairSums] = field(default_factory=dict)
    users: dict[Segment, int] = field(default_factory=dict)
    keys: dict[Segment, SortKey] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    pooled: dict[Segment, Segment] = field(default_factory=dict)
    lacking: dict[frozenset[Segment], Lacking] = field(default_factory=dict)
    extra: dict[Segment, int] = field(default_factory=dict)

    def merge(self, other: "GrandTotals") -> None:
        """Take over the sums of other users."""
        self.names |= other.names
        for segment, n_extra in other.extra.items():
            self.extra[segment] = self.extra.get(segment, 0) + n_extra
        for segment, n_users in other.users.items():
            self.note_segment(segment, other.keys[segment], n_users)
        add_all(self.models, other.models)
        add_all(self.pairs, other.pairs)
        add_all(self.lacking, other.lacking)

    def note_users(self, segmentations: Sequence[UserSegments], counted: Flags) -> None:
        """Count the users of every segment, of one share."""
        for segmentation in segmentations:
            groups = segmentation.groups
            found = np.bincount(groups.codes[counted], minlength=len(groups.labels))
            for label, key, n_users in zip(groups.labels, groups.keys, found, strict=True):
                self.note_segment((segmentation.name, label), key, int(n_users))

    def note_extra(self, segmentations: Sequence[UserSegments], extra: Flags) -> None:
        """Count the users of every segment whom metrics of lists alone count, of one share."""
        self.extra[ALL] = int(extra.sum())
        for segmentation in segmentations:
            groups = segmentation.groups
            found = np.bincount(groups.codes[extra], minlength=len(groups.labels))
            named = [(segmentation.name, label) for label in groups.labels]
            self.extra |= dict(zip(named, map(int, found), strict=True))

    def note_segment(self, segment: Segment, key: SortKey, n_users: int) -> None:
        """Count the users of one segment, of one share."""
        self.names[segment[0]] = None
        self.keys[segment] = key
        self.users[segment] = self.users.get(segment, 0) + n_users

    @property
    def n_segments(self) -> dict[str, int]:
        """How many segments of each segmentation were noted, also those that no user counts in."""
        return Counter(name for name, _ in self.users)

    @property
    def segments(self) -> list[Segment]:
        """All users, then every segment with users, in order."""
        with_users = [segment for segment, n_users in self.users.items() if n_users]
        by_name = {name: place for place, name in enumerate(self.names)}
        return [ALL, *sorted(with_users, key=lambda each: (by_name[each[0]], self.keys[each]))]

    def take(
        self,
        totals: Totals,
        segments: Mapping[Segment, Ints],
        columns: Ints,
        *,
        is_last: bool = False,
    ) -> None:
        """Take over a share's sums.

        Args:
            segments: the cells of each segment, ALL among them in one set of cells.
            columns: the column of the totals that each request stands in.
            is_last: nobody needs the totals again: they are given back one after the other.
        """
        for name in list(totals.models):
            sums = totals.models.pop(name) if is_last else totals.models[name]
            over_each = sums.over_each([*segments.values()], columns)
            for segment, over in zip(segments, over_each, strict=True):
                add_to(self.models, (segment, name), over)
        for pair in list(totals.pairs):
            found = totals.pairs.pop(pair) if is_last else totals.pairs[pair]
            pairs_over_each = found.over_each([*segments.values()], columns)
            for segment, pair_over in zip(segments, pairs_over_each, strict=True):
                add_to(self.pairs, (segment, pair), pair_over)

    def complete(self) -> None:
        """Add to each segment of items the users of shares without such an item."""
        everywhere = frozenset[Segment]().union(*self.lacking)
        for has, lacking in self.lacking.items():
            for segment in everywhere - has:
                self.note_segment(segment, self.keys[segment], lacking.n_users)
                for name, sums in lacking.models.items():
                    add_to(self.models, (segment, name), sums.over(np.arange(1)))
                for pair, found in lacking.pairs.items():
                    add_to(self.pairs, (segment, pair), found.over(np.arange(1)))

    def pool_small(self, min_users: int) -> None:
        """Put the segments of a segmentation that have too few users together as one."""
        small: dict[str, list[Segment]] = {name: [] for name in self.names}
        for segment, n_users in self.users.items():
            if 0 < n_users < min_users:
                small[segment[0]].append(segment)
        for name, segments in small.items():
            if segments:
                into = (name, SMALL)
                self.users[into] = sum(self.users.pop(segment) for segment in segments)
                self.extra[into] = sum(self.extra.get(segment, 0) for segment in segments)
                self.keys[into] = SMALL_KEY
                self.pooled.update(dict.fromkeys(segments, into))
        pool(self.models, self.pooled)
        pool(self.pairs, self.pooled)

    def pair_total(self, segment: Segment, pair: Pair, column: int) -> PairTotal:
        """One column of one pair in one segment."""
        found = self.pairs[segment, pair]
        outcomes = found.outcomes[0, column]
        baseline = self.models[segment, pair[0]].sum_of(column)
        candidate = self.models[segment, pair[1]].sum_of(column)
        if found.has_alone:
            baseline = baseline.without(found.baseline_alone.sum_of(column))
            candidate = candidate.without(found.candidate_alone.sum_of(column))
        return PairTotal(
            found.deltas.sum_of(column),
            baseline,
            candidate,
            int(outcomes[exact.WINS]),
            int(outcomes[exact.TIES]),
            int(outcomes[exact.LOSSES]),
        )
