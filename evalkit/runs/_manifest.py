"""The manifest of a run: what its directory holds, and whether it still does."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.errors import DataError, EvalkitError
from evalkit.report import PerUser, Report
from evalkit.runs._files import file_record, read
from evalkit.runs._keys import digest

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "manifest.json"
REPORT = "report.json"
PER_USER = "per_user.parquet"
PARTS = "parts.parquet"
SCHEMA_VERSION = 1

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FILE = re.compile(r"(per_user/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def verify(path: str | Path) -> list[str]:
    """What is wrong with a run's directory, one problem a line; nothing when it is good."""
    folder = Path(path)
    try:
        manifest = read_manifest(folder)
    except (OSError, ValueError, RecursionError) as error:
        return [f"{MANIFEST}: {words(error)}"]
    problems = []
    for name, expected in manifest.files.items():
        try:
            if not FILE.fullmatch(name):
                raise ValueError("no name of a run's file")
            found = file_record(folder / name)
        except (OSError, ValueError) as error:
            problems.append(f"{name}: {words(error)}")
            continue
        different = [key for key in ("bytes", "sha256") if found[key] != expected.get(key)]
        problems += [
            f"{name}: {key} {found[key]}, not {expected.get(key)}" for key in different[:1]
        ]
    if problems:
        return problems
    try:
        report = Report.from_json(read(folder / REPORT))
    except (OSError, EvalkitError) as error:
        return [f"{REPORT}: {words(error)}"]
    if report.run_id != manifest.run_id:
        return [f"{REPORT}: run_id {report.run_id!r}, not {manifest.run_id!r}"]
    return []


def words(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return error.message if isinstance(error, EvalkitError) else str(error)


@dataclass(frozen=True, slots=True)
class Manifest:
    run_id: str
    run_key: str
    name: str
    files: Mapping[str, Mapping[str, object]]
    per_user: Mapping[str, object] | None
    config: Mapping[str, object] | None
    is_fine: bool
    higher_is_better: Mapping[str, bool | None]


def read_manifest(folder: Path) -> Manifest:
    return parse_manifest(read(folder / MANIFEST))


def parse_manifest(content: bytes) -> Manifest:
    """The manifest that `content` holds.

    Raises:
        ValueError: it holds none, or its checksum does not fit.
    """
    manifest = json.loads(content)
    if not isinstance(manifest, dict) or "checksum" not in manifest:
        raise ValueError("no manifest of a run")
    checksum = manifest.pop("checksum")
    if digest(manifest) != checksum:
        raise ValueError("its checksum does not fit")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version {manifest.get('schema_version')!r} is not known here")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(each, dict) for each in files.values()):
        raise ValueError("it lists no files")
    if REPORT not in files:
        raise ValueError(f"it lists no {REPORT}")
    return Manifest(
        run_id=str(manifest.get("run_id")),
        run_key=str(manifest.get("run_key")),
        name=str(manifest.get("name")),
        files=files,
        per_user=manifest.get("per_user"),
        config=manifest.get("config"),
        is_fine=bool(manifest.get("is_fine", True)),
        higher_is_better=manifest.get("higher_is_better", {}),
    )


def finished(folder: str | Path) -> Iterator[tuple[Path, Manifest]]:
    """Every run of a folder whose manifest is whole, the latest first; files are not looked at."""
    try:
        names = sorted((each.name for each in os.scandir(folder) if each.is_dir()), reverse=True)
    except FileNotFoundError:
        return
    for name in names:
        path = Path(folder, name)
        if not RUN_ID.fullmatch(name) or path.is_symlink():
            continue
        with suppress(OSError, ValueError, RecursionError):
            manifest = read_manifest(path)
            if manifest.run_id == name:
                yield path, manifest


def find_done(folder: str | Path, name: str, key: str) -> Path | None:
    """The latest whole run of `name` with that run key."""
    for path, manifest in finished(folder):
        if (manifest.name, manifest.run_key) == (name, key) and not verify(path):
            return path
    return None


def load_run(path: str | Path) -> Report:
    """The report of a finished run, every file of which matches its checksum.

    Raises:
        DataError: no directory of a run, or a damaged one [run-damaged].
    """
    folder = Path(path)
    problems = verify(folder)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise DataError(
            f"this is no whole run: {problems[0]}{more}",
            code="run-damaged",
            at=str(folder),
            hint=f"evalkit verify {folder} lists every problem",
        )
    return _load(folder, read_manifest(folder))


def load_numbers(path: Path, manifest: Manifest) -> Report:
    """The report of a finished run; its other files are not looked at.

    Raises:
        DataError: `report.json` does not match its checksum [run-damaged].
    """
    try:
        found = file_record(path / REPORT)
    except OSError as error:
        found = {"sha256": words(error)}
    if found["sha256"] != manifest.files[REPORT].get("sha256"):
        raise DataError(
            f"{REPORT} is not as it was written",
            code="run-damaged",
            at=str(path),
            hint=f"evalkit verify {path} lists every problem",
        )
    return _load(path, manifest)


def _load(folder: Path, manifest: Manifest) -> Report:
    report = Report.from_json(read(folder / REPORT), at=str(folder / REPORT))
    directions = manifest.higher_is_better
    return replace(
        report,
        config=manifest.config,
        estimates=tuple(
            replace(each, higher_is_better=directions.get(each.name, each.higher_is_better))
            for each in report.estimates
        ),
        per_user_values=_kept_values(folder.resolve(), manifest.per_user),
        parts=_parts(folder / PARTS) if PARTS in manifest.files else None,
    )


def _parts(path: Path) -> "pl.DataFrame":
    import polars as pl

    return pl.read_parquet(path, glob=False)


def _kept_values(folder: Path, kept: Mapping[str, object] | None) -> PerUser | None:
    if kept is None:
        return None
    users, metrics = kept["user_columns"], kept["metrics"]
    if not isinstance(users, list) or not isinstance(metrics, list):
        return None
    inside = folder / "per_user"
    return PerUser(
        user_columns=tuple(users),
        metrics=tuple(metrics),
        path=inside if inside.is_dir() else folder / PER_USER,
    )
