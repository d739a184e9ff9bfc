"""What is asked of an experiment, whichever entry point it came through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evalkit.errors import EvalkitError, RequestError, did_you_mean, noting, raise_all
from evalkit.runs.history.experiment_looks import ExperimentLook
from evalkit.statistics.independent import Rules

from ._expressions import MOST_DAYS, UnitMeasure, parse_measure, parse_measures, span_of
from ._refused import not_built
from ._statistics import Statistics, read_statistics

POLICIES: Mapping[str, tuple[str, ...]] = {  # the first is the default
    "crossed_units": ("drop", "first", "error"),
    "unknown_variants": ("error", "drop"),
    "bad_values": ("error", "drop"),
    "open_windows": ("skip", "keep"),
    "unexposed_events": ("drop", "error"),
    "equal_events": ("count", "once"),
}
PROFILES: Mapping[str, Mapping[str, object]] = {
    "evalkit": {},
    "tea-tasting": {"relative": "log", "limits": "wald", "correction": "none"},
    "gbstats": {"relative": "delta", "limits": "wald", "correction": "none"},
    "spotify-confidence": {
        "relative": "fixed",
        "distribution": "normal",
        "limits": "wald",
        "correction": "bonferroni",
    },
    "ambrosia": {"relative": "delta", "limits": "wald", "correction": "none"},
    "statsmodels": {"limits": "wald", "correction": "none", "clusters": "delta"},
}


@dataclass(frozen=True, slots=True)
class Sum:
    """A column of a unit: how many events of a kind it has, or the sum of their values."""

    kind: str
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Shares from a moment on, in microseconds."""

    start: int
    name: str
    variants: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ExperimentRequest:
    """An experiment's question.

    Args:
        variants: name -> share; the baseline is the first, or the one that statistics name.
        sums: columns of a unit that are made of events; empty of ready-made rows.
        before: column -> its values before exposure, among the ready-made ones or in a table.
        window, until: microseconds; of a window from exposure on.
        raw: the metrics that stand beside adjusted ones.
        phases: shares after the first ones.
        earlier: runs that looked before.
    """

    name: str
    variants: Mapping[str, float]
    measures: tuple[UnitMeasure, ...]
    statistics: Statistics
    sums: Mapping[str, Sum] = field(default_factory=dict)
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    window: int | None = None
    until: int | None = None
    covariate_days: float = 14.0
    primary: tuple[str, ...] = ()
    guardrails: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    policies: Mapping[str, str] = field(default_factory=dict)
    segments: Mapping[str, str] = field(default_factory=dict)
    profile: str = "evalkit"
    has_events: bool = False
    phases: tuple[Phase, ...] = ()
    earlier: tuple[ExperimentLook, ...] = ()

    @property
    def baseline(self) -> str:
        return self.statistics.baseline or next(iter(self.variants))

    @property
    def names(self) -> tuple[str, ...]:
        """The variants, the baseline first."""
        return (self.baseline, *(name for name in self.variants if name != self.baseline))

    def policy(self, name: str) -> str:
        return self.policies.get(name, POLICIES[name][0])

    def names_before(self, measure: UnitMeasure) -> bool:
        """Whether covariates are named for it, in place of events before exposure."""
        return any(name in self.before for name in measure.columns)

    @property
    def first_plan(self) -> object:
        """The sequential plan of the first look that had one; None where none had."""
        plans = (look.plan for look in self.earlier)
        return next((plan for plan in plans if plan not in (None, "no")), None)

    @property
    def leaves_plan(self) -> bool:
        """Whether it goes by another plan than the first: the error was spent by that one."""
        return not self.statistics.is_plan(self.first_plan)

    def rules(self, label: str, n_units: int) -> Rules:
        """How two variants are compared by a metric that so many units of all have."""
        earlier = [look.units[label] for look in self.earlier if label in look.units]
        rules = self.statistics.rules(n_units, earlier)
        if self.leaves_plan:  # no share of the error is left
            return replace(rules, sequential=None, spending=("linear", ()))
        return rules

    def window_of(self, measure: UnitMeasure) -> int | None:
        return self.window if measure.window is None else measure.window


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenExperiment:
    """An experiment's question as it is written: `evaluate_experiment` says what each means."""

    name: str
    variants: Mapping[str, float]
    metrics: Sequence[str]
    sums: Mapping[str, object] | None = None
    before: Mapping[str, object] | None = None
    window: str | None = None
    until: int | None = None
    covariate_days: float = 14.0
    primary: Sequence[str] | str = ()
    guardrails: Sequence[str] | str = ()
    lower_is_better: Sequence[str] | str = ()
    policies: Mapping[str, str] | None = None
    segments: Sequence[str] | Mapping[str, str] = ()
    statistics: Mapping[str, object] | None = None
    profile: str = "evalkit"
    has_events: bool = False
    fills_sums: bool = False  # columns that sums lack are kinds


def read_asked(written: WrittenExperiment) -> ExperimentRequest:
    """What is asked, with all that is wrong with it told at once.

    Raises:
        RequestError: bad-share, unknown-model, metric-not-measured, unknown-policy,
            out-of-range, conflicting-keys, unknown-profile, and what `parse_measures` and
            `read_statistics` raise.
    """
    errors: list[EvalkitError] = []
    shares = _shares(written.variants, errors)
    measures = _measures(written.metrics, errors)
    labels = [each.label for each in measures]
    roles: dict[str, tuple[str, ...]] = {}
    for role in ("primary", "guardrails", "lower_is_better"):
        named = getattr(written, role)
        roles[role] = _among(role, [named] if isinstance(named, str) else named, labels, errors)
    chosen = Statistics()
    with noting(errors):
        chosen = read_statistics({**_profile(written.profile), **(written.statistics or {})})
    with noting(errors):
        _check_baseline(chosen.baseline, shares)
    _check_policies(written.policies or {}, errors)
    span = None
    with noting(errors):
        span = None if written.window is None else span_of(written.window)
    days = written.covariate_days
    if not 0.0 <= days <= MOST_DAYS:
        message = f"covariate_days is {days!r}, no number from 0 to {MOST_DAYS:,}"
        hint = "covariate_days = 14; 0 takes no covariates of events"
        errors.append(RequestError(message, code="out-of-range", at="covariate_days", hint=hint))
    before, sums, segments = written.before or {}, written.sums, written.segments
    for column in before:
        if measures and not any(column in measure.columns for measure in measures):
            hint = did_you_mean(
                column,
                [name for measure in measures for name in measure.columns],
                "name a column of a metric",
            )
            message = f"before names covariates of {column!r}, which is in no metric"
            errors.append(
                RequestError(message, code="missing-column", at=f"before.{column}", hint=hint)
            )
    if not errors:
        _check_lists(measures, before, errors)
    if not written.has_events:
        _check_windows(written.window, measures, errors)
    raise_all(errors)
    found = {} if sums is None else {key: _sum_of(key, each) for key, each in sums.items()}
    if written.has_events and (sums is None or written.fills_sums):
        found = {column: Sum(column) for each in measures for column in each.columns} | found
    _check_values(found)
    for column in (each.columns[0] for each in measures if each.of_events and written.has_events):
        if all(each.of_events for each in measures if column in each.columns):
            found.setdefault(column, Sum(column))  # a kind, whose values are read one by one
    return ExperimentRequest(
        name=written.name,
        variants=shares,
        measures=tuple(measures),
        statistics=chosen,
        sums=found,
        before={
            key: (each,) if isinstance(each, str) else tuple(each)  # type: ignore[arg-type]
            for key, each in before.items()
        },
        window=span,
        until=written.until,
        covariate_days=written.covariate_days,
        primary=roles["primary"],
        guardrails=roles["guardrails"],
        lower_is_better=roles["lower_is_better"],
        policies=dict(written.policies or {}),
        segments=dict(segments)
        if isinstance(segments, Mapping)
        else {name: name for name in segments},
        profile=written.profile,
        has_events=written.has_events,
    )


def _check_lists(
    measures: Sequence[UnitMeasure], before: Mapping[str, object], errors: list[EvalkitError]
) -> None:
    """A covariate of a ratio is one of two columns, place by place."""
    for each in measures:
        listed = [before[name] for name in each.columns if name in before]
        sizes = [1 if isinstance(names, str) else len(names) for names in listed]  # type: ignore[arg-type]
        if each.kind == "ratio" and not each.is_plain and len(set(sizes)) > 1:
            message = f"before has {sizes[0]} and {sizes[1]} covariates of {each.label}"
            hint = "give both columns as many: a ratio's covariates are ratios"
            at = f"before.{each.columns[1]}"
            errors.append(RequestError(message, code="conflicting-keys", at=at, hint=hint))


def _check_windows(
    window: str | None, measures: Sequence[UnitMeasure], errors: list[EvalkitError]
) -> None:
    """Ready-made rows have no events that a window could leave out."""
    named = next((each.label for each in measures if each.window is not None), None)
    if named is None and window is None:
        return
    message = f"{named or 'window'} asks for a window, and rows are ready-made"
    hint = "leave it out, or give exposures and events"
    at = "window" if named is None else "metrics"
    errors.append(RequestError(message, code="conflicting-keys", at=at, hint=hint))


def _check_values(sums: Mapping[str, Sum]) -> None:
    """Raise where sums are of several columns of events, which have one value [conflicting-keys]"""
    of = dict.fromkeys(each.of for each in sums.values() if each.of is not None)
    if len(of) > 1:
        message = f"sums add up {' and '.join(map(repr, of))}, and events have one value"
        hint = 'make it one column: of = "value", with value = "case when event = \'purchase\' '
        hint += 'then price else seconds end" among the columns of events'
        raise RequestError(message, code="conflicting-keys", at="sums", hint=hint)


def _measures(metrics: Sequence[str], errors: list[EvalkitError]) -> list[UnitMeasure]:
    measures: list[UnitMeasure] = []
    with noting(errors):
        measures = parse_measures([metrics] if isinstance(metrics, str) else metrics)
        if not measures and not errors:
            message = "no metric is asked for"
            hint = 'metrics=["mean(clicks)", "ratio(clicks, shown)"]'
            raise RequestError(message, code="missing-key", at="metrics", hint=hint)
    return measures


def _shares(variants: Mapping[str, float], errors: list[EvalkitError]) -> dict[str, float]:
    found: dict[str, float] = {}
    with noting(errors):
        for name, share in variants.items():
            with noting(errors):
                if not 0.0 < share < float("inf"):
                    message = f"the share of variant {name!r} is {share!r}, not a number above 0"
                    hint = "shares are of any size: variants = { control = 50, b = 50 }"
                    raise RequestError(message, code="bad-share", at=f"variants.{name}", hint=hint)
                found[str(name)] = float(share)
        if len(found) < 2 and not errors:
            message = f"an experiment has two variants or more, not {len(found)}"
            hint = "variants = { control = 50, b = 50 }"
            raise RequestError(message, code="bad-share", at="variants", hint=hint)
    return found


def _profile(name: str) -> Mapping[str, object]:
    if name in PROFILES:
        return PROFILES[name]
    not_built(name, "profile")
    message = f"no profile of experiments is called {name!r}"
    hint = did_you_mean(name, PROFILES, f"one of {', '.join(PROFILES)}")
    raise RequestError(message, code="unknown-profile", at="profile", hint=hint)


def _check_baseline(baseline: str | None, shares: Mapping[str, float]) -> None:
    if baseline is not None and shares and baseline not in shares:
        message = f"no variant is called {baseline!r}"
        hint = did_you_mean(baseline, shares, f"one of {', '.join(shares)}")
        raise RequestError(message, code="unknown-model", at="statistics.baseline", hint=hint)


def _among(
    role: str, named: Sequence[str], labels: Sequence[str], errors: list[EvalkitError]
) -> tuple[str, ...]:
    found = []
    for place, text in enumerate(named):
        with noting(errors):
            measure = parse_measure(text, f"{role}[{place}]")
            if measure.label not in labels:
                raise RequestError(
                    f"{measure.label} is not among the metrics",
                    code="metric-not-measured",
                    at=f"{role}[{place}]",
                    hint=did_you_mean(measure.label, labels, "add it there"),
                )
            found.append(measure.label)
    return tuple(found)


def _sum_of(name: str, given: object) -> Sum:
    if isinstance(given, str):
        return Sum(given)
    if isinstance(given, Mapping) and isinstance(given.get("kind"), str):
        of = given.get("of")
        if set(given) <= {"kind", "of"} and (of is None or isinstance(of, str)):
            return Sum(str(given["kind"]), of)
    message = f"sums.{name} is {given!r}, neither a kind of events nor kind and of"
    hint = f'{name} = "click" counts rows, {{ kind = "purchase", of = "value" }} adds values up'
    raise RequestError(message, code="wrong-type", at=f"sums.{name}", hint=hint)


def _check_policies(policies: Mapping[str, str], errors: list[EvalkitError]) -> None:
    for key, value in policies.items():
        if key not in POLICIES:
            message, hint = f"no policy of experiments is called {key!r}", f"{', '.join(POLICIES)}"
            hint = did_you_mean(key, POLICIES, f"one of {hint}")
        elif value not in POLICIES[key]:
            message = f"{key} is {value!r}"
            hint = f"one of {', '.join(map(repr, POLICIES[key]))}"
        else:
            continue
        errors.append(RequestError(message, code="unknown-policy", at=f"policies.{key}", hint=hint))
