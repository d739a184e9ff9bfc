"""What a finished run prints, and how it ends."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit import errors
from evalkit.cli import console
from evalkit.cli.guess import tell_columns
from evalkit.cli.options import RunOptions, check_apart

if TYPE_CHECKING:
    from evalkit.config import AlertsSection, Config
    from evalkit.jobs.job import Done
    from evalkit.planning.partials import PartialFiles
    from evalkit.planning.tables import Given
    from evalkit.report import Report
    from evalkit.runs import StoreFolder

MANY_PASSES = 8  # over the logs: more take many times as long as one


def run_and_show(
    config: "Config",
    options: RunOptions,
    *,
    folder: Path | str | None,
    memory_limit: int | None = None,
    given: "Given | None" = None,
    partials: "PartialFiles | None" = None,
    alerts: "AlertsSection | None" = None,
) -> int:
    """Measure what a config asks for, or put partials together; write the run, and print it.

    Args:
        folder: that the run is written to, if there is one.
        alerts: whom to tell; of a merge what its caller names, never what a partial says.

    Returns:
        The exit status: 1 where a gate failed.
    """
    from evalkit import runs
    from evalkit.jobs.job import Job, run_in_store
    from evalkit.planning.tables import Given

    if options.per_user is not None or options.prometheus is not None:
        inputs = [config.at(), *_paths_in(config.model_dump(exclude={"output"}))]
        check_apart(options.per_user, "--per-user", inputs)
        check_apart(options.prometheus, "--prometheus", inputs)
    told = config.model_copy(update={"alerts": config.alerts if partials is None else alerts})

    def begin(run_id: str) -> None:
        console.name_run(run_id)
        console.log("info", f"{config.name}: the run begins")

    trackers = _trackers_of(config) if folder is not None else {}
    store = None
    if isinstance(folder, str) and runs.is_store(folder):
        store = runs.open_store(folder, config.storage)
    try:
        job = Job(
            config,
            None if folder is None or store is not None else Path(folder),
            wait_seconds=options.wait,
            if_new=options.if_new,
            again=options.again,
            per_user=options.per_user,
            options={
                "sample": options.share,
                "threads": options.threads,
                "memory_limit": memory_limit,
                "progress": console.progress_line(),
                "given": given or Given(),
                "opened": tell_columns,
            },
            tell=begin,
            partials=partials,
        )
        done = job.run() if store is None else run_in_store(job, store)
    except errors.EvalkitError as error:
        if not isinstance(error, errors.BusyError):
            _alert(told, error, folder, store)
        raise
    finally:
        console.clear_progress()
    console.name_run(done.report.run_id)
    if options.prometheus is not None:
        _write_prometheus(done.report, options.prometheus)
    if done.is_new:
        for name, where in trackers.items():
            _track(done, name, where)
        _alert(told, done.report, folder, store, str(done.path or ""))
    return _show(done, options)


def _paths_in(value: object, name: str = "") -> Iterator[str]:
    """Every path of a table in what a config asks for."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths_in(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _paths_in(each, name)
    elif isinstance(value, str) and name in ("path", "earlier", "judgements"):
        yield value


def _trackers_of(config: "Config") -> dict[str, str]:
    """Where each tracker listens that a config names.

    Raises:
        RequestError: its library is not installed [missing-extra].
    """
    output = config.output
    named = {"mlflow": output.mlflow, "wandb": output.wandb}
    trackers = {name: where for name, where in named.items() if where is not None}
    for name in trackers:
        from evalkit.jobs.trackers import check_tracker

        check_tracker(name)
    return trackers


def _show(done: "Done", options: RunOptions) -> int:
    """Print the report, whose run stands already; the exit status."""
    try:
        status = _print(done, options.shown, summary=options.summary)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if done.path is None:
            raise
        from evalkit.sources.shell import quoted

        raise errors.MachineError(
            f"the run is complete, but it cannot be shown: {error.strerror or error}",
            code="write-failed",
            at=str(done.path),
            hint=f"make room where stdout goes: evalkit report {quoted(str(done.path))}",
        ) from error
    return status


def _alert(
    config: "Config",
    outcome: "Report | errors.EvalkitError",
    folder: Path | str | None,
    store: "StoreFolder | None",
    path: str = "",
) -> None:
    """Tell of a change of state; who could not be told is a warning."""
    if config.alerts is None or folder is None:
        return
    from evalkit.jobs.alerts import tell_change

    for error in tell_change(config, outcome, store or Path(folder), path):
        console.warn(error.code, error.message, at=error.at, hint=error.hint)


def _track(done: "Done", name: str, where: str) -> None:
    """Tell a tracker of the run; one that does not listen is a warning, and the run stands."""
    from evalkit.jobs.trackers import tell_tracker

    path = done.path if isinstance(done.path, Path) else None
    try:
        tell_tracker(name, done.report, where, path)
    except errors.MachineError as error:
        console.warn(error.code, error.message, at=error.at, hint=error.hint)


def _write_prometheus(report: "Report", path: Path) -> None:
    """Write the text file, whole or not at all; node_exporter may read it at any moment."""
    from evalkit.report.verdict import render_prometheus
    from evalkit.runs import replacing

    try:
        with replacing(path) as file:
            file.write(render_prometheus(report).encode())
    except OSError as error:
        message = f"the run is complete, but its Prometheus file is not written: {error.strerror}"
        hint = "give this user the right to write there"
        raise errors.MachineError(message, code="write-failed", at=str(path), hint=hint) from error


def _print(done: "Done", format: str, *, summary: bool) -> int:
    """Print the report; a screen or table is followed by the run's path and the verdict.

    In any other format stdout holds that one document, and the rest goes to stderr.
    """
    from evalkit.config.form_names import ON_TERMINALS, file_of
    from evalkit.report import render, written_forms
    from evalkit.report.verdict import summarize, verdict_of

    report, path = done.report, done.path
    verdict = verdict_of(report)
    status = errors.FINE if verdict.is_fine else errors.GATE_FAILED
    is_shown = format in ON_TERMINALS
    if not done.is_new:
        console.warn("nothing-new", f"the same work is done already: {path}")
    if summary:
        console.say(summarize(report, path=str(path or "")))
    elif done.is_new or not is_shown:
        text = render(
            report, format, width=console.table_width(), color=is_shown and console.has_color()
        )
        console.say(text)
        for warning in () if is_shown else report.warnings:  # a screen ends with them
            where = f"model {warning.model}" if warning.model else ""
            console.warn(warning.code, warning.message, at=where)
    if report.meta.passes > MANY_PASSES:
        console.warn(
            "many-passes",
            f"the logs were read {report.meta.passes} times to stay below the memory limit",
            hint="give a larger --memory-limit, on a machine with more memory",
        )
    follow: Callable[[str], None] = console.say if is_shown else console.note
    for gate in report.gates if format == "table" and not summary else ():
        console.say(f"gate {gate.outcome}: {errors.clean(gate.message)}")
    if done.ahead.number and not summary:
        follow(str(done.ahead))
    if path is not None and not summary:
        if is_shown and "html" in written_forms(report):
            follow(f"page: {path}/{file_of('html')}")
        follow(f"report: {path}")
        follow(f"verdict: {verdict}")
    for gate in report.gates:
        if gate.fails:
            console.tell(errors.DataError(gate.message, code="gate-failed", at=str(path or "")))
    console.log("info", f"{report.name}: the run ends, {verdict}")
    return status
