"""Weighted means, and means over users of whom several belong to one cluster.

Both are ratios: of sums of weight times value, and of weights. What varies is the cluster, be it
one user. A second pass over the values, made where it is asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias, TypeVar

import numpy as np

from evalkit.aggregate.accumulators.kept import UserRows
from evalkit.aggregate.segments import ALL, Segment
from evalkit.aggregate.sums import Pair, add_all, pool
from evalkit.aggregate.user_values.blocks import USERS_A_BLOCK, BlockValues, stack_columns
from evalkit.kernels.arrays import Floats, Int32s, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.statistics.exact import CellRows, ExactSums, sums_of_runs
from evalkit.statistics.ratios import N_TERMS, RatioSum, terms_of

Target: TypeAlias = str | Pair
OfPair: TypeAlias = tuple[Pair, str]  # a model, on the users of both
Who = TypeVar("Who", str | Pair, OfPair)


@dataclass(slots=True)
class Ratios:
    """Sums over clusters of every model and pair, by segment.

    Args:
        sums: of each segment and target, `N_TERMS` columns a request.
        common: of each model of a pair over the users whom both have a value of, in all segments;
            none of a pair where these are all users.
        cut: segments that were put together of parts of clusters.
    """

    sums: dict[tuple[Segment, Target], ExactSums] = field(default_factory=dict)
    common: dict[tuple[Segment, OfPair], ExactSums] = field(default_factory=dict)
    cut: set[Segment] = field(default_factory=set)

    def add(
        self,
        known: UserRows,
        users: BlockValues,
        models: Sequence[str],
        pairs: Sequence[Pair],
        threads: int,
    ) -> None:
        """Add some of the users, who hold every cluster whole; `users` are their values."""
        apart: set[Pair] = set()

        def values_of(target: Target | OfPair, measured: Mapping[str, Floats]) -> Floats:
            if isinstance(target, str):
                return measured[target]
            first, second = target
            if isinstance(first, str):
                old, new = measured[first], measured[second]
                if (np.isnan(old) != np.isnan(new)).any():
                    apart.add((first, second))
                return new - old
            either = np.isnan(measured[first[0]]) | np.isnan(measured[first[1]])
            return np.where(either, np.nan, measured[second])

        found = Ratios(_sums_of(known, users, [*models, *pairs], values_of, threads))
        sides = [(pair, model) for pair in pairs if pair in apart for model in pair]
        if sides:
            found.common = _sums_of(known, users, sides, values_of, threads)
        self.merge(found)

    def merge(self, other: "Ratios") -> None:
        """Take over the sums of other users."""
        for pair in dict.fromkeys(pair for _, (pair, _) in (*self.common, *other.common)):
            for side in (self, other):
                side._note_common(pair)
        add_all(self.common, other.common)
        add_all(self.sums, other.sums)

    def _note_common(self, pair: Pair) -> None:
        """Let a pair have sums of its own, which are those of its models."""
        for (segment, target), _ in list(self.sums.items()):
            if target == pair:
                for model in pair:
                    own = self.sums[segment, model]
                    self.common.setdefault((segment, (pair, model)), own.over(np.array([0])))

    def pool(self, pooled: Mapping[Segment, Segment], *, in_clusters: bool) -> None:
        """Put segments together as the sums were; a cluster may be in several of them."""
        if in_clusters:
            self.cut |= set(pooled.values())
        pool(self.sums, pooled)
        pool(self.common, pooled)

    def total(self, segment: Segment, target: Target, column: int) -> RatioSum | None:
        """One request of one target in one segment; None where there is none."""
        return self._ratio(self.sums.get((segment, target)), segment, column)

    def _ratio(self, found: ExactSums | None, segment: Segment, column: int) -> RatioSum | None:
        if found is None:
            return None
        return RatioSum.of(found, column, is_whole=segment not in self.cut)

    def of_pair(
        self, segment: Segment, pair: Pair, column: int
    ) -> tuple[RatioSum, RatioSum, RatioSum] | None:
        """The difference of two models, and each on the users of both; None where there is none."""
        delta = self.total(segment, pair, column)
        one, other = (
            self._ratio(self.common.get((segment, (pair, each))), segment, column)
            or self.total(segment, each, column)
            for each in pair
        )
        return None if delta is None or one is None or other is None else (delta, one, other)

    def users_without_values(self, segment: Segment, pair: Pair, column: int) -> int | None:
        """None: users have values."""
        return None

    def users_carrying(self, segment: Segment, pair: Pair, column: int) -> float:
        """All of them may."""
        return np.inf


def _sums_of(
    known: UserRows,
    users: BlockValues,
    targets: Sequence[Who],
    values_of: Callable[[Who, Mapping[str, Floats]], Floats],
    threads: int,
) -> dict[tuple[Segment, Who], ExactSums]:
    """Sums over the clusters of these users, by segment and target."""
    keys, weights, clusters = known.keys, known.weights, known.clusters
    everyone = np.zeros(keys.size, dtype=np.int32)
    groupings: list[tuple[str, Int32s, tuple[str, ...]]] = [("", everyone, (ALL[1],))]
    groupings += [(each.name, each.groups.codes, each.groups.labels) for each in known.segments]
    sums = {
        (target, name): ExactSums(N_TERMS * users.columns.size, len(labels))
        for target in targets
        for name, _, labels in groupings
    }
    locks = {key: Lock() for key in sums}

    def work(block: Ints) -> None:
        measured = {name: stack_columns(users, each) for name, each in users.measure(block).items()}
        for target in targets:
            values = values_of(target, measured)
            for name, codes, labels in groupings:
                rows, segments = _by_cluster(values, weights[block], clusters[block], codes[block])
                with locks[target, name]:
                    cells = CellRows.of(segments, len(labels))
                    sums[target, name].add(rows, rows=cells)

    order = np.lexsort((keys, clusters))
    table: dict[tuple[Segment, Who], ExactSums] = {}
    for _ in ordered_map(work, _whole_clusters(order, clusters), threads=threads):
        pass
    for (target, name), found in sums.items():
        _, codes, labels = next(each for each in groupings if each[0] == name)
        for code in np.unique(codes).tolist():
            segment = ALL if name == "" else (name, labels[code])
            table[segment, target] = found.over(np.array([code]))
    return table


def _by_cluster(
    values: Floats, weights: Floats, clusters: Keys, codes: Int32s
) -> tuple[Floats, Int32s]:
    """The terms of each cluster and segment, and its segment.

    NaN where nobody of the cluster has a value.
    """
    if values.shape[0] == 0:
        return np.empty((0, N_TERMS * values.shape[1])), np.empty(0, dtype=np.int32)
    local = np.cumsum(np.concatenate(([0], clusters[1:] != clusters[:-1])))
    order = np.lexsort((np.arange(codes.size), codes, local))
    groups = np.stack([local[order], codes[order]])
    firsts = np.flatnonzero(np.concatenate(([True], (groups[:, 1:] != groups[:, :-1]).any(axis=0))))
    known = ~np.isnan(values[order])
    weight = np.where(known, weights[order, None], 0.0)
    value = np.where(known, values[order], 0.0) * weight
    sums, totals = sums_of_runs(value, firsts), sums_of_runs(weight, firsts)
    absent = ~np.logical_or.reduceat(known, firsts, axis=0)
    sums[absent] = totals[absent] = np.nan
    return terms_of(sums, totals), codes[order][firsts]


def _whole_clusters(order: Ints, clusters: Keys) -> Iterator[Ints]:
    """Blocks of users in which every cluster is whole."""
    by_cluster = clusters[order]
    begin = 0
    while begin < order.size:
        end = min(begin + USERS_A_BLOCK, order.size)
        if end < order.size:
            end = int(np.searchsorted(by_cluster, by_cluster[end - 1], side="right"))
        yield order[begin:end]
        begin = end
