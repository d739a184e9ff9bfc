"""`evalkit surrogates`: how well offline numbers and gates predicted online effects."""

from typing import Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import Json, LogFormat, Quiet


def surrogates(
    past: Annotated[
        list[str],
        Argument(metavar="PATH...", help="offline, offline_error, online, online_error; metric."),
    ],
    column: Annotated[
        list[str] | None, Option("--column", metavar="NAME=COLUMN", help="As offline=ndcg_delta.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """Say which offline metric predicted online effects.

    It says what its gates would have cost, too. A row is a past experiment; with a column metric
    there are several offline metrics.
    """
    from evalkit.kinds.experiments.surrogates import surrogates as read

    named = dict(text.partition("=")[::2] for text in column or ())
    found = read(list(past), columns=named)
    if json:
        frames = {"numbers": found.numbers, "decisions": found.decisions, "gates": found.gates}
        parts = [f'  "{name}": {frame.write_json()}' for name, frame in frames.items()]
        console.say("{\n" + ",\n".join(parts) + "\n}")
    else:
        console.say(str(found))
