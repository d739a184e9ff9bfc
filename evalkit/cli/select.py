"""`evalkit select`: one of many trials, and what it will be worth."""

from pathlib import Path
from typing import Annotated

from typer import Option

from evalkit.cli import console
from evalkit.cli.options import ConfigFile, RunOptions, takes


@takes("metric_file overrides variables runs out again json threads memory_limit quiet log_format")
def select(
    config: ConfigFile,
    options: RunOptions,
    runs: Annotated[
        Path | None, Option("--runs", metavar="DIR", help="Folder of runs; wins over the config.")
    ] = None,
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="DIR", help="Default: selections, beside the runs."),
    ] = None,
) -> None:
    """Choose one of many trials; confirm it on test, once.

    Shows the order with intervals, the trials that cannot be told from the best, and what the
    winner will be worth on other users. Its run is tagged `selected`, for gates and compare."""
    limit = options.limit
    request = options.load(config)
    from evalkit.jobs.selection import How, run_selection
    from evalkit.kernels.threads import usable_cores
    from evalkit.report.selection import render_selection, tell_selection

    folder = runs or Path(request.output.path)
    how = How(options.threads or usable_cores(), limit)
    done = run_selection(request, folder, out, how, again=options.again, tell=console.note)
    found = done.selection
    console.say(render_selection(found).rstrip() if options.json else tell_selection(found))
    tell = console.note if options.json else console.say
    tell(f"selection: {done.path}")
    tell(f"run of the winner, tagged selected: {done.run}")
