"""`evalkit merge`: the report of all shares."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from evalkit.cli import result
from evalkit.cli.isolation import Isolated
from evalkit.cli.options import (
    Again,
    Format,
    Full,
    IfNew,
    Json,
    LogFormat,
    Out,
    PerUserPath,
    Prometheus,
    Quiet,
    Summary,
    Threads,
    Wait,
    choose_format,
    set_threads,
)


def merge(
    files: Annotated[
        list[Path] | None, Argument(metavar="FILES...", help="What evalkit partial wrote.")
    ] = None,
    out: Out = None,
    allow_missing: Annotated[
        bool, Option("--allow-missing", help="Merge what is there; the report says what is not.")
    ] = False,
    metric_file: Annotated[
        list[str] | None,
        Option("--metric-file", metavar="FILE", help="Metrics of your own, of the config."),
    ] = None,
    format: Format = None,
    json: Json = False,
    full: Full = False,
    summary: Summary = False,
    if_new: IfNew = False,
    wait: Wait = 0.0,
    prometheus: Prometheus = None,
    per_user: PerUserPath = None,
    again: Again = False,
    threads: Threads = None,
    quiet: Quiet = False,
    isolated: Isolated = False,
    log_format: LogFormat = "text",
) -> int:
    """Write the report of all shares, as run does of a whole log.

    Exit status 1 where a gate failed; the report is complete then, too."""
    shown = choose_format(format, json, "screen", full=full)
    result.check_file_option(per_user, "--per-user")
    result.check_file_option(prometheus, "--prometheus")
    set_threads(threads)
    from evalkit.jobs.merge import open_for_merge

    config, partials = open_for_merge(
        files or (), allow_missing=allow_missing, metric_files=metric_file or ()
    )
    return result.run_and_show(
        config,
        partials=partials,
        folder=out or config.output.path,
        format=shown,
        summary=summary,
        prometheus=prometheus,
        wait_seconds=wait,
        if_new=if_new,
        per_user=per_user,
        again=again,
        threads=threads,
    )
