"""`evalkit verify`: checksums of a finished run."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from evalkit.cli import console
from evalkit.cli.options import LogFormat, Quiet
from evalkit.errors import DataError, EvalkitError, RequestError, raise_all


def verify(
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of one run.")],
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """Compare the files of a run with the checksums in its manifest."""
    if not run.is_dir():
        raise RequestError(
            "there is no run", code="missing-run", at=str(run), hint="name the folder of one run"
        )
    from evalkit import runs

    problems: list[EvalkitError] = [
        DataError(problem, code="changed-run", at=str(run)) for problem in runs.verify(run)
    ]
    raise_all(problems)
    console.say(f"{run}: every file is as it was written")
