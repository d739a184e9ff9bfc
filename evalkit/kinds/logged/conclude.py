"""From sums of users to a report: estimates, the logging policy's own value, and diagnostics."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, cast

import polars as pl

from evalkit import report
from evalkit.errors import DataError
from evalkit.inference.conclude import Inference
from evalkit.inference.spread import DifferenceSpread
from evalkit.kernels.arrays import Floats
from evalkit.kinds.logged import _numbers, _weights, measure
from evalkit.kinds.logged.declaration import LOGGING
from evalkit.kinds.logged.merge import LoggedSums
from evalkit.kinds.logged.open import open_logged, section_of, targets_of
from evalkit.metrics import Request
from evalkit.metrics.logged import Term
from evalkit.planning.counters import Clock, versions
from evalkit.planning.meeting import null_words, texts_among
from evalkit.planning.record import RunResults, make_report
from evalkit.planning.work import Kind, MeasureOptions, ShareResult, in_one_share
from evalkit.report.entries import Check
from evalkit.report.weights import is_thin
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import t_two_sided
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval, normal_interval
from evalkit.statistics.means import gate_interval

ROUNDING = 1e-12  # of a value, below which its error is none


def conclude_logged(
    left: ShareResult, work: MeasureOptions, told: Sequence[report.Warning_], clock: Clock | None
) -> report.Report:
    """The report of all shares.

    Raises:
        DataError: there are no rounds [empty-input], or no round has a weight above 0
            [no-overlap].
    """
    clock = work.started(clock)
    config, sums = left.config, left.sums
    chosen = config.statistics
    recipes, targets = measure.recipes_of(config), targets_of(config)
    wanted, errors = measure.TermColumns.of(recipes, len(targets)), config.policies.ratio_errors
    if not sums.counts.rows:
        raise DataError("the log has no rounds", code="empty-input", at=sums.at)
    _weights.refuse_slates(config.requests, recipes, sums)
    names = [target.model for target in targets]
    estimates: list[report.Estimate] = []
    drafts: list[_Draft] = []
    checks: list[Check] = []
    rough: list[report.Warning_] = []
    words: list[report.Warning_] = []
    per_user: dict[str, pl.DataFrame] = {}
    for cell in _numbers.cells_of(sums, list(config.segments.named)):
        is_whole = cell.segmentation is None
        own = list(
            _weights.checks_of(cell, wanted, names, sums, section_of(config).max_weight_share)
        )
        if is_whole:
            ids = texts_among(cell.users["user_0"]) if sums.user_names else []
            words = [*null_words("logged", "user", ids)]
            _weights.refuse_no_overlap(own, sums)
            rough = list(_weights.few_rewards(cell, wanted, names, sums))
        rounds = wanted.column(0, Term("ones"))
        shares = cell.sums(rounds) / cell.total(rounds)
        added: dict[str, list[Floats]] = {}
        for request, recipe in zip(config.requests, recipes, strict=True):
            numbers = {LOGGING: _numbers.number_of(cell, wanted, 0, _numbers.of_logging(recipe))}
            numbers |= {
                name: _numbers.number_of(cell, wanted, place, recipe, fixed=errors == "fixed")
                for place, name in enumerate(names)
            }
            for place, (name, number) in enumerate(numbers.items(), start=-1):
                limits = _limits_of(number, chosen.level, errors)
                if errors == "delta" and len(number.influence) > 1:
                    whose = None if place < 0 else place
                    own_recipe = _numbers.of_logging(recipe) if place < 0 else recipe
                    given = sums.counts.rewards, chosen.level
                    rare = _numbers.rare_limits(cell, wanted, whose, own_recipe, *given)
                    limits = rare or limits
                own_estimate = _estimate(request, name, number, cell, limits)
                if errors == "delta":
                    own_estimate = _with_gate(own_estimate, number, sums, chosen.level)
                estimates.append(own_estimate)
            for name, number in numbers.items():
                added.setdefault(name, []).append(number.influence)
            widest = _numbers.widest_of(recipe, cell.users.height, sums.counts)
            drafts += _drafts(request, numbers, cell, chosen, widest)
            if is_whole and work.per_user and sums.user_names:
                _keep(per_user, sums, request.label, numbers)
        for name, of_numbers in added.items():
            own += _weights.uneven_users(of_numbers, shares, name, cell.segment)
        checks += own if is_whole else [each for each in own if each.check.startswith("effective")]
    comparisons = _judged(drafts, chosen, checks)
    warnings = [*told, *_weights.warnings_of(checks), *rough, *words]
    warnings += _weights.warnings_of_units(sums, wanted)
    if chosen.correction == "tukey":
        message = "statistics.correction = 'tukey' says nothing about estimators: Holm's corrects"
        warnings.append(report.Warning_("not-followed", message))
    inference = Inference(
        estimates=tuple(estimates), comparisons=tuple(comparisons), standings=(), findings=(),
        macros=(), used=_used(chosen, comparisons), warnings=(),
    )  # fmt: skip
    kept = None
    if per_user:
        labels = tuple(request.label for request in config.requests)
        kept = report.PerUser(tuple(sums.user_names), labels, per_user)
    clock.stop("aggregate")
    drawn = list(_weights.graphs_of(sums, names))
    counts = _counts_of(sums, (LOGGING, *names))
    found = RunResults(counts, inference, warnings, graphs=drawn, per_user_values=kept)
    meta = clock.meta(sums.counts.rows, work.useful_threads, versions())
    whole = make_report(config, found, left.inputs, meta, clock=clock, sample=work.sample)
    return replace(whole, checks=tuple(checks))


def _counts_of(sums: LoggedSums, models: Sequence[str]) -> report.Counts:
    keys = [name for name in sums.frame.columns if ":" not in name and not _numbers.is_split(name)]
    of_users = sums.frame.group_by(keys).agg(pl.col("all:0").sum())
    n, n_users, depth = sums.counts.rows, of_users.height, cast("float", of_users["all:0"].max())
    own = report.ModelCounts(n, n, {}, n_users, 0, 0, 0, "none", None, 0, 0, int(depth))
    return report.Counts(
        report.TruthCounts(n, n, {}, n_users, 0, n, None), dict.fromkeys(models, own)
    )


def _correction(chosen: Any) -> str:
    """Tukey's is of t tests of plain means."""
    return "holm" if chosen.correction == "tukey" else str(chosen.correction)


def _used(chosen: Any, comparisons: Sequence[report.Comparison]) -> report.StatisticsUsed:
    tested = [each for each in comparisons if each.p_value is not None]
    return report.StatisticsUsed(
        level=chosen.level, method="normal", test="t", correction=_correction(chosen),
        family="report", n_tests=len(tested), baseline=LOGGING, margin=None,
        power=chosen.power,
    )  # fmt: skip


def _keep(
    per_user: dict[str, pl.DataFrame],
    sums: LoggedSums,
    label: str,
    numbers: Mapping[str, _numbers.LoggedNumber],
) -> None:
    """What each user adds, put so that its mean is the value."""
    keys = [f"user_{place}" for place in range(len(sums.user_names))]
    users = sums.frame.select(keys).unique(maintain_order=True)
    users = users.rename(dict(zip(keys, sums.user_names, strict=True)))
    for name, number in numbers.items():
        own = pl.Series(label, number.value + number.influence * len(number.influence))
        per_user[name] = per_user.get(name, users).with_columns(own)


def _limits_of(number: _numbers.LoggedNumber, level: float, errors: str) -> Interval:
    """Limits of a value, mended for skewness but where a library's are asked for."""
    n = len(number.influence)
    if not (n > 1 and number.std_error > ROUNDING * abs(number.value)):
        return NO_INTERVAL
    if errors == "normal":
        return normal_interval(number.value, number.std_error, level=level)
    skewness = number.skewness if errors == "delta" else math.nan
    return mean_interval(number.value, number.std_error, n, level=level, skewness=skewness)


def _estimate(
    request: Request,
    model: str,
    number: _numbers.LoggedNumber,
    cell: _numbers.SegmentSums,
    limits: Interval,
) -> report.Estimate:
    error = number.std_error
    return report.Estimate(
        model=model, metric=request.label, name=request.metric.name, cutoff=None,
        parameters=dict(request.parameters), value=number.value, n_users=len(number.influence),
        n_undefined=0, segmentation=cell.segmentation, segment=cell.segment,
        low=_limit(limits.low), high=_limit(limits.high),
        std_error=None if math.isnan(error) else error,
        higher_is_better=request.metric.higher_is_better,
    )  # fmt: skip


def _with_gate(
    each: report.Estimate, number: _numbers.LoggedNumber, sums: LoggedSums, level: float
) -> report.Estimate:
    """The estimate with limits that gates go by, where rewards are no shares: nobody knows how
    large they can be.
    """
    least, most = sums.counts.rewards
    if each.low is None or each.high is None or (least >= 0.0 and most <= 1.0):
        return each
    n, shown = len(number.influence), Interval(each.low, each.high)
    widest = abs(number.value) + n * float(abs(number.influence).max())
    gate = gate_interval(
        shown, number.value, number.std_error, n, level=level, skewness=number.skewness,
        widest=widest,
    )  # fmt: skip
    return replace(each, low_gate=_limit(gate.low), high_gate=_limit(gate.high))


@dataclass(slots=True)
class _Draft:
    """A comparison before its correction."""

    baseline: str
    candidate: str
    request: Request
    cell: _numbers.SegmentSums
    one: _numbers.LoggedNumber
    other: _numbers.LoggedNumber
    widest: float
    std_error: float = field(init=False)

    def __post_init__(self) -> None:
        self.std_error = _numbers.error_of(self.other.influence - self.one.influence)

    @property
    def spread(self) -> DifferenceSpread:
        """What the error stands on; rare large weights that no user had count as not seen."""
        moved = self.other.influence - self.one.influence + self.delta / len(self.one.influence)
        below, above = int((moved < 0).sum()), int((moved > 0).sum())
        n = len(moved)
        return DifferenceSpread(
            *(n, n - 1.0, math.nan, self.widest), is_mended=False, is_of_one=True, n_below=below,
            n_above=above,
        )  # fmt: skip

    @property
    def delta(self) -> float:
        return self.other.value - self.one.value

    @property
    def p_value(self) -> float:
        error, size = self.std_error, max(abs(self.one.value), abs(self.other.value))
        if not error > ROUNDING * size:
            return math.nan
        unseen = self.spread.p_unseen(abs(self.delta), self.delta, error, is_above=self.delta > 0)
        return max(t_two_sided(self.delta / error, len(self.one.influence) - 1), min(1, 2 * unseen))


def _drafts(
    request: Request,
    numbers: Mapping[str, _numbers.LoggedNumber],
    cell: _numbers.SegmentSums,
    chosen: Any,
    widest: float,
) -> Iterator[_Draft]:
    baseline = chosen.baseline or LOGGING
    pairs = (
        combinations(numbers, 2)
        if chosen.pairs == "all"
        else ((baseline, name) for name in numbers if name != baseline)
    )
    for one, other in pairs:
        yield _Draft(one, other, request, cell, numbers[one], numbers[other], widest)


def _judged(
    drafts: Sequence[_Draft], chosen: Any, checks: Sequence[Check]
) -> list[report.Comparison]:
    """Comparisons, corrected together; what few rounds or users carry is not told apart."""
    p_values = [draft.p_value for draft in drafts]
    adjusted = adjust(p_values, _correction(chosen), error=1 - chosen.level)
    by_place: dict[tuple[str | None, str | None], list[Check]] = {}
    for each in checks:
        by_place.setdefault((each.model, each.segment), []).append(each)
    found = []
    for draft, p, p_adjusted, error in zip(
        drafts, p_values, adjusted.p_adjusted, adjusted.errors, strict=True
    ):
        n, std_error, delta = len(draft.one.influence), draft.std_error, draft.delta
        is_tested = not math.isnan(p)
        limits = adjusted_limits = NO_INTERVAL
        if is_tested:
            limits = draft.spread.limits(delta, std_error, level=chosen.level)
            adjusted_limits = draft.spread.limits(delta, std_error, level=1 - error)
        is_carried_by_few = any(
            is_thin(each, draft.request.metric.name)
            for model in (draft.baseline, draft.candidate)
            for each in by_place.get((model, draft.cell.segment), ())
        )
        verdict = "cannot tell" if is_tested else "not tested"
        if is_tested and not is_carried_by_few and p_adjusted <= 1 - chosen.level:
            verdict = "better" if delta > 0 else "worse"
        base = draft.one.value
        found.append(
            report.Comparison(
                baseline=draft.baseline, candidate=draft.candidate, metric=draft.request.label,
                segmentation=draft.cell.segmentation, segment=draft.cell.segment, delta=delta,
                std_error=std_error if is_tested else None,
                low=_limit(limits.low), high=_limit(limits.high),
                relative=delta / base if base > 0 else None, test="t", n_users=n, verdict=verdict,
                p_value=p if is_tested else None, p_adjusted=p_adjusted if is_tested else None,
                df=float(n - 1), low_adjusted=_limit(adjusted_limits.low),
                high_adjusted=_limit(adjusted_limits.high),
            )
        )  # fmt: skip
    return found


def _limit(number: float) -> float | None:
    return None if math.isnan(number) else number


RUN = in_one_share(measure.measure_logged, conclude_logged)
KIND = Kind(LoggedSums, open_logged, RUN, measure.measure_logged, conclude_logged)
