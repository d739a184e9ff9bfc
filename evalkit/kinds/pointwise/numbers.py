"""Numbers of one model, with their limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from evalkit.aggregate.segments import ALL, Segment
from evalkit.kinds.pointwise.means import WeightedMean
from evalkit.metrics import Request, is_plain_mean
from evalkit.report import Estimate
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from evalkit.statistics.means import gate_interval, gate_interval_of, interval_of
from evalkit.statistics.ratios import RatioSum


@dataclass(frozen=True, slots=True)
class RowNumber:
    """One number of one model.

    Args:
        n_users: users, or sessions, that it stands on.
        n_undefined: those without a value.
        n_clusters, df: clusters and degrees of freedom, where users vary together.
        gate: limits that gates go by, where nobody knows how far a value can lie.
        n_carrying: users who carry it, where only rows of some do; infinite where all may.
    """

    value: float
    std_error: float | None
    interval: Interval
    n_users: int
    n_undefined: int = 0
    n_clusters: int | None = None
    df: float | None = None
    gate: Interval = NO_INTERVAL
    n_carrying: float = np.inf

    @classmethod
    def of_mean(cls, request: Request, mean: WeightedMean, *, level: float) -> "RowNumber":
        """A mean over users; limits of plain means as those of rankings."""
        value, error, n_users = mean.value, mean.std_error, mean.n_defined
        interval = mean_interval(value, error, n_users, level=level)
        if is_plain_mean(request) and error is not None:
            total, skewness = mean.sums.sum_of(0), mean.sums.skewness_of(0)
            interval = interval_of(total, skewness, request.metric.bounds, level=level)
            gate = gate_interval_of(interval, mean.sums, 0, level=level)
            return cls(value, error, interval, n_users, mean.n_undefined, gate=gate)
        return cls(value, error, interval, n_users, mean.n_undefined)

    @classmethod
    def of_rows(
        cls,
        value: float,
        std_error: float | None,
        n_users: int,
        *,
        level: float,
        skewness: float = np.nan,
    ) -> "RowNumber":
        """A number over all rows, users drawn at random, who move it with this skewness."""
        if not np.isfinite(value):
            std_error = None
        interval = mean_interval(value, std_error, n_users, level=level)
        gate = gate_interval(interval, value, std_error, n_users, level=level, skewness=skewness)
        return cls(value, std_error, interval, n_users, gate=gate)

    def with_limits(self, limits: Callable[[float], tuple[float, float]] | None) -> "RowNumber":
        """A quantile with its own limits, of whose share the error is; it has none itself."""
        reach = (self.interval.high - self.interval.low) / 2.0
        exists = limits is not None and self.interval.exists and np.isfinite(self.value)
        found = Interval(*limits(reach)) if exists and limits is not None else NO_INTERVAL
        return replace(self, std_error=None, interval=found, gate=NO_INTERVAL)

    def with_error(self, spread: RatioSum, *, is_mean: bool, level: float) -> "RowNumber":
        """The same number with another error, which stands on clusters of users."""
        error, n, df = spread.std_error, spread.count, spread.df
        skewness = spread.skewness if is_mean else np.nan
        interval = mean_interval(
            self.value, error, n, level=level, skewness=skewness, df=df, only_wider=True
        )
        gate = gate_interval(
            interval, self.value, error, n, level=level, skewness=spread.skewness, df=df
        )
        return replace(self, std_error=error, interval=interval, n_clusters=n, df=df, gate=gate)

    def estimate(
        self, model: str, request: Request, segment: Segment, policies: Mapping[str, str | float]
    ) -> Estimate:
        """The number as the report has it; `policies` are those other than the defaults."""
        bounds = request.metric.bounds
        limits, gate = self.interval.within(bounds), self.gate.within(bounds)
        is_open = np.isinf(bounds[1] - bounds[0])
        is_open |= np.isfinite(self.n_carrying) and self.n_clusters is None
        is_wider = is_open and gate.exists and gate != limits
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
            low_gate=gate.low if is_wider else None,
            high_gate=gate.high if is_wider else None,
            policies=policies,
            higher_is_better=request.metric.higher_is_better,
        )


NO_NUMBER = RowNumber(np.nan, None, NO_INTERVAL, 0)
