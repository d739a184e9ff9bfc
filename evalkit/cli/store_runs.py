"""Runs in a store, for commands that read numbers of them."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from typer import Option

_copies: set[Path] = set()


def local_copy(folder: Path) -> Path:
    """The folder of runs; of one in a store a copy of its numbers, until this process ends."""
    url = str(folder).replace(":/", "://", 1)  # as a path writes it
    if ":/" not in str(folder):
        return folder
    from evalkit import runs

    if not runs.is_store(url):
        return folder
    import atexit
    from tempfile import gettempdir

    store, stack = runs.open_store(url, {}), ExitStack()
    copy = stack.enter_context(runs.private_folder(Path(gettempdir(), "runs")))
    atexit.register(stack.close)
    store.mirror(copy, files=("report.json", "metrics.parquet", "comparisons.parquet"))
    _copies.add(copy)
    return copy


def is_copy(folder: Path) -> bool:
    """Whether it is a copy of what lies in a store."""
    return folder in _copies


ReadFolder = Annotated[
    Path,
    Option("--out", "-o", metavar="DIR", help="Folder of runs, or s3://...", callback=local_copy),
]
