"""What of the numbers may say more than they know: few users, ties, small segments."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.segments import ALL, SMALL
from evalkit.aggregate.sums import GrandTotals
from evalkit.aggregate.user_values.checks import with_ties
from evalkit.aggregate.user_values.gather import parts_of
from evalkit.config import Policies, policies_of
from evalkit.inference.drafts import Draft
from evalkit.inference.ratios import RatioTotal, RatioTotals
from evalkit.inference.summed import Summed
from evalkit.metrics import BOUNDS, TIED, Request, is_of_means
from evalkit.report import Comparison, Estimate, Warning_
from evalkit.statistics.distributions import normal_quantile
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
_HELD = "95 % limits held {} to {} times in 100 there"
FEWEST_OF_LISTS = 100  # users behind a number of all lists
FEWEST_MOVING = 30  # of those whose lists are kept, for an error by their deviation alone


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
    for model, label, each in numbers:
        if 0 < each.count < FEWEST_OF_LISTS:
            few.append((model, label, each.count))
        elif each.fewest < FEWEST_MOVING and not math.isnan(each.mean):
            fewer.append((model, label, each.fewest))
    ends = (
        ": on {:,} users alone, so that limits are rough",
        ": {:,} users alone add to one of its sums, as a group that is hardly shown has them: "
        "limits may be far too narrow",
    )
    for found, end in zip((few, fewer), ends, strict=True):
        for model, label, count in found[:1]:
            more = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
            yield Warning_("few-lists", f"{label} of {model!r}{more}{end.format(count)}")


def of_no_interval(requests: Iterable[Request]) -> Iterator[Warning_]:
    """One warning for the numbers that are made of several means, for which no limits are known."""
    labels = [each.label for each in requests if is_of_means(each)]
    if labels:
        message = f"{', '.join(labels)}: made of several means, so without interval and tests"
        yield Warning_("no-interval", message)


def of_small_segments(totals: GrandTotals) -> Iterator[Warning_]:
    """One warning for each segmentation whose small segments stand as one."""
    for name, n_pooled in Counter(name for name, _ in totals.pooled).items():
        message = f"{n_pooled:,} segments of {name!r} have too few users and stand as {SMALL}"
        yield Warning_("small-segments", message)


def of_ties(
    policies: Policies,
    estimates: Sequence[Estimate],
    totals: GrandTotals,
    measured: Sequence[Request],
) -> Iterator[Warning_]:
    """Numbers that the order of equal scores can move further than their interval, or a share."""
    requests = {each.label: each for each in reversed(measured)}  # what was asked for comes first
    for estimate in estimates:
        request = requests[estimate.metric]
        followed = policies_of(request, policies)
        has_order = followed.ties not in TIED or request.metric.combined is not None
        if estimate.segment is not None or has_order:
            continue
        helpers = [with_ties(request, ties) for ties in BOUNDS]
        if not set(helpers) <= set(measured):  # of finished runs, which keep no such values
            continue
        sums = totals.models[ALL, estimate.model]
        best, worst = (sums.sum_of(measured.index(helper)).mean for helper in helpers)
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


Place = tuple[str | None, str | None, str, str]  # segmentation, segment, model, label


def of_few_values(
    summed: Summed,
    requests: Sequence[Request],
    models: Sequence[str],
    weighted: RatioTotals | None = None,
) -> dict[Place, str]:
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
        and (
            why := (
                suspects[model][row][column]
                and too_narrow(summed.totals.models[segment, model], column, request.metric.bounds)
            )
            or (weighted and too_uneven(weighted.total(segment, model, column)))
        )
    }


def with_caveats(estimates: Sequence[Estimate], found: Mapping[Place, str]) -> tuple[Estimate, ...]:
    """The same numbers, with why their intervals may say more than they know."""
    if not found:
        return tuple(estimates)
    places = [(each.segmentation, each.segment, each.model, each.metric) for each in estimates]
    return tuple(
        replace(each, caveats=found[place]) if place in found else each
        for each, place in zip(estimates, places, strict=True)
    )


def of_caveats(found: Mapping[Place, str]) -> Iterator[Warning_]:
    """One warning for the caveats of all intervals."""
    first = [
        f"{label} of {model!r}{_among((name, segment))} {why}"
        for (name, segment, model, label), why in islice(found.items(), 1)
    ]
    yield from _few_users(first, len(found))


def _suspects(found: Summaries, requests: Sequence[Request]) -> npt.NDArray[np.bool_]:
    """bool[n_segments, n_requests], the numbers of which `too_narrow` may say something."""
    are_shares = found.are_shares(np.array([each.metric.bounds for each in requests]))
    rarer = np.minimum(found.wholes, found.counts - found.wholes)
    is_straight = np.abs(found.skewnesses) <= MOST_SKEWED * np.sqrt(found.counts)  # NaN: no
    is_fine = np.where(
        are_shares, rarer >= FEWEST_APART, (found.counts >= FEWEST_USERS) & is_straight
    )
    suspects: npt.NDArray[np.bool_] = ~is_fine
    return suspects


def too_uneven(total: RatioTotal | None) -> str:
    """Why weights make an interval hold the true mean too seldom; empty where they do not."""
    if total is None or not total.std_error:
        return ""
    if total.df + 1.0 < FEWEST_USERS:
        return f"has weights that leave {total.df + 1.0:.0f} users: {_HELD.format(87, 96)}"
    if abs(total.skewness) > MOST_SKEWED * math.sqrt(total.count):
        n, held = total.count, _HELD.format(88, 97)
        return f"has a skewness of {total.skewness:.1f} with weights, much for {n:,} users: {held}"
    return ""


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
        is_suspect = draft.spread.is_plain or bootstraps
        is_suspect &= draft.spread.table is None or draft.spread.is_weighted or bootstraps
        if draft.std_error and is_suspect and (why := _leaning(draft)):
            draft.caveats = why
            found.append(draft)
    first = [
        f"differences of {each.metric} between {each.baseline!r} and {each.candidate!r}"
        f"{_among((each.segmentation, each.segment))} {each.caveats}"
        for each in found[:1]
    ]
    yield from _few_users(first, len(found))


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
                f"{draft.metric} is equivalent within {margin:g} from {needed:,} users on, and "
                f"there are {n:,}: users not seen count, were all lists identical",
            )
            return


def _leaning(each: Draft) -> str:
    """Why a t test of a difference says more than it knows; empty where it does not."""
    spread = each.spread
    if spread.is_clustered:  # whose skewness is mended, or not known
        n_differ = (each.wins or 0) + (each.losses or 0)
        why = f"come of {n_differ:,} users alone"
        return f"{why}: {_HELD.format(72, 94)}" if 0 < n_differ < FEWEST_DIFFERING else ""
    k = abs(spread.skewness) / math.sqrt(spread.n)
    why = f"have a skewness of {spread.skewness:.1f}, much for {spread.n:,} users"
    if k > MOST_SKEWED_DIFFERENCES:
        return f"{why}: {_HELD.format(72, 94)}"
    if each.test == "t" and each.judged_at < ERROR and k > _most_skewed_at(each.judged_at):
        return (
            f"{why} at a level of {each.judged_at:.1g}: of 60 such tests Holm found something "
            "9 to 17 times in 100 where nothing differed"
        )
    return ""


def _most_skewed_at(error: float) -> float:
    """The skewness / sqrt(n) that t tests bear at a level: it moves them by the square of t."""
    return MOST_SKEWED_DIFFERENCES * (normal_quantile(ERROR / 2) / normal_quantile(error / 2)) ** 2


def _few_users(first: Sequence[str], n_found: int) -> Iterator[Warning_]:
    if first:
        more = f", and {n_found - 1:,} more" if n_found > 1 else ""
        yield Warning_("few-users", f"intervals may be too narrow: {first[0]}{more}")


def _among(segment: tuple[str | None, str | None]) -> str:
    return f" among {segment[0]}={segment[1]}" if segment[0] else ""


def too_narrow(sums: ExactSums, column: int, bounds: tuple[float, float]) -> str:
    """Why an interval of such values held the true mean too seldom; empty where it did not."""
    total = sums.sum_of(column)
    n, skewness = total.count, sums.skewness_of(column)
    if n < 2:
        return ""
    if is_share(total, bounds):
        n_ones = total.scaled >> SCALE_BITS
        rarer = min(n_ones, n - n_ones)
        value = 1 if rarer == n_ones else 0
        few = 0 < rarer < FEWEST_APART
        return f"is {value} for {rarer} users alone: {_HELD.format(84, 97)}" if few else ""
    if n < FEWEST_USERS:
        return f"stands on {n:,} users: {_HELD.format(91, 100)}"
    if math.isnan(skewness) and sums.largest_of(column) > 1.0:
        n_nonzero = n - sums.n_zero(column)
        few = n_nonzero < FEWEST_NONZERO
        return f"is not 0 for {n_nonzero:,} users alone: {_HELD.format(68, 94)}" if few else ""
    if abs(skewness) > MOST_SKEWED * math.sqrt(n):
        held = _HELD.format(91 if n < 2 * FEWEST_USERS else 94, 100)
        return f"has values of a skewness of {skewness:.1f}, much for {n:,} users: {held}"
    return ""


def of_few_users(estimates: Sequence[Estimate]) -> Iterator[Warning_]:
    """The same of numbers whose values of users are not known."""
    overall = [each for each in estimates if each.segment is None and each.low is not None]
    n_fewest = min((each.n_users for each in overall), default=FEWEST_OF_ROWS)
    if n_fewest < FEWEST_OF_ROWS:
        message = f"intervals may be too narrow: they stand on {n_fewest:,} users"
        yield Warning_("few-users", message)


def of_other_users(comparisons: Sequence[Comparison]) -> Iterator[Warning_]:
    """One warning where Tukey's test has no layout: pairs of models stand on other users."""
    found = [
        f"{each.metric}{_among((each.segmentation, each.segment))}"
        for each in comparisons
        if each.test == "tukey" and each.std_error is not None and each.verdict == "not tested"
    ]
    if found:
        names = list(dict.fromkeys(found))
        more = f", and {len(names) - 1:,} more" if len(names) > 1 else ""
        yield Warning_(
            "tukey-users",
            f"not every user has a value of every model, as Tukey's test wants: {names[0]}{more} "
            "not tested",
        )


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
        message = (
            f"intervals stand on {n_fewest:,} {what} at fewest whose values differ from 0; where "
            "20 varied, 95 % limits held 93 to 96 times in 100, and 91 where the largest was ten "
            "times the smallest"
        )
        yield Warning_("few-clusters", message)
