"""`evalkit verify`: checksums of a finished run."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from evalkit.cli import console
from evalkit.cli.options import takes
from evalkit.errors import DataError, EvalkitError, RequestError, raise_all


@takes("quiet log_format")
def verify(
    run: Annotated[str, Argument(metavar="RUN", help="Folder of one run, or its URL in a store.")],
) -> None:
    """Compare the files of a run with the checksums in its manifest."""
    if "://" in run:
        found = _problems_in_store(run)
    elif Path(run).is_dir():
        from evalkit import runs

        found = runs.verify(run)
    else:
        raise RequestError(
            "there is no run", code="missing-run", at=run, hint="name the folder of one run"
        )
    problems: list[EvalkitError] = [
        DataError(problem, code="changed-run", at=run) for problem in found
    ]
    raise_all(problems)
    console.say(f"{run}: every file is as it was written")


def _problems_in_store(url: str) -> list[str]:
    """As `runs.verify` of a copy; the store's options are those of the environment."""
    from tempfile import gettempdir

    from evalkit import runs

    folder, _, run_id = url.rstrip("/").rpartition("/")
    store = runs.open_store(folder, {})
    with runs.private_folder(Path(gettempdir(), "runs")) as copy:
        wanted = store.latest() if run_id == runs.LATEST else run_id
        return runs.verify(store.fetch(wanted or run_id, copy))
