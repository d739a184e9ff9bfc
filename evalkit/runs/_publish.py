"""A run's directory: written beside, synchronised, read back, then renamed."""

import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from evalkit.config.form_names import FILES, TEXTS, file_of
from evalkit.errors import MachineError, RequestError
from evalkit.report import PerUser, Report, check_format, render
from evalkit.report.json_ import dump_line, pieces_of
from evalkit.report.parquet import tables_of
from evalkit.report.verdict import is_first, verdict_of
from evalkit.runs import _files, _manifest
from evalkit.runs._keys import digest
from evalkit.runs._lock import RunLock, hold

if TYPE_CHECKING:
    import polars as pl


def publish(
    report: Report,
    folder: str | Path,
    *,
    formats: Sequence[str] = ("json", "parquet", "markdown", "html"),
    segments_in_json: bool = False,
    config: Mapping[str, object] | None = None,
    per_user: PerUser | None = None,
    job: RunLock | None = None,
) -> Path:
    """The new directory `folder/<run_id>`; `folder/latest` points to the last that began.

    Everything is written beside it, synchronised, read back and only then renamed, so that a
    killed or failed run leaves nothing that looks like one.

    Args:
        report: what to write; `report.json` is written whatever `formats` says.
        folder: where runs are kept; made if need be.
        formats: some of `evalkit.config.form_names.FILES`.
        segments_in_json: keep segments in `report.json`, also where Parquet holds them.
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
        check_format(each, FILES)
    if not _manifest.RUN_ID.fullmatch(report.run_id) or report.run_id == _manifest.LATEST:
        message = f"run_id {report.run_id!r} cannot be the name of a directory"
        hint = "write letters, digits, '.', '_' and '-', 100 at most"
        raise RequestError(message, code="bad-run-id", hint=hint)
    config = report.config if config is None else config
    per_user = report.per_user_values if per_user is None else per_user
    is_whole = segments_in_json or "parquet" not in formats
    in_json = report if is_whole else report.without_segments()
    if job is not None:
        return _publish(report, in_json, job, formats, config, per_user)
    with hold(folder, report.name) as held:
        return _publish(report, in_json, held, formats, config, per_user)


def _publish(
    report: Report,
    in_json: Report,
    job: RunLock,
    formats: Sequence[str],
    config: Mapping[str, object] | None,
    per_user: PerUser | None,
) -> Path:
    target = job.folder / report.run_id
    latest = job.folder / _manifest.LATEST
    if os.path.lexists(target):
        message = f"run {report.run_id!r} is written already, and runs are written once"
        hint = "evaluate again for a new run, or write to another folder"
        raise RequestError(message, code="run-exists", at=str(target), hint=hint)
    if os.path.lexists(latest) and not os.path.islink(latest):
        message = "'latest' is no link, so it cannot be moved to the new run"
        hint = f"mv {quote(str(latest))} {quote(f'{latest}.old')}"
        raise MachineError(message, code="latest-not-moved", at=str(latest), hint=hint)
    with job.scratch(report.run_id) as parts, _files.machine_errors(job.folder):
        _fill(parts, report, in_json, formats, config, per_user)
        # mkdtemp gives 0700; a finished run is as open to others as the folder it is in.
        os.chmod(parts, stat.S_IMODE(os.stat(job.folder).st_mode) & 0o755 | 0o700)
        _files.sync_directory(parts)
        _rename(parts, target)
    try:
        _files.sync_directory(job.folder)
        if _manifest.is_last(
            report.run_id, (path.name for path, _ in _manifest.finished(job.folder))
        ):
            _files.point(
                latest, report.run_id, beside=job.folder / f"{job.prefix(report.run_id)}latest"
            )
    except OSError as error:
        is_moved = os.path.islink(latest) and os.readlink(latest) == report.run_id
        raise MachineError(
            "the run is written, "
            + ("and 'latest' points to it, but the disk did not confirm it" * is_moved)
            + ("but 'latest' does not point to it" * (not is_moved))
            + f": {_files.reason(error)}",
            code="latest-not-moved",
            at=str(target),
            hint=f"the run is complete under this name: evalkit verify {quote(str(target))}",
        ) from error
    return target


def _rename(parts: Path, target: Path) -> None:
    try:
        os.rename(parts, target)
    except OSError:
        # A file server may have done it, and the answer was lost.
        if parts.exists() or not target.exists():
            raise


def _fill(
    parts: Path,
    report: Report,
    in_json: Report,
    formats: Sequence[str],
    config: Mapping[str, object] | None,
    per_user: PerUser | None,
) -> None:
    """Write every file into `parts`, the manifest last, and read each one back."""
    frames = dict(tables_of(report)) if "parquet" in formats else {}
    if report.parts is not None:
        frames[_manifest.PARTS] = report.parts
    with ThreadPoolExecutor(1) as beside:  # frames are compressed while texts are made
        waiting = {
            file: beside.submit(_write_frame, parts / file, frame) for file, frame in frames.items()
        }
        pieces = map(str.encode, pieces_of(in_json))
        written = {_manifest.REPORT: _files.write_pieces(parts / _manifest.REPORT, pieces)}
        for name in FILES:
            if name in formats and name in TEXTS and (file := file_of(name)) not in written:
                text = render(report, name)
                written[file] = _files.write(parts / file, text.encode("utf-8", "replace"))
        written |= {file: each.result() for file, each in waiting.items()}
    for name in () if per_user is None else _take_in(parts, per_user):
        written[name] = _files.file_record(parts, name)
    manifest: dict[str, object] = {
        "schema_version": _manifest.SCHEMA_VERSION,
        "evalkit": report.evalkit,
        "run_id": report.run_id,
        "run_key": report.run_key,
        "name": report.name,
        "profile": report.profile,
        "files": written,
        "per_user": None
        if per_user is None
        else {
            "user_columns": list(per_user.user_columns),
            "model_column": per_user.model_column,
            "metrics": list(per_user.metrics),
        },
        "is_fine": verdict_of(report).is_fine,
        **({"is_first": True} if is_first(report) else {}),
        "inputs": [
            {each.name: getattr(log, each.name) for each in fields(log)} for log in report.inputs
        ],
        "config": config,
        "higher_is_better": _directions(report),
        "meta": {each.name: getattr(report.meta, each.name) for each in fields(report.meta)},
    }
    manifest = json.loads(dump_line(manifest))
    manifest["checksum"] = digest(manifest)
    _files.write(parts / _manifest.MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
    known = _manifest.read_manifest(parts)
    problems = [*_manifest.damage_of(parts, known), *_manifest.unlisted(parts, known)]
    if problems:
        message = f"what was written reads back otherwise: {problems[0]}"
        hint = "the disk or the memory is at fault; look into the system's log"
        raise MachineError(message, code="write-failed", at=str(parts.parent), hint=hint)


def _write_frame(path: Path, frame: "pl.DataFrame") -> dict[str, object]:
    from io import BytesIO

    import polars as pl

    content = BytesIO()
    frame.write_parquet(content, compression="zstd", compression_level=1, statistics=True)
    record = _files.write(path, content.getvalue())
    if not pl.read_parquet(path, glob=False).equals(frame):
        raise OSError(errno.EIO, f"{path.name} reads back otherwise", str(path))
    return record


def _take_in(parts: Path, per_user: PerUser) -> list[str]:
    """The names of the files that hold the values of users, now in `parts`."""
    if per_user.path is None:
        _write_users(parts / _manifest.PER_USER, per_user)
        return [_manifest.PER_USER]
    files = per_user.files
    if len(files) == 1:
        _files.link(files[0], parts / _manifest.PER_USER)
        return [_manifest.PER_USER]
    os.mkdir(parts / "per_user", 0o755)
    names = [f"per_user/part-{number:05}.parquet" for number in range(len(files))]
    for path, name in zip(files, names, strict=True):
        _files.link(path, parts / name)
    _files.sync_directory(parts / "per_user")
    return names


def _write_users(path: Path, per_user: PerUser) -> None:
    import polars as pl

    os.close(os.open(path, _files.NEW_FILE, 0o666))
    per_user.table().sink_parquet(path, sync_on_close="all", engine="streaming")
    rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect(engine="streaming").item()
    if rows != sum(frame.height for frame in (per_user.frames or {}).values()):
        raise OSError(errno.EIO, "per_user.parquet reads back otherwise", str(path))


def _directions(report: Report) -> dict[str, bool | None]:
    """Which way each metric is better, by name; by label where one of a name points elsewhere."""
    by_name = {each.name: each.higher_is_better for each in report.estimates}
    return by_name | {
        each.metric: each.higher_is_better
        for each in report.estimates
        if by_name[each.name] is not each.higher_is_better
    }
