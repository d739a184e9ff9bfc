"""`split.json`: what a split was made of and by which rule, and what its parts hold."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.config._parts import find_entry, read_split
from evalkit.errors import DataError


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One part of a split, as its manifest tells of it.

    Args:
        columns: our name -> the columns of its files.
        content, pairs: fingerprints of users, items, times and relevance; of users and items.
    """

    name: str
    files: tuple[Path, ...]
    columns: Mapping[str, str | list[str]]
    content: str
    pairs: str
    rows: int


def find_part(folder: Path, name: str, fold: int | None = None, *, at: str = "") -> SplitPart:
    """A part of a split, whose files are as they were written.

    Raises:
        DataError: no split, or its files changed [bad-manifest-of-split, split-changed].
        RequestError: it has no such part [unknown-part].
    """
    found = read_split(folder)
    part = find_entry(found, name, fold, at=at or str(folder))
    files = tuple(folder / str(file["path"]) for file in part["files"])
    for path, file in zip(files, part["files"], strict=True):
        _check_file(folder, path, file)
    return SplitPart(name, files, found["columns"], part["content"], part["pairs"], part["rows"])


def _check_file(folder: Path, path: Path, file: Mapping[str, Any]) -> None:
    """Refuse what is not the file that was written."""
    if not path.resolve().is_relative_to(folder.resolve()):
        why = "it lies outside of the split"
    else:
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            why = "its bytes are others" if digest != file["sha256"] else ""
        except OSError as error:
            why = (error.strerror or "it cannot be read").lower()
    if why:
        message = f"a part of the split is not as it was written: {why}"
        hint = "make the split again: evalkit split CONFIG"
        raise DataError(message, code="split-changed", at=str(path), hint=hint)


def check_files(folder: Path, found: Mapping[str, Any], files: Iterable[str]) -> None:
    """Refuse files of a split that are not as they were written.

    Raises:
        DataError: one is not [split-changed].
    """
    records = {
        str(folder / str(file["path"])): file for part in found["parts"] for file in part["files"]
    }
    for file in files:
        _check_file(folder, Path(file), records[file])
