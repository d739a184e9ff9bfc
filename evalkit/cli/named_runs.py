"""Finished runs that a command names, and the lines that say which ones were taken."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from typer import Option

from evalkit.cli import console
from evalkit.errors import clean

if TYPE_CHECKING:
    from evalkit.report import Report

JobName = Annotated[
    str | None, Option("--name", metavar="NAME", help="Runs of that job, for last.")
]


def where_of(folder: Path, name: str | None) -> str:
    """The options that a pasted command needs to find the same runs."""
    told = "" if folder == Path("runs") else f" --out {quote(str(folder))}"
    return told if name is None else f"{told} --name {quote(name)}"


def tell_taken(reference: str, report: "Report", *, on_stdout: bool = False) -> None:
    """Tell which run a name was taken for."""
    line = f"{reference}: run {report.run_id} of {report.name}, begun {report.meta.started}"
    if on_stdout:
        console.say(clean(line))
    else:
        console.note(line)
