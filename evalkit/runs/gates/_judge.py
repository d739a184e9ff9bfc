"""Gates over a report: pass, fail, or cannot tell, and what it was judged by."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalkit.aggregate.segments import SMALL
from evalkit.config import GateRule
from evalkit.report import Comparison, Estimate, Gate, Report
from evalkit.report.turning import against
from evalkit.report.verdict import FAIL, PASS, UNCLEAR
from evalkit.report.weights import is_thin, spell_effective
from evalkit.runs.gates._age import age_of_truth, days_of
from evalkit.runs.gates._baseline import Baselines, first_of
from evalkit.runs.gates._counts import LEAKAGE, OF_MODELS, OF_TRUTH, count_of, leak_of, shown_count
from evalkit.runs.gates._limits import (
    FEW_MAKE_IT,
    MAY_BE_CHANCE,
    Limits,
    fewest_users,
    limits_of,
    limits_of_value,
    none_to_go_by,
    spell_limits,
    spell_number,
    told,
    turned,
    with_exact,
)
from evalkit.runs.history import differences_of_measure
from evalkit.statistics.intervals import (
    NO_INTERVAL,
    Interval,
    difference_interval,
    mean_interval,
    wilson_interval,
)
from evalkit.statistics.sample_ratio import ALARM

LOGGING = "(logging)"  # what the logging policy earned: no metric of rankings has it
SHOWN_FIRST = "(shown first)"  # of preferences: how often that side won, no model
OF_CHECKS = ("effective-sample-size", "weight-mean")  # of logged feedback


def judge(
    rules: Sequence[GateRule],
    report: Report,
    baselines: Baselines,
    *,
    level: float,
    is_finished: bool = False,
) -> tuple[Gate, ...]:
    """One entry for each rule and each model that it is about, in the order of the rules.

    Args:
        is_finished: the report is of an earlier run, whose split may have been cut anew since.
    """
    found: list[Gate] = [*_alarms(report)]
    for rule in rules:
        judged = _Judge(rule, report, baselines, level, is_finished)
        found += judged.counts() if rule.data is not None else judged.metrics()
    return tuple(found)


def _alarms(report: Report) -> Iterator[Gate]:
    """Checks that failed, as of the sample ratio: no effect of such a run can be read."""
    for check in report.checks:
        if check.is_alarm:
            among = f" among {check.segment}" if check.segment is not None else ""
            yield Gate(
                metric=check.check,
                model=check.model,
                kind="min",
                bound=ALARM,
                value=check.p_value,
                judged_by="count",
                outcome=FAIL,
                fails=True,
                message="units did not come in the shares that were declared"
                f"{among}, p = {check.p_value:.2g}: no effect can be read",
            )


@dataclass(frozen=True, slots=True)
class _Judge:
    rule: GateRule
    report: Report
    baselines: Baselines
    level: float
    is_finished: bool

    @property
    def kind_and_bound(self) -> tuple[str, float]:
        rule = self.rule
        for kind in ("min", "max", "max_drop", "max_drop_relative", "max_change"):
            bound = getattr(rule, kind)
            if bound is not None:
                return kind, days_of(bound) if isinstance(bound, str) else float(bound)
        raise AssertionError("the config has checked that a gate has a bound")

    @property
    def _name(self) -> str:
        """The metric as it was asked for."""
        return self.report.shown.get(self.rule.metric or "", self.rule.metric or "")

    @property
    def models(self) -> Sequence[str]:
        rule = self.rule
        if rule.model is not None:
            return (rule.model,)
        baseline = rule.baseline
        if rule.max_drop_relative is not None and baseline is None:
            used = self.report.statistics
            baseline = used.baseline if used is not None else None
        measured = {*self.report.models} - {SHOWN_FIRST}
        if baseline is not None and self.baselines.is_run(baseline):
            baseline = None  # a model may be called as a run is
        if self.report.estimate(LOGGING, rule.metric, None, None) is None and rule.metric:
            measured.discard(LOGGING)
        return [model for model in self.report.models if model in measured - {baseline}]

    # Metrics.

    def metrics(self) -> Iterator[Gate]:
        for model in self.models:
            yield self._metric(model)

    def _metric(self, model: str) -> Gate:
        rule, (kind, bound) = self.rule, self.kind_and_bound
        where = _where(rule)
        estimate = self.report.estimate(model, rule.metric, *where)
        if estimate is None or math.isnan(estimate.value):
            what = f"{self._name} of {model}{_among(rule)}"
            reason = "has no value" if estimate is not None else "is not in the report"
            small = None if estimate is not None else self._small()
            return self._unclear(model, f"{what} {reason}{small or ''}")
        is_weighed = self.report.estimate(LOGGING, rule.metric, *where) is not None
        for check in self.report.checks if is_weighed else ():
            if (check.model, check.segment) == (model, where[1]) and is_thin(check, estimate.name):
                few = spell_effective(check)
                message = f"{self._name} of {model}{_among(rule)} stands on {few}: too few to tell"
                return self._unclear(model, message, estimate.value, judged_by="count")
        if kind in ("min", "max"):
            return self._fixed(model, estimate, kind, bound)
        if estimate.higher_is_better is None:
            message = f"nobody knows which way {self._name} is better"
            return self._unclear(model, message, estimate.value)
        if kind == "max_drop_relative":
            return self._drop_relative(model, estimate, bound)
        return self._drop(model, estimate, bound)

    def _drop_relative(self, model: str, estimate: Estimate, bound: float) -> Gate:
        """By the limits of the relative difference, to which the baseline's error belongs."""
        used = self.report.statistics
        baseline = self.rule.baseline or (used.baseline if used is not None else None) or ""
        pair = _comparison(self.report, baseline, model, estimate)
        if pair is None or pair.relative is None or pair.candidate != model:
            message = f"{self._name} of {model} has no relative difference to {baseline!r}"
            if pair is None and baseline in self.report.models:
                message += ": they are not compared, as by statistics.baseline or pairs"
            return self._unclear(model, message, estimate.value)
        base = self.report.estimate(baseline, self.rule.metric, *_where(self.rule))
        is_below = base is not None and base.value < 0.0  # of which a gain is a share below 0
        delta = -pair.relative if is_below else pair.relative
        gate, own = (turned(each, is_below) for each in limits_of(self.report, pair, "relative_"))
        is_lower = estimate.higher_is_better is False
        outcome, note = self._told((gate, own), pair.n_users, -bound, is_turned=is_lower)
        better = turned(told((gate, own)), is_lower)
        low, high = better.low, better.high
        shown = f" ({low:+.2%} … {high:+.2%})" if better.exists else " (no interval)"
        message = (
            f"{self._name} of {model}{_among(self.rule)} is "
            f"{-delta if is_lower else delta:+.2%}{shown} to {baseline}, allowed drop: {bound:.2%}"
        )
        return self._gate(
            model,
            value=estimate.value,
            delta=delta,
            interval=gate,
            judged_by="paired",
            n_users=pair.n_users,
            outcome=outcome,
            message=message + note,
        )

    def _small(self) -> str:
        """Why a segment may not be in the report: it may stand with others that are as small."""
        rule, segment = _where(self.rule)
        pooled = (each for each in self.report.estimates if each.segment == SMALL)
        if rule is None or all(each.segmentation != rule for each in pooled):
            return ""
        section = (self.report.config or {}).get("segments")
        least = section.get("min_users") if isinstance(section, dict) else None
        asked = f"min_users = {least:,}" if isinstance(least, int) else "min_users"
        return (
            f": segments with fewer users than {asked} under [segments] stand together as {SMALL}, "
            f"and {segment!r} may be one of them"
        )

    def _fixed(self, model: str, estimate: Estimate, kind: str, bound: float) -> Gate:
        limits, is_max = limits_of_value(self.report, estimate, self.level), kind == "max"
        limits = with_exact(limits, estimate, self.level)
        least, side = (-bound, "<=") if is_max else (bound, ">=")
        outcome, note = self._told(limits, estimate.n_users, least, is_turned=is_max)
        message = (
            f"{self._name} of {model}{_among(self.rule)} is {spell_number(estimate.value)}"
            f"{spell_limits(told(limits))}, required: {side} {bound:g}"
        )
        return self._gate(
            model,
            value=estimate.value,
            interval=limits[0],
            n_users=estimate.n_users,
            outcome=outcome,
            message=message + note,
        )

    def _drop(self, model: str, estimate: Estimate, bound: float) -> Gate:
        rule = self.rule
        reference = rule.baseline or ""
        old_run, old_model = self.report, reference
        if self.baselines.is_run(reference):
            found = self.baselines.report(reference)
            if found is None:
                message = f"{self.baselines.lack(reference)} to compare {self._name} with"
                return self._unclear(model, message, estimate.value)
            old_run, old_model = found, model
        old_id = _id(old_run, self.report)
        if differs := differences_of_measure(old_run, self.report):
            message = f"{reference} measured {self._name} otherwise: {'; '.join(differs)}"
            message += first_of(reference)
            return self._unclear(model, message, estimate.value, old_id)
        before = old_run.estimate(old_model, rule.metric, *_where(rule))
        if before is None or math.isnan(before.value):
            message = f"{reference} has no {self._name} of {old_model}{_among(rule)}"
            message += first_of(reference)
            return self._unclear(model, message, estimate.value, old_id)
        delta, limits, n_users, judged_by, why = self._difference(
            model, estimate, before, old_run, old_model
        )
        is_lower = estimate.higher_is_better is False
        better = -delta if is_lower else delta
        outcome, note = self._told(limits, n_users, -bound, is_turned=is_lower)
        word = "better" if better > 0 else "worse" if better < 0 else "different"
        message = (
            f"{self._name} of {model}{_among(rule)} is {spell_number(abs(delta))} {word} than "
            f"{reference}{spell_limits(told(limits))}, allowed drop: {bound:g}"
        )
        if why:
            message += f"; judged by independent intervals, since {why}"
        return self._gate(
            model,
            value=estimate.value,
            delta=delta,
            interval=limits[0],
            baseline_run=old_id,
            judged_by=judged_by,
            n_users=n_users,
            outcome=outcome,
            message=message + note,
        )

    def _difference(
        self, model: str, now: Estimate, before: Estimate, old_run: Report, old_model: str
    ) -> tuple[float, Limits, int, str, str]:
        """Delta, its limits, users, how it was judged, and why not by user."""
        if old_run is self.report:
            pair = _comparison(self.report, old_model, model, now)
            if pair is not None and (pair.std_error, pair.low_gate, pair.high_gate) != (None,) * 3:
                return pair.delta, limits_of(self.report, pair), pair.n_users, "paired", ""
        why = "values by segment are not kept"
        if now.segment is None:
            from evalkit.runs.gates._paired import paired_difference

            found, why = paired_difference((self.report, model), (old_run, old_model), now.metric)
            if found is not None:
                return found.mean, (found.limits(self.level),) * 2, found.n_users, "paired", ""
        if old_run is self.report and pair is None:
            why += ", and the run does not compare both"
        if old_run is not self.report and (lacks := none_to_go_by(old_run)):
            why += f", and {lacks}"
        limits = self._limits_of_value(self.report, now), self._limits_of_value(old_run, before)
        interval = difference_interval(now.value, limits[0], before.value, limits[1])
        n_users = min(now.n_users, before.n_users)
        return now.value - before.value, (interval, interval), n_users, "independent", why

    def _limits_of_value(self, report: Report, estimate: Estimate) -> Interval:
        """Those that its report shows, where they are at this level."""
        used, level = report.statistics, self.level
        if used is None or used.level == level or estimate.low is None:
            return limits_of_value(report, estimate, level)[0]
        n, error = estimate.n_clusters or estimate.n_users, estimate.std_error
        value, deviation = estimate.value, math.sqrt(max(0, n - 1)) * (error or 0.0)
        if estimate.n_clusters is None and math.isclose(deviation**2, value * (1.0 - value)):
            return wilson_interval(round(value * n), n, level=level)  # none but 0 and 1 vary so far
        return mean_interval(estimate.value, error, n, level=level, df=estimate.df)

    def _too_few(self, n_users: int) -> str:
        least = fewest_users(self.report, self.rule)
        return f"; {n_users:,} users are too few, {least:,} are asked" if n_users < least else ""

    # Counts.

    def counts(self) -> Iterator[Gate]:
        rule = self.rule
        if str(rule.data).startswith(LEAKAGE):
            yield self._leak()
            return
        if rule.data == "age":
            yield self._age()
            return
        if rule.data in OF_CHECKS:
            yield from self._checked()
            return
        is_run = rule.baseline is None or self.baselines.is_run(rule.baseline)
        is_of_models = not is_run and rule.data in OF_MODELS  # the truth is no model
        if rule.model is None and rule.data in OF_TRUTH and not is_of_models:
            yield self._count(None)
        for model in self.models if rule.data in OF_MODELS else ():
            yield self._count(model)

    def _within(self, value: float) -> tuple[str, str]:
        """Whether a number without an interval keeps its bound, and which side that bounds."""
        kind, bound = self.kind_and_bound
        if kind == "min":
            return PASS if value >= bound else FAIL, ">="
        return PASS if value <= bound else FAIL, "<="

    def _checked(self) -> Iterator[Gate]:
        """What the weights of logged feedback are."""
        rule, (kind, bound) = self.rule, self.kind_and_bound
        found = [
            check
            for check in self.report.checks
            if check.check == rule.data and check.segment is None and check.value is not None
            if rule.model is None or check.model == rule.model
        ]
        if not found or kind not in ("min", "max"):
            told = "not in the report" if not found else "min or max judges it"
            yield self._unclear(rule.model, f"{rule.data}: {told}")
            return
        for check in found:
            value = check.value or 0.0
            outcome, side = self._within(value)
            message = f"{rule.data} of {check.model}: {value:,.4g}, required: {side} {bound:g}"
            yield self._gate(check.model, value=value, outcome=outcome, message=message)

    def _age(self) -> Gate:
        """How far the newest row of the truth is from {day}, or from the run's start, in days."""
        days, where = age_of_truth(self.report)
        if days is None:
            return self._unclear(None, f"age of the truth: {where}")
        outcome, side = self._within(days)
        message = f"age of the truth: {where}; required: {side} {self.rule.min or self.rule.max}"
        return self._gate(None, value=days, outcome=outcome, message=message)

    def _leak(self) -> Gate:
        """A count of the split that the truth is a part of."""
        kind, bound = self.kind_and_bound
        what = str(self.rule.data)
        now, told = leak_of(self.report, what, is_finished=self.is_finished)
        if now is None or kind not in ("min", "max"):
            return self._unclear(None, f"{what}: {told or 'min or max judges it'}")
        outcome, side = self._within(now)
        message = f"{what}: {now:g}, required: {side} {bound:g}"
        return self._gate(None, value=now, outcome=outcome, message=message)

    def _count(self, model: str | None) -> Gate:
        rule, (kind, bound) = self.rule, self.kind_and_bound
        what = f"{str(rule.data).replace('_', ' ')} of {model or 'the truth'}"
        now = count_of(self.report, model, str(rule.data))
        if now is None:
            return self._unclear(model, f"{what}: not in the report")
        shown = shown_count(now, str(rule.data))
        if kind in ("min", "max"):
            outcome, side = self._within(now)
            message = f"{what}: {shown}, required: {side} {shown_count(bound, str(rule.data))}"
            return self._gate(model, value=now, outcome=outcome, message=message)
        reference = rule.baseline or ""
        is_run = self.baselines.is_run(reference)
        old_run = self.baselines.report(reference) if is_run else self.report
        if old_run is None:
            message = f"{self.baselines.lack(reference)} to compare {what} with"
            return self._unclear(model, message, now)
        before = count_of(old_run, model if is_run else reference, str(rule.data))
        old_id = _id(old_run, self.report)
        if before is None or (before == 0 and now != 0):
            message = f"{what}: {shown}; {reference} has none to compare with"
            message += first_of(reference)
            return self._unclear(model, message, now, old_id)
        change = (now - before) / before if before else 0.0
        message = f"{what}: {shown}, {change:+.1%} against {reference}, allowed change: {bound:.1%}"
        return self._gate(
            model,
            value=now,
            delta=change,
            baseline_run=old_id,
            outcome=PASS if abs(change) <= bound else FAIL,
            message=message,
        )

    def _told(
        self, limits: Limits, n_users: int, least: float, *, is_turned: bool
    ) -> tuple[str, str]:
        """What limits say of a least value, and what stands beside that."""
        outcomes, fewest = [UNCLEAR, UNCLEAR], fewest_users(self.report, self.rule)
        for place, interval in enumerate(limits):
            its = turned(interval, is_turned)
            if n_users >= fewest and its.exists:
                outcomes[place] = (
                    PASS if its.low >= least else FAIL if its.high < least else UNCLEAR
                )
        outcome, shown = outcomes
        note = FEW_MAKE_IT if limits[1].exists and not limits[0].exists else ""
        if shown not in (outcome, UNCLEAR):
            note = MAY_BE_CHANCE.format(shown)
        if note and (lacks := none_to_go_by(self.report)):
            note += f"; {lacks}"
        return outcome, note + self._too_few(n_users)

    def _unclear(
        self,
        model: str | None,
        message: str,
        value: float | None = None,
        baseline_run: str | None = None,
        judged_by: str | None = None,
    ) -> Gate:
        return self._gate(
            model,
            outcome=UNCLEAR,
            message=message,
            value=value,
            baseline_run=baseline_run,
            judged_by=judged_by,
        )

    def _gate(
        self,
        model: str | None,
        *,
        outcome: str,
        message: str,
        value: float | None = None,
        delta: float | None = None,
        interval: Interval = NO_INTERVAL,
        baseline_run: str | None = None,
        judged_by: str | None = None,
        n_users: int | None = None,
    ) -> Gate:
        rule, (kind, bound) = self.rule, self.kind_and_bound
        low, high = (
            each if math.isfinite(each) else None for each in (interval.low, interval.high)
        )
        return Gate(
            metric=rule.metric or str(rule.data),
            model=model,
            segmentation=_where(rule)[0],
            segment=_where(rule)[1],
            kind=kind,
            bound=bound,
            value=value,
            delta=delta,
            low=low,
            high=high,
            baseline=rule.baseline,
            baseline_run=baseline_run,
            judged_by=judged_by or ("count" if rule.data is not None else "bound"),
            n_users=n_users,
            outcome=outcome,
            fails=outcome == FAIL or (outcome == UNCLEAR and rule.unclear == "fail"),
            message=message,
        )


def _where(rule: GateRule) -> tuple[str | None, str | None]:
    if rule.segment is None:
        return None, None
    name, _, segment = rule.segment.partition("=")
    return name, segment


def _among(rule: GateRule) -> str:
    return f" among {rule.segment}" if rule.segment is not None else ""


def _comparison(report: Report, baseline: str, model: str, of: Estimate) -> Comparison | None:
    """The run's own comparison; turned where it was made the other way."""
    pairs = (
        each
        for each in report.comparisons
        if (each.metric, each.segmentation, each.segment)
        == (of.metric, of.segmentation, of.segment)
        and model in (each.baseline, each.candidate)
    )
    return next(iter(against(pairs, baseline)), None)


def _id(old_run: Report, report: Report) -> str | None:
    return None if old_run is report else old_run.run_id
