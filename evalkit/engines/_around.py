"""What executors see of the files of this process: asked of them before a job begins."""

import os
import pickle
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.errors import RequestError

if TYPE_CHECKING:
    import pyarrow as pa

ROW = "unlike string, written string"
ASKED_OF_CORE = 2
SHARED = (
    "executors open the paths that this process opens: in a folder that all share, or a store; "
    "else give a table of a catalog, or a DataFrame"
)


def is_here(session: Any) -> bool:
    """Whether executors run on this machine, as far as this process knows."""
    try:
        return str(session.sparkContext.master).startswith("local")
    except Exception:  # Spark Connect shows no context
        return False


def check_around(session: Any, paths: Iterable[str], folder: Path | None, n_tasks: int) -> bool:
    """Hold what executors see against what is here.

    Args:
        paths: of tables; of each that is a file here, executors must find the same size.
        folder: for values of users; None where nobody writes there.
        n_tasks: that look, so that all executors do.
    Returns:
        Whether they can write into the folder what this process then reads.
    Raises:
        RequestError: an executor has another file, or none [not-on-spark].
    """
    sizes = {path: os.path.getsize(path) for path in paths if os.path.isfile(path)}
    mark = secrets.token_hex(16)
    if folder is not None:
        (folder / mark).write_text(mark)
    looking = partial(look, pickle.dumps((sizes, folder, mark)))
    seen = session.range(0, n_tasks, 1, n_tasks).mapInArrow(looking, ROW).collect()
    for row in seen:
        if row.unlike:
            raise RequestError(
                f"an executor does not see a file as this process does: {row.unlike}",
                code="not-on-spark",
                at=row.unlike.partition(" ")[0],
                hint=SHARED,
            )
    return folder is not None and all(_read(folder, row.written) == mark for row in seen)


def look(packed: bytes, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """One row: a file that is another one here, and the name of a file with the mark.

    Args:
        packed: sizes by path, the folder, and what its mark says.
    """
    import pyarrow as pa

    sizes: Mapping[str, int]
    sizes, folder, mark = pickle.loads(packed)  # noqa: S301  # from our own driver
    for _ in batches:
        pass
    unlike: Sequence[str] = [each for each in map(_unlike, sizes, sizes.values()) if each]
    written = ""
    with suppress(OSError):
        if folder is not None and _read(folder, mark) == mark:
            name = f"{mark}-{secrets.token_hex(8)}"
            (folder / name).write_text(mark)
            written = name
    yield pa.record_batch({"unlike": [next(iter(unlike), "")], "written": [written]})


def _unlike(path: str, size: int) -> str:
    try:
        found = os.path.getsize(path)
    except OSError as error:
        return f"{path} ({(error.strerror or str(error)).lower()} there)"
    return "" if found == size else f"{path} ({size:,} bytes here, {found:,} there)"


def _read(folder: Path, name: str) -> str:
    with suppress(OSError):
        if name:
            return (folder / name).read_text()
    return ""
