"""All commands, and how one command line is run."""

import os
from collections.abc import Sequence
from typing import Annotated

os.environ.setdefault("TYPER_USE_RICH", "0")  # typer looks when it is imported; rich costs 60 ms

import typer

from evalkit.cli import console
from evalkit.cli.audit import audit
from evalkit.cli.baseline import baseline
from evalkit.cli.check import check
from evalkit.cli.compare import compare
from evalkit.cli.demo import demo
from evalkit.cli.doctor import doctor
from evalkit.cli.evaluate import evaluate
from evalkit.cli.gate import gate
from evalkit.cli.history import history
from evalkit.cli.init import init
from evalkit.cli.merge import merge
from evalkit.cli.metrics import explain, metrics
from evalkit.cli.partial import partial
from evalkit.cli.report import report
from evalkit.cli.run import run
from evalkit.cli.schema import schema
from evalkit.cli.select import select
from evalkit.cli.split import split
from evalkit.cli.synth import synth
from evalkit.cli.verify import verify
from evalkit.cli.warm import warm
from evalkit.cli.why import why
from evalkit.errors import FINE
from evalkit.version import VERSION

COMMANDS = (
    run,
    evaluate,
    compare,
    split,
    partial,
    merge,
    why,
    check,
    audit,
    metrics,
    explain,
    init,
    baseline,
    schema,
    demo,
    doctor,
    synth,
    warm,
    verify,
    report,
    gate,
    select,
)


app = typer.Typer(
    name="evalkit",
    no_args_is_help=True,
    suggest_commands=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(history, name="history")


def _say_version(asked: bool) -> None:
    if asked:
        console.say(f"evalkit {VERSION}")
        raise typer.Exit


@app.callback()
def evalkit(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Exact ranking metrics of recommenders, straight from Parquet logs.

    Results go to stdout; progress, notes and errors to stderr. Exit status: 0 fine, 1 a gate
    failed, 2 the request is wrong, 3 the data is wrong, 4 the machine failed, 75 try again later.
    """


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; the exit status."""
    program = typer.main.get_command(app)
    if "_EVALKIT_COMPLETE" in os.environ:
        from evalkit.cli.completion import complete

        complete(program)
    status = program.main(args=list(arguments), prog_name="evalkit", standalone_mode=False)
    return status if isinstance(status, int) else FINE
