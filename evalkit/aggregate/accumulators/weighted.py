"""Weighted means, and means over users of whom several belong to one cluster.

Both are ratios: of sums of weight times value, and of weights. What varies is the cluster, be it
one user. A second pass over the values, made where it is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.accumulators.kept import UserRows
from evalkit.aggregate.segments import ALL, Segment
from evalkit.aggregate.sums import Pair, add_all, add_to, pool
from evalkit.aggregate.user_values.blocks import USERS_A_BLOCK, BlockValues, Values, stack_columns
from evalkit.kernels.threads import ordered_map
from evalkit.statistics.exact import CellRows, ExactSums
from evalkit.statistics.ratios import N_TERMS, RatioSum, terms_of

Target: TypeAlias = str | Pair


@dataclass(slots=True)
class Ratios:
    """Sums over clusters of every model and pair, by segment.

    Args:
        sums: of each segment and target, `N_TERMS` columns a request.
        cut: segments that were put together of parts of clusters.
    """

    sums: dict[tuple[Segment, Target], ExactSums] = field(default_factory=dict)
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
        keys, weights, clusters = known.keys, known.weights, known.clusters
        targets: list[Target] = [*models, *pairs]
        everyone = np.zeros(keys.size, dtype=np.int32)
        groupings: list[tuple[str, npt.NDArray[np.int32], tuple[str, ...]]] = [
            ("", everyone, (ALL[1],))
        ]
        groupings += [(each.name, each.groups.codes, each.groups.labels) for each in known.segments]
        sums = {
            (target, name): ExactSums(N_TERMS * users.columns.size, len(labels))
            for target in targets
            for name, _, labels in groupings
        }
        locks = {key: Lock() for key in sums}

        def work(block: npt.NDArray[np.int64]) -> None:
            measured = {
                name: stack_columns(users, each) for name, each in users.measure(block).items()
            }
            for target in targets:
                values = (
                    measured[target]
                    if isinstance(target, str)
                    else measured[target[1]] - measured[target[0]]
                )
                for name, codes, labels in groupings:
                    rows, segments = _by_cluster(
                        values, weights[block], clusters[block], codes[block]
                    )
                    with locks[target, name]:
                        cells = CellRows.of(segments, len(labels))
                        sums[target, name].add(rows, rows=cells)

        order = np.lexsort((keys, clusters))
        for _ in ordered_map(work, _whole_clusters(order, clusters), threads=threads):
            pass
        for (target, name), found in sums.items():
            _, codes, labels = next(each for each in groupings if each[0] == name)
            for code in np.unique(codes).tolist():
                segment = ALL if name == "" else (name, labels[code])
                add_to(self.sums, (segment, target), found.over(np.array([code])))

    def merge(self, other: "Ratios") -> None:
        """Take over the sums of other users."""
        add_all(self.sums, other.sums)

    def pool(self, pooled: Mapping[Segment, Segment], *, in_clusters: bool) -> None:
        """Put segments together as the sums were; a cluster may be in several of them."""
        if in_clusters:
            self.cut |= set(pooled.values())
        pool(self.sums, pooled)

    def total(self, segment: Segment, target: Target, column: int) -> RatioSum | None:
        """One request of one target in one segment; None where there is none."""
        found = self.sums.get((segment, target))
        if found is None:
            return None
        return RatioSum.of(found, column, is_whole=segment not in self.cut)

    def of_pair(
        self, segment: Segment, pair: Pair, column: int
    ) -> tuple[RatioSum, RatioSum, RatioSum] | None:
        """The difference of two models, and each of both; None where there is none."""
        delta, one, other = (self.total(segment, each, column) for each in (pair, *pair))
        return None if delta is None or one is None or other is None else (delta, one, other)

    def users_without_values(self, segment: Segment, pair: Pair, column: int) -> int | None:
        """None: users have values."""
        return None


def _by_cluster(
    values: Values, weights: Values, clusters: npt.NDArray[np.uint64], codes: npt.NDArray[np.int32]
) -> tuple[Values, npt.NDArray[np.int32]]:
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
    sums = np.add.reduceat(value, firsts, axis=0)
    totals = np.add.reduceat(weight, firsts, axis=0)
    absent = ~np.logical_or.reduceat(known, firsts, axis=0)
    sums[absent] = totals[absent] = np.nan
    return terms_of(sums, totals), codes[order][firsts]


def _whole_clusters(
    order: npt.NDArray[np.int64], clusters: npt.NDArray[np.uint64]
) -> Iterator[npt.NDArray[np.int64]]:
    """Blocks of users in which every cluster is whole."""
    by_cluster = clusters[order]
    begin = 0
    while begin < order.size:
        end = min(begin + USERS_A_BLOCK, order.size)
        if end < order.size:
            end = int(np.searchsorted(by_cluster, by_cluster[end - 1], side="right"))
        yield order[begin:end]
        begin = end
