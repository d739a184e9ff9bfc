"""What comparisons come to: verdicts, models in order, segments that lose or gain."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.segments import ALL
from evalkit.aggregate.sums import Pair
from evalkit.aggregate.user_values.gather import is_mean_of_users
from evalkit.config import Config, StatisticsSection
from evalkit.inference.comparisons import families_of, or_nan
from evalkit.inference.drafts import Draft, finished
from evalkit.inference.geometric import margin_of
from evalkit.inference.summed import Summed, none_if_nan
from evalkit.metrics import Request, is_gmean, is_ordered
from evalkit.report import Comparison, Estimate, Finding, Standing
from evalkit.report.frames import make_records
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import t_quantile, t_sf
from evalkit.statistics.intervals import Interval
from evalkit.statistics.paired import equivalence_test, non_inferiority_test
from evalkit.statistics.proportions import margin_p_values
from evalkit.statistics.search import SegmentDelta, search_segments
from evalkit.statistics.tukey import group_letters
from evalkit.statistics.unseen import FEWEST_APART, FEWEST_CARRYING

FEWEST_WITHIN = 200  # users who differ, below whom nothing is within a margin there
FEWEST_SEARCHED = 100  # users of a segment that a search looks at (docs/statistics.md)


def with_verdicts(
    drafts: Sequence[Draft],
    chosen: StatisticsSection,
    requests: Sequence[Request],
    primary: Sequence[str] = (),
) -> tuple[Comparison, ...]:
    """Comparisons with verdicts; tests against the margin are corrected as the others are.

    Tukey's test knows no margin: Holm's correction stands in for it there.
    """
    better = {request.label: request.metric.higher_is_better for request in requests}
    if any(each.seen is not None for each in drafts):
        for family in families_of(drafts, chosen, primary).values():
            _doubt(family, chosen.correction)
        for each in drafts:
            _note_gate_limits(each, chosen.level)
    if chosen.margin is not None:
        correction = "holm" if chosen.correction == "tukey" else chosen.correction
        margins = {request.label: margin_of(request, chosen.margin) for request in requests}
        for family in families_of(drafts, chosen, primary).values():
            _judge_margin(family, margins, chosen.level, correction, better)
    for each in drafts:
        each.verdict = verdict_of(each, better[each.metric], 1.0 - chosen.level)
        alone = verdict_of(each, better[each.metric], 1.0 - chosen.level, is_alone=True)
        each.is_withheld = each.verdict != alone
    return tuple(finished(drafts))


def _doubt(family: Sequence[Draft], correction: str) -> None:
    """Note p of differences, corrected together, that are no surer than what was seen allows.

    Tukey's p are corrected already: there Bonferroni's correction is that of what was seen alone.
    """
    least = [2.0 * _p_seen(each, abs(each.delta), is_above=each.delta > 0.0) for each in family]
    if correction == "tukey":
        correction = "bonferroni"
    else:
        least = [max(each.p_value, p) for each, p in zip(family, least, strict=True)]
    for each, p in zip(family, adjust(least, correction).p_adjusted, strict=True):
        each.p_seen = 0.0 if each.spread.is_plain else p


def _note_gate_limits(each: Draft, level: float) -> None:
    """Note limits that gates go by, where users not seen move them further than the shown ones."""
    if each.seen is None or each.low is None or each.high is None:
        return
    shown, half = Interval(each.low, each.high), min(each.seen.widest, each.spread.widest)
    wider = each.seen.limits(each.delta, each.std_error, level=level).around(shown)
    is_few = each.spread.is_clustered and each.spread.n < FEWEST_APART
    if each.n_carrying >= FEWEST_CARRYING and not is_few:
        reach = -t_quantile(0.5 * (1.0 - level), each.df_carrying) * (each.std_error or 0.0)
        wider = wider.around(Interval(each.delta - reach, each.delta + reach))
    else:  # nothing is known
        wider = shown.around(Interval(each.delta - half, each.delta + half))
    if wider != shown and wider.exists:
        each.low_gate, each.high_gate = wider.low, wider.high


def _p_seen(each: Draft, distance: float, *, is_above: bool) -> float:
    """What a one-sided p is at least, where nobody knows how large a difference can be.

    It is that of a metric whose bound is `widest` of what was seen, and that of a t test of as many
    users as carry the difference; 0 where a bound is known.
    """
    if each.seen is None:
        return 0.0
    if min(each.n_users, each.spread.n) < FEWEST_APART or each.n_carrying < FEWEST_CARRYING:
        return 1.0
    unseen = each.seen.p_unseen(distance, each.delta, each.std_error, is_above=is_above)
    return max(unseen, t_sf(distance / each.std_error, each.df_carrying) if each.std_error else 0.0)


def _judge_margin(
    family: Sequence[Draft],
    margins: Mapping[str, float],
    level: float,
    correction: str,
    better: Mapping[str, bool | None],
) -> None:
    """Give comparisons that are corrected together what tests against the margin say."""
    tests = [_margin_tests(each, margins[each.metric], better[each.metric]) for each in family]
    columns = [*zip(*tests, strict=True)]
    if any(each.seen is not None for each in family):
        least = [_margin_seen(each, margins[each.metric], better[each.metric]) for each in family]
        pairs = zip(columns[:2], zip(*least, strict=True), strict=True)
        columns += [tuple(map(max, *each)) for each in pairs]
    same, not_worse, *seen = (adjust(p_values, correction).p_adjusted for p_values in columns)
    for each, *of_each in zip(family, *seen, strict=True) if seen else ():
        each.margin_seen = of_each[0], of_each[1]
    error = 1.0 - level
    for comparison, p_same, p_not_worse in zip(family, same, not_worse, strict=True):
        comparison.p_equivalent, comparison.p_not_inferior = _or_none(p_same), _or_none(p_not_worse)
        limits = comparison.spread.limits(
            comparison.delta, comparison.std_error, level=1.0 - 2.0 * error, of_margin=True
        )
        comparison.low_margin, comparison.high_margin = _or_none(limits.low), _or_none(limits.high)


def _margin_seen(each: Draft, margin: float, higher_is_better: bool | None) -> tuple[float, float]:
    """What p against a margin are at least, as `_margin_tests` has them, by what was seen."""
    seen = each.seen
    if seen is not None and (seen.n_below or 0) + (seen.n_above or 0) < FEWEST_WITHIN:
        return 1.0, 1.0
    above = _p_seen(each, margin + each.delta, is_above=True)
    below = _p_seen(each, margin - each.delta, is_above=False)
    return max(above, below), above if higher_is_better else below


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def _margin_tests(each: Draft, margin: float, higher_is_better: bool | None) -> tuple[float, float]:
    """p-values of "they differ by the margin" and of "it is worse by it"; NaN without one."""
    delta, std_error, spread = each.delta, each.std_error, each.spread
    shape = {"skewness": spread.margin_skewness, "df": spread.df}
    least = [
        spread.p_unseen(margin + sign * delta, delta, std_error, is_above=sign > 0.0)
        for sign in (1.0, -1.0)
    ]
    if spread.table is not None and not spread.is_weighted:
        exact = margin_p_values(*spread.table, margin=margin)
        least = [*map(max, least, exact)]
    above, below = least
    not_worse = math.nan if higher_is_better is None else above if higher_is_better else below
    if spread.is_exact:
        return max(above, below), not_worse
    same = equivalence_test(delta, std_error, spread.n, margin=margin, **shape).p_value
    if higher_is_better is None:
        return max(same, above, below), math.nan
    test = non_inferiority_test(
        delta, std_error, spread.n, margin=margin, higher_is_better=higher_is_better, **shape
    )
    return max(same, above, below), max(test.p_value, not_worse)


def verdict_of(
    each: Draft | Comparison, higher_is_better: bool | None, error: float, *, is_alone: bool = False
) -> str:
    """What a comparison comes to, by its corrected tests; where there are none, that.

    With a margin a difference that is surely smaller than it is called equivalent, be it ever so
    significant; without one, or beyond it, the test of a difference decides.

    Args:
        is_alone: by p-values alone, whatever was seen of users.
    """
    differs, (same, not_worse) = 0.0, (0.0, 0.0)
    if isinstance(each, Draft) and not is_alone:
        differs, (same, not_worse) = each.p_seen, each.margin_seen
    if max(or_nan(each.p_equivalent), same) <= error:
        return "equivalent"
    way = each.delta
    if isinstance(each, Draft) and each.test == "sign":  # the mean may point the other way
        way = (each.spread.n_above or 0) - (each.spread.n_below or 0)
    elif isinstance(each, Draft) and each.way * way < 0.0:  # ranks and the mean: neither is sure
        way = 0.0
    if max(or_nan(each.p_adjusted), differs) <= error and way != 0.0:
        if higher_is_better is None:
            return "different"
        return "better" if (way > 0.0) == higher_is_better else "worse"
    if max(or_nan(each.p_not_inferior), not_worse) <= error:
        return "not inferior"
    return "not tested" if math.isnan(or_nan(each.p_adjusted)) else "cannot tell"


def standings_of(
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
            and or_nan(each.p_adjusted) <= 1.0 - chosen.level
            and each.verdict != "cannot tell"
        }
        sign = -1.0 if request.metric.higher_is_better else 1.0
        names = sorted(values, key=lambda name: _last_if_nan(sign * values[name]))
        alike = [[frozenset((one, other)) not in told_apart for other in names] for one in names]
        letters = group_letters(alike)
        rows = tuple((name, values[name], each) for name, each in zip(names, letters, strict=True))
        standings.append(Standing(request.label, rows))
    return tuple(standings)


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value


def findings_of(config: Config, summed: Summed, requests: Sequence[Request]) -> Iterator[Finding]:
    """Segments that lose or gain; false ones are held below 1 - level among all that are listed."""
    chosen = config.statistics
    named = set(config.read_metrics(chosen.metrics)) if chosen.metrics else set(requests)
    pairs = list(dict.fromkeys(pair for _, pair in summed.totals.pairs))
    columns = [
        column
        for column, each in enumerate(requests)
        if each in named
        and is_mean_of_users(each, config.policies)
        and not (is_gmean(each) or is_ordered(each))
        and each.metric.higher_is_better is not None
    ]
    for pair in pairs:
        searched = search_segments(
            _deltas(summed, pair, requests, columns),
            false_discovery_rate=(1.0 - chosen.level) / len(pairs),  # of all pairs together
            min_users=max(config.segments.min_users, FEWEST_SEARCHED),
        )
        for kind, found in (("loss", searched.losses), ("gain", searched.gains)):
            where = [each.found for each in found]
            yield from make_records(
                Finding,
                {
                    "baseline": repeat(pair[0]),
                    "candidate": repeat(pair[1]),
                    "metric": [each.metric for each in where],
                    "segmentation": [each.segmentation for each in where],
                    "segment": [each.segment for each in where],
                    "kind": repeat(kind),
                    "delta": [each.delta for each in found],
                    "low": [each.interval.low for each in found],
                    "high": [each.interval.high for each in found],
                    "p_value": [each.p_value for each in found],
                    "p_adjusted": [each.p_adjusted for each in found],
                    "n_users": [each.n for each in where],
                    "n_searched": repeat(searched.n_searched),
                },
            )


def _deltas(
    summed: Summed, pair: Pair, requests: Sequence[Request], columns: Sequence[int]
) -> list[SegmentDelta]:
    """The differences in all segments that have users, metric by metric."""
    found, segments = summed.deltas(pair), [each for each in summed.segments if each != ALL]
    rows = [*map(ALL.__ne__, summed.segments)]

    def of_segments(numbers: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return numbers[rows][:, columns].T.ravel()

    labels = [requests[column].label for column in columns]
    better = [bool(requests[column].metric.higher_is_better) for column in columns]
    deltas = make_records(
        SegmentDelta,
        {
            "segmentation": [name for name, _ in segments] * len(columns),
            "segment": [name for _, name in segments] * len(columns),
            "n": of_segments(found.counts).tolist(),
            "delta": of_segments(found.means).tolist(),
            "std_error": none_if_nan(of_segments(found.errors)),
            "skewness": of_segments(found.skewnesses).tolist(),
            "metric": [each for each in labels for _ in segments],
            "higher_is_better": [each for each in better for _ in segments],
        },
    )
    return [each for each in deltas if each.n]
