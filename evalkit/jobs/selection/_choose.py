"""A choice among many trials, from their table to the winner's run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from evalkit.config import Config, RankingsTable, SelectionSection
from evalkit.errors import DataError, RequestError, did_you_mean
from evalkit.jobs.selection._measure import How, TrialValues, measure_trials, plain_config
from evalkit.jobs.selection._trials import Tried, read_trials
from evalkit.metrics import Request, bounds_of, is_made_of_users
from evalkit.report import Warning_
from evalkit.report.selection import Rung, Selection, Trial
from evalkit.report.version import VERSION
from evalkit.runs import new_run_id
from evalkit.statistics.intervals import Interval
from evalkit.statistics.selection import (
    Choose,
    alike_reach,
    choose_best,
    corrected_estimate,
    exact_means,
    halved_estimate,
    hopeless,
    paired_errors,
)

Values = npt.NDArray[np.float64]
HALVES_SEED = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection, and the trials that were listed for it."""

    selection: Selection
    tried: Mapping[str, Tried]
    config: Config


@dataclass(frozen=True, slots=True)
class _Field:
    """The trials that may be chosen, those that win ties first.

    Args:
        values: float64[n_users, n_trials] of users who count for all of them; larger is better.
        keys: of the same users.
        costs: float64[n_trials], infinite where unknown.
        means: float64[n_trials], of the values.
    """

    models: list[str]
    values: Values
    keys: npt.NDArray[np.uint64]
    costs: Values
    means: Values


def choose_trial(config: Config, how: How, tell: Callable[[str], None]) -> Choice:
    """Measure the trials and choose one; nothing is written, and no test part is looked at.

    Args:
        tell: called with what happens, rung by rung.
    Raises:
        RequestError: the config asks for no selection [missing-key], or for one that is not made
            of rankings and plain users [conflicting-keys].
        DataError: no trial reaches the constraints [no-trial-left]; as runs of the trials do.
    """
    section = _section_of(config)
    tried = {each.model: each for each in read_trials(config)}
    baseline = config.statistics.baseline
    if baseline is not None and (baseline not in tried or tried[baseline].table is None):
        raise RequestError(
            f"the baseline {baseline!r} is none of the finished trials",
            code="unknown-model",
            at=config.at("statistics", "baseline"),
            hint=did_you_mean(baseline, [*tried], "name one of them, or leave baseline out"),
        )
    names = [section.metric, *(each.metric for each in section.constraints)]
    requests = [_request_of(config, name) for name in names]
    labels = [each.label for each in requests]
    _check_metric(config, requests[0])
    plain = plain_config(config, list(dict.fromkeys(names)))
    tables = {name: each.table for name, each in tried.items() if each.table is not None}
    left: dict[str, Trial] = {}
    found, rungs = _race(plain, section, tables, how, tell, left, labels[1:])
    better = requests[0].metric.higher_is_better
    unmet = {name: _unmet(found, name, section, labels[1:]) for name in found.models}
    field, warnings = _field_of(found, unmet, tried, sign=1.0 if better else -1.0)
    level, n_users = config.statistics.level, field.values.shape[0]
    reach = alike_reach(len(found.models), n_users, level=level)
    choose = _chooser(field, section.rule, reach)
    best, winner = int(np.argmax(field.means)), int(choose(field.means[None])[0])
    errors = paired_errors(field.values, best) * (reach if n_users > 1 else math.nan)
    sign = 1.0 if better else -1.0
    trials = [
        _measured(found, tried[name], labels[0], unmet[name], field, best, errors, sign)
        for name in found.models
    ]
    trials.sort(key=lambda each: (_known(each.value, -sign), _known(each.cost), each.model))
    corrected = _corrected(field, section, choose, level, how, config.statistics.seed)
    naive = found.estimates[field.models[winner]][labels[0]]
    value, *limits = (None if x is None else sign * x for x in corrected)
    within = _limits_within(config, section.metric, limits if better else limits[::-1])
    selection = Selection(
        evalkit=VERSION,
        selection_id=new_run_id(datetime.now(UTC)),
        name=config.name,
        metric=labels[0],
        rule=section.rule,
        level=level,
        n_tried=len(tried),
        n_measured=len(found.models),
        n_users=n_users,
        winner=field.models[winner],
        best=field.models[best],
        naive=naive.value,
        low=naive.low,
        high=naive.high,
        estimate=section.estimate,
        corrected=value,
        corrected_low=within[0],
        corrected_high=within[1],
        optimism=None if value is None else sign * (naive.value - value),
        trials=(*trials, *(_as_listed(each, tried) for each in left.values()), *_unmade(tried)),
        rungs=tuple(rungs),
        warnings=tuple(warnings),
    )
    return Choice(selection, tried, config)


def _limits_within(
    config: Config, metric: str, limits: Sequence[float | None]
) -> list[float | None]:
    """Those that the metric may have; as they are where one is not known."""
    low, high = limits
    if low is None or high is None:
        return [low, high]
    (request,) = config.read_metrics([metric])
    within = Interval(min(low, high), max(low, high)).within(bounds_of(request))
    return [within.low, within.high]


def _unmade(tried: Mapping[str, Tried]) -> Iterator[Trial]:
    """Trials that left no rankings."""
    for each in tried.values():
        if each.table is None:
            yield Trial(each.model, each.state, cost=each.cost, parameters=each.parameters)


def _as_listed(trial: Trial, tried: Mapping[str, Tried]) -> Trial:
    own = tried[trial.model]
    return replace(trial, cost=own.cost, parameters=own.parameters)


def _section_of(config: Config) -> SelectionSection:
    if config.selection is None:
        message = "the config asks for no selection"
        hint = 'metric = "nDCG@10" under [selection]'
        raise RequestError(message, code="missing-key", at=config.at(), hint=hint)
    statistics = config.statistics
    is_plain = statistics.weight is None and not statistics.has_clusters
    if config.kind != "rankings" or config.truth is None or not is_plain:
        message = "a selection is made of rankings over users who count alike"
        hint = "[truth] and rankings, without weight, cluster and two_way under [statistics]"
        raise RequestError(message, code="conflicting-keys", at=config.at("selection"), hint=hint)
    return config.selection


def _check_metric(config: Config, request: Request) -> None:
    """Refuse a number that is no mean of values of users, or of which neither way is better."""
    if not is_made_of_users(request):
        message = f"{request.label} is no mean of users, by whom trials are told apart"
        hint = "choose by a mean of users; constraints and [metrics] take any number"
    elif request.metric.higher_is_better is None:
        message = f"of {request.label} neither more nor less is better"
        hint = "choose by another metric"
    else:
        return
    at = config.at("selection", "metric")
    raise RequestError(message, code="conflicting-keys", at=at, hint=hint)


def _request_of(config: Config, name: str) -> Request:
    found = config.read_metrics([name])
    if len(found) != 1:
        raise RequestError(
            f"{name!r} is {len(found)} metrics, and a trial is chosen by one",
            code="metric-not-measured",
            at=config.at("selection", "metric"),
            hint=f"write one of them: {', '.join(each.label for each in found[:5])}",
        )
    return found[0]


def _race(
    config: Config,
    section: SelectionSection,
    tables: dict[str, RankingsTable],
    how: How,
    tell: Callable[[str], None],
    left: dict[str, Trial],
    limited: Sequence[str],
) -> tuple[TrialValues, list[Rung]]:
    """The trials that stay to the end, measured over all users; those that leave go to `left`."""
    shares = section.screen.users if section.screen is not None else (1.0,)
    n_tests = max(1, (len(shares) - 1) * (len(tables) - 1))
    rungs: list[Rung] = []
    for share in shares:
        with _of_anybody(config, share):
            found = measure_trials(config, tables, how, share)
        names, n_users = list(tables), found.n_users
        dropped: list[str] = []
        if share < 1 and section.screen is not None:
            first = next(iter(found.estimates[names[0]].values()))
            sign = -1.0 if first.higher_is_better is False else 1.0
            values, _ = found.counted(range(len(names)), sign)
            rule = {"level": config.statistics.level, "keep": section.screen.keep}
            may = [not _unmet(found, name, section, limited) for name in names]
            if values.shape[0] > 1:
                out, deltas, reach = hopeless(values, n_tests=n_tests, may=may, **rule)
                for place in out:
                    name = names[place]
                    dropped.append(name)
                    left[name] = _dropped(found, name, deltas[place], reach[place], share, sign)
        rungs.append(Rung(share, n_users, tuple(names), tuple(dropped)))
        tables = {name: each for name, each in tables.items() if name not in dropped}
        tell(
            f"{share:.0%} of the users ({n_users:,}): {len(names):,} trials measured"
            + (f", {len(dropped):,} dropped" if share < 1 else "")
        )
    return found, rungs


@contextmanager
def _of_anybody(config: Config, share: float) -> Iterator[None]:
    """Say of a rung that measures nobody that it is too small."""
    try:
        yield
    except DataError as error:
        if error.code != "no-common-user" or share == 1:
            raise
        message = f"nobody who is ranked is among {share:g} of the users, by which the race begins"
        at, hint = config.at("selection", "screen"), "a larger share, or no screen"
        raise DataError(message, code=error.code, at=at, hint=hint) from error


def _dropped(
    found: TrialValues, name: str, delta: float, reach: float, share: float, sign: float
) -> Trial:
    own = next(iter(found.estimates[name].values()))
    low, high = sorted((sign * (delta - reach), sign * (delta + reach)))
    reason = f"worse than the best over {share:.0%} of the users: {low:+.6f} to {high:+.6f} from it"
    return Trial(
        name,
        "dropped",
        own.value,
        own.low,
        own.high,
        own.n_users,
        sign * delta,
        low,
        high,
        reason=reason,
    )


def _unmet(
    found: TrialValues, name: str, section: SelectionSection, labels: Sequence[str]
) -> tuple[str, ...]:
    """The constraints that a trial does not reach; an undefined value reaches none."""
    told = []
    for rule, label in zip(section.constraints, labels, strict=True):
        value = found.estimates[name][label].value
        if rule.min is not None and not value >= rule.min:
            told.append(f"{label} >= {rule.min:g}")
        if rule.max is not None and not value <= rule.max:
            told.append(f"{label} <= {rule.max:g}")
    return tuple(told)


def _field_of(
    found: TrialValues,
    unmet: Mapping[str, Sequence[str]],
    tried: Mapping[str, Tried],
    *,
    sign: float,
) -> tuple[_Field, list[Warning_]]:
    """Who may be chosen, over the users who count for all trials; and what is odd with them."""
    costs = {name: _known(tried[name].cost) for name in found.models}
    may = sorted(
        (name for name in found.models if not unmet[name]), key=lambda name: (costs[name], name)
    )
    if not may:
        message = f"none of {len(found.models):,} trials reaches the constraints"
        hint = "the nearest: " + min(found.models, key=lambda name: len(unmet[name]))
        raise DataError(message, code="no-trial-left", at="selection.constraints", hint=hint)
    order = [found.models.index(name) for name in may]
    n_listed, n_none = found.n_users, found.n_uncounted(order)
    values, keys = found.counted(order, sign)
    if not keys.size:
        message = "no user counts for all trials that may be chosen"
        hint = 'missing_ranking = "zero" under [policies] counts users without a ranking'
        raise DataError(message, code="no-common-user", at="selection", hint=hint)
    warnings = []
    if n_uneven := n_listed - n_none - keys.size:
        message = f"{n_uneven:,} users count for some trials only, and are left out of comparisons"
        warnings.append(Warning_("unequal-users", message))
    lacking = {each for each in found.lacking.values()}
    if len(lacking) > 1:
        few, many = min(lacking), max(lacking)
        message = f"the trials rank unequal users: {few:,} to {many:,} users have no ranking"
        warnings.append(Warning_("unequal-users", message))
    worth = np.array([costs[name] for name in may])
    return _Field(may, values, keys, worth, exact_means(values)), warnings


def _known(number: float | None, sign: float = 1.0) -> float:
    return math.inf if number is None or math.isnan(number) else sign * number


def _chooser(field: _Field, rule: str, reach: float) -> Choose:
    """The place of the winner for each row of means; the first of those that are equal."""
    if rule == "best":
        return choose_best
    errors = np.stack([paired_errors(field.values, n) for n in range(len(field.models))])

    def choose(means: Values) -> npt.NDArray[np.int64]:
        best = np.argmax(means, axis=1)
        deltas = means[np.arange(best.size), best][:, None] - means
        with np.errstate(invalid="ignore"):
            alike = deltas <= np.nan_to_num(reach * errors[best], nan=np.inf)  # of one user
        worth = np.where(alike, field.costs, np.inf)
        least = worth.min(axis=1, keepdims=True)
        among = np.where(alike & (worth == least), means, -np.inf)
        found: npt.NDArray[np.int64] = np.argmax(among, axis=1).astype(np.int64)
        return found

    return choose


def _measured(
    found: TrialValues,
    tried: Tried,
    label: str,
    unmet: tuple[str, ...],
    field: _Field,
    best: int,
    reaches: Values,
    sign: float,
) -> Trial:
    own = found.estimates[tried.model][label]
    trial = Trial(
        tried.model,
        "measured",
        own.value,
        own.low,
        own.high,
        own.n_users,
        unmet=unmet,
        cost=tried.cost,
        parameters=tried.parameters,
    )
    if unmet:
        return trial
    place = field.models.index(tried.model)
    delta, reach = float(field.means[place] - field.means[best]), float(reaches[place])
    if not math.isfinite(reach):  # one user alone tells nothing apart
        return replace(trial, delta=sign * delta, is_alike=True)
    low, high = sorted((sign * (delta - reach), sign * (delta + reach)))
    is_alike = delta + reach >= 0.0
    return replace(trial, delta=sign * delta, delta_low=low, delta_high=high, is_alike=is_alike)


def _corrected(
    field: _Field, section: SelectionSection, choose: Choose, level: float, how: How, seed: int
) -> tuple[float | None, float | None, float | None]:
    """What the winner is worth on other users, and limits where the method gives them."""
    if section.estimate == "bbc":
        found = corrected_estimate(
            field.values,
            field.keys,
            replicates=section.replicates,
            seed=seed,
            level=level,
            threads=how.threads or 1,
            choose=choose,
        )
        return found.value, found.interval.low, found.interval.high
    if section.estimate == "halves" and field.values.shape[0] > 1:
        order = np.argsort(field.keys * np.uint64(HALVES_SEED), kind="stable")
        halves = np.zeros(order.size, dtype=np.bool_)
        halves[order[: order.size // 2]] = True
        return halved_estimate(field.values, halves, choose), None, None
    return None, None, None
