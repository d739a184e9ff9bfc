"""What of the numbers may say more than they know: few users, ties, small segments."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from evalkit.aggregate.segments import ALL, SMALL, Segment
from evalkit.aggregate.sums import GrandTotals
from evalkit.aggregate.user_values.checks import with_ties
from evalkit.aggregate.user_values.gather import parts_of
from evalkit.config import Config, policies_of
from evalkit.inference.drafts import Draft
from evalkit.inference.ratios import RatioTotal, RatioTotals
from evalkit.inference.summed import Summed
from evalkit.kernels.arrays import Flags
from evalkit.metrics import BOUNDS, TIED, Request, is_gmean, is_of_means, is_ordered
from evalkit.report import Comparison, Estimate, Warning_
from evalkit.report.text import count_noun
from evalkit.statistics.distributions import normal_quantile, t_two_sided
from evalkit.statistics.exact import SCALE_BITS, ExactSums, Summaries
from evalkit.statistics.means import is_share
from evalkit.statistics.ratios import RatioSum

# below and beyond these, intervals held the true value too seldom (docs/statistics.md)
FEWEST_USERS = 50
MOST_SKEWED = 0.35  # skewness / sqrt(users), the k of Hall's correction
MOST_SKEWED_DIFFERENCES = 0.2  # the same of differences, whose limits are Student's
FEWEST_APART = 5  # users with the rarer of two values, below whom Wilson's limits are short
FEWEST_NONZERO = 200  # where no skewness is known, and the interval is Student's
FEWEST_OF_ROWS = 100  # of numbers over rows (docs/labels.md)
FEWEST_CLUSTERS = 50
FEWEST_DIFFERING = 30  # users, of clusters whose difference is tested by t alone
ERROR = 0.05  # of limits whose coverage was measured
LEAST_SHIFT = 1e-9
FEWEST_OF_LISTS = 100  # users behind a number of all lists
FEWEST_MOVING = 30  # of those whose lists are kept, for an error by their deviation alone


class Caveat(NamedTuple):
    """Why limits may say more than they know, and how often of 100 times such held at least."""

    why: str
    held: int

    @classmethod
    def of(cls, why: str, held: int, most: int) -> "Caveat":
        """Of limits whose coverage was measured."""
        return cls(f"{why}: 95 % limits held {held} to {most} times in 100 there", held)


class OfLists(Protocol):
    """A number of all lists: users behind it, and those who add to the sum that fewest add to."""

    @property
    def mean(self) -> float: ...

    @property
    def count(self) -> int: ...

    @property
    def fewest(self) -> int: ...


def of_few_lists(numbers: Iterable[tuple[str, str, OfLists]]) -> Iterator[Warning_]:
    """Numbers of all lists that few users stand behind, or behind one of their sums.

    Args:
        numbers: each with its model and its label.
    """
    few: list[tuple[str, str, int]] = []
    fewer: list[tuple[str, str, int]] = []
    for model, label, of_lists in numbers:
        if 0 < of_lists.count < FEWEST_OF_LISTS:
            few.append((model, label, of_lists.count))
        elif of_lists.fewest < FEWEST_MOVING and not math.isnan(of_lists.mean):
            fewer.append((model, label, of_lists.fewest))
    ends = "{:,} users in all", "{:,} users in a sum"
    for found, end in zip((few, fewer), ends, strict=True):
        for _, label, count in found[:1]:
            named = f"{label}{_more(found)}"
            yield Warning_("few-lists", f"take {named} as rough: {end.format(count)}")


def of_no_interval(requests: Iterable[Request]) -> Iterator[Warning_]:
    """One warning for the numbers that are made of several means, for which no limits are known."""
    labels = [each.label for each in requests if is_of_means(each)]
    if labels:
        message = f"{', '.join(labels)}: made of several means, so without interval and tests"
        yield Warning_("no-interval", message)


def of_small_segments(totals: GrandTotals) -> Iterator[Warning_]:
    """One warning for each segmentation whose small segments stand as one."""
    for name, n_pooled in Counter(name for name, _ in totals.pooled).items():
        message = f"{n_pooled:,} small segments of {name!r} are one, {SMALL}"
        yield Warning_("small-segments", message)


def segment_of(estimate: Estimate) -> Segment:
    """The segment that a number is of."""
    whole = estimate.segmentation is None or estimate.segment is None
    return ALL if whole else (str(estimate.segmentation), str(estimate.segment))


def of_ties(
    config: Config,
    estimates: Sequence[Estimate],
    totals: GrandTotals,
    measured: Sequence[Request],
    ratios: RatioTotals | None,
) -> Iterator[Warning_]:
    """Numbers that the order of equal scores can move further than their interval, or a share.

    Those of segments: further than their standard error.
    """
    requests = {each.label: each for each in reversed(measured)}  # what was asked for comes first
    column_of = {each: column for column, each in enumerate(measured)}
    in_segments: list[tuple[Estimate, list[float]]] = []
    for estimate in estimates:
        request = requests[estimate.metric]
        followed = policies_of(request, config.policies)
        if followed.ties not in TIED or request.metric.combined is not None:
            continue
        helpers = [with_ties(request, ties) for ties in BOUNDS]
        if not column_of.keys() >= set(helpers):  # of finished runs, which keep no such values
            continue
        segment, model = segment_of(estimate), estimate.model
        columns = [column_of[helper] for helper in helpers]
        means = [totals.models[segment, model].sum_of(column).mean for column in columns]
        if ratios is not None and config.statistics.weight is not None:
            weighted = [ratios.total(segment, model, column) for column in columns]
            means = [each.mean for each in weighted if each is not None] or means
        best, worst = map(math.exp, means) if is_gmean(request) else means
        if segment != ALL:
            in_segments.append((estimate, [best - estimate.value, worst - estimate.value]))
            continue
        spread = abs(best - worst)
        reasons = []
        if (
            estimate.low is not None
            and estimate.high is not None
            and spread > estimate.high - estimate.low
        ):
            reasons.append("more than its interval is wide")
        if spread > followed.tie_share * abs(estimate.value):
            reasons.append(f"more than {followed.tie_share:.1%} of it")
        if reasons:
            yield Warning_(
                "ties-move-number",
                f"orders of equal scores move {estimate.metric} from {worst:.6f} to {best:.6f}, "
                f"{' and '.join(reasons)}",
                estimate.model,
            )
    yield from _of_tied_segments(in_segments)


def of_tied_orders(
    estimates: Sequence[Estimate],
    models: Iterable[str],
    shifts_of: Callable[[Estimate], Sequence[float] | None],
) -> Iterator[Warning_]:
    """One warning for each model of which the order of equal scores moves numbers far.

    Then one for each metric of it whose numbers of segments it moves.

    Args:
        shifts_of: what the best and the worst order add to a number; None where they add nothing.
    """
    for model in models:
        found = []
        in_segments = []
        for estimate in estimates:
            ends = shifts_of(estimate) if estimate.model == model else None
            if ends is None:
                continue
            if estimate.segment is not None:
                in_segments.append((estimate, ends))
            elif _moves(estimate, ends):
                shown = f"{estimate.metric} = {estimate.value:.6f}"
                found.append(f"{shown} {_bounds(estimate, ends)}")
        if found:
            more = f", and {len(found) - 3:,} more" if len(found) > 3 else ""
            yield Warning_(
                "ties-move-number",
                "scores are equal, and another order of these rows moves "
                f"{'; '.join(found[:3])}{more}: further than the standard error",
                model,
            )
        yield from _of_tied_segments(in_segments)


def _of_tied_segments(numbers: Iterable[tuple[Estimate, Sequence[float]]]) -> Iterator[Warning_]:
    """One warning for each model and metric, of segments of two users or more."""
    found: dict[tuple[str, str], list[str]] = {}
    for each, ends in numbers:
        if each.n_users > 1 and _moves(each, ends):
            segment = f"{each.segmentation}={each.segment} = {each.value:.6f}"
            named = found.setdefault((each.model, each.metric), [])
            named.append(f"{segment} {_bounds(each, ends)}")
    for (model, metric), named in found.items():
        more = f", and {len(named) - 3:,} more segments" if len(named) > 3 else ""
        yield Warning_(
            "ties-move-number",
            f"scores are equal, and another order of these rows moves {metric} of "
            f"{'; '.join(named[:3])}{more}: further than the standard error",
            model,
        )


def _moves(estimate: Estimate, ends: Sequence[float]) -> bool:
    return max(map(abs, ends)) > max(estimate.std_error or 0.0, LEAST_SHIFT)


def _bounds(estimate: Estimate, ends: Sequence[float]) -> str:
    low, high = (estimate.value + end for end in (min(0.0, *ends), max(0.0, *ends)))
    return f"from {low:.6f} to {high:.6f}"


Place = tuple[str | None, str | None, str, str]  # segmentation, segment, model, label


def of_few_values(
    summed: Summed,
    requests: Sequence[Request],
    models: Sequence[str],
    weighted: RatioTotals | None = None,
) -> dict[Place, Caveat]:
    """Why intervals may hold less than they say, those of all users first.

    Args:
        weighted: the same numbers with weights, where users have any.
    """
    suspects = {name: _suspects(summed.model(name), requests).tolist() for name in models}
    return {
        (*(segment if segment != ALL else (None, None)), model, request.label): why
        for row, segment in enumerate(summed.segments)
        for model in models
        if weighted or any(suspects[model][row])
        for column, request in enumerate(requests)
        if parts_of(request) is None
        and not is_ordered(request)
        and (
            why := (
                suspects[model][row][column]
                and too_narrow(summed.totals.models[segment, model], column, request.metric.bounds)
            )
            or (weighted and too_uneven(weighted.total(segment, model, column)))
        )
    }


def with_caveats(
    estimates: Sequence[Estimate], found: Mapping[Place, Caveat]
) -> tuple[Estimate, ...]:
    """The same numbers, with why their intervals may say more than they know."""
    if not found:
        return tuple(estimates)
    places = [(each.segmentation, each.segment, each.model, each.metric) for each in estimates]
    return tuple(
        replace(each, caveats=found[place].why) if place in found else each
        for each, place in zip(estimates, places, strict=True)
    )


def of_caveats(found: Mapping[Place, Caveat]) -> Iterator[Warning_]:
    """One warning for the caveats of all intervals; which they are of stands beside each."""
    yield from _few_users([*found.values()], "interval")


def _suspects(found: Summaries, requests: Sequence[Request]) -> Flags:
    """bool[n_segments, n_requests], the numbers of which `too_narrow` may say something."""
    are_shares = found.are_shares(np.array([each.metric.bounds for each in requests]))
    rarer = np.minimum(found.wholes, found.counts - found.wholes)
    is_straight = np.abs(found.skewnesses) <= MOST_SKEWED * np.sqrt(found.counts)  # NaN: no
    is_fine = np.where(
        are_shares, rarer >= FEWEST_APART, (found.counts >= FEWEST_USERS) & is_straight
    )
    suspects: Flags = ~is_fine
    return suspects


def too_uneven(total: RatioTotal | None) -> Caveat | None:
    """Why weights make an interval hold the true mean too seldom; None where they do not."""
    if total is None or not total.std_error:
        return None
    if total.df + 1.0 < FEWEST_USERS:
        return Caveat.of(f"has weights that leave {total.df + 1.0:.0f} users", 87, 96)
    if abs(total.skewness) > MOST_SKEWED * math.sqrt(total.count):
        leaning = f"has a skewness of {total.skewness:.1f} with weights"
        return Caveat.of(f"{leaning}, much for {total.count:,} users", 88, 97)
    return None


def of_skewed_differences(
    drafts: Iterable[Draft], *, bootstraps: bool = False
) -> Iterator[Warning_]:
    """One warning where limits or tests of differences may be surer than they should.

    Each of them has it as its caveat.

    Args:
        bootstraps: limits or tests are those of the bootstrap, though few users of 0 and 1 differ.
    """
    found = []
    for draft in drafts:
        spread = draft.spread
        is_suspect = spread.is_plain or math.isinf(spread.widest) or bootstraps
        is_suspect &= spread.table is None or spread.is_weighted or bootstraps
        if draft.std_error and is_suspect and (caveat := _leaning(draft)):
            draft.caveats = caveat.why
            found.append(caveat)
    yield from _few_users(found, "difference")


def of_withheld(drafts: Iterable[Draft]) -> Iterator[Warning_]:
    """One warning for verdicts that p alone would give, and users do not."""
    found = [each for each in drafts if each.is_withheld]
    for each in found[:1]:
        named = f"{each.metric} of {each.candidate}{_among((each.segmentation, each.segment))}"
        message = "few users make the difference, so no verdict is given that p alone would: "
        yield Warning_("large-values", f"{message}{named}{_more(found)}".rstrip(","))


def of_small_margins(
    drafts: Iterable[Draft], margin: float | None, error: float
) -> Iterator[Warning_]:
    """One warning where not even identical lists could be equivalent within the margin."""
    for draft in drafts if margin is not None else ():
        assert margin is not None
        n, widest = draft.spread.n, draft.spread.widest
        if draft.segment is not None or not math.isfinite(widest):
            continue
        needed = math.ceil(-math.log(error) / math.log1p(margin / widest))
        if n < needed:
            yield Warning_(
                "margin-users",
                f"margin {margin:g} of {draft.metric} takes {needed:,} users; there are {n:,}",
            )
            return


def _leaning(each: Draft) -> Caveat | None:
    """Why a t test of a difference says more than it knows; None where it does not."""
    spread, n_differ = each.spread, (each.wins or 0) + (each.losses or 0)
    if spread.is_clustered:  # whose skewness is mended, or not known
        is_few = 0 < n_differ < FEWEST_DIFFERING
        return Caveat.of(f"come of {n_differ:,} users alone", 72, 94) if is_few else None
    at = each.judged_at if each.test == "t" and each.judged_at < ERROR else ERROR
    further = (normal_quantile(at / 2) / normal_quantile(ERROR / 2)) ** 2
    if math.isnan(spread.skewness):
        is_few = 0 < n_differ < FEWEST_NONZERO * further
        why = f"come of {n_differ:,} users alone, and nobody knows how skewed they are"
        return Caveat.of(why, 72, 94) if is_few else None
    k = abs(spread.skewness) / math.sqrt(spread.n)
    why = f"have a skewness of {spread.skewness:.1f}, much for {spread.n:,} users"
    if k > MOST_SKEWED_DIFFERENCES:
        return Caveat.of(why, 72, 94)
    if k * further > MOST_SKEWED_DIFFERENCES:  # which moves a limit by the square of t
        found = "of 60 such tests Holm gave a false alarm 9 to 17 times in 100"
        return Caveat(f"{why} at a level of {at:.1g}: {found}", 83)
    return None


def _few_users(found: Sequence[Caveat], what: str) -> Iterator[Warning_]:
    if found:
        held, named = min(each.held for each in found), count_noun(len(found), what)
        message = f"take {named} as rough: the worst hold in {held} of 100"
        yield Warning_("few-users", message)


def _more(found: Sequence[object]) -> str:
    return f", and {len(found) - 1:,} more," if len(found) > 1 else ""


def _among(segment: tuple[str | None, str | None]) -> str:
    return f" among {segment[0]}={segment[1]}" if segment[0] else ""


def too_narrow(sums: ExactSums, column: int, bounds: tuple[float, float]) -> Caveat | None:
    """Why an interval of such values held the true mean too seldom; None where it did not."""
    total = sums.sum_of(column)
    n, skewness = total.count, sums.skewness_of(column)
    if n < 2:
        return None
    if is_share(total, bounds):
        n_ones = total.scaled >> SCALE_BITS
        rarer = min(n_ones, n - n_ones)
        value = 1 if rarer == n_ones else 0
        few = 0 < rarer < FEWEST_APART
        return Caveat.of(f"is {value} for {rarer} users alone", 84, 97) if few else None
    if n < FEWEST_USERS:
        return Caveat.of(f"stands on {n:,} users", 91, 100)
    if math.isnan(skewness) and sums.largest_of(column) > 1.0:
        n_nonzero = n - sums.n_zero(column)
        few = n_nonzero < FEWEST_NONZERO
        return Caveat.of(f"is not 0 for {n_nonzero:,} users alone", 68, 94) if few else None
    if abs(skewness) > MOST_SKEWED * math.sqrt(n):
        why = f"has values of a skewness of {skewness:.1f}, much for {n:,} users"
        return Caveat.of(why, 91 if n < 2 * FEWEST_USERS else 94, 100)
    return None


def of_few_users(estimates: Sequence[Estimate]) -> Iterator[Warning_]:
    """The same of numbers whose values of users are not known."""
    overall = [each for each in estimates if each.segment is None and each.low is not None]
    n_fewest = min((each.n_users for each in overall), default=FEWEST_OF_ROWS)
    if n_fewest < FEWEST_OF_ROWS:
        message = f"take intervals as rough: they stand on {n_fewest:,} users"
        yield Warning_("few-users", message)


def of_uneven_judgements(
    comparisons: Sequence[Comparison], requests: Sequence[Request]
) -> Iterator[Warning_]:
    """One warning where the truth judges more of one model's lists, by more than chance."""
    names = {each.label: each.metric.name for each in requests}
    for comparison in comparisons:
        differs = comparison.verdict in ("better", "worse") and comparison.segment is None
        if differs and names[comparison.metric] in ("judged", "unjudged"):
            more = (comparison.delta > 0.0) == (names[comparison.metric] == "judged")
            pair = comparison.baseline, comparison.candidate
            yield _uneven(pair if more else pair[::-1], comparison.metric, comparison.delta)
            return


def of_judged_beside(
    totals: GrandTotals, request: Request, column: int, level: float
) -> Iterator[Warning_]:
    """The same where nobody asked for the judged share, which stands in a column of its own.

    Student's t by user, corrected by Bonferroni for all pairs of models.
    """
    pairs = [pair for segment, pair in totals.pairs if segment == ALL]
    for pair in pairs:
        delta = totals.pair_total(ALL, pair, column).delta
        if delta.count < 2 or not delta.mean:
            continue
        n, error = delta.count, delta.std_error
        p_value = t_two_sided(delta.mean / error, n - 1.0) if error else 2.0 ** (1 - n)
        if p_value * len(pairs) <= 1.0 - level:
            yield _uneven(pair if delta.mean > 0.0 else pair[::-1], request.label, delta.mean)
            return


def _uneven(pair: tuple[str, str], label: str, delta: float) -> Warning_:
    return Warning_(
        "uneven-judgements",
        f"the truth judges less of the lists of {pair[0]!r} than of those of {pair[1]!r} "
        f"({label} differs by {abs(delta):.6f}): what it lacks counts against them",
    )


def of_other_users(comparisons: Sequence[Comparison]) -> Iterator[Warning_]:
    """One warning where Tukey's test has no layout: pairs of models stand on other users."""
    found = [
        f"{each.metric}{_among((each.segmentation, each.segment))}"
        for each in comparisons
        if each.test == "tukey" and each.std_error is not None and each.verdict == "not tested"
    ]
    if found:
        names = list(dict.fromkeys(found))
        message = f"{names[0]}{_more(names)} not tested: models have other users"
        yield Warning_("tukey-users", message)


def _filled(each: Estimate, ratios: RatioTotals | None, labels: Sequence[str]) -> int:
    segment = ALL if each.segmentation is None else (each.segmentation, each.segment or "")
    total = ratios and ratios.total(segment, each.model, labels.index(each.metric))
    n = each.n_clusters or 0
    return n - total.n_zero if isinstance(total, RatioSum) else n


def of_few_clusters(
    estimates: Sequence[Estimate], what: str, ratios: RatioTotals | None, labels: Sequence[str]
) -> Iterator[Warning_]:
    """One warning where so few of what varies were met that limits held less than they said.

    Clusters in which all values are 0 say nothing of how large the others are.

    Args:
        labels: of the columns of `ratios`.
    """
    found = [each for each in estimates if each.n_clusters and each.std_error]
    n_fewest = min((_filled(each, ratios, labels) for each in found), default=FEWEST_CLUSTERS)
    if n_fewest < FEWEST_CLUSTERS:
        message = f"only {n_fewest:,} {what} have values: limits of 20 held 91 in 100"
        yield Warning_("few-clusters", message)
