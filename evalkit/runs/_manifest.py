"""The manifest of a run: what its directory holds, and whether it still does.

A run's directory may have been written by anybody. Only the files that its manifest lists exist, no
link in it is followed, and what it says is data: nothing of it is run, imported or used as a path.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from evalkit.errors import DataError, EvalkitError, RequestError, warn
from evalkit.report import PerUser, Report
from evalkit.report.by_hints import load_json, read_record
from evalkit.runs._files import file_record, read
from evalkit.runs._keys import digest

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "manifest.json"
REPORT = "report.json"
PER_USER = "per_user.parquet"
PARTS = "parts.parquet"
LATEST = "latest"
TAGS = "tags"
SCHEMA_VERSION = 1
MOST_MANIFEST_BYTES = 16 << 20
MOST_REPORT_BYTES = 1 << 30
MOST_TABLE_BYTES = 2 << 30  # of what is held: unpacked pages, and decoded numbers

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FILE = re.compile(r"(per_user/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BY_TIME = re.compile(r"\d{8}-\d{6}")  # how ids begin that `new_run_id` gave
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")
CLOCKS_DIFFER = 3600.0  # seconds that the clock of another machine may be ahead


def verify(path: str | Path) -> list[str]:
    """What is wrong with a run's directory, one problem a line; nothing when it is good."""
    try:
        folder = directory_of(Path(path))
        manifest = read_manifest(folder)
    except (OSError, ValueError) as error:
        return [words(error) if isinstance(error, _Misnamed) else f"{MANIFEST}: {words(error)}"]
    problems = damage_of(folder, manifest)
    if not problems:
        try:
            _read_report(folder, manifest)
        except (OSError, ValueError, EvalkitError) as error:
            problems = [f"{REPORT}: {words(error)}"]
    return [*problems, *unlisted(folder, manifest)]


def damage_of(folder: Path, manifest: "Manifest") -> list[str]:
    """Which of the files that a manifest lists are not as they were written."""
    problems = []
    for name, expected in manifest.files.items():
        try:
            found = file_record(folder, name)
        except OSError as error:
            problems.append(f"{name}: {words(error)}")
            continue
        for key, written in (("bytes", expected.bytes), ("sha256", expected.sha256)):
            if found[key] != written:
                problems.append(f"{name}: {key} {found[key]}, not {written}")
                break
    return problems


def unlisted(folder: Path, manifest: "Manifest") -> Iterator[str]:
    """What lies in a run's directory and is not of the run, one problem a line."""
    inner = {PurePosixPath(name).parts[0] for name in manifest.files if "/" in name}
    for place in ("", *sorted(inner)):
        if (place and not os.path.isdir(folder / place)) or os.path.islink(folder / place):
            continue
        for entry in sorted(os.scandir(folder / place), key=lambda each: each.name):
            name = f"{place}/{entry.name}" if place else entry.name
            if name not in manifest.files and name != MANIFEST and name not in inner:
                yield f"{name}: the manifest does not list it"


def words(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return error.message if isinstance(error, EvalkitError) else str(error)


class _Misnamed(ValueError):
    """A manifest lists a file by a name that no file of a run has."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was written."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class KeptValues:
    """What a manifest says of the values of users."""

    user_columns: tuple[str, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Began:
    """When a run began; ISO 8601, UTC."""

    started: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    run_id: str
    run_key: str
    name: str
    files: Mapping[str, FileRecord]
    per_user: KeptValues | None
    is_fine: bool = True
    is_first: bool = False  # its gates failed for want of a run to compare with, and for that alone
    higher_is_better: Mapping[str, bool | None] = field(default_factory=dict)
    meta: Began = Began()
    config: Mapping[str, object] | None = None

    @property
    def may_be_compared_with(self) -> bool:
        """Whether it may be the last run that passed."""
        return self.is_fine or self.is_first

    @property
    def is_of_the_future(self) -> bool:
        """Whether it is later than any clock, so that no later run would ever be the last."""
        latest = datetime.fromtimestamp(time.time() + CLOCKS_DIFFER, UTC)
        is_late = _BY_TIME.match(self.run_id) and self.run_id > f"{latest:%Y%m%d-%H%M%S}"
        is_later = (
            _TIME.match(self.meta.started) and self.meta.started > f"{latest:%Y-%m-%dT%H:%M:%S}"
        )
        return bool(is_late or is_later)


def read_manifest(folder: Path) -> Manifest:
    return parse_manifest(read(folder, MANIFEST, most_bytes=MOST_MANIFEST_BYTES))


def parse_manifest(content: bytes) -> Manifest:
    """The manifest that `content` holds.

    Raises:
        ValueError: it holds none, its checksum does not fit, or a value is of another type.
    """
    if len(content) > MOST_MANIFEST_BYTES:
        raise ValueError(f"larger than {MOST_MANIFEST_BYTES:,} bytes")
    manifest = load_json(content)
    if not isinstance(manifest, dict) or "checksum" not in manifest:
        raise ValueError("no manifest of a run")
    checksum = manifest.pop("checksum")
    try:
        is_whole = digest(manifest) == checksum
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not is_whole:
        raise ValueError("its checksum does not fit")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version {manifest.get('schema_version')!r} is not known here")
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ValueError("it lists no files")
    for name in files:
        if not FILE.fullmatch(name):
            raise _Misnamed(f"{name}: no name of a run's file")
    if REPORT not in files:
        raise ValueError(f"it lists no {REPORT}")
    try:
        found = read_record(Manifest, manifest)
    except KeyError as error:
        raise ValueError(f"it has no {error}") from None
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not RUN_ID.fullmatch(found.run_id):
        raise ValueError(f"{found.run_id[:100]!r} is no run_id")
    return found


def directory_of(path: Path) -> Path:
    """The directory that a path means; `latest` and tags mean a run beside them, nothing else.

    Raises:
        ValueError: such a link points elsewhere.
    """
    if not path.is_symlink():
        return path
    folder = path.parent
    is_tag = folder.name == TAGS
    if path.name != LATEST and not is_tag:
        return path.resolve()  # a link that somebody named
    target = PurePosixPath(os.readlink(path))
    beside = ("..", target.name) if is_tag else (target.name,)
    if target.parts != beside or not RUN_ID.fullmatch(target.name):
        raise ValueError(f"the link {path.name!r} points to no run beside it")
    run = (folder.parent if is_tag else folder) / target.name
    if run.is_symlink():
        raise ValueError(f"the link {path.name!r} points to another link")
    return run


@cache
def set_aside(at: str, why: str) -> None:
    """Say, once in a process, that the run at a path or URL is left out of all that is done."""
    warn(
        "run-set-aside",
        f"{PurePosixPath(at).name} is left out: {why}",
        at=at,
        hint=f"evalkit verify {quote(at)}; move it elsewhere, or remove it",
    )


def finished(folder: str | Path) -> Iterator[tuple[Path, Manifest]]:
    """Every run of a folder whose manifest is whole, the latest first; files are not looked at.

    What looks like a run and is none is set aside by name.

    Raises:
        RequestError: the folder is a file [missing-runs].
    """
    try:
        entries = [each.name for each in os.scandir(folder) if each.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        message, hint = "there is no folder of runs", "name it with --out"
        raise RequestError(message, code="missing-runs", at=str(folder), hint=hint) from None
    for name in sorted(filter(RUN_ID.fullmatch, entries), reverse=True):
        path = Path(folder, name)
        try:
            manifest = read_manifest(path)
            check_place(manifest, name)
        except FileNotFoundError:  # another folder
            continue
        except (OSError, ValueError) as error:
            set_aside(str(path), words(error))
            continue
        yield path, manifest


def is_last(run_id: str, runs: Iterable[str]) -> bool:
    """Whether `latest` is to name a new run: none of `runs`, the last first, began after it."""
    ahead = next(iter(runs), run_id)
    if ahead > run_id:
        warn(
            "run-not-last",
            f"{run_id} began before {ahead} by the clock: {LATEST!r} and `last` name that one",
            hint="set the clock right; a run that is not the last is read by its own name",
        )
    return ahead <= run_id


def check_place(manifest: Manifest, name: str) -> None:
    """Refuse a run that lies under the name of another, or that began after now.

    Raises:
        ValueError: it does.
    """
    if manifest.run_id != name:
        raise ValueError(f"it is the run {manifest.run_id!r} under another name")
    if manifest.is_of_the_future:
        raise ValueError("it says that it began in the future")


def find_done(folder: str | Path, name: str, key: str) -> Path | None:
    """The latest whole run of `name` with that run key."""
    for path, manifest in finished(folder):
        if (manifest.name, manifest.run_key) == (name, key) and is_whole(path, manifest):
            return path
    return None


def is_whole(path: Path, manifest: Manifest) -> bool:
    """Whether every file of a run is as it was written; a run that is damaged is set aside."""
    problems = damage_of(path, manifest)
    if problems:
        set_aside(str(path), problems[0])
    return not problems


def load_run(path: str | Path, *, metrics: Collection[str] | None = None) -> Report:
    """The report of a finished run, every file of which matches its checksum.

    Args:
        metrics: read numbers of these alone, and neither comparisons, parts nor what is drawn.
    Raises:
        DataError: no directory of a run, or a damaged one [run-damaged].
    """
    try:
        folder = directory_of(Path(path))
        manifest = read_manifest(folder)
    except (OSError, ValueError) as error:
        raise _damaged(Path(path), f"{MANIFEST}: {words(error)}") from None
    problems = damage_of(folder, manifest)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise _damaged(folder, f"{problems[0]}{more}")
    report = load_numbers(folder, manifest, metrics)
    return replace(
        report,
        per_user_values=_kept_values(folder.resolve(), manifest),
        parts=_parts(folder, manifest) if metrics is None and PARTS in manifest.files else None,
    )


def load_numbers(path: Path, manifest: Manifest, metrics: Collection[str] | None = None) -> Report:
    """The report of a finished run; its other files are not looked at.

    Raises:
        DataError: `report.json` is not as it was written, or is no report of that run
            [run-damaged].
    """
    try:
        report = _read_report(path, manifest, metrics)
    except (OSError, ValueError, EvalkitError) as error:
        raise _damaged(path, f"{REPORT}: {words(error)}") from None
    found, directions = [], manifest.higher_is_better
    for estimate in report.estimates:
        better = directions.get(estimate.name, estimate.higher_is_better)
        better = directions.get(estimate.metric, better)
        is_known = better is estimate.higher_is_better
        found.append(estimate if is_known else replace(estimate, higher_is_better=better))
    return replace(report, config=manifest.config, estimates=tuple(found))


def _damaged(path: Path, problem: str) -> DataError:
    message = f"this is no whole run: {problem}"
    hint = f"evalkit verify {quote(str(path))} lists every problem"
    return DataError(message, code="run-damaged", at=str(path), hint=hint)


def _read_report(
    folder: Path, manifest: Manifest, metrics: Collection[str] | None = None
) -> Report:
    """The report of a run, from the very bytes that the checksum was taken of."""
    from evalkit.report.json_ import parse_report
    from evalkit.report.parquet import read_rows

    def rows_beside(name: str) -> list[dict[str, object]]:
        file = f"{name}.parquet"
        has_any = file in manifest.files
        return read_rows(_table(folder, manifest, file), metrics) if has_any else []

    content = _content(folder, manifest, REPORT)
    at = str(folder / REPORT)
    report = parse_report(content, at=at, metrics=metrics, rows_beside=rows_beside)
    for key in ("run_id", "run_key", "name"):
        said, expected = getattr(report, key), getattr(manifest, key)
        if said != expected:
            raise ValueError(f"{key} {said!r}, not {expected!r}")
    return report


def _content(folder: Path, manifest: Manifest, name: str) -> bytes:
    content = read(folder, name, most_bytes=MOST_REPORT_BYTES)
    if sha256(content).hexdigest() != manifest.files[name].sha256:
        raise ValueError("it is not as it was written")
    return content


def _table(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The content of a table, which is as large as its file may be."""
    from evalkit.sources.parquet import content_fault

    content = _content(folder, manifest, name)
    fault = content_fault(content, MOST_TABLE_BYTES)
    if fault is not None:
        raise ValueError(fault)
    return content


def _parts(folder: Path, manifest: Manifest) -> "pl.DataFrame":
    from evalkit.report.parquet import read_kept

    try:
        return read_kept(_table(folder, manifest, PARTS))
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{PARTS}: {words(error)}") from None


def _fault_of_values(path: str) -> str | None:
    """What is wrong with a table of users' values, which is scanned as logs are."""
    from evalkit.sources.footers import footer_fault
    from evalkit.sources.parquet import page_fault

    return footer_fault(path) or page_fault(path, None)


def _kept_values(folder: Path, manifest: Manifest) -> PerUser | None:
    kept = manifest.per_user
    files = sorted(name for name in manifest.files if name.startswith("per_user/"))
    if PER_USER in manifest.files:
        files = [PER_USER]
    if kept is None or not files:
        return None
    for name in files:
        fault = _fault_of_values(str(folder / name))
        if fault is not None:
            raise _damaged(folder, f"{name}: {fault}")
    return PerUser(kept.user_columns, kept.metrics, path=tuple(folder / name for name in files))
