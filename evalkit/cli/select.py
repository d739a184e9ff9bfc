"""`evalkit select`: one of many trials, and what it will be worth."""

from pathlib import Path
from typing import Annotated

from typer import Option

from evalkit.cli import console
from evalkit.cli.options import (
    Again,
    ConfigFile,
    Json,
    LogFormat,
    MemoryLimit,
    Overrides,
    Quiet,
    Threads,
    Variables,
    memory_limit_of,
    set_threads,
)


def select(
    config: ConfigFile,
    overrides: Overrides = None,
    variables: Variables = None,
    runs: Annotated[
        Path | None, Option("--runs", metavar="DIR", help="Folder of runs; wins over the config.")
    ] = None,
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="DIR", help="Default: selections, beside the runs."),
    ] = None,
    again: Again = False,
    json: Json = False,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """Choose one of many trials; confirm it on test, once.

    Shows the order with intervals, the trials that cannot be told from the best, and what the
    winner will be worth on other users. Its run is tagged `selected`, for gates and compare."""
    from evalkit.config import load_config, parse_variables

    limit = memory_limit_of(memory_limit)
    request = load_config(
        config, overrides=overrides or (), variables=parse_variables(variables or ())
    )
    set_threads(threads)
    from evalkit.kernels.threads import usable_cores
    from evalkit.report.selection import render_selection, tell_selection
    from evalkit.selection import How, run_selection

    folder = runs or Path(request.output.path)
    how = How(threads or usable_cores(), limit)
    done = run_selection(request, folder, out, how, again=again, tell=console.note)
    found = done.selection
    console.say(render_selection(found).rstrip() if json else tell_selection(found))
    tell = console.note if json else console.say
    tell(f"selection: {done.path}")
    tell(f"run of the winner, tagged selected: {done.run}")
