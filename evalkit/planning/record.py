"""What every kind of run ends in: its key, and its report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from evalkit import report
from evalkit.aggregate.segments import UNKNOWN
from evalkit.config import Config, Policies, Record
from evalkit.inference.conclude import Inference
from evalkit.metrics import declared, digest_of, hashes_of_files
from evalkit.planning.counters import Clock
from evalkit.report.version import VERSION
from evalkit.runs import new_run_id, run_key


@dataclass(frozen=True, slots=True)
class RunResults:
    """What a run found, whatever its kind."""

    counts: report.Counts
    inference: Inference
    warnings: Sequence[report.Warning_]
    curves: Sequence[report.Curve] = ()
    graphs: Sequence[report.Graph] = ()
    distributions: Sequence[report.Distribution] = ()
    parts: pl.DataFrame | None = None
    per_user_values: report.PerUser | None = None


def make_report(
    config: Config,
    found: RunResults,
    inputs: Sequence[report.Input],
    meta: report.Meta,
    *,
    clock: Clock,
    sample: float | None,
) -> report.Report:
    """The record of a run."""
    inference = found.inference
    fingerprints = [each.fingerprint for each in inputs]
    if config.metrics.files:
        own = hashes_of_files(config.metrics.files)
        meta = replace(meta, versions={**meta.versions, **own})
    return report.Report(
        evalkit=VERSION,
        run_id=new_run_id(clock.started),
        run_key=key_of_inputs(config, fingerprints, sample),
        name=config.name,
        profile=config.metrics.profile,
        inputs=tuple(inputs),
        counts=found.counts,
        primary=config.primary,
        shown=config.shown,
        estimates=inference.estimates,
        comparisons=inference.comparisons,
        statistics=inference.used,
        standings=inference.standings,
        findings=inference.findings,
        macros=inference.macros,
        gaps=inference.gaps,
        curves=tuple(found.curves),
        graphs=tuple(found.graphs),
        distributions=tuple(found.distributions),
        parts=found.parts,
        meta=meta,
        warnings=(
            *found.warnings,
            *_idle(config, inference.used),
            *_of_nobody(inference.estimates),
        ),
        config=config.dump(),
        per_user_values=found.per_user_values,
    )


def key_of_inputs(config: Config, fingerprints: Sequence[str | None], sample: float | None) -> str:
    """The run key of a config over inputs of these fingerprints."""
    asked = config.model_dump(mode="json", exclude={"output", "name"})
    definitions = [
        [request.label, request.reported, dict(request.policies), digest_of(request.metric)]
        for request in config.requests
    ]
    return run_key({**asked, "sample": sample}, fingerprints, {"evalkit": VERSION}, definitions)


def as_followed(config: Config) -> Config:
    """The config without policies that say nothing about its kind."""
    other = config.set_by_hand.difference(declared(config.kind).follows)
    if not other:
        return config
    update = {name: Policies.model_fields[name].default for name in other}
    return config.model_copy(update={"policies": config.policies.model_copy(update=update)})


def _idle(config: Config, used: report.StatisticsUsed) -> Iterator[report.Warning_]:
    """Keys that were set, and change nothing of such a run."""
    kind, statistics = declared(config.kind), config.statistics
    ask = {name: "policies" for name in config.set_by_hand if name not in kind.follows}
    ask |= dict.fromkeys(kind.idle, "statistics")
    if used.seed is None and not any(each.metric.over_users for each in config.requests):
        ask |= dict.fromkeys(("seed", "replicates"), "statistics")  # where nothing is drawn
    has_bootstrap = statistics.method == "bootstrap"
    of_fractions = statistics.limits in ("newcombe", "wald", "auto")
    if config.kind != "experiment" and (of_fractions or not has_bootstrap):
        ask["limits"] = "statistics"
    if config.kind == "experiment":
        ask |= _of_events(config)
    idle = [
        f"{where}.{name} = {getattr(getattr(config, where), name)!r}"
        for name, where in sorted(ask.items())
        if _is_set(getattr(config, where), name)
    ]
    if config.kind != "rankings" and config.metrics.reference is not None:
        idle.append("metrics.reference")  # which may be a URL
    if config.kind != "experiment":
        of_experiments = ("guardrails", "lower_is_better")
        idle += [f"metrics.{name}" for name in of_experiments if getattr(config.metrics, name)]
    if not config.has_parts:
        idle += [f"[{name}]" for name in kind.beside if getattr(config, name)]
    if not config.segments.named and _is_set(config.segments, "min_users"):
        idle.append("segments.min_users")
    elif kind.segments is not None:
        tables: dict[str, Record] = {"segments": config.segments}
        tables |= {f"segments.{name}": rule for name, rule in config.segments.named.items()}
        idle += [
            f"{where}.{name}"
            for where, table in tables.items()
            for name in type(table).model_fields
            if name not in kind.segments and _is_set(table, name)
        ]
    for what in idle:
        yield report.Warning_("not-followed", f"{what} changes nothing of such a run")


def _of_events(config: Config) -> dict[str, str]:
    """Keys of an experiment that say nothing without clusters, or of ready-made rows."""
    found = {"clusters": "statistics"} if config.statistics.cluster is None else {}
    if getattr(config, "events", None) is None:
        found |= dict.fromkeys(("open_windows", "unexposed_events", "equal_events"), "policies")
        found |= dict.fromkeys(("until", "covariate_days"), "experiment")
    return found


def _is_set(table: Record, name: str) -> bool:
    return bool(getattr(table, name) != type(table).model_fields[name].default)


def _of_nobody(estimates: Sequence[report.Estimate]) -> Iterator[report.Warning_]:
    """Segmentations that nobody, and no item, has a value of: other ids, as a rule."""
    found: dict[str, set[str | None]] = {}
    for each in estimates:
        if each.segmentation is not None:
            found.setdefault(each.segmentation, set()).add(each.segment)
    for name, segments in found.items():
        if segments == {UNKNOWN}:
            message = f"nothing has a value of {name!r}: all is {UNKNOWN}; has its table other ids?"
            yield report.Warning_("segments-unknown", message)
