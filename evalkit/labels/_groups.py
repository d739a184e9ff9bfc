"""Metrics of each user, or of each session, and their averages."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.keys import KeyCollisionError
from evalkit.labels._kernels import add_up_influence
from evalkit.metrics import Request, kernel
from evalkit.rows import Grouping, Store, WeightedMean, number_groups, sort_rows, values_of
from evalkit.threads import ordered_map

Floats = npt.NDArray[np.float64]


@kernel(allocates=False)
def add_up_weights(starts, labels, weights, rows, positives):  # type: ignore[no-untyped-def]
    """The weight of each group's rows, and of those with label 1."""
    for group in range(rows.size):
        total = good = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += weights[row]
            if labels[row] != 0:
                good += weights[row]
        rows[group] = total
        positives[group] = good


@dataclass(frozen=True, slots=True)
class Placements:
    """What a row adds to the AUC over all rows, less its mean, by the leading bits of its score.

    The influence of a user is the sum over its rows; users are drawn at random, so the variance
    of the AUC is that of their sum (DeLong 1988, Obuchowski 1997 for clustered data).

    Args:
        least, shift: of the cells, as in `Leading`.
        influence: float64[n_cells, 2], of rows with label 0 and 1.
    """

    least: int
    shift: int
    influence: Floats


@dataclass(slots=True)
class GroupResults:
    """Means over the groups of one kind, one a request, and how many groups there are."""

    means: list[WeightedMean]
    clusters: list[WeightedMean]  # of requests over rows, for their standard errors
    n_groups: int = 0
    most_rows: int = 0
    influence: WeightedMean = field(default_factory=WeightedMean)

    @property
    def auc_error(self) -> float | None:
        """Standard error of the AUC over all rows, clustered by group; None where unknown."""
        error = self.influence.std_error
        return None if error is None else error * self.influence.n_defined

    def merge(self, other: "GroupResults") -> None:
        """Take over the results of other groups."""
        for mine, theirs in ((self.means, other.means), (self.clusters, other.clusters)):
            for one, more in zip(mine, theirs, strict=True):
                one.merge(more)
        self.influence.merge(other.influence)
        self.n_groups += other.n_groups
        self.most_rows = max(self.most_rows, other.most_rows)


def measure_groups(
    store: Store,
    grouping: Grouping,
    requests: Sequence[Request],
    clustered: Sequence[Request],
    *,
    placements: Placements | None = None,
    threads: int,
) -> GroupResults:
    """Means over groups; `clustered` requests are weighted by rows, for the error of the whole.

    Args:
        placements: for the standard error of the AUC over all rows.

    Raises:
        KeyCollisionError: two ids share a key.
    """
    weighted = "weight" in store.dtypes
    names = ["score", "label", *(["weight"] if weighted else [])]

    def work(part: int) -> GroupResults:
        keys = store.part(part, [grouping.key])[0]
        checks = store.part(part, [grouping.check])[0] if grouping.check is not None else None
        groups = number_groups(keys, checks)
        if groups is None:
            raise KeyCollisionError
        results = GroupResults(
            [WeightedMean() for _ in requests], [WeightedMean() for _ in clustered], groups.n_groups
        )
        if not keys.size:
            return results
        if not requests and not clustered and placements is None:
            results.most_rows = int(np.bincount(groups.numbers).max())
            return results
        starts, columns = sort_rows(groups, store.part(part, names))
        scores, labels = values_of(~columns[0]), columns[1]
        weights = values_of(columns[2]) if weighted else np.ones(scores.size)
        results.most_rows = int(np.diff(starts).max())
        rows, positives = np.empty(groups.n_groups), np.empty(groups.n_groups)
        add_up_weights(starts, labels, weights, rows, positives)
        by = {"equal": np.ones(rows.size), "impressions": rows, "positives": positives}
        known: dict[object, Floats] = {}

        def measure(request: Request) -> Floats:
            asked = (request.metric.name, request.encoded[2:])  # over and weighting stand first
            if asked not in known:
                values = np.empty(groups.n_groups)
                request.metric.kernel(starts, scores, labels, weights, *request.encoded, values)
                known[asked] = values
            return known[asked]

        if placements is not None:
            sums = np.empty(groups.n_groups)
            first, shift = np.uint64(placements.least), np.uint64(placements.shift)
            add_up_influence(starts, columns[0], labels, first, shift, placements.influence, sums)
            results.influence.add(sums, np.ones(sums.size))
        for request, mean in zip(requests, results.means, strict=True):
            mean.add(measure(request), by[str(dict(request.parameters)["weighting"])])
        for request, mean in zip(clustered, results.clusters, strict=True):
            mean.add(measure(request), rows)
        return results

    parts = ordered_map(work, range(store.n_parts), threads=threads)
    total = next(parts)
    for part in parts:
        total.merge(part)
    return total
