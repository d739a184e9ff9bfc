"""`evalkit select`: one of many trials, and what it will be worth."""

from pathlib import Path
from typing import Annotated

from typer import Option

from evalkit.cli import console
from evalkit.cli.options import (
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
    again: Annotated[
        bool, Option("--again", help="Look at test, however often that was done.")
    ] = False,
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
    from evalkit.selection import How, choose_trial, finish, look_ahead

    folder = runs or Path(request.output.path)
    how = How(threads or usable_cores(), limit)
    ahead = look_ahead(request, folder, again=again)
    choice = choose_trial(request, how, console.note)
    selection, path = finish(choice, ahead, folder, out or folder.parent / "selections", how)
    console.say(render_selection(selection).rstrip() if json else tell_selection(selection))
    tell = console.note if json else console.say
    tell(f"selection: {path}")
    tell(f"run of the winner, tagged selected: {folder / str(selection.run_id)}")
