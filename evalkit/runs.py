"""Directories of finished runs: published whole or not at all, and verified when read."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from evalkit.errors import (
    BusyError,
    DataError,
    EvalkitError,
    MachineError,
    RequestError,
    nearest,
)
from evalkit.report import PerUser, Report, render, write_metrics_parquet
from evalkit.report.json_ import dump_line

MANIFEST = "manifest.json"
REPORT = "report.json"
PER_USER = "per_user.parquet"
LATEST = "latest"
FORMATS = ("json", "parquet", "csv", "markdown")
SCHEMA_VERSION = 1

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FILE = re.compile(r"(per_user/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NO_SYMLINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def new_run_id(started: datetime) -> str:
    """A name for a run that sorts by its start (UTC, milliseconds) and that no other run has."""
    moment = started.astimezone(UTC) if started.tzinfo else started.replace(tzinfo=UTC)
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03}-{secrets.token_hex(3)}"


def run_key(
    config: Mapping[str, object],
    fingerprints: Sequence[str | None],
    versions: Mapping[str, str],
    metrics: Sequence[object] | Mapping[str, object],
) -> str:
    """32 hex digits; equal for two runs that must give the same numbers.

    An input without a fingerprint is like no other, so neither is the key of its run.

    Args:
        config: what can move a number; the order of keys does not matter.
        fingerprints: of every input, in order.
        versions: of evalkit and of whatever else the numbers rest on.
        metrics: the definitions of the metrics, of a user's own ones too.
    """
    inputs = [secrets.token_hex(16) if each is None else each for each in fingerprints]
    return _digest({"config": config, "inputs": inputs, "versions": versions, "metrics": metrics})


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_canonical)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value)


@dataclass(frozen=True, slots=True)
class Job:
    """The right to write runs of one name in one folder; `hold` gives it."""

    folder: Path
    name: str

    @property
    def key(self) -> str:
        """What stands for the name in file names."""
        text = self.name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=4).hexdigest()

    @contextmanager
    def scratch(self, run_id: str) -> Iterator[Path]:
        """A private directory in the folder's file system, removed at the end.

        Files that `publish` shall take in (streamed values of users) are best written here.
        """
        with _machine_errors(self.folder):
            path = Path(tempfile.mkdtemp(prefix=self._prefix(run_id), dir=self.folder))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _prefix(self, run_id: str) -> str:
        return f".tmp-{run_id}-{self.key}-"

    def _sweep(self) -> None:
        """Remove what killed runs of this name left: no live one can be, the lock is ours."""
        pattern = re.compile(rf"\.tmp-.+-{self.key}-[^-]+")
        for entry in list(os.scandir(self.folder)):
            if not pattern.fullmatch(entry.name):
                continue
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_uid != os.geteuid():
                    continue
                if stat.S_ISDIR(found.st_mode):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


@contextmanager
def hold(folder: str | Path, name: str) -> Iterator[Job]:
    """The lock of the job `name` in `folder`, which is made if need be; nobody waits for it.

    Raises:
        BusyError: somebody else holds it [run-locked].
        MachineError: the folder cannot be made or written [disk-full, not-writable,
            write-failed].
    """
    job = Job(Path(folder), name)
    path = job.folder / f".lock-{job.key}"
    with _machine_errors(job.folder):
        _make_folder(job.folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
    try:
        with _machine_errors(path):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(
                    f"another process writes a run of {name!r}",
                    code="run-locked",
                    at=str(path),
                    hint="try again when it has ended; the lock ends with its process",
                ) from error
            job._sweep()
        yield job
    finally:
        os.close(descriptor)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    os.makedirs(folder, exist_ok=True)
    _sync_directory(folder.parent)


def publish(
    report: Report,
    folder: str | Path,
    *,
    formats: Sequence[str] = ("json", "parquet", "markdown"),
    config: Mapping[str, object] | None = None,
    per_user: PerUser | None = None,
    job: Job | None = None,
) -> Path:
    """The new directory `folder/<run_id>`, which `folder/latest` then points to.

    Everything is written beside it, synchronised, read back and only then renamed, so that a
    killed or failed run leaves nothing that looks like one.

    Args:
        report: what to write; `report.json` is written whatever `formats` says.
        folder: where runs are kept; made if need be.
        formats: some of `FORMATS`.
        config: written to the manifest; the report's own when None.
        per_user: values of users; the report's own when None. Finished files are taken in
            as they are (linked, or copied from another file system) and stay where they were.
        job: what `hold` gave; taken and released here when None.
    Raises:
        RequestError: an unknown format [unknown-format], or the run is there already
            [run-exists] or cannot be a directory's name [bad-run-id].
        BusyError: another process writes a run of that name [run-locked].
        MachineError: [disk-full, not-writable, write-failed, latest-not-moved].
    """
    for each in formats:
        if each not in FORMATS:
            close = nearest(each, FORMATS)
            raise RequestError(
                f"no format is called {each!r}",
                code="unknown-format",
                hint=f"did you mean {close!r}?" if close else f"write {', '.join(FORMATS)}",
            )
    if not _RUN_ID.fullmatch(report.run_id) or report.run_id == LATEST:
        raise RequestError(
            f"run_id {report.run_id!r} cannot be the name of a directory",
            code="bad-run-id",
            hint="write letters, digits, '.', '_' and '-', 100 at most",
        )
    config = report.config if config is None else config
    per_user = report.per_user_values if per_user is None else per_user
    if job is not None:
        return _publish(report, job, formats, config, per_user)
    with hold(folder, report.name) as held:
        return _publish(report, held, formats, config, per_user)


def _publish(
    report: Report,
    job: Job,
    formats: Sequence[str],
    config: Mapping[str, object] | None,
    per_user: PerUser | None,
) -> Path:
    target = job.folder / report.run_id
    latest = job.folder / LATEST
    if os.path.lexists(target):
        raise RequestError(
            f"run {report.run_id!r} is written already, and runs are written once",
            code="run-exists",
            at=str(target),
            hint="evaluate again for a new run, or write to another folder",
        )
    if os.path.lexists(latest) and not os.path.islink(latest):
        raise MachineError(
            "'latest' is no link, so it cannot be moved to the new run",
            code="latest-not-moved",
            at=str(latest),
            hint=f"mv {latest} {latest}.old",
        )
    with job.scratch(report.run_id) as parts, _machine_errors(job.folder):
        _fill(parts, report, formats, config, per_user)
        # mkdtemp gives 0700; a finished run is as open to others as the folder it is in.
        os.chmod(parts, stat.S_IMODE(os.stat(job.folder).st_mode) & 0o755 | 0o700)
        _sync_directory(parts)
        os.rename(parts, target)
    try:
        _sync_directory(job.folder)
        _point(latest, report.run_id, beside=job.folder / f"{job._prefix(report.run_id)}latest")
    except OSError as error:
        raise MachineError(
            f"the run is written, but 'latest' does not point to it: {_reason(error)}",
            code="latest-not-moved",
            at=str(target),
            hint="the run is complete under this name",
        ) from error
    return target


def _fill(
    parts: Path,
    report: Report,
    formats: Sequence[str],
    config: Mapping[str, object] | None,
    per_user: PerUser | None,
) -> None:
    """Write every file into `parts`, the manifest last, and read each one back."""
    text = report.to_json()
    _write(parts / REPORT, text.encode())
    Report.from_json(_read(parts / REPORT), at=str(parts / REPORT))
    names = [REPORT]
    if "csv" in formats:
        names.append("metrics.csv")
        _write(parts / names[-1], render(report, "csv").encode())
    if "markdown" in formats:
        names.append("report.md")
        _write(parts / names[-1], render(report, "markdown").encode())
    if "parquet" in formats:
        names.append("metrics.parquet")
        _write_metrics(parts / names[-1], report)
    if per_user is not None:
        names += _take_in(parts, per_user)
    manifest: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "evalkit": report.evalkit,
        "run_id": report.run_id,
        "run_key": report.run_key,
        "name": report.name,
        "profile": report.profile,
        "files": {name: _file_record(parts / name) for name in names},
        "per_user": None
        if per_user is None
        else {
            "user_columns": list(per_user.user_columns),
            "model_column": per_user.model_column,
            "metrics": list(per_user.metrics),
        },
        "inputs": [
            {each.name: getattr(log, each.name) for each in fields(log)} for log in report.inputs
        ],
        "config": config,
        "higher_is_better": {each.name: each.higher_is_better for each in report.estimates},
        "meta": {each.name: getattr(report.meta, each.name) for each in fields(report.meta)},
    }
    manifest = json.loads(dump_line(manifest))
    manifest["checksum"] = _digest(manifest)
    _write(parts / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
    problems = verify(parts)
    if problems:
        raise MachineError(
            f"what was written reads back otherwise: {problems[0]}",
            code="write-failed",
            at=str(parts.parent),
            hint="the disk or the memory is at fault; look into the system's log",
        )


def _write_metrics(path: Path, report: Report) -> None:
    from io import BytesIO

    import polars as pl

    written = BytesIO()
    write_metrics_parquet(report, written)
    _write(path, written.getvalue())
    if not pl.read_parquet(path, glob=False).equals(report.metrics):
        raise OSError(errno.EIO, "metrics.parquet reads back otherwise", str(path))


def _take_in(parts: Path, per_user: PerUser) -> list[str]:
    """The names of the files that hold the values of users, now in `parts`."""
    if per_user.path is None:
        _write_users(parts / PER_USER, per_user)
        return [PER_USER]
    if not per_user.path.is_dir():
        _link(per_user.path, parts / PER_USER)
        return [PER_USER]
    files = sorted(per_user.path.glob("*.parquet"))
    if len(files) == 1:
        _link(files[0], parts / PER_USER)
        return [PER_USER]
    os.mkdir(parts / "per_user", 0o755)
    names = [f"per_user/part-{number:05}.parquet" for number in range(len(files))]
    for path, name in zip(files, names, strict=True):
        _link(path, parts / name)
    _sync_directory(parts / "per_user")
    return names


def _write_users(path: Path, per_user: PerUser) -> None:
    import polars as pl

    os.close(os.open(path, _NEW_FILE, 0o666))
    per_user.table().sink_parquet(path, sync_on_close="all", engine="streaming")
    rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect(engine="streaming").item()
    if rows != sum(frame.height for frame in (per_user.frames or {}).values()):
        raise OSError(errno.EIO, "per_user.parquet reads back otherwise", str(path))


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, _NEW_FILE, 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    with open(os.open(path, _OLD_FILE), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return file.read()


def _file_record(path: Path) -> dict[str, object]:
    with open(os.open(path, _OLD_FILE), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": digest, "bytes": found.st_size}


def _link(source: Path, path: Path) -> None:
    """The file `source` under a second name; a copy where file systems differ."""
    descriptor = os.open(source, _OLD_FILE)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(source))
        os.fsync(descriptor)
        try:
            os.link(source, path)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EMLINK, *_NO_SYMLINKS}:
                raise
        else:
            return
        with open(os.open(path, _NEW_FILE, 0o666), "wb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without it
            raise
    finally:
        os.close(descriptor)


def _point(latest: Path, run_id: str, *, beside: Path) -> None:
    try:
        os.symlink(run_id, beside)
    except OSError as error:
        if error.errno in _NO_SYMLINKS:  # a file system without links has no `latest`
            return
        raise
    try:
        os.replace(beside, latest)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise
    _sync_directory(latest.parent)


@contextmanager
def _machine_errors(at: Path) -> Iterator[None]:
    """What the disk or Polars refuse, as a MachineError."""
    try:
        yield
    except EvalkitError:
        raise
    except MemoryError as error:
        raise MachineError(
            "memory ran out while the run was written",
            code="write-failed",
            at=str(at),
            hint="write fewer formats, or without values of users",
        ) from error
    except OSError as error:
        raise _machine_error(error.errno, _reason(error), at) from error
    except BaseException as error:
        # Polars' PanicException is a BaseException, and Polars need not be imported to look.
        if type(error).__module__.partition(".")[0] not in ("polars", "pyo3_runtime"):
            raise
        number = errno.ENOSPC if "No space left" in str(error) else None
        raise _machine_error(number, str(error).partition("\n")[0], at) from error


def _machine_error(number: int | None, reason: str, at: Path) -> MachineError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return MachineError(
            f"the disk is full: {reason}",
            code="disk-full",
            at=str(at),
            hint="nothing was written; make room, or name another folder with --out",
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return MachineError(
            f"the folder cannot be written: {reason}",
            code="not-writable",
            at=str(at),
            hint="nothing was written; name another folder with --out",
        )
    return MachineError(
        f"the run could not be written: {reason}",
        code="write-failed",
        at=str(at),
        hint="nothing was written; try again, or name another folder with --out",
    )


def _reason(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"{reason}: {error.filename!r}" if error.filename else reason


def verify(path: str | Path) -> list[str]:
    """What is wrong with a run's directory, one problem a line; nothing when it is good."""
    folder = Path(path)
    try:
        manifest = _read_manifest(folder)
    except (OSError, ValueError, RecursionError) as error:
        return [f"{MANIFEST}: {_words(error)}"]
    problems = []
    for name, expected in manifest.files.items():
        try:
            if not _FILE.fullmatch(name):
                raise ValueError("no name of a run's file")
            found = _file_record(folder / name)
        except (OSError, ValueError) as error:
            problems.append(f"{name}: {_words(error)}")
            continue
        different = [key for key in ("bytes", "sha256") if found[key] != expected.get(key)]
        problems += [
            f"{name}: {key} {found[key]}, not {expected.get(key)}" for key in different[:1]
        ]
    if problems:
        return problems
    try:
        report = Report.from_json(_read(folder / REPORT))
    except (OSError, EvalkitError) as error:
        return [f"{REPORT}: {_words(error)}"]
    if report.run_id != manifest.run_id:
        return [f"{REPORT}: run_id {report.run_id!r}, not {manifest.run_id!r}"]
    return []


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return error.message if isinstance(error, EvalkitError) else str(error)


@dataclass(frozen=True, slots=True)
class _Manifest:
    run_id: str
    files: Mapping[str, Mapping[str, object]]
    per_user: Mapping[str, object] | None
    config: Mapping[str, object] | None
    higher_is_better: Mapping[str, bool | None]


def _read_manifest(folder: Path) -> _Manifest:
    manifest = json.loads(_read(folder / MANIFEST))
    if not isinstance(manifest, dict) or "checksum" not in manifest:
        raise ValueError("no manifest of a run")
    checksum = manifest.pop("checksum")
    if _digest(manifest) != checksum:
        raise ValueError("its checksum does not fit")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version {manifest.get('schema_version')!r} is not known here")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(each, dict) for each in files.values()):
        raise ValueError("it lists no files")
    if REPORT not in files:
        raise ValueError(f"it lists no {REPORT}")
    return _Manifest(
        run_id=str(manifest.get("run_id")),
        files=files,
        per_user=manifest.get("per_user"),
        config=manifest.get("config"),
        higher_is_better=manifest.get("higher_is_better", {}),
    )


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
    manifest = _read_manifest(folder)
    report = Report.from_json(_read(folder / REPORT), at=str(folder / REPORT))
    directions = manifest.higher_is_better
    return replace(
        report,
        config=manifest.config,
        estimates=tuple(
            replace(each, higher_is_better=directions.get(each.name, each.higher_is_better))
            for each in report.estimates
        ),
        per_user_values=_kept_values(folder.resolve(), manifest.per_user),
    )


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
