"""Numbers of one model, with their limits, and the users' values that comparisons take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evalkit.ids import Keys
from evalkit.metrics import Request, Smooth, is_plain_mean
from evalkit.report import Estimate
from evalkit.rows.means import WeightedMean
from evalkit.rows.spread import Floats, TermSums
from evalkit.segments import ALL, Segment
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from evalkit.statistics.means import interval_of
from evalkit.statistics.ratios import RatioSum


@dataclass(frozen=True, slots=True)
class Number:
    """One number of one model.

    Args:
        n_users: users, or sessions, that it stands on.
        n_undefined: those without a value.
        n_clusters, df: clusters and degrees of freedom, where users vary together.
    """

    value: float
    std_error: float | None
    interval: Interval
    n_users: int
    n_undefined: int = 0
    n_clusters: int | None = None
    df: float | None = None

    @classmethod
    def of_mean(cls, request: Request, mean: WeightedMean, *, level: float) -> "Number":
        """A mean over users; limits of plain means as those of rankings."""
        value, error, n_users = mean.value, mean.std_error, mean.n_defined
        interval = mean_interval(value, error, n_users, level=level)
        if is_plain_mean(request) and error is not None:
            total, skewness = mean.sums.sum_of(0), mean.sums.skewness_of(0)
            interval = interval_of(total, skewness, request.metric.bounds, level=level)
        return cls(value, error, interval, n_users, mean.n_undefined)

    @classmethod
    def of_rows(
        cls, value: float, std_error: float | None, n_users: int, *, level: float
    ) -> "Number":
        """A number over all rows, users drawn at random."""
        if not np.isfinite(value):
            std_error = None
        interval = mean_interval(value, std_error, n_users, level=level)
        return cls(value, std_error, interval, n_users)

    def with_error(self, spread: RatioSum, *, is_mean: bool, level: float) -> "Number":
        """The same number with another error, which stands on clusters of users."""
        error, n, df = spread.std_error, spread.count, spread.df
        skewness = spread.skewness if is_mean else np.nan
        interval = mean_interval(
            self.value, error, n, level=level, skewness=skewness, df=df, only_wider=True
        )
        return replace(self, std_error=error, interval=interval, n_clusters=n, df=df)

    def estimate(
        self,
        model: str,
        request: Request,
        segment: Segment,
        policies: Mapping[str, str | float],
    ) -> Estimate:
        """The number as the report has it; `policies` are those other than the defaults."""
        limits = self.interval.within(request.metric.bounds)
        return Estimate(
            model=model,
            metric=request.label,
            name=request.metric.name,
            cutoff=None,
            parameters=dict(request.parameters),
            segmentation=None if segment == ALL else segment[0],
            segment=None if segment == ALL else segment[1],
            value=self.value,
            low=limits.low if limits.exists else None,
            high=limits.high if limits.exists else None,
            std_error=self.std_error,
            n_users=self.n_users,
            n_undefined=self.n_undefined,
            n_clusters=self.n_clusters,
            df=self.df,
            policies=policies,
            higher_is_better=request.metric.higher_is_better,
        )


NO_NUMBER = Number(np.nan, None, NO_INTERVAL, 0)


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

    numbers: list[Number]
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
            if not is_plain_mean(request):
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
