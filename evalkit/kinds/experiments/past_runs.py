"""Past experiments out of finished runs, each beside the offline run of its candidate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.errors import DataError, RequestError
from evalkit.report import Comparison, Report
from evalkit.report.text import count_noun
from evalkit.runs import finished, load_numbers, load_run

HINT = (
    "call the variant as the offline model is called, give both jobs one name, or say which job "
    "goes with which: --pair EXPERIMENT=OFFLINE"
)


@dataclass(slots=True)
class PastRuns:
    """What finished runs say of past experiments.

    Args:
        rows: experiment, metric, offline, offline_error, online, online_error, and both runs.
        gates: of offline runs: metric, kind, bound, whether it is lenient.
        values: experiment and metric -> the offline baseline's value.
        left_out: why experiments are left out.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    gates: dict[tuple[str, str, float, bool], None] = field(default_factory=dict)
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def is_runs(past: object) -> bool:
    """Whether these are runs, folders of runs or reports, and no table."""
    listed = past if isinstance(past, list | tuple) else [past]
    return bool(listed) and all(
        isinstance(each, Report) or (isinstance(each, str | Path) and Path(each).is_dir())
        for each in listed
    )


def read_past(
    past: object, *, online: str | None = None, pairs: Mapping[str, str] | None = None
) -> PastRuns:
    """Every experiment, the last run of each job, with the offline run of its candidate.

    That is the last one before it of the job that is named by `pairs`, else of the job of its
    name, else of the one job that has a model of the candidate's name.

    Args:
        online: the metric of experiments; by default the first primary one of each.
        pairs: job of an experiment -> job of its offline run.
    Raises:
        RequestError: nothing goes together [nothing-in-common], or several jobs do
            [ambiguous-job]; experiments decide by several metrics [ambiguous-metric].
    """
    reports = list(_reports(past if isinstance(past, list | tuple) else [past]))
    experiments: dict[str, Report] = {}
    offline = [each for each in reports if each.kind != "experiment"]
    for report in reports:
        if report.kind == "experiment":
            experiments[report.name] = report
    found, metrics = PastRuns(), set()
    for name, report in experiments.items():
        if any(each.is_alarm for each in report.checks):
            found.left_out.append(f"{name}: its sample ratio says that no effect can be read")
            continue
        metric = _online_metric(report, online)
        tested = [e for e in report.comparisons if e.metric == metric and e.segment is None]
        for own in tested:
            partner = _partner(report, own, offline, (pairs or {}).get(name), len(tested))
            if partner is None:
                found.left_out.append(f"{name}: no offline run of {own.candidate!r}")
            elif own.std_error is not None:
                metrics.add(metric)
                label = name if len(tested) == 1 else f"{name} {own.candidate}"
                _add(found, label, (report, own), partner)
    if not found.rows:
        sides = count_noun(len(experiments), "experiment"), count_noun(len(offline), "offline run")
        message = f"of {' and '.join(sides)} no two go together"
        raise RequestError(message, code="nothing-in-common", hint=HINT)
    if len(metrics) > 1:
        message = f"experiments decide by {', '.join(sorted(metrics))}"
        hint = "name the metric of all: --online METRIC"
        raise RequestError(message, code="ambiguous-metric", hint=hint)
    return found


def _reports(listed: Sequence[object]) -> Iterator[Report]:
    """All runs, in the order in which they were made."""
    found: dict[str, Report] = {}
    for given in listed:
        if isinstance(given, Report):
            found[given.run_id] = given
        elif (path := Path(str(given))).joinpath("report.json").is_file():
            report = load_run(path)
            found[report.run_id] = report
        else:
            for run, manifest in finished(path):
                found[manifest.run_id] = load_numbers(run, manifest)
    yield from (found[run_id] for run_id in sorted(found))


def _online_metric(report: Report, online: str | None) -> str:
    if online is not None:
        return report.label_of(online)
    tested = (each.metric for each in report.comparisons if each.p_adjusted is not None)
    return next(iter(report.primary), "") or next(tested, "")


def _partner(
    report: Report, own: Comparison, offline: Sequence[Report], job: str | None, n_tested: int
) -> tuple[Report, str] | None:
    """The offline run of a candidate, and how the candidate is called there.

    Raises:
        RequestError: several jobs have such a model [ambiguous-job].
    """
    named = job or (report.name if any(e.name == report.name for e in offline) else None)
    of: dict[str, tuple[Report, str]] = {}
    for run in offline:
        models = list(dict.fromkeys(e.candidate for e in run.comparisons if e.segment is None))
        is_only = named is not None and n_tested == 1 == len(models)
        model = own.candidate if own.candidate in models else models[0] if is_only else None
        is_late = run.meta.started > report.meta.started and run.name in of
        if model is not None and named in (None, run.name) and not is_late:
            of[run.name] = run, model
    if len(of) > 1:
        raise RequestError(
            f"{', '.join(map(repr, of))} have a model {own.candidate!r}, as {report.name!r} has",
            code="ambiguous-job",
            hint=f"--pair {report.name}=JOB says which is meant",
        )
    return next(iter(of.values()), None)


def _add(
    found: PastRuns, label: str, online: tuple[Report, Comparison], offline: tuple[Report, str]
) -> None:
    """A row of every offline metric; differences that are good are above 0 on both sides."""
    (report, own), (run, model) = online, offline
    sign = _sign(report, own)
    baseline = run.statistics.baseline if run.statistics is not None else None
    for compared in run.comparisons:
        is_own = compared.candidate == model and compared.segment is None
        if not is_own or not compared.std_error or baseline not in (None, compared.baseline):
            continue
        before = run.estimate(compared.baseline, compared.metric, None, None)
        found.values[label, compared.metric] = abs(before.value) if before is not None else 0.0
        found.rows.append(
            {
                "experiment": label,
                "metric": compared.metric,
                "offline": _sign(run, compared) * compared.delta,
                "offline_error": compared.std_error,
                "online": sign * own.delta,
                "online_error": own.std_error,
                "online_metric": own.metric,
                "offline_run": run.run_id,
                "online_run": report.run_id,
            }
        )
    gates = (run.config or {}).get("gates")
    for rule in gates if isinstance(gates, list) else ():
        for kind in ("max_drop", "max_drop_relative"):
            bound, metric = rule.get(kind), rule.get("metric")
            if isinstance(bound, int | float) and metric and not rule.get("segment"):
                try:
                    metric = run.label_of(str(metric))
                except (RequestError, DataError):
                    continue
                found.gates[metric, kind, float(bound), rule.get("unclear") == "pass"] = None


def _sign(report: Report, of: Comparison) -> float:
    estimate = report.estimate(of.candidate, of.metric, None, None)
    return -1.0 if estimate is not None and estimate.higher_is_better is False else 1.0
