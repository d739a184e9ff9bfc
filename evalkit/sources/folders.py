"""Files below a folder, or of a pattern; a folder that cannot be read is never an empty one."""

import glob
import os
import re
from collections.abc import Iterator
from typing import NoReturn

from evalkit.errors import DataError

WILD = re.compile(r"[*?\[]")


def visible(name: str) -> bool:
    return not name.startswith((".", "_")) and name != "lost+found"


def _refuse_folder(error: OSError) -> NoReturn:
    """Whatever lies in a folder that cannot be read would be missing, and nobody told."""
    message = f"the folder cannot be read: {(error.strerror or str(error)).lower()}"
    hint = "give this user the right to read it, or name the files that are to be read"
    raise DataError(message, code="unreadable-file", at=error.filename, hint=hint) from error


def _refuse_unread(pattern: str) -> None:
    """Raise where a folder on the way of a pattern cannot be read: `glob` takes it for empty."""
    parts = pattern.split("/")
    for place, part in enumerate([*parts, "*"] if parts[-1] == "**" else parts):
        before = "/".join(parts[:place]) or ("/" if place else ".")
        for folder in glob.glob(before, recursive=True):
            try:
                os.listdir(folder) if WILD.search(part) else os.lstat(f"{folder}/{part}")
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                error.filename = folder
                _refuse_folder(error)


def walk(directory: str, left_out: list[str] | None = None) -> Iterator[str]:
    """The files below a directory, without hidden ones, which `left_out` takes."""
    for folder, folders, names in os.walk(directory, onerror=_refuse_folder, followlinks=True):
        if left_out is not None:
            hidden = [each for each in (*folders, *names) if not visible(each)]
            left_out += [os.path.join(folder, each) for each in hidden]
        folders[:] = sorted(filter(visible, folders))
        yield from (os.path.join(folder, name) for name in sorted(filter(visible, names)))


def matching(path: str) -> list[str]:
    """What a pattern matches; a bracket is itself where the pattern matches nothing else."""
    found: list[str] = []
    for pattern in (path, path.replace("[", "[[]")):
        _refuse_unread(pattern)
        found = found or glob.glob(pattern, recursive=True)
    return found
