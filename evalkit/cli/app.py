"""All commands, and how one command line is run."""

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

os.environ.setdefault("TYPER_USE_RICH", "0")  # typer looks when it is imported; rich costs 60 ms

import typer
from typer.core import TyperCommand

from evalkit.cli import console
from evalkit.errors import FINE, RequestError, check_text
from evalkit.report.version import VERSION

# each is the function of that name in the module of that name, but for those of `ELSEWHERE`
COMMANDS = (
    "run evaluate compare split partial merge why check audit metrics explain init baseline "
    "schema demo doctor synth warm verify report figures gate select history alert judge "
    "experiment surrogates"
).split()
ELSEWHERE = {"explain": "metrics"}


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; making one takes a millisecond."""
    app = typer.Typer(
        name="evalkit",
        callback=evalkit,
        no_args_is_help=True,
        suggest_commands=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )
    for name in names:
        module = import_module(f"evalkit.cli.{ELSEWHERE.get(name, name)}")
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            for each in command.registered_commands:
                each.cls = _Command
            app.add_typer(command, name=name)
        else:
            app.command(cls=_Command)(command)
    return app


class _Command(TyperCommand):
    """A command that refuses an option given twice, of which otherwise the last would win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        *_, given = self.make_parser(ctx).parse_args([*args])
        for option in given:
            takes_more = getattr(option, "multiple", False) or getattr(option, "is_flag", False)
            if option.param_type_name == "option" and not takes_more and given.count(option) > 1:
                message = f"{option.opts[0]} is given {given.count(option)} times, and takes one"
                raise RequestError(
                    message, code="bad-option", at=option.opts[0], hint="leave the others out"
                )
        return super().parse_args(ctx, args)


def _say_version(asked: bool) -> None:
    if asked:
        console.say(f"evalkit {VERSION}")
        raise typer.Exit


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
    for each in arguments:
        check_text(each, "the argument")
    asked = [name for name in arguments[:1] if name in COMMANDS]
    program = typer.main.get_command(make_app(asked or COMMANDS))
    if "_EVALKIT_COMPLETE" in os.environ:
        from evalkit.cli.completion import complete

        complete(program)
    status = program.main(args=list(arguments), prog_name="evalkit", standalone_mode=False)
    return status if isinstance(status, int) else FINE
