"""Values of models with intervals, segment by segment."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalkit.conclusions.ratios import RatioTotal, RatioTotals
from evalkit.config import Config, Policies, StatisticsSection, policies_of
from evalkit.errors import DataError
from evalkit.exact import ExactSum, ExactSums
from evalkit.looks.resampling import Resampling
from evalkit.metrics import Request, bounds_of
from evalkit.report import Estimate, Macro
from evalkit.segments import ALL, UNKNOWN, Segment
from evalkit.statistics.intervals import mean_interval, normal_interval, wilson_interval
from evalkit.statistics.means import interval_of, is_share
from evalkit.sums import GrandTotals
from evalkit.values.checks import differing
from evalkit.values.gather import number_of_means, parts_of, rounded
from evalkit.values.settle import EXACT, may_be_undefined, of_nobody

if TYPE_CHECKING:
    from evalkit.conclusions.shown import ShownNumbers


def estimates_of(
    config: Config,
    measured: Sequence[Request],
    n_requests: int,
    models: Sequence[str],
    totals: GrandTotals,
    resampling: Resampling | None,
    ratios: RatioTotals | None,
    shown: "ShownNumbers | None" = None,
) -> Iterator[Estimate]:
    columns = [_Column.of(place, measured[place], config.policies) for place in range(n_requests)]
    for model in models:
        for segment in totals.segments:
            for column in columns:
                if shown is not None and shown.has(column.request):
                    yield _of_lists(config, measured, totals, shown, segment, model, column.place)
                    continue
                each = _estimate(config, measured, totals, resampling, segment, model, column)
                if ratios is not None:
                    total = ratios.total(segment, model, column.place)
                    users = totals.models[segment, model].sum_of(column.place)
                    each = _by_ratio(each, total, users, config.statistics, column.bounds)
                yield each


@dataclass(frozen=True, slots=True)
class _Column:
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
    def of(cls, place: int, request: Request, policies: Policies) -> "_Column":
        own, parameters = policies_of(request, policies), dict(request.parameters)
        is_mean = parts_of(request) is None
        label, bounds = request.label, bounds_of(request)
        return cls(place, request, label, own, parameters, differing(own), is_mean, bounds)


def _estimate(
    config: Config,
    measured: Sequence[Request],
    totals: GrandTotals,
    resampling: Resampling | None,
    segment: Segment,
    model: str,
    column: _Column,
) -> Estimate:
    request, place, sums = column.request, column.place, totals.models[segment, model]
    n_infinite = sums.n_infinite(place)
    if n_infinite and not may_be_undefined(column.policies):
        raise DataError(
            f"{column.label} of {model!r} is infinite for {n_infinite:,} users",
            code="infinite-value",
            hint="exponential gains overflow on such relevances: use linear gains",
        )
    n_extra = 0 if request.metric.lists is not None else totals.extra.get(segment, 0)
    total = sums.sum_of(place)
    is_mean = column.is_mean and not n_infinite  # limits are those of a mean
    value = total.mean
    if not is_mean or not total.count or column.policies.round_mean != EXACT:
        value = number_of(request, column.policies, place, sums, measured)
    interval = None
    if resampling is not None and total.std_error != 0.0:  # otherwise every draw is the same
        interval = resampling.interval(segment, model, column.label, total.mean)
    if interval is None:
        level, skewness = config.statistics.level, sums.skewness_of(place)
        interval = interval_of(total, skewness, column.bounds, level=level)
    else:
        interval = interval.within(column.bounds)
    return Estimate(
        model=model,
        metric=column.label,
        name=request.metric.name,
        cutoff=request.cutoff,
        parameters=column.parameters,
        segmentation=None if segment == ALL else segment[0],
        segment=None if segment == ALL else segment[1],
        value=value,
        low=interval.low if is_mean else None,
        high=interval.high if is_mean else None,
        std_error=total.std_error if is_mean else None,
        n_users=total.count,
        n_undefined=sums.n_undefined(place) - n_extra + n_infinite,
        policies=column.differing,
        higher_is_better=request.metric.higher_is_better,
    )


def _of_lists(
    config: Config,
    measured: Sequence[Request],
    totals: GrandTotals,
    shown: "ShownNumbers",
    segment: Segment,
    model: str,
    column: int,
) -> Estimate:
    """A number of all lists together."""
    request, sums = measured[column], totals.models[segment, model]
    number = shown.number(segment, model, request)
    limits = mean_interval(
        number.mean, number.std_error, number.count, level=config.statistics.level
    )
    least, most = request.metric.bounds
    least, most = max(least, number.ends.least), min(most, number.ends.most)
    return Estimate(
        model=model,
        metric=request.label,
        name=request.metric.name,
        cutoff=request.cutoff,
        parameters=dict(request.parameters),
        segmentation=None if segment == ALL else segment[0],
        segment=None if segment == ALL else segment[1],
        value=number.mean,
        low=None if limits.low is None else max(limits.low, least),
        high=None if limits.high is None else min(limits.high, most),
        std_error=number.std_error,
        n_users=number.count,
        n_undefined=sums.n_undefined(column) - number.count,
        policies=differing(policies_of(request, config.policies)),
        higher_is_better=request.metric.higher_is_better,
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
    request: Request,
    policies: Policies,
    column: int,
    sums: ExactSums,
    measured: Sequence[Request],
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
    return rounded(value, policies.round_mean)


def macros_of(config: Config, estimates: Sequence[Estimate]) -> Iterator[Macro]:
    """Means over the segments of each segmentation."""
    groups: dict[tuple[str, str, str], list[Estimate]] = {}
    for each in estimates:
        if each.segmentation is not None and not math.isnan(each.value):
            is_cross = " & " in each.segmentation  # which no other segmentation's name holds
            segment = each.segment or ""
            if UNKNOWN not in (segment.split(" & ") if is_cross else [segment]):
                groups.setdefault((each.model, each.metric, each.segmentation), []).append(each)
    named = config.segments.named
    bounds = {request.label: bounds_of(request) for request in config.requests}
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
