"""What conventions change before a row is read: relevances, thresholds, users, helping requests."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import polars as pl

from evalkit.aggregate.user_values._extremes import EXTREMES, why_not
from evalkit.aggregate.user_values.gather import View, distinct, parts_of
from evalkit.config import Config, Policies, policies_of
from evalkit.errors import RequestError
from evalkit.metrics import BOUNDS, TIED, Request, is_ordered, registry
from evalkit.report import Warning_
from evalkit.sources import Order, Table, reading
from evalkit.sources.ids import USER_KEY, IdPlan, Sample, Share, as_keys
from evalkit.truth import BATCH_ROWS, Truth, choose_users, count_unknown


def helping_requests(requests: Sequence[Request], policies: Policies) -> list[Request]:
    """What must be measured beside the requests: parts of an F of means, bounds of ties."""
    helping: list[Request] = []
    for request in requests:
        helping += parts_of(request) or ()
        if request.metric.pair is not None:
            helping += request.metric.pair.at(request.cutoff)
        if request.metric.combined is None and policies_of(request, policies).ties in TIED:
            helping += [with_ties(request, ties) for ties in BOUNDS]
    known = {(each.metric.name, each.parameters, each.cutoff, each.policies) for each in requests}
    return [
        each
        for each in distinct(helping)
        if (each.metric.name, each.parameters, each.cutoff, each.policies) not in known
    ]


def with_ties(request: Request, ties: str) -> Request:
    """The same request by another rule for equal scores."""
    own = {**dict(request.policies), "ties": ties}
    return replace(request, policies=tuple(sorted(own.items())))


def by_relevance_rules(
    truth: Table, threshold: float | None, policies: Policies
) -> tuple[Table, float | None]:
    """The truth and the threshold as a library takes them that knows whole relevances only."""
    if threshold is not None and policies.threshold_rule == "floor":
        threshold = float(math.floor(threshold))
    if policies.fractional_relevance == "keep":
        return truth, threshold
    if "relevance" not in truth.frame.collect_schema():
        return truth, threshold
    relevance = pl.col("relevance").cast(pl.Float64)
    with reading(truth):
        is_fractional = truth.frame.select((relevance != relevance.floor()).any())
        if not is_fractional.collect(engine="streaming").item():
            return truth, threshold
    reached = relevance > 0.0 if threshold is None else relevance >= threshold
    binary = pl.when(relevance.is_finite()).then(reached.cast(pl.Float64)).otherwise(relevance)
    return replace(truth, frame=truth.frame.with_columns(relevance=binary)), 1.0


def of_judged(requests: Sequence[Request], policies: Policies) -> list[Request]:
    """Those that look at items which are judged and not relevant."""
    return [
        each
        for each in requests
        if each.view == "pool" or policies_of(each, policies).unjudged != "count"
    ]


def judged_beside(config: Config) -> list[Request]:
    """The judged share of lists, where models are compared and a metric keeps judgements anyway."""
    requests, statistics = config.requests, config.statistics
    compares = statistics.baseline is not None or statistics.pairs == "all"
    is_asked = any(each.metric.name in ("judged", "unjudged") for each in requests)
    if not compares or is_asked or not of_judged(requests, config.policies):
        return []
    cutoffs = [each.cutoff for each in requests]
    deepest = None if None in cutoffs else max(each for each in cutoffs if each is not None)
    return [registry()["judged"].follow(deepest, {}, {"unjudged": "count"}, ())]


def users_of_rankings(
    rankings: Sequence[Table], user_plan: IdPlan, threshold: float | None
) -> pl.LazyFrame:
    """Every ranked user once, with some item.

    Raises:
        RequestError: every item is relevant to them [unknown-users-relevant].
    """
    if threshold is not None and threshold <= 0.0:
        raise RequestError(
            f"users whom the truth lacks cannot be without relevant items: the threshold is "
            f"{threshold:g}",
            code="unknown-users-relevant",
            at="policies.unknown_users",
            hint='write unknown_users = "skip" under [policies], or give a threshold above 0',
        )
    frames = []
    for table in rankings:
        frame = table.frame
        if table.is_list:
            items = pl.col("item")
            is_empty = items.list.len() == 0
            some = items.filter(~is_empty).first()  # whoever's: it is relevant to nobody here
            frame = frame.select(pl.exclude("score"))
            frame = frame.with_columns(item=pl.when(is_empty).then(some).otherwise(items))
            frame = frame.explode("item")
        users = [name for name in frame.collect_schema() if name.startswith("user_")]
        rows = frame.select(*users, "item").drop_nulls()
        frames.append(rows.with_columns(user_plan.key().alias(USER_KEY)).unique(USER_KEY))
    return pl.concat(frames, how="vertical_relaxed").drop(USER_KEY)


def unknown_users(
    rankings: Sequence[Table], truth: Truth, sample: Sample | None, share: Share | None
) -> pl.LazyFrame | None:
    """Ranked users of a share whom the truth lacks, each once, with an item; None without any."""
    plan, (item_type,) = truth.user_plan, truth.item_plan.dtypes
    found: list[pl.DataFrame] = []
    for table in rankings:
        with reading(table):
            for rows in table.stream(
                [plan.key().alias(USER_KEY), *plan.canonical()], most=BATCH_ROWS
            ):
                users, _ = choose_users(rows.drop_nulls(USER_KEY), share, sample)
                keys = as_keys(users[USER_KEY])
                if not count_unknown(truth.pairs.index, keys):
                    continue
                begins = np.append(True, keys[1:] != keys[:-1])[: keys.size].nonzero()[0]
                strange = begins[truth.codes_of(keys[begins]) < 0]
                if strange.size:
                    found.append(users[strange].unique(USER_KEY))
    if not sum(each.height for each in found):
        return None
    nothing = {pl.String: "", pl.Binary: b""}.get(type(item_type), 0)
    every = pl.concat(found).unique(USER_KEY).drop(USER_KEY)
    return every.lazy().with_columns(item=pl.lit(nothing).cast(item_type))


def convention_warnings(config: Config, requests: Sequence[Request]) -> list[Warning_]:
    """Where the hand contradicts the profile, and what the library of the profile lacks."""
    warnings = [
        Warning_(
            "profile-overridden",
            f"{name} = {hand!r} was set by hand; the profile {config.metrics.profile} "
            f"has {theirs!r}",
        )
        for name, hand, theirs in config.overridden
    ]
    lacking = [
        request.label
        for request in requests
        if not config.profile.has_metric(request.metric.base.name, request.cutoff)
        and request.metric.combined is None
        and request.metric.base.pair is None
    ]
    if lacking and config.profile.name != "evalkit":
        message = (
            f"{config.profile.name} has no {', '.join(lacking)}: they follow its policies "
            "and evalkit's parameters"
        )
        warnings.append(Warning_("not-in-profile", message))
    asked = {request.metric.base.name for request in requests}
    for difference in config.profile.differs:
        if not asked.isdisjoint(difference.metrics):
            message = f"{config.profile.name} differs in {difference.what}: {difference.why}"
            warnings.append(Warning_("profile-differs", message))
    return warnings


def order_of(config: Config) -> tuple[Order, str]:
    """Which of a rank and a score orders lists where both are guessed; why, if it is the score."""
    profile = config.profile
    if config.kind != "rankings":
        return "rank", ""
    if profile.looks_at == "scores":
        return "score", f"{profile.name} looks at scores alone"
    followed = [policies_of(request, config.policies) for request in config.requests]
    if any(each.ties in _BESIDE_NO_RANK for each in followed):
        return "score", "what orders equal scores is asked for"
    if any(each.ties in TIED or each.nonpositive_scores == "miss" for each in followed):
        return "both", ""
    return "rank", ""


def check_scores(
    requests: Sequence[Request],
    policies: Policies,
    config: Config,
    *,
    at: str,
    columns: Sequence[str],
) -> list[Warning_]:
    """Policies that a log's columns leave without effect: an error by hand, else a warning.

    They look at scores, and it has none; or they order equal scores, and its ranks order.

    Raises:
        RequestError: the hand asked for what nothing can say [policy-without-scores].
    """
    has_score, has_rank = "score" in columns, "rank" in columns
    idle: dict[str, str] = {}
    for request in requests:
        followed = policies_of(request, policies)
        for name in ("ties", "nonpositive_scores"):
            value = getattr(followed, name)
            by_hand = name in request.given or name in config.set_by_hand
            if has_score:
                knows_no_ranks = config.profile.looks_at == "scores" and not by_hand
                is_idle = name == "ties" and value not in TIED
                is_idle &= value in _BESIDE_NO_RANK or knows_no_ranks
                is_idle &= has_rank
            else:
                is_idle = value in _NEED_SCORES
            if is_idle and by_hand and not has_score:
                raise _without_scores(name, value, has_rank=has_rank, at=at)
            if is_idle:
                idle[name] = f"{value!r}" + ("" if by_hand else " of the profile")
    why = f"{at} is ordered by its ranks, not by scores" if has_rank else f"{at} has no scores"
    return [
        Warning_("policy-without-scores", f"{why}: {name} = {value} does not apply there")
        for name, value in idle.items()
    ]


def _without_scores(name: str, value: str, *, has_rank: bool, at: str) -> RequestError:
    have = "the rankings are read by their ranks" if has_rank else "the rankings have none"
    message = f"{name} = {value!r} needs scores, and {have}"
    hint = 'name their column: score = "score" under [rankings.columns]'
    return RequestError(message, code="policy-without-scores", at=at, hint=hint)


_BESIDE_NO_RANK = ("numba", "numba-reversed", "mean-rank", "last-rank")  # for want of an order
_NEED_SCORES = (*TIED, *_BESIDE_NO_RANK, "miss")


@lru_cache(maxsize=64)
def differing(policies: Policies) -> dict[str, str | float]:
    """The policies that a number was made with, where they are not evalkit's defaults."""
    defaults = Policies()
    return {
        name: getattr(policies, name)
        for name in Policies.model_fields
        if getattr(policies, name) != getattr(defaults, name)
    }


def check_item_segments(requests: Sequence[Request], config: Config) -> None:
    """Refuse segments of items under conventions that look at more than hits.

    Raises:
        RequestError: a metric follows such a convention [item-segments].
    """
    items = [name for name, rule in config.segments.named.items() if rule.item is not None]
    for request in requests if items else ():
        metric = request.metric
        is_of_lists = metric.lists is not None or metric.combined is not None
        if (
            is_of_lists
            or request.view == "pool"
            or is_ordered(request)
            or not View.of(request, policies_of(request, config.policies), two_views=False).is_plain
        ):
            raise RequestError(
                f"{request.label} looks at more than hits, and cannot be measured over the "
                f"segments of items {items[0]!r}",
                code="item-segments",
                at=config.at("segments", items[0]),
                hint="measure it in a run of its own, or leave the segments of items out",
            )


def check_propensity(requests: Sequence[Request], config: Config) -> None:
    """Refuse weights of hits under conventions of copies and scores that no sum over hits has.

    Raises:
        RequestError: a metric follows such a convention [no-unbiased-form].
    """
    for request in requests if config.has_propensity else ():
        followed = policies_of(request, config.policies)
        is_weighted = request.metric.unbiased is not None and followed.propensity != "none"
        if is_weighted and not View.of(request, followed, two_views=False).is_plain:
            raise RequestError(
                f"{request.label} counts copies or scores in a way that has no form with "
                "propensities",
                code="no-unbiased-form",
                at=config.at("policies"),
                hint="leave seen, rel_size, duplicates, ties and nonpositive_scores at evalkit's "
                "defaults, or write propensity='none' for the metric",
            )


def check_threshold(config: Config) -> None:
    """Refuse a threshold below 0 where relevance below 0 is neither relevant nor a gain.

    Raises:
        RequestError: relevances between it and 0 would be both [threshold-below-zero].
    """
    section = "truth" if config.log is None else "log"
    threshold = getattr(config.truth if config.log is None else config.log, "threshold", None)
    if threshold is None or threshold >= 0 or config.policies.negative_relevance != "ignore":
        return
    raise RequestError(
        f"the threshold is {threshold:g}, and relevance below 0 is not relevant and has no gain",
        code="threshold-below-zero",
        at=config.at(section, "threshold"),
        hint=f"write threshold = 0 under [{section}], or {config.spell_policy(*_SUBTRACTED)}: "
        "items from the threshold on are relevant, and those below 0 lower gains",
    )


_SUBTRACTED = ("negative_relevance", "subtract")


def check_judged(truth: Table, requests: Sequence[Request], config: Config) -> None:
    """Refuse metrics of judgements where the truth has none, or its relevance means another thing.

    Raises:
        RequestError: the truth has no relevance [nothing-judged]; a metric needs rows that leave
            lists [skipped-rows]; relevance below 0 cannot both
            lower gains and say that nobody judged [pooled-gains]; a metric has no exact lowest
            and highest value over judgements [no-extremes].
    """
    asked = of_judged(requests, config.policies)
    is_graded = "relevance" in truth.frame.collect_schema()
    if asked and not is_graded and config.policies.no_judged == "error":
        raise RequestError(
            f"{asked[0].label} looks at items that were judged and are not relevant, and the truth "
            "has no relevance",
            code="nothing-judged",
            at=truth.at,
            hint='name its column, such as relevance = "label" under [truth.columns], and keep the '
            "rows of 0",
        )
    for request in requests:
        followed = policies_of(request, config.policies)
        if followed.unjudged in EXTREMES and request.metric.lists is None:
            _check_extremes(request, followed, config.at("policies", "unjudged"))
    by_rows = [each.label for each in asked if each.needs_rows and each.view != "pool"]
    if by_rows:
        raise RequestError(
            f"{by_rows[0]} looks at where other rows stand, and unjudged = 'skip' takes them away",
            code="skipped-rows",
            at=config.at("policies", "unjudged"),
            hint="measure it without unjudged = 'skip'",
        )
    inferred = [each.label for each in asked if each.metric.base.name == "infAP"]
    if inferred and config.policies.negative_relevance == "subtract":
        raise RequestError(
            f"{inferred[0]} takes relevance below 0 for items that were pooled and never judged",
            code="pooled-gains",
            at=config.at("policies", "negative_relevance"),
            hint='leave negative_relevance = "subtract" out, or measure it in a run of its own',
        )


def _check_extremes(request: Request, policies: Policies, at: str) -> None:
    why = why_not(request)
    if not View.of(request, policies, two_views=False).is_plain or policies.duplicates == "count":
        why = "copies, ties or scores count in it in a way of their own"
    if why:
        raise RequestError(
            f"{request.label} has no exact {policies.unjudged} value over judgements: {why}",
            code="no-extremes",
            at=at,
            hint="measure precision, recall, AP, RR or nDCG(gain='binary') with it, and this one "
            "with unjudged='count'",
        )


def check_two_way(requests: Sequence[Request], config: Config) -> None:
    """Refuse errors over users and items for what does not add up over a user's hits.

    Raises:
        RequestError: a metric, or a convention that it follows, does not [two-way].
    """
    for request in requests if config.statistics.two_way is not None else ():
        view = View.of(request, policies_of(request, config.policies), two_views=True)
        if request.metric.over_hits is None or not view.is_plain:
            known = ", ".join(n for n, each in registry().items() if each.over_hits is not None)
            raise RequestError(
                f"{request.label} does not add up over a user's hits, so it has no error over "
                "users and items",
                code="two-way",
                at=config.at("statistics", "two_way"),
                hint=f"{known} do, under the default conventions; measure others in another run",
            )
