"""Values of units, users or sessions, in columns: what they add up to, and what is read of that.

Rows of ratings and of labels become values of their users, or sessions, part by part; these become
exact sums, which those of other units merge into; and numbers with their errors are read of sums.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from evalkit.kernels.arrays import Floats, Ints, Keys
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.means import WeightedMean
from evalkit.kinds.pointwise.numbers import RowNumber
from evalkit.kinds.pointwise.spread import TermSums
from evalkit.metrics import Request, Smooth, is_ordered, is_plain_mean, over
from evalkit.statistics.exact import ExactSums


@dataclass(frozen=True, slots=True)
class UserColumns:
    """A column of users, or of sessions, for each of some requests.

    Args:
        keys: of the users, ascending.
        values: float64[n_users, n_requests]; of plain means the users' values, NaN where
            undefined, of others their influence, NaN where it is not known.
    """

    keys: Keys
    values: Floats


@dataclass(slots=True)
class Measured:
    """What the rows of one model give, of all users or of a segment's.

    Args:
        numbers: one a request.
        n_users: users who have rows.
        columns: of users and of sessions, where they are needed.
    """

    numbers: list[RowNumber]
    n_users: int
    columns: Mapping[str, UserColumns] = field(default_factory=dict)


@dataclass(slots=True)
class KeptParts:
    """What `UserColumns` are made of once all sums are known, part by part.

    Args:
        keys: of each part's users.
        values: float64[n_users, n_means], of requests over users.
        weights: how much each of these values counts.
        terms: float64[n_users, n_terms], for numbers over all rows.
    """

    keys: list[Keys] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    terms: list[Floats] = field(default_factory=list)

    def add(self, keys: Keys, values: Floats, weights: Floats, terms: Floats) -> None:
        """One part of the users."""
        self.keys.append(keys)
        self.values.append(values)
        self.weights.append(weights)
        self.terms.append(terms)

    def merge(self, other: "KeptParts") -> None:
        """Take over the parts of other users."""
        self.keys += other.keys
        self.values += other.values
        self.weights += other.weights
        self.terms += other.terms

    def columns(
        self,
        means: Sequence[tuple[Request, WeightedMean]],
        spread: TermSums,
        numbers: Sequence[Smooth | None],
    ) -> UserColumns:
        """Columns of the requests over users, then of the numbers over all rows."""
        if not self.keys:
            return UserColumns(
                np.empty(0, dtype=np.uint64), np.empty((0, len(means) + len(numbers)))
            )
        keys = np.concatenate(self.keys)
        order = np.argsort(keys)
        values, weights = np.concatenate(self.values), np.concatenate(self.weights)
        terms = np.concatenate(self.terms)
        found = np.full((keys.size, len(means) + len(numbers)), np.nan)
        for place, (request, mean) in enumerate(means):
            found[:, place] = values[:, place]
            if not (is_plain_mean(request) or is_ordered(request)):
                found[:, place] = _influence(values[:, place], weights[:, place], mean)
        for place, number in enumerate(numbers, len(means)):
            influences = None if number is None else spread.influences(number, terms)
            if influences is not None:
                found[:, place] = influences
        return UserColumns(keys[order], found[order])


def _influence(values: Floats, weights: Floats, mean: WeightedMean) -> Floats:
    """What each user moves a weighted mean by; NaN where it has no value."""
    total = mean.sums.sum_of(2).total
    if mean.n_infinite or not total:
        return np.full(values.size, np.nan)
    counted = ~np.isnan(values)
    found: Floats = np.where(counted, weights * (values - mean.value) / total, np.nan)
    return found


@dataclass(slots=True)
class UnitSums:
    """What units of one kind add up to.

    Args:
        means: one a request over these units.
        spread: what standard errors of numbers over all rows are made of.
        kept: values of the units, where somebody needs them.
        most_rows: of one unit.
        n_of_labels: units with a row of label 0, and of label 1, where areas are asked for.
    """

    means: list[WeightedMean]
    spread: TermSums
    kept: KeptParts = field(default_factory=KeptParts)
    n_units: int = 0
    most_rows: int = 0
    n_of_labels: Ints | None = None

    @classmethod
    def of(cls, requests: Sequence[Request], smooth: Mapping[Request, Smooth]) -> "UnitSums":
        """Of no unit: means of some requests, and errors of some over all rows.

        How their users lean is asked of those without a bound.
        """
        leaning = [
            own for each, own in smooth.items() if not all(map(math.isfinite, each.metric.bounds))
        ]
        spread = TermSums([*smooth.values()], leaning=leaning)
        return cls([WeightedMean() for _ in requests], spread)

    def count(self, n_units: int, most_rows: int) -> None:
        """Some units more, of which one has so many rows."""
        self.n_units += n_units
        self.most_rows = max(self.most_rows, most_rows)

    def count_labels(self, n_of_labels: Ints | None) -> None:
        """Units that have rows of each label, some more."""
        if n_of_labels is not None:
            self.n_of_labels = n_of_labels + (0 if self.n_of_labels is None else self.n_of_labels)

    def add(
        self,
        keys: Keys,
        values: Sequence[Floats],
        weights: Sequence[Floats],
        terms: Floats,
        *,
        keep: bool,
    ) -> None:
        """Add units that were counted.

        Args:
            values: of each request over them float64[n_units], NaN where undefined.
            weights: how much these count.
            terms: float64[n_units, n_terms], for numbers over all rows.
            keep: the values too.
        """
        for mean, value, weight in zip(self.means, values, weights, strict=True):
            mean.add(value, weight)
        self.spread.add(terms)
        if keep:
            self.kept.add(keys, _stacked(values, keys.size), _stacked(weights, keys.size), terms)

    def merge(self, other: "UnitSums") -> None:
        """Take over what other units add up to."""
        for mine, theirs in zip(self.means, other.means, strict=True):
            mine.merge(theirs)
        self.spread.merge(other.spread)
        self.kept.merge(other.kept)
        self.count(other.n_units, other.most_rows)
        self.count_labels(other.n_of_labels)


@dataclass(slots=True)
class DrawnSums:
    """What pictures are made of: counts between edges, and sums by bin.

    Args:
        edges: of counts, and of bins.
        spreads: of each bin, what its interval is made of.
    """

    edges: tuple[Floats, Floats]
    counts: Ints
    sums: ExactSums
    spreads: list[ExactSums]

    def merge(self, other: "DrawnSums") -> None:
        """Take over those of other users, between the same edges."""
        self.counts = self.counts + other.counts
        self.sums.merge(other.sums)
        for mine, theirs in zip(self.spreads, other.spreads, strict=True):
            mine.merge(theirs)


@dataclass(slots=True)
class RowSums:
    """What numbers over all rows are made of.

    Args:
        sums: over rows.
        ends: float64[2, n_sums], the lowest and the highest value of each.
        spread: what their standard errors are made of, over users.
        drawn: of all users; None of a segment.
    """

    n_rows: int
    sums: ExactSums
    ends: Floats
    spread: ExactSums
    drawn: DrawnSums | None = None

    def merge(self, other: "RowSums") -> None:
        """Take over those of other users."""
        self.n_rows += other.n_rows
        self.sums.merge(other.sums)
        self.ends = np.stack(
            [np.fmin(self.ends[0], other.ends[0]), np.fmax(self.ends[1], other.ends[1])]
        )
        self.spread.merge(other.spread)
        if self.drawn is not None and other.drawn is not None:
            self.drawn.merge(other.drawn)


def _stacked(columns: Sequence[Floats], n_rows: int) -> Floats:
    return np.stack(columns, axis=1) if columns else np.empty((n_rows, 0))


def measured_of(
    job: RowJob,
    by_kind: Mapping[str, UnitSums],
    value_of: Callable[[Request], float],
    smooth: Mapping[Request, Smooth],
    limits: Mapping[Request, Callable[[float], tuple[float, float]]] = MappingProxyType({}),
) -> Measured:
    """Numbers in the order of the requests, and columns of units where they are needed.

    Args:
        by_kind: of `users`, and of `sessions` where they are asked for.
        value_of: a number over all rows.
        smooth: the requests over all rows that have a standard error.
        limits: of quantiles, whose `smooth` is the share of rows up to them; none of clusters.
    """
    level, users = job.config.statistics.level, by_kind["users"]
    means = {kind: iter(sums.means) for kind, sums in by_kind.items()}
    numbers = []
    for request in job.requests:
        if over(request) != "rows":
            numbers.append(RowNumber.of_mean(request, next(means[over(request)]), level=level))
            continue
        error = users.spread.std_error(smooth[request]) if request in smooth else None
        skewness = users.spread.skewness(smooth[request]) if error else math.nan
        number = RowNumber.of_rows(
            value_of(request), error, users.n_units, level=level, skewness=skewness
        )
        if request in limits:
            is_drawn = job.config.statistics.cluster is None
            number = number.with_limits(limits[request] if is_drawn else None)
        numbers.append(number)
    if not job.keeps:
        return Measured(numbers, users.n_units)
    columns = {}
    for kind, sums in by_kind.items():
        pooled = job.over("rows") if kind == "users" else []
        own = list(zip(job.over(kind), sums.means, strict=True))
        own_smooth = [None if each in limits else smooth.get(each) for each in pooled]
        columns[kind] = sums.kept.columns(own, sums.spread, own_smooth)
    return Measured(numbers, users.n_units, columns)


def columns_of(requests: Sequence[Request], kind: str) -> list[int]:
    """Which requests have a column of users, or of sessions; those over all rows come last."""
    own = [place for place, each in enumerate(requests) if over(each) == kind]
    if kind == "users":
        own += [place for place, each in enumerate(requests) if over(each) == "rows"]
    return own
