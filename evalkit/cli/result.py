"""What a finished run prints, and where it is written."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.cli import console
from evalkit.errors import RequestError

if TYPE_CHECKING:
    from evalkit.config import Config
    from evalkit.report import Report
    from evalkit.runs import Job


def measure(
    config: "Config",
    *,
    threads: int | None,
    memory_limit: int | None,
    sample: float | None,
    per_user: bool,
) -> "Report":
    """The report of a config, with a progress line while it is made."""
    from evalkit import street

    try:
        return street.run_config(
            config,
            threads=threads,
            memory_limit=memory_limit,
            sample=sample,
            per_user=per_user,
            progress=console.progress_line(),
        )
    finally:
        console.clear_progress()


@contextmanager
def held(folder: Path, name: str) -> "Iterator[Job | None]":
    """The lock of a job, taken before the work where the folder of runs is there already.

    A run that is refused makes no folder; then the lock is taken when there is a report.
    """
    if not folder.is_dir():
        yield None
        return
    from evalkit import runs

    with runs.hold(folder, name) as job:
        yield job


def publish(report: "Report", config: "Config", folder: Path, *, job: "Job | None") -> Path:
    """The directory that the run was written to."""
    from evalkit import runs

    return runs.publish(
        report,
        folder,
        formats=config.output.formats,
        config=config.model_dump(mode="json"),
        job=job,
    )


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


def write_per_user(report: "Report", path: Path) -> None:
    """Write every user's values to one Parquet file, ordered by user; whole or not at all."""
    import polars as pl

    kept = report.per_user_values
    if kept is None:
        raise AssertionError("values of users were asked for")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if kept.frames is None and kept.path is not None and kept.path.is_file():
            shutil.copyfile(kept.path, fresh)
        elif kept.frames is None and kept.path is not None:
            files = sorted(kept.path.glob("*.parquet"))
            pl.scan_parquet(files, glob=False).sink_parquet(fresh, engine="streaming")
        else:
            models = [
                kept.scan(model).select(
                    *kept.user_columns,
                    pl.lit(model).alias(kept.model_column),
                    *kept.metrics,
                )
                for model in kept.frames or {}
            ]
            table = pl.concat(models).collect(engine="streaming")
            table.sort(kept.user_columns, maintain_order=True).write_parquet(fresh)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def show(report: "Report", format: str, *, path: Path | None) -> None:
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
        follow(f"verdict: {verdict(report)}")


def verdict(report: "Report") -> str:
    """One line: whether the run is fine, and what to look at."""
    n_warnings = len(report.warnings)
    warnings = f", {n_warnings} warning{'s' if n_warnings != 1 else ''}" if n_warnings else ""
    return f"fine, no gate configured{warnings}"
