"""Models compared, pair by pair, and the p-values of all of them corrected together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from evalkit.aggregate.accumulators.resampling import Resampling
from evalkit.aggregate.segments import ALL, Segment
from evalkit.aggregate.sums import Pair, PairTotal
from evalkit.aggregate.user_values.gather import is_mean_of_users
from evalkit.config import Config, StatisticsSection
from evalkit.inference.drafts import Draft, limits_of, reach_alone
from evalkit.inference.plain import note_limits, of_means
from evalkit.inference.ratios import RatioTotal, RatioTotals
from evalkit.inference.spread import DifferenceSpread
from evalkit.inference.summed import TOGETHER, Summed
from evalkit.metrics import Request, bounds_of, is_ordered
from evalkit.statistics.corrections import Family, adjust
from evalkit.statistics.distributions import normal_quantile
from evalkit.statistics.intervals import Interval
from evalkit.statistics.paired import effect_size, p_of_t_tests
from evalkit.statistics.power import (
    smallest_difference,
    smallest_share_differences,
    users_needed,
    users_needed_of_shares,
)
from evalkit.statistics.proportions import NEAREST, mcnemar_p
from evalkit.statistics.sample_ratio import binomial_p
from evalkit.statistics.tukey import TukeyPair, error_of_one_pair, p_of_all_pairs, tukey_test

if TYPE_CHECKING:
    from evalkit.inference.ordered import OrderedValues
    from evalkit.inference.shown import Delta, Number, ShownNumbers
    from evalkit.statistics.exact import ExactSum

OF_UNSEEN = ", unseen"  # of a test whose p is that of users not seen


def comparisons_of(
    config: Config,
    summed: Summed,
    resampling: Resampling | None,
    ratios: RatioTotals | None,
    requests: Sequence[Request],
    shown: "ShownNumbers | OrderedValues | None" = None,
) -> list[Draft]:
    """Every comparison with its test, before any correction."""
    drafts = list(_drafts(config, summed, ratios, requests, shown))
    tested = [each for each in drafts if not each.spread.is_exact]
    spreads = [each.spread for each in tested]
    p_values = p_of_t_tests(
        [each.delta for each in tested],
        [each.std_error for each in tested],
        [each.n for each in spreads],
        [each.plain_skewness for each in spreads],
        [each.df for each in spreads],
    )
    for each, p_value in zip(tested, p_values, strict=True):
        _note_t_test(each, p_value)
    columns = {each.label: column for column, each in enumerate(requests)}
    for each in drafts:
        column = columns[each.metric]
        if shown is None or not shown.has(requests[column]):
            _note_seen(each, summed, requests[column], column)
        if ratios is not None:
            n_carrying = ratios.users_carrying(*each.place, column)
            each.n_carrying = min(each.n_carrying, n_carrying)
    if config.statistics.test == "sign":
        for each in drafts:
            _note_sign_test(each)
    if resampling is not None:
        of_lists = {each.label for each in requests if shown is not None and shown.has(each)}
        for draft in drafts:
            if draft.metric not in of_lists:
                _draw(draft, resampling, config.statistics)
    return drafts


def _note_t_test(each: Draft, p_value: float) -> None:
    """Note the p of a t test: no surer than McNemar's of its users, or than users not seen."""
    spread, is_student, test = each.spread, each.spread.is_student, each.spread.test
    if spread.table is None or p_value >= each.p_value:
        is_flipped = is_student and each.std_error == 0.0 and each.delta != 0.0
        each.p_value, each.test = p_value, "permutation" if is_flipped else test
    if is_student:
        return
    distance, is_above = abs(each.delta), each.delta > 0.0
    least = spread.p_unseen(distance, each.delta, each.std_error, is_above=is_above)
    if 2.0 * least > each.p_value:
        each.p_value, each.test = min(1.0, 2.0 * least), f"{test}{OF_UNSEEN}"


def _note_seen(each: Draft, summed: Summed, request: Request, column: int) -> None:
    """Note what verdicts suppose of users not seen, where nobody knows what a user can differ by.

    Of numbers over all rows users differ by what they move them by, times their number. Over
    clusters it is not known how far one can move them: there must be as many of these as of users.
    """
    spread, (segment, pair) = each.spread, each.place
    is_known = math.isfinite(spread.widest) and spread.n_below is not None
    if is_known or spread.is_weighted or each.std_error is None:
        return
    sums = summed.totals.pairs[segment, pair]
    models = [summed.totals.models[segment, name] for name in pair]
    most = sums.deltas.largest_of(column)
    wins, _, losses = sums.outcomes[0, column].tolist()
    widest = max(most, *(model.largest_of(column) for model in models))
    if math.isfinite(spread.widest) or spread.is_clustered:
        widest = math.inf  # users have no values of it, but none is a whole scale away
    below, above = (losses, wins) if request.metric.higher_is_better else (wins, losses)
    mean = min(abs(model.sum_of(column).mean) for model in models)
    each.seen = spread._replace(widest=widest, table=None, n_below=below, n_above=above, mean=mean)
    if most > 0.0 and not spread.is_clustered:
        squares = spread.df * each.std_error**2 + each.delta**2
        each.n_carrying = spread.n * squares / most**2


def _note_sign_test(each: Draft) -> None:
    """Note the p of as many users above as below 0: the median of their differences is 0.

    Source:
        Dixon and Mood 1946, The statistical sign test, JASA 41(236), 557-566.
    """
    above, below = each.spread.n_above, each.spread.n_below
    if above is not None and below is not None and each.spread.n > 1:
        each.p_value, each.test = binomial_p(above, above + below, 0.5), "sign"


def _drafts(
    config: Config,
    summed: Summed,
    ratios: RatioTotals | None,
    requests: Sequence[Request],
    shown: "ShownNumbers | OrderedValues | None",
) -> Iterator[Draft]:
    chosen, totals, n = config.statistics, summed.totals, len(requests)
    are_means = [is_mean_of_users(each, config.policies) for each in requests]
    n_together = max(1, TOGETHER // max(1, n * len(summed.segments)))
    for begin in range(0, len(summed.pairs), n_together):
        pairs = summed.pairs[begin : begin + n_together]
        drafts = [each for pair in pairs for each in of_means(summed, pair, requests, chosen)]
        if drafts:
            note_limits(drafts, chosen.level)
        places = product(pairs, summed.segments, range(n))
        for draft, (pair, segment, column) in zip(drafts, places, strict=True):
            request = requests[column]
            if shown is not None and shown.has(request):
                both = shown.delta(segment, pair, request)
                n_users = both.delta.units or both.delta.count
                least, most = bounds_of(request)
                spread = DifferenceSpread(
                    n_users,
                    n_users - 1.0,
                    math.nan,
                    widest=most - least,
                    is_plain=chosen.test != "auto",
                )
                draft = _draft(both, None, spread, chosen, segment, pair, request)
                if is_ordered(request) and both.delta.error is None:
                    draft.low = draft.high = None
                yield draft
            elif not are_means[column]:  # nothing to pair
                continue
            elif ratios is not None and (sums := ratios.of_pair(segment, pair, column)) is not None:
                least, most = bounds_of(request)
                n_without, signs = ratios.users_without_values(segment, pair, column), draft.spread
                spread = DifferenceSpread(
                    sums[0].count,
                    sums[0].df,
                    sums[0].skewness,
                    widest=most - least,
                    table=signs.table if n_without is None else None,
                    is_clustered=chosen.has_clusters,
                    is_mended=chosen.skewness,
                    is_weighted=chosen.weight is not None,
                    n_below=signs.n_below if n_without is None else None,
                    n_above=signs.n_above if n_without is None else None,
                    is_plain=signs.is_plain,
                )
                found = totals.pair_total(segment, pair, column)
                draft = _draft(found, sums, spread, chosen, segment, pair, request)
                if n_without is not None:
                    draft.n_users = n_without
                if n_without is not None or request.metric.higher_is_better is None:
                    draft.wins = draft.ties = draft.losses = None
                yield draft
            else:
                yield draft


def _draft(
    found: "PairTotal | Delta",
    sums: tuple[RatioTotal, RatioTotal, RatioTotal] | None,
    spread: DifferenceSpread,
    chosen: StatisticsSection,
    segment: Segment,
    pair: Pair,
    request: Request,
) -> Draft:
    """The comparison of means of users, or of `sums`: delta, then baseline and candidate."""
    delta, baseline, candidate = sums or (found.delta, found.baseline, found.candidate)
    mean, std_error, n = delta.mean, delta.std_error, spread.n
    interval = spread.limits(mean, std_error, level=chosen.level)
    draft = Draft(
        baseline=pair[0],
        candidate=pair[1],
        metric=request.label,
        segmentation=None if segment == ALL else segment[0],
        segment=None if segment == ALL else segment[1],
        spread=spread,
        delta=mean,
        std_error=std_error,
        low=interval.low,
        high=interval.high,
        relative=mean / baseline.mean if baseline.mean else math.nan,
        relative_low=None,
        relative_high=None,
        effect_size=_effect_size(found.delta, spread, mean, std_error),
        n_users=found.delta.count,
        wins=found.wins,
        ties=found.ties,
        losses=found.losses,
        margin=chosen.margin,
    )
    errors = [
        math.nan if each.std_error is None else each.std_error for each in (baseline, candidate)
    ]
    draft.of_both = baseline.mean, errors[0], errors[1]
    if spread.table is not None:
        draft.p_value, draft.test = mcnemar_p(*spread.table[1:3]), "mcnemar"
    if sums is not None and chosen.has_clusters:
        draft.n_clusters, draft.df = n, spread.df
    return draft


def _effect_size(
    own: "ExactSum | Number", spread: DifferenceSpread, mean: float, std_error: float | None
) -> float:
    """The difference over the deviation of users' differences, each counted once.

    So it is over clusters and with weights, too; where users have no differences of their own,
    the deviation is the error times the root of their number.
    """
    if spread.n_below is None:
        return effect_size(mean, std_error, spread.n)
    return effect_size(mean, own.std_error, own.count)


def _note_powers(family: Sequence[Draft], chosen: StatisticsSection, size: int) -> None:
    """Note what these users would show, and how many would show the margin, as these vary.

    At the level of one of `size` tests where the chance of a single false one is bounded.
    """
    is_bounded = chosen.correction in ("holm", "bonferroni", "tukey")
    level = 1.0 - (1.0 - chosen.level) / (max(1, size) if is_bounded else 1)
    varying = [each for each in family if each.std_error]  # of others nothing is known of users
    exact = [each.spread for each in varying if each.spread.is_exact]
    differing = np.array([each.n_differing / each.n for each in exact])
    ns = np.array([each.n for each in exact], dtype=np.int64)
    of_shares = smallest_share_differences(differing, ns, level=level, power=chosen.power)
    left = iter(zip(differing.tolist(), of_shares.tolist(), strict=True))
    for comparison in varying:
        if comparison.spread.is_exact:
            share, smallest = next(left)
            needed = _needed_of_shares(share, level, chosen)
        else:
            smallest, needed = _powers(comparison, level, chosen)
        if smallest <= comparison.spread.widest:  # otherwise there is no such difference
            comparison.smallest_difference = smallest
        comparison.users_needed = needed


def _powers(each: Draft, level: float, chosen: StatisticsSection) -> tuple[float, int | None]:
    """The smallest difference that the test made here shows, and users who show the margin.

    A test that counts users not seen finds nothing nearer than they allow.
    """
    spread, error, margin = each.spread, each.std_error or 0.0, chosen.margin
    n = spread.df + 1.0
    smallest = error * math.sqrt(n) * _smallest_effect(n, level, chosen.power)
    if not spread.is_student:
        tail = 0.5 * (1.0 - level)
        alone = reach_alone(tail, spread.widest, n)
        least = alone - normal_quantile(1.0 - chosen.power) * error
        if least > smallest and all(
            spread.reach_unseen(each.delta, error, error=tail, is_above=is_above) >= alone
            for is_above in (True, False)
        ):
            smallest = least
    if margin is None:
        return smallest, None
    needed = users_needed(margin, error * math.sqrt(spread.n), level=level, power=chosen.power)
    if needed is not None:  # in clusters as these, where users vary together
        needed = -(-needed * max(each.n_users, spread.n) // spread.n)
    return smallest, needed


def _needed_of_shares(differing: float, level: float, chosen: StatisticsSection) -> int | None:
    if chosen.margin is None:
        return None
    return users_needed_of_shares(chosen.margin, differing, level=level, power=chosen.power)


@lru_cache(maxsize=4096)
def _smallest_effect(n: float, level: float, power: float) -> float:
    return smallest_difference(1.0, n, level=level, power=power)


def _draw(each: Draft, resampling: Resampling, chosen: StatisticsSection) -> None:
    """Give a comparison the limits and the p-value that were asked for."""
    if not math.isfinite(each.delta):
        return
    if each.spread.n < 2:  # whose sign may be either, be it drawn or not: there are no limits
        each.test = chosen.test
        return
    found = resampling.test(*each.place, each.metric)
    if found is not None and each.std_error == 0.0:  # every draw is the same
        is_flipped = each.delta != 0.0 and chosen.test == "bootstrap"
        each.test = "permutation" if is_flipped else chosen.test
        return
    if found is not None:
        each.p_value, each.way = found.p_value, found.way
        each.test = f"{chosen.test}, tail" if found.is_tail else chosen.test
    interval = resampling.interval(*each.place, each.metric, each.delta)
    if interval is not None and each.std_error != 0.0:
        interval = interval.within((-each.spread.widest, each.spread.widest))
        each.low, each.high = interval.low, interval.high


def correct(
    drafts: Sequence[Draft],
    chosen: StatisticsSection,
    primary: Sequence[str],
    resampling: Resampling | None,
) -> int:
    """Give comparisons adjusted p-values and limits; the number of tests that decide.

    Where primary metrics are named, their comparisons over all users are one family, those of
    other metrics another. Segments are families of their own, one a segmentation: who looks at
    them asks another question.
    """
    families = families_of(drafts, chosen, primary)
    if chosen.correction == "tukey":
        _correct_by_tukey(drafts, chosen)
        n_pairs = len({(each.baseline, each.candidate) for each in drafts})
        _note_powers(drafts, chosen, n_pairs)
        for each in drafts:
            each.family, each.family_size = f"pairs by {each.metric}", n_pairs
        return sum(each.segmentation is None for each in drafts)
    n_tests = 0
    for name, family in families.items():
        found = adjust(
            [each.p_value for each in family], chosen.correction, error=1.0 - chosen.level
        )
        is_decisive = family[0].metric in primary if primary else True
        n_tests += found.size if family[0].segmentation is None and is_decisive else 0
        _note_adjusted(family, found, chosen, resampling)
        _note_powers(family, chosen, found.size)
        for each in family:
            each.family, each.family_size = name, found.size
    return n_tests


def _note_adjusted(
    drafts: Sequence[Draft], found: Family, chosen: StatisticsSection, resampling: Resampling | None
) -> None:
    """Note adjusted p-values, and limits as the plain ones are, each at the level it was judged."""
    for each, p_value, error in zip(drafts, found.p_adjusted, found.errors, strict=True):
        each.p_adjusted, each.judged_at = p_value, error
    family = [each for each in drafts if not math.isnan(each.judged_at)]
    levels = [1.0 - each.judged_at for each in family]
    low, high = limits_of(family, levels)
    differs = np.array([each.p_adjusted for each in family], dtype=float) <= 1.0 - chosen.level
    stand = (((low <= 0.0) & (high >= 0.0)) != differs) & ~np.isnan(low + high)
    columns = (each.tolist() for each in (low, high, stand, differs))
    for comparison, level, its_low, its_high, stands, differs_here in zip(
        family, levels, *columns, strict=True
    ):
        if stands and resampling is None:
            comparison.low_adjusted, comparison.high_adjusted = its_low, its_high
            continue
        interval = Interval(its_low, its_high)
        if resampling is not None:
            interval = _drawn_limits(comparison, resampling, level=level) or interval
        interval = _agreeing(interval, comparison.delta, differs=differs_here)
        if interval.exists:
            comparison.low_adjusted, comparison.high_adjusted = interval.low, interval.high


def _drawn_limits(each: Draft, resampling: Resampling, level: float) -> Interval | None:
    """Limits of draws at a level, where the plain ones are such."""
    if not math.isfinite(each.delta) or each.std_error == 0.0:
        return None
    found = resampling.interval(*each.place, each.metric, each.delta, level=level)
    return None if found is None else found.within((-each.spread.widest, each.spread.widest))


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


def _is_primary(each: Draft, primary: Sequence[str]) -> bool:
    return each.segmentation is None and each.metric in primary


def family_in(chosen: StatisticsSection, primary: Sequence[str]) -> str:
    """Whether tests of a metric alone are corrected together, or those of the whole report."""
    if chosen.correction == "tukey":
        return "metric"
    return "report" if primary else chosen.family


def families_of(
    drafts: Sequence[Draft], chosen: StatisticsSection, primary: Sequence[str]
) -> dict[str, list[Draft]]:
    """The comparisons that are corrected together, by the name of their family."""
    families: dict[str, list[Draft]] = {}
    for draft in drafts:
        name = "all users" if draft.segmentation is None else f"by {draft.segmentation}"
        if primary and draft.segmentation is None:
            name = "primary" if _is_primary(draft, primary) else "exploratory"
        elif chosen.family == "metric" and not primary:
            name += f", {draft.metric}"
        families.setdefault(name, []).append(draft)
    return families


def _correct_by_tukey(drafts: Sequence[Draft], chosen: StatisticsSection) -> None:
    """p-values and limits of all pairs of models at once, metric by metric."""
    families: dict[tuple[str | None, str | None, str], list[Draft]] = {}
    for each in drafts:
        families.setdefault((each.segmentation, each.segment, each.metric), []).append(each)
    for family in families.values():
        models = list(
            dict.fromkeys(name for each in family for name in (each.baseline, each.candidate))
        )
        row = {name: number for number, name in enumerate(models)}
        # means up to a constant, which no difference shows
        means = [0.0, *(each.delta for each in family if each.baseline == models[0])]
        errors = {(row[each.baseline], row[each.candidate]): each.std_error for each in family}
        n = family[0].n_users
        if not all(_adds_up(each, means, row, n) for each in family):
            n = 0  # there is no test
        found = tukey_test(means, errors, n, level=chosen.level)
        by_place = {(pair.baseline, pair.candidate): pair for pair in found.pairs}
        for comparison in family:
            pair = by_place[row[comparison.baseline], row[comparison.candidate]]
            _note_tukey(comparison, pair, len(models), chosen.level)


def _note_tukey(each: Draft, pair: TukeyPair, n_models: int, level: float) -> None:
    """Note Tukey's test of a pair: no surer than the pair's own test, asked of all pairs at once.

    That one knows the variance of its pair, skewness, users not seen, and shares.
    """
    spread, error, limits = each.spread, 1.0 - level, pair.interval
    own, test, each.test = each.p_value, each.test, "tukey"
    is_own = not spread.is_plain or spread.table is not None
    each.p_value = pair.p_value
    if not math.isnan(pair.p_value) and (is_own or not limits.exists):
        at = 1.0 - error_of_one_pair(error, n_models)
        alone = spread.limits(each.delta, each.std_error, level=at)
        limits = limits.around(alone) if limits.exists else alone
        own = p_of_all_pairs(own, n_models) if is_own else 0.0
        if own > each.p_value:
            each.p_value = own
            each.test += OF_UNSEEN if test.endswith(OF_UNSEEN) else ""
        limits = _agreeing(limits, each.delta, differs=each.p_value <= error)
    limits = limits.within((-spread.widest, spread.widest))
    each.p_adjusted = each.p_value
    each.low, each.high = each.low_adjusted, each.high_adjusted = limits.low, limits.high


def _adds_up(each: Draft, means: Sequence[float], row: Mapping[str, int], n: int) -> bool:
    """Whether a pair stands on `n` users, those of the other pairs, as Tukey's layout wants."""
    delta = means[row[each.candidate]] - means[row[each.baseline]]
    tolerance = 1e-9 * max(1.0, *map(abs, means))
    return each.n_users == n and math.isclose(each.delta, delta, abs_tol=tolerance)


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value
