"""Finished runs compared user by user, where they kept the values of users."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.aggregate.accumulators.resampling import Resampling
from evalkit.aggregate.segments import CellSet
from evalkit.aggregate.sums import GrandTotals, Pair, pairs_among
from evalkit.aggregate.user_values.blocks import GivenValues, measure_models
from evalkit.aggregate.user_values.outcomes import as_measured
from evalkit.config import Config, StatisticsSection, build_config
from evalkit.errors import DataError, RequestError
from evalkit.inference.conclude import Inference
from evalkit.metrics import (
    Request,
    file_of,
    has_user_values,
    is_made_of_users,
    load_metric_files,
    other_kinds,
    parse_metrics,
)
from evalkit.report import PerUser, Report, Warning_
from evalkit.runs.history._find import is_by_time
from evalkit.runs.history._truths import differences_of_measure, differences_of_truth
from evalkit.sources.ids import USER_KEY, plan_ids, stable_hashes

Values = npt.NDArray[np.float64]
Named = tuple[str, Report]  # what a person calls the run, and its report


def compare_runs(
    runs: Sequence[Named],
    chosen: StatisticsSection,
    *,
    metrics: Sequence[str] = (),
    primary: Sequence[str] = (),
    metric_files: Sequence[str] = (),
    threads: int,
    where: str = "",
) -> Report:
    """The report of the last run with comparisons between the models of all of them.

    Numbers of all lists, and combinations, have no values of users and are left out.
    A model of several runs is called `als (last~1)`; those are compared with one another, the
    first run being the baseline. Otherwise the first run's one model is the baseline of all.

    Args:
        runs: two or more, of one truth.
        chosen: test, level, correction, margin; `baseline` is taken from the first run.
        metrics: to compare; all that every run has by default.
        primary: those of them that decide; by default those that every run names, where all are
            compared.
        metric_files: Python files of a user's own metrics; those that a run names are not run.
        where: options by which a command finds the runs, for hints.
    Raises:
        DataError: the truths differ [different-truth], a run kept no values [per-user-off], or
            what it kept of its config cannot be read [run-damaged].
        RequestError: nothing to compare [nothing-in-common, ambiguous-model, not-of-users], a
            metric of a file that is not given [metric-file-needed], or users of a run count
            differently [weighted-run].
    """
    _check_truths(runs, where)
    unlike = [(name, beyond_users(report)) for name, report in runs]
    _check_weights(unlike)
    left_out = _not_of_users(runs, metric_files)
    labels = _common_labels(runs, metrics, metric_files, left_out, where)
    decisive = _primary_of(runs, labels, primary, narrowed=bool(metrics))
    config = _config_of(runs[-1], labels, decisive, chosen, metric_files)
    requests = config.requests
    users, values = _joined(runs, labels, where)
    pairs = _pairs_of(runs, tuple(values), chosen)
    given = GivenValues(values, [bool(request.metric.higher_is_better) for request in requests])
    cells = CellSet.of_one(users.height)
    totals = GrandTotals()
    (found,) = measure_models(given, tuple(values), cell_sets=[cells], pairs=pairs, threads=threads)
    totals.take(found, cells.members, given.columns)
    config = config.model_copy(
        update={"statistics": chosen.model_copy(update={"baseline": pairs[0][0]})}
    )
    resampling = Resampling.of(config, requests, in_passes=False)
    if resampling is not None:
        wanted = [requests.index(request) for request in resampling.requests]
        drawn = GivenValues(
            {name: each[:, wanted] for name, each in values.items()},
            [bool(request.metric.higher_is_better) for request in resampling.requests],
        )
        resampling.add(drawn, _keys_of(users), tuple(values), pairs, [cells], threads)
    inference = Inference.of(config, requests, tuple(values), totals, resampling)
    report = runs[-1][1]
    return replace(
        report,
        primary=decisive or tuple(each for each in report.primary if each in labels),
        estimates=inference.estimates,
        comparisons=inference.comparisons,
        standings=inference.standings,
        findings=(),
        macros=(),
        gaps=(),
        statistics=inference.used,
        curves=(),
        distributions=(),
        gates=(),
        warnings=(
            *inference.warnings,
            *([] if metrics else _told(left_out)),
            *(_over_users_alone(*each) for each in unlike if each[1]),
            *_measured_otherwise(runs),
        ),
        counts=replace(report.counts, models={}),
        per_user_values=None,
    )


def _check_truths(runs: Sequence[Named], where: str) -> None:
    """Refuse runs whose users were not held against the same right answers."""
    (first_name, first), *others = runs
    for name, report in others:
        differs = differences_of_truth(first, report)
        if differs:
            message = f"{first_name} and {name} have different truths: {'; '.join(differs)}"
            hint = "evalkit compare --across RUN RUN ... ranks models over several data sets"
            if first.name == report.name:
                hint = f"{_why(first_name, name, where)} splits such a change into its parts"
            raise DataError(message, code="different-truth", hint=hint)


def _why(before: str, after: str, where: str) -> str:
    named = (each if is_by_time(each) else quote(each) for each in (before, after))
    return f"evalkit why {' '.join(named)}{where}"


def beyond_users(report: Report) -> str:
    """What means or errors of a run stand on beside users, each counting alike; else nothing."""
    statistics = (report.config or {}).get("statistics")
    known = statistics if isinstance(statistics, dict) else {}
    return next((name for name in ("weight", "cluster", "two_way") if known.get(name)), "")


def _check_weights(unlike: Sequence[tuple[str, str]]) -> None:
    for name, beside in unlike:
        if beside == "weight":
            message = f"users of {name} have weights, which it did not keep beside their values"
            hint = "evalkit compare --config CONFIG BASELINE CANDIDATE weighs them"
            raise RequestError(message, code="weighted-run", hint=hint)


def _over_users_alone(name: str, beside: str) -> Warning_:
    what = "clusters of users" if beside == "cluster" else "users and items"
    message = f"errors of {name} stand on {what}; here they stand on users, and may be too small"
    return Warning_("over-users-alone", message)


def _measured_otherwise(runs: Sequence[Named]) -> list[Warning_]:
    """One warning for each run whose users were measured otherwise than those of the first."""
    (first_name, first), *others = runs
    found = []
    for name, report in others:
        if differs := differences_of_measure(first, report):
            message = f"{first_name} and {name} measure otherwise: {'; '.join(differs)}"
            found.append(Warning_("measured-otherwise", message))
    return found


def _not_of_users(runs: Sequence[Named], metric_files: Sequence[str]) -> list[str]:
    """What of the runs is no mean of users: numbers of all lists, those of means, combinations."""
    kind = kind_of(runs[0][1])
    known = load_metric_files(metric_files, kind)
    found = dict[str, None]()
    for _, report in runs:
        combined = _section(report.config).get("combined")
        of_all = combined.keys() if isinstance(combined, dict) else set()
        for estimate in {each.metric: each for each in report.estimates}.values():
            metric = known.get(estimate.name)
            request = (
                None if metric is None else metric.request(estimate.cutoff, **estimate.parameters)
            )
            is_other = request is not None and not is_mean_of_users(request, kind)
            if estimate.name in of_all or "(" in estimate.name or is_other:
                found[estimate.metric] = None
    return list(found)


def is_mean_of_users(request: Request, kind: str) -> bool:
    """Whether a number of a kind is the mean of the users' values."""
    by_rows = kind in ("ratings", "labels")
    return has_user_values(request) if by_rows else is_made_of_users(request)


def _told(left_out: Sequence[str]) -> list[Warning_]:
    if not left_out:
        return []
    message = f"{', '.join(left_out)}: no values of users, so not compared"
    return [Warning_("not-of-users", message)]


def _common_labels(
    runs: Sequence[Named],
    metrics: Sequence[str],
    metric_files: Sequence[str],
    left_out: Sequence[str],
    where: str,
) -> list[str]:
    kind = kind_of(runs[0][1])
    known = load_metric_files(metric_files, kind)
    given = set(runs[0][1].labels) & set(metrics)
    asked = [metric for metric in metrics if metric not in given]
    parsed = [request.label for request in parse_metrics(asked, metrics=known)] if asked else []
    wanted = {*given, *parsed} if metrics else None
    for label in left_out:
        if wanted is not None and label in wanted:
            message = f"{label} has no values of users, by which finished runs are compared"
            hint = "evalkit compare --config CONFIG BASELINE CANDIDATE measures it anew"
            raise RequestError(message, code="not-of-users", at=runs[0][0], hint=hint)
    labels = [
        label
        for label in runs[0][1].labels
        if label not in left_out
        and all(label in _with_values(report) for _, report in runs)
        and (wanted is None or label in wanted)
    ]
    if not labels:
        names = " and ".join(name for name, _ in runs)
        message = f"{names} have no metric in common" + (" that was asked for" if metrics else "")
        hint = f"{runs[0][0]} has users' values of {', '.join(_with_values(runs[0][1])[:8])}"
        raise RequestError(message, code="nothing-in-common", hint=hint)
    spelled = {each.metric: each.name for each in runs[-1][1].estimates}
    foreign = [label for label in labels if spelled[label] not in known]
    if foreign:
        raise _no_file_of(foreign[0], runs, where)
    return labels


def _primary_of(
    runs: Sequence[Named], labels: Sequence[str], asked: Sequence[str], *, narrowed: bool
) -> tuple[str, ...]:
    """The labels that decide: those that are asked for, else those that every run names."""
    last = runs[-1][1]
    found = tuple(dict.fromkeys(last.label_of(each) for each in asked))
    for label in found:
        if label not in labels:
            message = f"{label} is not among the metrics that are compared"
            hint = f"they are {', '.join(labels[:8])}"
            raise RequestError(message, code="metric-not-measured", hint=hint)
    if found or narrowed:
        return found
    named = [report.primary for _, report in runs if _section(report.config).get("primary")]
    if len(named) < len(runs):
        return ()
    return tuple(each for each in last.primary if each in labels and all(each in n for n in named))


def _no_file_of(label: str, runs: Sequence[Named], where: str) -> RequestError:
    """A metric is of a file that a run names, and what a run names is not run."""
    named = [each for _, report in runs for each in _files_of(report.config)]
    files = " ".join(f"--metric-file {quote(each)}" for each in dict.fromkeys(map(file_of, named)))
    return RequestError(
        f"{label} is a metric of a file of Python, which a run cannot name: name it here",
        code="metric-file-needed",
        at=runs[-1][0],
        hint=f"evalkit compare {' '.join(quote(name) for name, _ in runs)} "
        f"{files or '--metric-file FILE'}{where}",
    )


def _files_of(config: Mapping[str, object] | None) -> list[str]:
    files = _section(config).get("files")
    return [each for each in files if isinstance(each, str)] if isinstance(files, list) else []


def _section(config: Mapping[str, object] | None) -> Mapping[str, object]:
    section = (config or {}).get("metrics")
    return section if isinstance(section, dict) else {}


def _with_values(report: Report) -> Sequence[str]:
    """The metrics that users may have values of: those that were kept, as a gate's alone."""
    kept = report.per_user_values
    return report.labels if kept is None else kept.metrics


def kind_of(report: Report) -> str:
    """The kind that a run is of."""
    known = report.config or {}
    return next((kind for kind in reversed(other_kinds()) if known.get(kind)), "rankings")


def _config_of(
    run: Named,
    labels: Sequence[str],
    primary: Sequence[str],
    chosen: StatisticsSection,
    metric_files: Sequence[str],
) -> Config:
    """The config of a run, asking for some of its metrics and for other statistics.

    Labels say every parameter, and the policies are all there, so no profile is followed again.
    """
    name, report = run
    policies = (report.config or {}).get("policies")
    table = {"model": report.name, "path": report.name}  # nothing is read again
    kind = kind_of(report)
    tree: dict[str, object] = {
        **(
            {"truth": {"path": report.name}, "rankings": [table]}
            if kind == "rankings"
            else {kind: [table]}
        ),
        "metrics": {"names": list(labels), "primary": list(primary), "files": list(metric_files)},
        "policies": dict(policies) if isinstance(policies, dict) else {},
    }
    try:
        config = build_config(tree, name=report.name)
    except RequestError as error:
        message = f"what it kept of its config cannot be read: {error.message}"
        hint = "compare models of a config instead: evalkit compare --config CONFIG A B"
        raise DataError(message, code="run-damaged", at=name, hint=hint) from error
    return config.model_copy(update={"statistics": chosen})


def _joined(
    runs: Sequence[Named], labels: Sequence[str], where: str
) -> tuple[pl.DataFrame, dict[str, Values]]:
    """The users, and for each model of each run its values in their order."""
    counted = [model for _, report in runs for model in report.models]
    users: pl.DataFrame | None = None
    values: dict[str, Values] = {}
    for name, report in runs:
        kept = report.per_user_values
        if kept is None:
            hint = "write per_user = true under [output], and run it again"
            raise DataError(f"run {name} kept no values of users", code="per-user-off", hint=hint)
        for model in report.models:
            frame = _frame_of(kept, model, labels)
            ids = frame.select(pl.exclude(labels))
            if users is None:
                users = ids
            elif not users.equals(ids):
                message = f"the users of {name} are not those of {runs[0][0]}"
                hint = f"{_why(runs[0][0], name, where)} takes them"
                raise DataError(message, code="different-truth", hint=hint)
            label = model if counted.count(model) == 1 else f"{model} ({name})"
            own = frame.select(labels).to_numpy()
            own = settled_as_measured(report, labels, own)
            values[label] = _spoiled_as_measured(report, model, labels, own)
    assert users is not None
    return users, values


def settled_as_measured(report: Report, labels: Sequence[str], values: Values) -> Values:
    """The kept values of users, a column a label, as the means of their run were made of them."""
    if kind_of(report) != "rankings":
        return values
    policies = {each.metric: each.policies for each in report.estimates}
    columns = [
        as_measured(values[:, place], str(policies[label].get("zeros", "count")))
        for place, label in enumerate(labels)
    ]
    return np.column_stack(columns)


def _spoiled_as_measured(
    report: Report, model: str, labels: Sequence[str], values: Values
) -> Values:
    """The same values, infinity where a policy made the mean of the run undefined."""
    for place, label in enumerate(labels):
        estimate, column = report.estimate(model, label, None, None), values[:, place]
        if estimate is not None and math.isnan(estimate.value) and estimate.n_users:
            column[np.isnan(column)] = math.inf
    return values


def _frame_of(kept: PerUser, model: str, labels: Sequence[str]) -> pl.DataFrame:
    frame = kept.read(model, labels)
    names = {name: f"user_{place}" for place, name in enumerate(kept.user_columns)}
    return frame.rename(names)


def _pairs_of(
    runs: Sequence[Named], models: Sequence[str], chosen: StatisticsSection
) -> list[Pair]:
    if chosen.pairs == "all":
        return pairs_among(models, chosen, at="")
    (first_name, first), *others = runs
    pairs = [
        (f"{model} ({first_name})", f"{model} ({name})")
        for name, report in others
        for model in first.models
        if model in report.models
    ]
    if pairs:
        return pairs
    if len(first.models) > 1:
        message = f"{first_name} has {len(first.models)} models, and none of them is in the others"
        hint = "write --all-pairs, or compare runs of one model"
        raise RequestError(message, code="ambiguous-model", hint=hint)
    baseline = first.models[0]
    return [(baseline, each) for each in models if each != baseline]


def _keys_of(users: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """Hashes of the users' ids: those of the run itself."""
    plan = plan_ids("user", [("truth", "", dict(users.schema))], seed=1)
    return stable_hashes(users.with_columns(plan.key().alias(USER_KEY)), plan)
