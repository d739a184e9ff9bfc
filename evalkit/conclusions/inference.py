"""From exact sums to what a report says: values with intervals, and comparisons of models."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from evalkit.config import Config, Policies, StatisticsSection, policies_of
from evalkit.errors import DataError
from evalkit.exact import ExactSums
from evalkit.looks.resampling import Resampling
from evalkit.metrics import BOUNDS, TIED, Request
from evalkit.report import Comparison, Estimate, Finding, Macro, Standing, StatisticsUsed, Warning_
from evalkit.segments import ALL, SMALL, UNKNOWN, Segment
from evalkit.statistics.corrections import adjust
from evalkit.statistics.intervals import (
    mean_interval,
    normal_interval,
    relative_interval,
)
from evalkit.statistics.means import interval_of, is_share
from evalkit.statistics.paired import effect_size, equivalence_test, non_inferiority_test, t_test
from evalkit.statistics.power import smallest_difference, users_needed
from evalkit.statistics.search import SegmentDelta, search_segments
from evalkit.statistics.tukey import group_letters, tukey_test
from evalkit.sums import GrandTotals, Pair, PairTotal
from evalkit.values.checks import differing, with_ties
from evalkit.values.gather import is_mean_of_users, number_of_means, parts_of, rounded
from evalkit.values.settle import may_be_undefined, of_nobody

FEWEST_SEARCHED = 100  # users of a segment that a search looks at (docs/statistics.md)
# below and beyond these, intervals held the true value too seldom (docs/statistics.md)
FEWEST_USERS = 50
MOST_SKEWED = 0.35  # skewness / sqrt(users), the k of Hall's correction
FEWEST_NONZERO = 200  # where no skewness is known, and the interval is Student's
FEWEST_OF_ROWS = 100  # of numbers over rows (docs/labels.md)


@dataclass(frozen=True, slots=True)
class Inference:
    """What the sums of a run say."""

    estimates: tuple[Estimate, ...]
    comparisons: tuple[Comparison, ...]
    standings: tuple[Standing, ...]
    findings: tuple[Finding, ...]
    macros: tuple[Macro, ...]
    used: StatisticsUsed
    warnings: tuple[Warning_, ...]

    @classmethod
    def of(
        cls,
        config: Config,
        measured: Sequence[Request],
        models: Sequence[str],
        totals: GrandTotals,
        resampling: Resampling | None = None,
        ratios: "RatioTotals | None" = None,
        estimates: Sequence[Estimate] | None = None,
    ) -> "Inference":
        """Estimates and comparisons of all models, segment by segment.

        Args:
            measured: the requests, then what helps them.
            resampling: what was drawn, where the config asks for it.
            ratios: sums over clusters, or with weights, where the config asks for them; or
                numbers that are no means of users.
            estimates: in place of those of the sums.

        Raises:
            DataError: a value is infinite [infinite-value].
        """
        chosen = config.statistics
        requests = measured[: len(config.requests)]
        known = estimates is not None
        estimates = tuple(
            estimates
            if estimates is not None
            else _estimates(config, measured, len(requests), models, totals, resampling, ratios)
        )
        compared = list(_comparisons(config, totals, resampling, ratios, requests))
        comparisons, n_tests = _corrected([each for each, _ in compared], chosen)
        judged = _with_verdicts(comparisons, [n for _, n in compared], chosen, requests)
        standings = _standings(estimates, judged, chosen, requests)
        used = StatisticsUsed(
            level=chosen.level,
            method=chosen.method,
            test=chosen.test,
            correction=chosen.correction,
            family=chosen.family,
            n_tests=n_tests,
            baseline=chosen.baseline,
            margin=chosen.margin,
            replicates=chosen.replicates if resampling is not None else None,
            seed=chosen.seed if resampling is not None else None,
            power=chosen.power,
        )
        warnings = (
            *_small(totals),
            *(_few_users(estimates) if known else _few(totals, requests, models)),
            *(() if known else _tie_warnings(config.policies, estimates, totals, measured)),
        )
        findings = tuple(_findings(config, totals, requests)) if chosen.search else ()
        macros = tuple(_macros(config, estimates))
        return cls(estimates, judged, standings, findings, macros, used, warnings)


class RatioTotal(Protocol):
    """A number over users that is no plain mean, or the difference of two."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def std_error(self) -> float | None: ...


class RatioTotals(Protocol):
    """Such numbers of every segment, model and pair."""

    def total(self, segment: Segment, model: str, column: int) -> RatioTotal | None:
        """One request of one model in one segment; None where it is a plain mean of users."""

    def of_pair(
        self, segment: Segment, pair: Pair, column: int
    ) -> tuple[RatioTotal, RatioTotal, RatioTotal] | None:
        """The difference of two models, and each of both; None where it is that of plain means."""

    def users_without_values(self, segment: Segment, pair: Pair, column: int) -> int | None:
        """How many users a difference stands on that have no values, by which models win or lose.

        None where users have values.
        """


def _estimates(
    config: Config,
    measured: Sequence[Request],
    n_requests: int,
    models: Sequence[str],
    totals: GrandTotals,
    resampling: Resampling | None,
    ratios: RatioTotals | None,
) -> Iterator[Estimate]:
    for model in models:
        for segment in totals.segments:
            for column in range(n_requests):
                yield _by_ratio(
                    _estimate(config, measured, totals, resampling, segment, model, column),
                    None if ratios is None else ratios.total(segment, model, column),
                    config.statistics,
                )


def _estimate(
    config: Config,
    measured: Sequence[Request],
    totals: GrandTotals,
    resampling: Resampling | None,
    segment: Segment,
    model: str,
    column: int,
) -> Estimate:
    request, sums = measured[column], totals.models[segment, model]
    policies = policies_of(request, config.policies)
    n_infinite = sums.n_infinite(column)
    if n_infinite and not may_be_undefined(policies):
        raise DataError(
            f"{request.label} of {model!r} is infinite for {n_infinite:,} users",
            code="infinite-value",
            hint="exponential gains overflow on such relevances: use linear gains",
        )
    total = sums.sum_of(column)
    value = _number(request, policies, column, sums, measured)
    is_mean = parts_of(request) is None and not n_infinite  # limits are those of a mean
    interval = None
    if resampling is not None:
        interval = resampling.interval(segment, model, request.label, total.mean)
    level = config.statistics.level
    skewness = sums.skewness_of(column)
    interval = interval or interval_of(total, skewness, request.metric.bounds, level=level)
    return Estimate(
        model=model,
        metric=request.label,
        name=request.metric.name,
        cutoff=request.cutoff,
        parameters=dict(request.parameters),
        segmentation=None if segment == ALL else segment[0],
        segment=None if segment == ALL else segment[1],
        value=value,
        low=interval.low if is_mean else None,
        high=interval.high if is_mean else None,
        std_error=total.std_error if is_mean else None,
        n_users=total.count,
        n_undefined=sums.n_undefined(column) + n_infinite,
        policies=differing(policies),
        higher_is_better=request.metric.higher_is_better,
    )


def _by_ratio(each: Estimate, total: RatioTotal | None, chosen: StatisticsSection) -> Estimate:
    """The estimate over clusters, or with weights, where there are any."""
    if total is None or each.std_error is None:
        return each
    mean, error = total.mean, total.std_error
    interval = mean_interval(mean, error, total.count, level=chosen.level)
    if chosen.method == "bootstrap":  # whose draws are by cluster
        return replace(each, value=mean, std_error=error)
    return replace(each, value=mean, low=interval.low, high=interval.high, std_error=error)


def _pair_by_ratio(
    each: Comparison,
    totals: tuple[RatioTotal, RatioTotal, RatioTotal],
    chosen: StatisticsSection,
) -> Comparison:
    """The comparison over clusters, or with weights: delta, then baseline and candidate."""
    delta, baseline, candidate = totals
    n, mean, error = delta.count, delta.mean, delta.std_error
    interval = mean_interval(mean, error, n, level=chosen.level)
    relative = relative_interval(
        baseline.mean,
        baseline.std_error,
        mean,
        error,
        candidate.std_error,
        n,
        level=chosen.level,
    )
    return replace(
        each,
        delta=mean,
        std_error=error,
        low=interval.low,
        high=interval.high,
        relative=mean / baseline.mean if baseline.mean else math.nan,
        relative_low=relative.low,
        relative_high=relative.high,
        p_value=t_test(mean, error, n).p_value,
        effect_size=effect_size(mean, error, n),
        smallest_difference=_smallest(error, n, chosen),
        users_needed=_needed(error, n, chosen),
    )


def _number(
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


def _comparisons(
    config: Config,
    totals: GrandTotals,
    resampling: Resampling | None,
    ratios: RatioTotals | None,
    requests: Sequence[Request],
) -> Iterator[tuple[Comparison, int]]:
    """Every comparison, and how many users, or clusters of them, its error stands on."""
    chosen = config.statistics
    pairs = dict.fromkeys(pair for _, pair in totals.pairs)
    for pair in pairs:
        for segment in totals.segments:
            for column, request in enumerate(requests):
                if not is_mean_of_users(request, config.policies):  # nothing to pair
                    continue
                found = totals.pair_total(segment, pair, column)
                plain = _comparison(found, chosen, segment, pair, request)
                n_drawn = found.delta.count
                if ratios is not None and (sums := ratios.of_pair(segment, pair, column)):
                    plain, n_drawn = _pair_by_ratio(plain, sums, chosen), sums[0].count
                    n_users = ratios.users_without_values(segment, pair, column)
                    if n_users is not None:
                        plain = replace(plain, n_users=n_users, wins=None, ties=None, losses=None)
                if request.metric.higher_is_better is None:
                    plain = replace(plain, wins=None, ties=None, losses=None)
                if resampling is not None:
                    plain = _drawn(plain, resampling, segment, chosen)
                yield plain, n_drawn


def _comparison(
    found: PairTotal, chosen: StatisticsSection, segment: Segment, pair: Pair, request: Request
) -> Comparison:
    delta, baseline, n = found.delta, found.baseline, found.delta.count
    level, std_error = chosen.level, found.delta.std_error
    interval = mean_interval(delta.mean, std_error, n, level=level)
    relative = relative_interval(
        baseline.mean,
        baseline.std_error,
        delta.mean,
        std_error,
        found.candidate.std_error,
        n,
        level=level,
    )
    return Comparison(
        baseline=pair[0],
        candidate=pair[1],
        metric=request.label,
        segmentation=None if segment == ALL else segment[0],
        segment=None if segment == ALL else segment[1],
        delta=delta.mean,
        std_error=std_error,
        low=interval.low,
        high=interval.high,
        relative=delta.mean / baseline.mean if baseline.scaled else math.nan,
        relative_low=relative.low,
        relative_high=relative.high,
        p_value=t_test(delta.mean, std_error, n).p_value,
        p_adjusted=None,
        effect_size=effect_size(delta.mean, std_error, n),
        test="t",
        n_users=n,
        wins=found.wins,
        ties=found.ties,
        losses=found.losses,
        margin=chosen.margin,
        verdict="",
        smallest_difference=_smallest(std_error, n, chosen),
        users_needed=_needed(std_error, n, chosen),
    )


def _needed(std_error: float | None, n: int, chosen: StatisticsSection) -> int | None:
    """The users that would show a difference of the margin, as these vary."""
    if chosen.margin is None or std_error is None:
        return None
    deviation = std_error * math.sqrt(n)
    return users_needed(chosen.margin, deviation, level=chosen.level, power=chosen.power)


def _smallest(std_error: float | None, n: int, chosen: StatisticsSection) -> float | None:
    """The difference that this many users would show with the power that was asked for."""
    if std_error is None:
        return None
    return std_error * math.sqrt(n) * _smallest_effect(n, chosen.level, chosen.power)


@lru_cache(maxsize=4096)
def _smallest_effect(n: int, level: float, power: float) -> float:
    return smallest_difference(1.0, n, level=level, power=power)


def _drawn(
    each: Comparison, resampling: Resampling, segment: Segment, chosen: StatisticsSection
) -> Comparison:
    """The comparison with the limits and the p-value that were asked for."""
    if not math.isfinite(each.delta):
        return each
    pair = (each.baseline, each.candidate)
    p_value = resampling.p_value(segment, pair, each.metric)
    if p_value is not None:
        each = replace(each, p_value=p_value, test=chosen.test)
    interval = resampling.interval(segment, pair, each.metric, each.delta)
    if interval is not None:
        each = replace(each, low=interval.low, high=interval.high)
    return each


def _corrected(
    comparisons: Sequence[Comparison], chosen: StatisticsSection
) -> tuple[list[Comparison], int]:
    """Comparisons with adjusted p-values, and the number of tests over all users.

    Segments are families of their own, one a segmentation: who looks at them asks another
    question.
    """
    if chosen.correction == "tukey":
        return _by_tukey(comparisons, chosen)
    adjusted = list(comparisons)
    n_tests = 0
    for places in _families(comparisons, chosen):
        p_values = [_nan(comparisons[place].p_value) for place in places]
        family = adjust(p_values, chosen.correction)
        n_tests += family.size if comparisons[places[0]].segmentation is None else 0
        for place, p_value in zip(places, family.p_adjusted, strict=True):
            adjusted[place] = replace(comparisons[place], p_adjusted=p_value)
    return adjusted, n_tests


def _families(comparisons: Sequence[Comparison], chosen: StatisticsSection) -> list[list[int]]:
    """The places of comparisons that are corrected together."""
    families: dict[tuple[str | None, str | None], list[int]] = {}
    for place, each in enumerate(comparisons):
        metric = each.metric if chosen.family == "metric" else None
        families.setdefault((each.segmentation, metric), []).append(place)
    return list(families.values())


def _by_tukey(
    comparisons: Sequence[Comparison], chosen: StatisticsSection
) -> tuple[list[Comparison], int]:
    """p-values and limits of all pairs of models at once, metric by metric."""
    families: dict[tuple[str | None, str | None, str], list[int]] = {}
    for place, each in enumerate(comparisons):
        families.setdefault((each.segmentation, each.segment, each.metric), []).append(place)
    adjusted = list(comparisons)
    for places in families.values():
        pairs = [comparisons[place] for place in places]
        models = list(
            dict.fromkeys(name for each in pairs for name in (each.baseline, each.candidate))
        )
        row = {name: number for number, name in enumerate(models)}
        # means up to a constant, which no difference shows
        means = [0.0, *(each.delta for each in pairs if each.baseline == models[0])]
        errors = {(row[each.baseline], row[each.candidate]): each.std_error for each in pairs}
        found = tukey_test(means, errors, pairs[0].n_users, level=chosen.level)
        by_place = {(pair.baseline, pair.candidate): pair for pair in found.pairs}
        for place in places:
            each = comparisons[place]
            pair = by_place[row[each.baseline], row[each.candidate]]
            adjusted[place] = replace(
                each,
                p_value=pair.p_value,
                p_adjusted=pair.p_value,
                low=pair.interval.low,
                high=pair.interval.high,
                test="tukey",
            )
    n_tests = sum(each.segmentation is None for each in comparisons)
    return adjusted, n_tests


def _standings(
    estimates: Sequence[Estimate],
    comparisons: Sequence[Comparison],
    chosen: StatisticsSection,
    requests: Sequence[Request],
) -> tuple[Standing, ...]:
    """Models from best to worst, with letters, where every two of them were compared."""
    if chosen.pairs != "all":
        return ()
    standings = []
    for request in requests:
        if request.metric.higher_is_better is None:
            continue
        values = {
            each.model: each.value
            for each in estimates
            if each.metric == request.label and each.segment is None
        }
        told_apart = {
            frozenset((each.baseline, each.candidate))
            for each in comparisons
            if each.metric == request.label
            and each.segment is None
            and _nan(each.p_adjusted) <= 1.0 - chosen.level
        }
        sign = -1.0 if request.metric.higher_is_better else 1.0
        names = sorted(values, key=lambda name: _last_if_nan(sign * values[name]))
        alike = [[frozenset((one, other)) not in told_apart for other in names] for one in names]
        letters = group_letters(alike)
        rows = tuple((name, values[name], each) for name, each in zip(names, letters, strict=True))
        standings.append(Standing(request.label, rows))
    return tuple(standings)


def _findings(
    config: Config, totals: GrandTotals, requests: Sequence[Request]
) -> Iterator[Finding]:
    """Segments that lose or gain; false ones are held below 1 - level among all that are listed."""
    chosen = config.statistics
    named = set(config.read_metrics(chosen.metrics)) if chosen.metrics else set(requests)
    segments = [each for each in totals.segments if each != ALL]
    pairs = list(dict.fromkeys(pair for _, pair in totals.pairs))
    for pair in pairs:
        deltas = []
        for column, request in enumerate(requests):
            better = request.metric.higher_is_better
            is_mean = is_mean_of_users(request, config.policies)
            if request not in named or not is_mean or better is None:
                continue
            for segment in segments:
                sums = totals.pairs[segment, pair].deltas
                delta = sums.sum_of(column)
                if delta.count:
                    deltas.append(
                        SegmentDelta(
                            *segment,
                            delta.count,
                            delta.mean,
                            delta.std_error,
                            sums.skewness_of(column),
                            metric=request.label,
                            higher_is_better=better,
                        )
                    )
        searched = search_segments(
            deltas,
            false_discovery_rate=(1.0 - chosen.level) / len(pairs),  # of all pairs together
            min_users=max(config.segments.min_users, FEWEST_SEARCHED),
        )
        for kind, discoveries in (("loss", searched.losses), ("gain", searched.gains)):
            for each in discoveries:
                yield Finding(
                    baseline=pair[0],
                    candidate=pair[1],
                    metric=each.found.metric,
                    segmentation=each.found.segmentation,
                    segment=each.found.segment,
                    kind=kind,
                    delta=each.delta,
                    low=each.interval.low,
                    high=each.interval.high,
                    p_value=each.p_value,
                    p_adjusted=each.p_adjusted,
                    n_users=each.found.n,
                    n_searched=searched.n_searched,
                )


def _macros(config: Config, estimates: Sequence[Estimate]) -> Iterator[Macro]:
    """Means over the segments of each segmentation."""
    groups: dict[tuple[str, str, str], list[Estimate]] = {}
    for each in estimates:
        if each.segmentation is not None and not math.isnan(each.value):
            if UNKNOWN not in (each.segment or "").split(" & "):
                groups.setdefault((each.model, each.metric, each.segmentation), []).append(each)
    named = config.segments.named
    for (model, metric, segmentation), found in groups.items():
        value = math.fsum(each.value for each in found) / len(found)
        errors = [each.std_error for each in found if each.std_error is not None]
        rule = named.get(segmentation)
        are_apart = rule is None or rule.item is None
        error = None
        if are_apart and len(errors) == len(found):
            error = math.sqrt(math.fsum(each * each for each in errors)) / len(found)
        limits = normal_interval(value, error, level=config.statistics.level)
        low, high = (None, None) if error is None else (limits.low, limits.high)
        yield Macro(model, metric, segmentation, value, error, low, high, len(found))


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _with_verdicts(
    comparisons: Sequence[Comparison],
    n_drawn: Sequence[int],
    chosen: StatisticsSection,
    requests: Sequence[Request],
) -> tuple[Comparison, ...]:
    """Comparisons with verdicts; tests against the margin are corrected as the others are.

    Tukey's test knows no margin: Holm's correction stands in for it there.

    Args:
        n_drawn: users, or clusters of them, that each error stands on.
    """
    better = {request.label: request.metric.higher_is_better for request in requests}
    correction = "holm" if chosen.correction == "tukey" else chosen.correction
    same = [math.nan] * len(comparisons)
    not_worse = [math.nan] * len(comparisons)
    if chosen.margin is not None:
        for places in _families(comparisons, chosen):
            tests = [
                _margin_tests(comparisons[place], n_drawn[place], chosen.margin, better)
                for place in places
            ]
            for adjusted, p_values in zip((same, not_worse), zip(*tests, strict=True), strict=True):
                family = adjust(p_values, correction).p_adjusted
                for place, p_value in zip(places, family, strict=True):
                    adjusted[place] = p_value
    error = 1.0 - chosen.level
    return tuple(
        replace(
            each,
            verdict=_verdict(
                each,
                higher_is_better=better[each.metric],
                is_same=same[place] <= error,
                differs=_nan(each.p_adjusted) <= error,
                is_not_worse=not_worse[place] <= error,
            ),
        )
        for place, each in enumerate(comparisons)
    )


def _margin_tests(
    each: Comparison, n: int, margin: float, better: Mapping[str, bool | None]
) -> tuple[float, float]:
    """p-values of "they differ by the margin" and of "it is worse by it"; NaN without one."""
    delta, std_error = each.delta, each.std_error
    same = equivalence_test(delta, std_error, n, margin=margin).p_value
    higher_is_better = better[each.metric]
    if higher_is_better is None:
        return same, math.nan
    not_worse = non_inferiority_test(
        delta, std_error, n, margin=margin, higher_is_better=higher_is_better
    )
    return same, not_worse.p_value


def _verdict(
    each: Comparison,
    *,
    higher_is_better: bool | None,
    is_same: bool,
    differs: bool,
    is_not_worse: bool,
) -> str:
    """What a comparison comes to, by its corrected tests; where there are none, that.

    With a margin a difference that is surely smaller than it is called equivalent, be it ever so
    significant; without one, or beyond it, the test of a difference decides.
    """
    if is_same:
        return "equivalent"
    if differs and each.delta != 0.0:
        if higher_is_better is None:
            return "different"
        return "better" if (each.delta > 0.0) == higher_is_better else "worse"
    if is_not_worse:
        return "not inferior"
    return "not tested" if math.isnan(_nan(each.p_adjusted)) else "cannot tell"


def _small(totals: GrandTotals) -> Iterator[Warning_]:
    """One warning for each segmentation whose small segments stand as one."""
    for name, n_pooled in Counter(name for name, _ in totals.pooled).items():
        message = f"{n_pooled:,} segments of {name!r} have too few users and stand as {SMALL}"
        yield Warning_("small-segments", message)


def _tie_warnings(
    policies: Policies,
    estimates: Sequence[Estimate],
    totals: GrandTotals,
    measured: Sequence[Request],
) -> Iterator[Warning_]:
    """Numbers that the order of equal scores can move further than their interval, or a share."""
    requests = {each.label: each for each in reversed(measured)}  # what was asked for comes first
    for each in estimates:
        request = requests[each.metric]
        followed = policies_of(request, policies)
        if each.segment is not None or followed.ties not in TIED:
            continue
        best, worst = (
            totals.models[ALL, each.model].sum_of(measured.index(with_ties(request, ties))).mean
            for ties in BOUNDS
        )
        spread = abs(best - worst)
        reasons = []
        if each.low is not None and each.high is not None and spread > each.high - each.low:
            reasons.append("more than its interval is wide")
        if spread > followed.tie_share * abs(each.value):
            reasons.append(f"more than {followed.tie_share:.1%} of it")
        if reasons:
            yield Warning_(
                "ties-move-number",
                f"orders of equal scores move {each.metric} from {worst:.6f} to {best:.6f}, "
                f"{' and '.join(reasons)}",
                each.model,
            )


def _few(
    totals: GrandTotals, requests: Sequence[Request], models: Sequence[str]
) -> Iterator[Warning_]:
    """One warning where intervals over all users may hold less than they say."""
    found = [
        f"{request.label} of {model!r} {why}"
        for model in models
        for column, request in enumerate(requests)
        if parts_of(request) is None
        and (why := too_narrow(totals.models[ALL, model], column, request.metric.bounds))
    ]
    if found:
        more = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
        yield Warning_("few-users", f"intervals may be too narrow: {found[0]}{more}")


def too_narrow(sums: ExactSums, column: int, bounds: tuple[float, float]) -> str:
    """Why an interval of such values held the true mean too seldom; empty where it did not."""
    total = sums.sum_of(column)
    n, skewness = total.count, sums.skewness_of(column)
    if n < 2 or is_share(total, bounds):
        return ""
    if n < FEWEST_USERS:
        return f"stands on {n:,} users"
    if math.isnan(skewness) and sums.largest_of(column) > 1.0:
        n_nonzero = n - sums.n_zero(column)
        return f"is not 0 for {n_nonzero:,} users alone" if n_nonzero < FEWEST_NONZERO else ""
    if abs(skewness) > MOST_SKEWED * math.sqrt(n):
        return f"has values of a skewness of {skewness:.1f}, much for {n:,} users"
    return ""


def _few_users(estimates: Sequence[Estimate]) -> Iterator[Warning_]:
    """The same of numbers whose values of users are not known."""
    overall = [each for each in estimates if each.segment is None and each.low is not None]
    n_fewest = min((each.n_users for each in overall), default=FEWEST_OF_ROWS)
    if n_fewest < FEWEST_OF_ROWS:
        message = f"intervals may be too narrow: they stand on {n_fewest:,} users"
        yield Warning_("few-users", message)


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
