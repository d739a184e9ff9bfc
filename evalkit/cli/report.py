"""`evalkit report`: a finished run in any form."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.named_runs import JobName
from evalkit.cli.options import RunsFolder, check_file_option, runs_in, takes
from evalkit.config.form_names import ON_TERMINALS, AnyForm
from evalkit.errors import RequestError


@takes("quiet log_format")
def report(
    run: Annotated[str, Argument(metavar="RUN", help="last, last~1, a tag, an id or a path.")],
    format: Annotated[AnyForm, Option("--format", help="What to render.")] = "table",
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="Write there instead of to stdout.")
    ] = None,
    out: RunsFolder = Path("runs"),
    name: JobName = None,
) -> None:
    """Render a finished run again, in any form."""
    if format == "parquet" and file is None:
        message = "Parquet goes to a file"
        hint = "--file metrics.parquet"
        raise RequestError(message, code="bad-option", at="--format parquet", hint=hint)
    check_file_option(file, "--file", [*runs_in(out), run])
    from evalkit.runs.history import load_named

    found = load_named(out, run, name=name)
    if format == "parquet" and file is not None:
        from io import BytesIO

        from evalkit.report import write_metrics_parquet

        table = BytesIO()
        write_metrics_parquet(found, table)
        return console.write(file, table.getvalue())
    from evalkit.report import render

    is_table = format in ON_TERMINALS and file is None
    width, color = console.table_width(), is_table and console.has_color()
    text = render(found, format, width=width, color=color)
    return console.say(text) if file is None else console.write(file, text)
