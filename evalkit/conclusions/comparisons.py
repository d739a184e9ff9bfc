"""Models compared, pair by pair, and the p-values of all of them corrected together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from evalkit.conclusions.ratios import RatioTotal, RatioTotals
from evalkit.conclusions.spread import Spread, counts_differing
from evalkit.config import Config, StatisticsSection
from evalkit.exact import SCALE_BITS
from evalkit.looks.resampling import Resampling
from evalkit.metrics import Request
from evalkit.report import Comparison
from evalkit.segments import ALL, Segment
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import find_t_quantiles
from evalkit.statistics.intervals import NO_INTERVAL, Interval, relative_interval
from evalkit.statistics.means import is_share
from evalkit.statistics.paired import effect_size, t_test
from evalkit.statistics.power import smallest_difference, users_needed
from evalkit.statistics.proportions import NEAREST, mcnemar_p
from evalkit.statistics.tukey import tukey_test
from evalkit.sums import GrandTotals, Pair, PairTotal
from evalkit.values.gather import is_mean_of_users

if TYPE_CHECKING:
    from evalkit.conclusions.shown import Delta, ShownNumbers


def comparisons_of(
    config: Config,
    totals: GrandTotals,
    resampling: Resampling | None,
    ratios: RatioTotals | None,
    requests: Sequence[Request],
    shown: "ShownNumbers | None" = None,
) -> Iterator[tuple[Comparison, Spread]]:
    """Every comparison, and what its error stands on."""
    chosen = config.statistics
    pairs = dict.fromkeys(pair for _, pair in totals.pairs)
    are_means = [is_mean_of_users(each, config.policies) for each in requests]
    for pair in pairs:
        for segment in totals.segments:
            for column, request in enumerate(requests):
                if shown is not None and shown.has(request):
                    both = shown.delta(segment, pair, request)
                    n = both.delta.count
                    spread = Spread(n, n - 1.0, math.nan)
                    yield _comparison(both, None, spread, chosen, segment, pair, request), spread
                    continue
                if not are_means[column]:  # nothing to pair
                    continue
                found = totals.pair_total(segment, pair, column)
                bounds = request.metric.bounds
                sums = None if ratios is None else ratios.of_pair(segment, pair, column)
                if sums is not None:
                    n, df, skewness = sums[0].count, sums[0].df, sums[0].skewness
                else:
                    n = found.delta.count
                    df, skewness = n - 1.0, totals.pairs[segment, pair].deltas.skewness_of(column)
                spread = Spread(
                    n,
                    df,
                    skewness,
                    widest=bounds[1] - bounds[0],
                    table=_differing(found, bounds) if chosen.weight is None else None,
                    is_clustered=sums is not None and chosen.has_clusters,
                    is_mended=chosen.skewness,
                )
                plain = _comparison(found, sums, spread, chosen, segment, pair, request)
                if ratios is not None and sums is not None:
                    n_users = ratios.users_without_values(segment, pair, column)
                    if n_users is not None:
                        plain = replace(plain, n_users=n_users, wins=None, ties=None, losses=None)
                if request.metric.higher_is_better is None:
                    plain = replace(plain, wins=None, ties=None, losses=None)
                if resampling is not None:
                    plain = _drawn(plain, resampling, segment, chosen, spread.widest)
                yield plain, spread


def _comparison(
    found: "PairTotal | Delta",
    sums: tuple[RatioTotal, RatioTotal, RatioTotal] | None,
    spread: Spread,
    chosen: StatisticsSection,
    segment: Segment,
    pair: Pair,
    request: Request,
) -> Comparison:
    """The comparison of means of users, or of `sums`: delta, then baseline and candidate."""
    delta, baseline, candidate = sums or (found.delta, found.baseline, found.candidate)
    level, mean, std_error, n = chosen.level, delta.mean, delta.std_error, spread.n
    interval = spread.limits(mean, std_error, level=level)
    relative = relative_interval(
        baseline.mean,
        baseline.std_error,
        mean,
        std_error,
        candidate.std_error,
        n,
        level=level,
        df=spread.df,
    )
    is_clustered = sums is not None and chosen.has_clusters
    found_t = t_test(mean, std_error, n, skewness=spread.plain_skewness, df=spread.df)
    p_value, test = found_t.p_value, "permutation" if math.isinf(found_t.statistic) else "t"
    if spread.table is not None:
        exact = mcnemar_p(*spread.table[1:3])
        if not spread.is_clustered or exact > p_value:
            p_value, test = exact, "mcnemar"
    return Comparison(
        baseline=pair[0],
        candidate=pair[1],
        metric=request.label,
        segmentation=None if segment == ALL else segment[0],
        segment=None if segment == ALL else segment[1],
        delta=mean,
        std_error=std_error,
        low=interval.low,
        high=interval.high,
        relative=mean / baseline.mean if baseline.mean else math.nan,
        relative_low=relative.low,
        relative_high=relative.high,
        p_value=p_value,
        p_adjusted=None,
        effect_size=_effect_size(found, sums, mean, std_error),
        test=test,
        n_users=found.delta.count,
        n_clusters=n if is_clustered else None,
        df=spread.df if is_clustered else None,
        wins=found.wins,
        ties=found.ties,
        losses=found.losses,
        margin=chosen.margin,
        verdict="",
        smallest_difference=None,
        users_needed=None,
    )


def _differing(found: PairTotal, bounds: tuple[float, float]) -> tuple[int, int, int, int] | None:
    """Users who are 1 in both, in the candidate alone, the baseline alone, neither.

    None where values are not all 0 or 1, or so many users differ that t tests hold.
    """
    if not (is_share(found.baseline, bounds) and is_share(found.candidate, bounds)):
        return None
    n_differ, more = found.delta.squares >> 2 * SCALE_BITS, found.delta.scaled >> SCALE_BITS
    gained = (n_differ + more) // 2
    both = (found.candidate.scaled >> SCALE_BITS) - gained
    return counts_differing(both, gained, n_differ - gained, found.delta.count)


def _effect_size(
    found: "PairTotal | Delta",
    sums: tuple[RatioTotal, RatioTotal, RatioTotal] | None,
    mean: float,
    std_error: float | None,
) -> float:
    """Over the deviation of users, whatever the mean's error stands on, where they have values."""
    own = found.delta
    if sums is None or not own.std_error or not math.isclose(own.mean, mean, abs_tol=own.std_error):
        return effect_size(mean, std_error, sums[0].count if sums else own.count)
    return effect_size(mean, own.std_error, own.count)


def _power(
    each: Comparison, spread: Spread, chosen: StatisticsSection, size: int
) -> tuple[float | None, int | None]:
    """What these users would show, and how many would show the margin, as these vary.

    At the level of one of `size` tests where the chance of a single false one is bounded.
    """
    if not each.std_error:  # where all differ alike, nothing is known of how users vary
        return None, None
    is_bounded = chosen.correction in ("holm", "bonferroni", "tukey")
    level = 1.0 - (1.0 - chosen.level) / (max(1, size) if is_bounded else 1)
    n = spread.df + 1.0
    smallest = each.std_error * math.sqrt(n) * _smallest_effect(n, level, chosen.power)
    needed = None
    if chosen.margin is not None:
        deviation = each.std_error * math.sqrt(spread.n)
        needed = users_needed(chosen.margin, deviation, level=level, power=chosen.power)
    if needed is not None:  # in clusters as these, where users vary together
        needed = -(-needed * max(each.n_users, spread.n) // spread.n)
    is_possible = smallest <= spread.widest  # otherwise there is no such difference
    return smallest if is_possible else None, needed


@lru_cache(maxsize=4096)
def _smallest_effect(n: float, level: float, power: float) -> float:
    return smallest_difference(1.0, n, level=level, power=power)


def _drawn(
    each: Comparison,
    resampling: Resampling,
    segment: Segment,
    chosen: StatisticsSection,
    widest: float,
) -> Comparison:
    """The comparison with the limits and the p-value that were asked for."""
    if not math.isfinite(each.delta):
        return each
    pair = (each.baseline, each.candidate)
    found = resampling.test(segment, pair, each.metric)
    if found is not None and each.std_error == 0.0:  # every draw is the same
        is_flipped = each.delta != 0.0 and chosen.test == "bootstrap"
        return replace(each, test="permutation" if is_flipped else chosen.test)
    if found is not None:
        test = f"{chosen.test}, tail" if found.is_tail else chosen.test
        each = replace(each, p_value=found.p_value, test=test)
    interval = resampling.interval(segment, pair, each.metric, each.delta)
    if interval is not None and each.std_error != 0.0:
        interval = interval.within((-widest, widest))
        each = replace(each, low=interval.low, high=interval.high)
    return each


def corrected(
    compared: Sequence[tuple[Comparison, Spread]],
    chosen: StatisticsSection,
    primary: Sequence[str],
    resampling: Resampling | None,
) -> tuple[list[Comparison], int]:
    """Comparisons with adjusted p-values and limits, and the number of tests that decide.

    Where primary metrics are named, their comparisons over all users are one family, all else is
    another; otherwise segments are families of their own, one a segmentation: who looks at them
    asks another question.
    """
    comparisons = [each for each, _ in compared]
    families = families_of(comparisons, chosen, primary)
    if chosen.correction == "tukey":
        adjusted, n_tests = _by_tukey(comparisons, chosen)
        n_pairs = len({(each.baseline, each.candidate) for each in comparisons})
        for place, (_, spread) in enumerate(compared):
            each = adjusted[place]
            smallest, needed = _power(each, spread, chosen, n_pairs)
            adjusted[place] = replace(each, smallest_difference=smallest, users_needed=needed)
        return adjusted, n_tests
    adjusted, n_tests = list(comparisons), 0
    for places in families:
        p_values = [or_nan(comparisons[place].p_value) for place in places]
        family = adjust(p_values, chosen.correction, error=1.0 - chosen.level)
        first = comparisons[places[0]]
        is_decisive = first.metric in primary if primary else True
        n_tests += family.size if first.segmentation is None and is_decisive else 0
        if resampling is None:  # Holm judges each at a level of its own
            dfs = (compared[place][1].df for place in places)
            below = (0.5 * (1.0 - (1.0 - error)) for error in family.errors)
            find_t_quantiles(zip(below, dfs, strict=True))
        for place, p_value, error in zip(places, family.p_adjusted, family.errors, strict=True):
            each, spread = compared[place]
            smallest, needed = _power(each, spread, chosen, family.size)
            limits = NO_INTERVAL
            if not math.isnan(error):
                limits = _limits_at(each, spread, 1.0 - error, resampling)
                limits = _agreeing(limits, each.delta, differs=p_value <= 1.0 - chosen.level)
            adjusted[place] = replace(
                each,
                p_adjusted=p_value,
                low_adjusted=limits.low if limits.exists else None,
                high_adjusted=limits.high if limits.exists else None,
                smallest_difference=smallest,
                users_needed=needed,
            )
    if primary:
        for places in families:
            for place in places:
                is_primary = _is_primary(comparisons[place], primary)
                name = "primary" if is_primary else "exploratory"
                adjusted[place] = replace(adjusted[place], family=name)
    return adjusted, n_tests


def _limits_at(
    each: Comparison, spread: Spread, level: float, resampling: Resampling | None
) -> Interval:
    """Limits as the plain ones are, at another level."""
    found = None
    if resampling is not None and math.isfinite(each.delta) and each.std_error != 0.0:
        segment = ALL if each.segmentation is None else (each.segmentation, each.segment or "")
        pair = (each.baseline, each.candidate)
        found = resampling.interval(segment, pair, each.metric, each.delta, level=level)
    if found is not None:
        return found.within((-spread.widest, spread.widest))
    return spread.limits(each.delta, each.std_error, level=level)


def _agreeing(limits: Interval, delta: float, *, differs: bool) -> Interval:
    """Limits that hold 0 exactly where the test cannot tell, be the test another than theirs."""
    if not limits.exists or limits.holds(0.0) != differs:
        return limits
    if not differs:
        return Interval(min(limits.low, 0.0), max(limits.high, 0.0))
    nearest = NEAREST * delta
    return (
        Interval(max(limits.low, nearest), limits.high)
        if delta > 0.0
        else (Interval(limits.low, min(limits.high, nearest)))
    )


def _is_primary(each: Comparison, primary: Sequence[str]) -> bool:
    return each.segmentation is None and each.metric in primary


def family_in(chosen: StatisticsSection, primary: Sequence[str]) -> str:
    """Whether tests of a metric alone are corrected together, or those of the whole report."""
    if chosen.correction == "tukey":
        return "metric"
    return "report" if primary else chosen.family


def families_of(
    comparisons: Sequence[Comparison], chosen: StatisticsSection, primary: Sequence[str]
) -> list[list[int]]:
    """The places of comparisons that are corrected together."""
    families: dict[tuple[object, ...], list[int]] = {}
    for place, each in enumerate(comparisons):
        key: tuple[object, ...] = (_is_primary(each, primary),)
        if not primary:
            key = (each.segmentation, each.metric if chosen.family == "metric" else None)
        families.setdefault(key, []).append(place)
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
        n = pairs[0].n_users
        if not all(_adds_up(each, means, row, n) for each in pairs):
            n = 0  # there is no test
        found = tukey_test(means, errors, n, level=chosen.level)
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
                low_adjusted=pair.interval.low,
                high_adjusted=pair.interval.high,
                test="tukey",
            )
    n_tests = sum(each.segmentation is None for each in comparisons)
    return adjusted, n_tests


def _adds_up(each: Comparison, means: Sequence[float], row: Mapping[str, int], n: int) -> bool:
    """Whether a pair stands on `n` users, those of the other pairs, as Tukey's layout wants."""
    delta = means[row[each.candidate]] - means[row[each.baseline]]
    tolerance = 1e-9 * max(1.0, *map(abs, means))
    return each.n_users == n and math.isclose(each.delta, delta, abs_tol=tolerance)


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value
