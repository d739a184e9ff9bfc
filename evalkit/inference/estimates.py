"""Values of models with intervals, segment by segment."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalkit.aggregate.accumulators.resampling import Resampling
from evalkit.aggregate.segments import ALL, UNKNOWN, Segment
from evalkit.aggregate.sums import GrandTotals
from evalkit.aggregate.user_values.checks import differing
from evalkit.aggregate.user_values.gather import number_of_means, parts_of, rounded
from evalkit.aggregate.user_values.outcomes import EXACT, may_be_undefined, of_nobody
from evalkit.config import Config, Policies, StatisticsSection, policies_of
from evalkit.errors import DataError
from evalkit.inference.ratios import RatioTotal, RatioTotals
from evalkit.inference.summed import Summed, listed, none_if_nan
from evalkit.kernels.arrays import Floats
from evalkit.metrics import Request, bounds_of, is_gmean, is_ordered, of_counts
from evalkit.report import Estimate, Gap, Macro
from evalkit.report.frames import make_records
from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.exact import ExactSum, ExactSums, Summaries
from evalkit.statistics.intervals import Interval, mean_interval, normal_interval, wilson_interval
from evalkit.statistics.many import mean_limits, wilson_limits, within
from evalkit.statistics.means import gate_interval_of, is_share

if TYPE_CHECKING:
    from evalkit.inference.shown import ShownNumbers


def estimates_of(
    config: Config,
    measured: Sequence[Request],
    models: Sequence[str],
    summed: Summed,
    resampling: Resampling | None,
    ratios: RatioTotals | None,
    shown: "ShownNumbers | None" = None,
) -> Iterator[Estimate]:
    """The numbers of each model, segment by segment."""
    totals, n = summed.totals, summed.n_requests
    columns = [_RequestColumn.of(place, measured[place], config.policies) for place in range(n)]
    own = [each.is_mean and each.policies.round_mean == EXACT for each in columns]
    for model in models:
        found = summed.model(model)
        n_infinite = np.array(
            [totals.models[each, model].counts[:n, 2] for each in summed.segments]
        )
        is_plain = (found.counts > 0) & (n_infinite == 0) & own
        is_plain &= resampling is None and ratios is None
        means = _means(config, model, summed, columns)
        if shown is None and is_plain.all():
            yield from means
            continue
        for place, (mean, needs_no_more) in enumerate(
            zip(means, is_plain.ravel().tolist(), strict=True)
        ):
            segment, column = summed.segments[place // n], columns[place % n]
            if shown is not None and is_ordered(column.request):
                yield _ordered(mean, shown, segment, column)
            elif shown is not None and shown.has(column.request):
                yield _of_lists(mean, shown, totals, segment, column)
            elif needs_no_more:
                yield mean
            else:
                mean = _settled(mean, measured, totals, resampling, segment, column)
                if ratios is not None:
                    total = ratios.total(segment, model, column.place)
                    users = totals.models[segment, model].sum_of(column.place)
                    mean = _by_ratio(mean, total, users, config.statistics, column.bounds)
                yield mean


def with_gate_limits(
    estimates: Sequence[Estimate], requests: Sequence[Request], totals: GrandTotals, level: float
) -> Iterator[Estimate]:
    """Means of users with the limits that gates go by, where nobody knows how far values can lie.

    Args:
        estimates: neither over clusters nor with weights.
    """
    unbounded = {
        request.label: (column, bounds)
        for column, request in enumerate(requests)
        if math.isinf((bounds := bounds_of(request))[1] - bounds[0]) and not is_ordered(request)
    }
    for each in estimates:
        if each.metric in unbounded and each.low is not None and each.high is not None:
            column, bounds = unbounded[each.metric]
            segment = ALL if each.segmentation is None else (each.segmentation, each.segment or "")
            shown, sums = Interval(each.low, each.high), totals.models[segment, each.model]
            gate = gate_interval_of(shown, sums, column, level=level).within(bounds)
            if gate.exists and gate != shown:
                each = replace(each, low_gate=gate.low, high_gate=gate.high)
        yield each


@dataclass(frozen=True, slots=True)
class _RequestColumn:
    """What is the same of a request in every segment.

    Args:
        place: among the requests.
        differing: policies that are not evalkit's defaults.
        is_mean: the number is a mean of users' values.
    """

    place: int
    request: Request
    label: str
    policies: Policies
    parameters: Mapping[str, str | float]
    differing: Mapping[str, str | float]
    is_mean: bool
    bounds: tuple[float, float]

    @classmethod
    def of(cls, place: int, request: Request, policies: Policies) -> "_RequestColumn":
        own, parameters = policies_of(request, policies), request.reported
        is_mean = parts_of(request) is None
        label, bounds = request.label, bounds_of(request)
        return cls(place, request, label, own, parameters, differing(own), is_mean, bounds)


def _means(
    config: Config, model: str, summed: Summed, columns: Sequence[_RequestColumn]
) -> list[Estimate]:
    """The numbers of a model as means of users, segment by segment."""
    found, totals, level = summed.model(model), summed.totals, config.statistics.level
    n_segments, n = found.counts.shape
    low, high = _limits_of(found, np.array([each.bounds for each in columns]), level)
    extra = np.array([totals.extra.get(each, 0) for each in summed.segments])[:, None]
    extra = extra * np.array([each.request.metric.lists is None for each in columns])
    lost = [totals.models[each, model].counts[:n, 1:3].sum(axis=1) for each in summed.segments]
    named = [(None, None) if each == ALL else each for each in summed.segments]
    return make_records(
        Estimate,
        {
            "model": [model] * (n_segments * n),
            "metric": [each.label for each in columns] * n_segments,
            "name": [each.request.metric.name for each in columns] * n_segments,
            "cutoff": [each.request.cutoff for each in columns] * n_segments,
            "parameters": [each.parameters for each in columns] * n_segments,
            "value": listed(found.means),
            "n_users": found.counts.ravel().tolist(),
            "n_undefined": (np.array(lost) - extra).ravel().tolist(),
            "segmentation": [each for each, _ in named for _ in columns],
            "segment": [each for _, each in named for _ in columns],
            "low": listed(low),
            "high": listed(high),
            "std_error": none_if_nan(found.errors),
            "policies": [each.differing for each in columns] * n_segments,
            "higher_is_better": [each.request.metric.higher_is_better for each in columns]
            * n_segments,
        },
    )


def _limits_of(found: Summaries, bounds: Floats, level: float) -> tuple[Floats, Floats]:
    """Limits of means, as `interval_of` has them: Wilson's of shares, Student's mended of others.

    Args:
        bounds: float64[n_columns, 2].
    """
    limits = mean_limits(found.means, found.errors, found.counts, found.skewnesses, level=level)
    low, high = within(limits, *bounds.T)
    are_shares = found.are_shares(bounds)
    low[are_shares], high[are_shares] = wilson_limits(
        found.wholes[are_shares], found.counts[are_shares], level=level
    )
    return low, high


def _settled(
    each: Estimate,
    measured: Sequence[Request],
    totals: GrandTotals,
    resampling: Resampling | None,
    segment: Segment,
    column: _RequestColumn,
) -> Estimate:
    """A mean as conventions have the number, with the limits that were asked for."""
    place, sums = column.place, totals.models[segment, each.model]
    n_infinite = sums.n_infinite(place)
    if n_infinite and not may_be_undefined(column.policies):
        message = f"{column.label} of {each.model!r} is infinite for {n_infinite:,} users"
        hint = "let the metric give a finite number, or NaN for a user who has none"
        raise DataError(message, code="infinite-value", hint=hint)
    mean, is_mean = each.value, column.is_mean and not n_infinite  # limits are those of a mean
    if not is_mean or not each.n_users or column.policies.round_mean != EXACT:
        value = number_of(column.request, column.policies, place, sums, measured)
        each = replace(each, value=value)
    if not is_mean:
        return replace(each, low=None, high=None, std_error=None)
    if resampling is None or each.std_error == 0.0:  # every draw is the same
        return each
    interval = resampling.interval(segment, each.model, column.label, mean)
    if interval is None:
        return each
    interval = interval.within(column.bounds)
    return replace(each, low=interval.low, high=interval.high)


def _ordered(
    each: Estimate, shown: "ShownNumbers", segment: Segment, column: _RequestColumn
) -> Estimate:
    """A number that stands on the order of users."""
    number = shown.number(segment, each.model, column.request)
    low, high = (None if math.isnan(end) else end for end in number.limits)
    value = rounded(number.mean, column.policies.round_mean)
    if shown.config.statistics.has_clusters:
        each = replace(each, n_clusters=number.units, df=number.units - 1.0)
    return replace(each, value=value, low=low, high=high, std_error=number.std_error)


def _of_lists(
    each: Estimate,
    shown: "ShownNumbers",
    totals: GrandTotals,
    segment: Segment,
    column: _RequestColumn,
) -> Estimate:
    """A number of all lists together."""
    number = shown.number(segment, each.model, column.request)
    level = shown.config.statistics.level
    limits = mean_interval(number.mean, number.std_error, number.count, level=level)
    least, most = column.request.metric.bounds
    least, most = max(least, number.ends.least), min(most, number.ends.most)
    n_undefined = totals.models[segment, each.model].n_undefined(column.place)
    return replace(
        each,
        value=number.mean,
        low=None if limits.low is None else max(limits.low, least),
        high=None if limits.high is None else min(limits.high, most),
        std_error=number.std_error,
        n_users=number.count,
        n_undefined=n_undefined - number.count,
    )


def _by_ratio(
    each: Estimate,
    total: RatioTotal | None,
    users: ExactSum,
    chosen: StatisticsSection,
    bounds: tuple[float, float],
) -> Estimate:
    """The estimate over clusters, or with weights, where there are any.

    Where nobody has a hit, or all have one, limits are Wilson's of as many as vary freely.
    """
    if total is None or each.std_error is None:
        return each
    mean, error, n, df = total.mean, total.std_error, total.count, total.df
    level, skewness, is_wider = chosen.level, total.skewness, chosen.has_clusters
    interval = mean_interval(
        mean, error, n, level=level, skewness=skewness, df=df, only_wider=is_wider
    )
    each = replace(each, value=mean, std_error=error)
    if chosen.has_clusters:
        each = replace(each, n_clusters=n, df=df)
    if error == 0.0 and is_share(users, bounds):
        interval = wilson_interval(mean * (df + 1.0), df + 1.0, level=level)
    elif chosen.method == "bootstrap":  # whose draws are by cluster
        return each
    interval = interval.within(bounds)
    return replace(each, low=interval.low, high=interval.high)


def number_of(
    request: Request, policies: Policies, column: int, sums: ExactSums, measured: Sequence[Request]
) -> float:
    """The number over users: their mean, but where a convention says otherwise."""
    parts, total = parts_of(request), sums.sum_of(column)
    value = total.mean
    if sums.n_infinite(column):
        value = math.nan
    elif parts is not None:
        value = number_of_means(request, [sums.sum_of(measured.index(p)).mean for p in parts])
    elif total.count == 0 and sums.n_undefined(column):
        value = of_nobody(policies, higher_is_better=bool(request.metric.higher_is_better))
    return value if is_gmean(request) else rounded(value, policies.round_mean)


def _by_segmentation(estimates: Sequence[Estimate]) -> dict[tuple[str, str, str], list[Estimate]]:
    """Numbers of known segments by model, metric and segmentation."""
    groups: dict[tuple[str, str, str], list[Estimate]] = {}
    for estimate in estimates:
        if estimate.segmentation is not None and not math.isnan(estimate.value):
            is_cross = " & " in estimate.segmentation  # which no other segmentation's name holds
            segment = estimate.segment or ""
            if UNKNOWN not in (segment.split(" & ") if is_cross else [segment]):
                groups.setdefault(
                    (estimate.model, estimate.metric, estimate.segmentation), []
                ).append(estimate)
    return groups


def macros_of(config: Config, estimates: Sequence[Estimate]) -> Iterator[Macro]:
    """Means over the segments of each segmentation."""
    groups = _by_segmentation(estimates)
    named = config.segments.named
    bounds = {
        request.label: (0.0, math.inf) if is_gmean(request) else bounds_of(request)
        for request in config.requests
    }
    for (model, metric, segmentation), found in groups.items():
        value = math.fsum(each.value for each in found) / len(found)
        errors = [each.std_error for each in found if each.std_error is not None]
        rule = named.get(segmentation)
        are_apart = (rule is None or rule.item is None) and not config.statistics.has_clusters
        error = None
        if are_apart and len(errors) == len(found):
            error = math.sqrt(math.fsum(each * each for each in errors)) / len(found)
        limits = normal_interval(value, error, level=config.statistics.level)
        limits = limits.within(bounds[metric])
        low, high = (None, None) if error is None else (limits.low, limits.high)
        yield Macro(model, metric, segmentation, value, error, low, high, len(found))


def gaps_of(config: Config, estimates: Sequence[Estimate]) -> Iterator[Gap]:
    """The largest differences between segments, of what is made of calls at a threshold."""
    rates = {r.label for r in config.requests if r.metric.over_rows is of_counts}
    if not (rates and config.segments.named):
        return
    chosen = [estimate for estimate in estimates if estimate.metric in rates]
    for (model, metric, segmentation), found in _by_segmentation(chosen).items():
        if len(found) < 2:
            continue
        high, low = (pick(found, key=lambda each: each.value) for pick in (max, min))
        delta, error, reach = high.value - low.value, None, math.nan
        errors = [each.std_error for each in (high, low) if each.std_error is not None]
        if len(errors) == 2 and not config.statistics.has_clusters:
            error = math.hypot(*errors)
            parts = zip(errors, (high.n_users - 1, low.n_users - 1), strict=True)
            rest = sum(each**4 / n for each, n in parts)
            df = error**4 / rest if rest else math.inf  # Welch 1947
            n_pairs = len(found) * (len(found) - 1) / 2
            reach = -t_quantile(0.5 * (1.0 - config.statistics.level) / n_pairs, df) * error
        yield Gap(
            *(model, metric, segmentation, high.segment or "", low.segment or "", delta, error),
            low=None if math.isnan(reach) else delta - reach,
            high=None if math.isnan(reach) else delta + reach,
            n_segments=len(found),
        )
