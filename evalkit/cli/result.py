"""What a finished run prints, and where it is written."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.cli import console
from evalkit.errors import RequestError

if TYPE_CHECKING:
    from evalkit.config import Config
    from evalkit.report import Report
    from evalkit.runs import Job


def run_and_show(
    config: "Config",
    *,
    folder: Path | None,
    format: str,
    per_user: Path | None = None,
    sample: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> None:
    """Measure what a config asks for, write the run to `folder` if there is one, and print it.

    Values of users are kept where the run or `per_user` wants them.
    """
    from evalkit import runs, street

    keeps_values = per_user is not None or (config.output.per_user and folder is not None)
    with ExitStack() as stack:
        job = stack.enter_context(_held(folder, config.name))
        values = None
        if keeps_values:
            values = stack.enter_context(_values_folder(job, folder or per_user or Path()))
        try:
            report = street.run_config(
                config,
                threads=threads,
                memory_limit=memory_limit,
                sample=sample,
                per_user_folder=values,
                progress=console.progress_line(),
            )
        finally:
            console.clear_progress()
        path = None
        if folder is not None:
            path = runs.publish(
                report if config.output.per_user else replace(report, per_user_values=None),
                folder,
                formats=config.output.formats,
                config=config.model_dump(mode="json"),
                job=job,
            )
        if per_user is not None:
            _write_per_user(report, per_user)
    _show(report, format, path=path)


@contextmanager
def _held(folder: Path | None, name: str) -> "Iterator[Job | None]":
    """The lock of a job, taken before the work where the folder of runs is there already.

    A run that is refused makes no folder; then the lock is taken when there is a report.
    """
    if folder is None or not folder.is_dir():
        yield None
        return
    from evalkit import runs

    with runs.hold(folder, name) as job:
        yield job


@contextmanager
def _values_folder(job: "Job | None", beside: Path) -> Iterator[Path]:
    """A folder for values of users while they are measured, on the disk where they shall go."""
    if job is not None:
        with job.scratch("values") as folder:
            yield folder
        return
    from tempfile import TemporaryDirectory

    there = next(each for each in beside.absolute().parents if each.is_dir())
    with TemporaryDirectory(prefix=".evalkit-values-", dir=there) as name:
        yield Path(name)


def check_per_user_path(path: Path | None) -> None:
    """Refuses, before any work, a per-user file that cannot be written."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise RequestError(
            "no per-user file can be written there",
            code="bad-option",
            at=f"--per-user {path}",
            hint="name a Parquet file in a folder that exists",
        )


def _write_per_user(report: "Report", path: Path) -> None:
    """Copy the values of users to `path`; whole or not at all."""
    kept = report.per_user_values
    if kept is None or kept.path is None:
        raise AssertionError("values of users were asked for")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        shutil.copyfile(kept.path, fresh)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _show(report: "Report", format: str, *, path: Path | None) -> None:
    """Print the report; a table is followed by the run's path and the verdict.

    In any other format stdout holds that one document, and the rest goes to stderr.
    """
    from evalkit.report import render

    is_table = format == "table"
    text = render(
        report, format, width=console.table_width(), color=is_table and console.has_color()
    )
    console.say(text)
    for warning in () if is_table else report.warnings:  # a table ends with them
        where = f"model {warning.model}" if warning.model else ""
        console.warn(warning.code, warning.message, at=where)
    follow: Callable[[str], None] = console.say if is_table else console.note
    if path is not None:
        follow(f"report: {path}")
        follow(f"verdict: {_verdict(report)}")


def _verdict(report: "Report") -> str:
    """One line: whether the run is fine, and what to look at."""
    n_warnings = len(report.warnings)
    warnings = f", {n_warnings} warning{'s' if n_warnings != 1 else ''}" if n_warnings else ""
    return f"fine, no gate configured{warnings}"
