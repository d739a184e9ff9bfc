"""Tables that are parts of a split: paths and columns come from its `split.json`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.config._places import Key, table_in
from evalkit.config._problems import Problems
from evalkit.config._tables import CATALOG, Record, TrainColumns, TruthColumns
from evalkit.config._variables import tables_of
from evalkit.errors import DataError, EvalkitError, RequestError

SPLIT_FILE = "split.json"
SPLIT_VERSION = 1
_MOST_BYTES = 64 << 20
_OURS: Mapping[str, type[Record]] = {"truth": TruthColumns, "train": TrainColumns}
_OF_A_PATH = ("path", "format", "where")


def read_split(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What the `split.json` of a split says.

    Raises:
        DataError: there is none, or it is no such file [bad-manifest-of-split].
    """
    path = Path(folder, SPLIT_FILE)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or found.get("schema_version") != SPLIT_VERSION:
            raise ValueError("it is of another version")
        parts, columns = found.get("parts"), found.get("columns")
        are_parts = isinstance(parts, list) and all(map(_is_part, parts))
        if not are_parts or not isinstance(columns, dict):
            raise ValueError("it lists no parts")
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"no split can be read there: {reason}"
        hint = "evalkit split writes such a folder"
        if isinstance(error, PermissionError):
            hint = "give this user the right to read it"
        raise DataError(message, code="bad-manifest-of-split", at=str(path), hint=hint) from None
    return found


def _is_part(part: object) -> bool:
    """Whether it has a name, a fold, and paths of files, if it has any."""
    if not isinstance(part, dict) or not isinstance(part.get("files", []), list):
        return False
    paths = [each.get("path") if isinstance(each, dict) else None for each in part.get("files", [])]
    is_named = isinstance(part.get("name"), str) and isinstance(part.get("fold"), int)
    return is_named and all(isinstance(path, str) for path in paths)


def find_entry(
    found: Mapping[str, Any], name: str, fold: int | None = None, *, at: str
) -> dict[str, Any]:
    """What `split.json` says of a part that has files.

    Raises:
        RequestError: it has no such part [unknown-part].
    """
    parts: list[dict[str, Any]] = [each for each in found["parts"] if each.get("files")]
    for part in parts:
        if (part["name"], part["fold"]) == (name, 1 if fold is None else fold):
            return part
    n_folds = max((each["fold"] for each in parts), default=1)
    names = (
        ", ".join(sorted({each["name"] for each in parts}))
        or 'no files: write = "parts" makes them'
    )
    message = f"the split has no part {name!r}" + (f" in fold {fold}" if fold is not None else "")
    hint = f"it has {names}" + (f" in {n_folds} folds" if n_folds > 1 else "")
    raise RequestError(message, code="unknown-part", at=at, hint=hint)


def fill_tables(tree: Mapping[str, object], problems: Problems) -> None:
    """Write the paths of tables that are named as a catalog of Spark has them."""
    for key, table in tables_of(tree):
        name = table.get("table")
        if key[0] == "split" or not isinstance(name, str):
            continue
        if "path" in table:
            problems.add((*key, "table"), "conflicting-keys", "path and table exclude each other")
        table["path"] = [CATALOG + name]
        del table["table"]


def fill_parts(tree: Mapping[str, object], problems: Problems) -> None:
    """Write paths and columns into [truth] and [train] that are parts of a split."""
    seen: dict[tuple[str, str, object], str] = {}
    unread: set[str] = set()
    for section, default in (("truth", "test"), ("train", "train")):
        table = tree.get(section)
        if not isinstance(table, dict) or not isinstance(table.get("split"), str):
            continue
        for name in _OF_A_PATH:
            if name in table:
                problems.add(
                    (section, name),
                    "conflicting-keys",
                    f"{name} and split exclude each other",
                    hint="a part of a split brings its path and its columns",
                )
        part = table.get("part", default)
        which = (os.path.abspath(table["split"]), str(part), table.get("fold") or 1)
        if which in seen:
            problems.add(
                (section, "part"),
                "conflicting-keys",
                f"{part!r} is read as {seen[which]} and as {section} at once",
                hint='part = "test" or "validation" under [truth], "train" under [train]',
            )
        seen[which] = section
        try:
            _fill(section, table, str(part), problems)
        except DataError as error:
            if which[0] not in unread:  # truth and train of one split: told once
                problems.add_error((section, "split"), _with_own_split(error, tree, which[0]))
            unread.add(which[0])
            table.setdefault("path", [table["split"]])
        except EvalkitError as error:
            problems.add_error((section, "split"), error)
            table.setdefault("path", [table["split"]])
    match tree:
        case {"selection": {"confirm": {"split": str() as folder, **others}}}:
            part = str(others.get("part", "test"))
            if seen.get((os.path.abspath(folder), part, others.get("fold") or 1)) == "train":
                message = f"{part!r} is read as test and as train at once"
                hint = 'part = "test" under confirm'
                problems.add(("selection", "confirm"), "conflicting-keys", message, hint=hint)


def _with_own_split(error: DataError, tree: Mapping[str, object], folder: str) -> DataError:
    """The same error; where this config would write that split, the hint says how."""
    out = table_in(tree, "split").get("out")
    if not isinstance(out, str) or os.path.abspath(out) != folder:
        return error
    hint = "evalkit split with this config writes it: it comes before check and run"
    return DataError(error.message, code=error.code, at=error.at, hint=hint)


def _fill(section: str, table: dict[str, Any], part: str, problems: Problems) -> None:
    folder = table["split"]
    found = read_split(folder)
    key: Key = (section, "part")
    entry = find_entry(found, part, table.get("fold"), at=problems.places.at(key))
    files = list(entry["files"])
    if section == "train":
        for made_part in found["parts"]:
            if made_part["name"].endswith("fold_in") and made_part["fold"] == entry["fold"]:
                files += made_part["files"]  # what the models may see of users that are held out
        if found.get("rule", {}).get("seen") == "drop":
            table.setdefault("drop_seen", True)
    table["path"] = [os.path.join(folder, str(each["path"])) for each in files]
    known = _OURS[section].model_fields
    columns = {name: each for name, each in found["columns"].items() if name in known}
    table["columns"] = {**columns, **table.get("columns", {})}
    table["part"] = part
