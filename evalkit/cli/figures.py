"""`evalkit figures`: pictures of what is finished, by name, as files."""

from pathlib import Path
from shlex import quote
from typing import Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.named_runs import JobName
from evalkit.cli.options import RunsFolder, check_file_option, takes
from evalkit.errors import RequestError


@takes("quiet log_format")
def figures(
    names: Annotated[
        list[str],
        Argument(metavar="RUN...", help="A run, or the folder of a split, selection or of runs."),
    ],
    figure: Annotated[
        str | None, Option("--figure", metavar="TITLE", help="That one. Default: list titles.")
    ] = None,
    file: Annotated[
        Path | None,
        Option("--file", metavar="FILE", help="Write .svg, .pdf or .png instead of to stdout."),
    ] = None,
    metric: Annotated[
        str | None,
        Option("--metric", "-m", metavar="METRIC", help="Of several runs, and over time."),
    ] = None,
    out: RunsFolder = Path("runs"),
    name: JobName = None,
) -> None:
    """List the pictures of a finished thing, or write one of them.

    Several runs of different data sets give the critical-difference diagram."""
    from evalkit.api.figures import figures as find

    check_file_option(file, "--file")
    found = find(*names, metric=metric, folder=out, name=name)
    if figure is None and (file is None or len(found) != 1):
        if file is not None:
            message = f"there are {len(found)} figures, and one file"
            hint = f"--figure {quote(next(iter(found), 'TITLE'))}"
            raise RequestError(message, code="bad-option", at=f"--file {file}", hint=hint)
        console.say(*found)
        return
    plot = found[figure] if figure is not None else next(iter(found.values()))
    console.say(plot.fixed if file is None else str(plot.save(file)))
