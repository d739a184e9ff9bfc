"""`evalkit surrogates`: how well offline numbers and gates predicted online effects."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import Json, check_file_option, runs_in, takes


@takes("quiet log_format")
def surrogates(
    past: Annotated[list[str], Argument(metavar="PATH...", help="A table, or folders of runs.")],
    column: Annotated[
        list[str] | None, Option("--column", metavar="NAME=COLUMN", help="As offline=ndcg_delta.")
    ] = None,
    online: Annotated[
        str | None, Option("--online", metavar="METRIC", help="Of experiments, in runs.")
    ] = None,
    pair: Annotated[
        list[str] | None,
        Option("--pair", metavar="EXPERIMENT=OFFLINE", help="Jobs that go together."),
    ] = None,
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", help="Write a page of its own.")
    ] = None,
    json: Json = False,
) -> None:
    """Say which offline metric predicted online effects.

    It says what its gates would have cost, too. A row of a table is a past experiment: offline,
    offline_error, online, online_error, and metric where there are several. Of folders of runs,
    experiments are put beside the offline runs of their candidates.
    """
    check_file_option(html, "--html", runs_in(*past))
    from evalkit.kinds.experiments.surrogates import surrogates as read

    named, pairs = (
        dict(text.partition("=")[::2] for text in each or ()) for each in (column, pair)
    )
    found = read(list(past), columns=named, online=online, pairs=pairs)
    if html is not None:
        from evalkit.report.html import render_surrogates

        return console.write(html, render_surrogates(found))
    if json:
        parts = [f'  "{name}": {frame.write_json()}' for name, frame in found.tables.items()]
        console.say("{\n" + ",\n".join(parts) + "\n}")
    else:
        console.say(str(found))
