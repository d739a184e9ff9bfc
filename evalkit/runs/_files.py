"""Files that are new, whole and on the disk; and what it means when the disk refuses."""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from evalkit.errors import EvalkitError, MachineError

_NO_SYMLINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def write(path: Path, content: bytes) -> dict[str, object]:
    """As `write_pieces`, of what is held whole."""
    return write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> dict[str, object]:
    """Write a new file and have it on the disk; the record that reading it back must have."""
    digest, n_bytes = hashlib.sha256(), 0
    descriptor = os.open(path, NEW_FILE, 0o666)
    try:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(descriptor, left) :]
            digest.update(piece)
            n_bytes += len(piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return {"sha256": digest.hexdigest(), "bytes": n_bytes}


def read(folder: Path, name: str, *, most_bytes: int) -> bytes:
    """The content of a file of a run; what is larger than `most_bytes` is not read."""
    with _opened(folder, name) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most_bytes + 1) if size <= most_bytes else b""
        if max(size, len(content)) > most_bytes:
            reason = f"larger than {most_bytes:,} bytes"
            raise OSError(errno.EFBIG, reason, str(folder / name))
        return content


def file_record(folder: Path, name: str) -> dict[str, object]:
    with _opened(folder, name) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": digest, "bytes": os.fstat(file.fileno()).st_size}


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BufferedReader]:
    """A regular file below `folder`; no part of `name` is a link."""
    *inner, last = name.split("/")
    directory = os.open(folder, DIRECTORY)
    try:
        for name_inside in inner:
            outer, directory = (
                directory,
                os.open(name_inside, DIRECTORY | os.O_NOFOLLOW, dir_fd=directory),
            )
            os.close(outer)
        descriptor = os.open(last, OLD_FILE, dir_fd=directory)
    finally:
        os.close(directory)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(folder / name))
        yield file


def link(source: Path, path: Path) -> None:
    """The file `source` under a second name; a copy where file systems differ."""
    descriptor = os.open(source, OLD_FILE)
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
        with open(os.open(path, NEW_FILE, 0o666), "wb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without it
            raise
    finally:
        os.close(descriptor)


def point(latest: Path, run_id: str, *, beside: Path) -> None:
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
    sync_directory(latest.parent)


@contextmanager
def machine_errors(at: Path) -> Iterator[None]:
    """What the disk or Polars refuse, as a MachineError."""
    try:
        yield
    except EvalkitError:
        raise
    except MemoryError as error:
        message = "memory ran out while the run was written"
        hint = "write fewer formats, or without values of users"
        raise MachineError(message, code="write-failed", at=str(at), hint=hint) from error
    except OSError as error:
        raise _machine_error(error.errno, reason(error), at) from error
    except BaseException as error:
        # Polars' PanicException is a BaseException, and Polars need not be imported to look.
        if type(error).__module__.partition(".")[0] not in ("polars", "pyo3_runtime"):
            raise
        number = errno.ENOSPC if "No space left" in str(error) else None
        raise _machine_error(number, str(error).partition("\n")[0], at) from error


def _machine_error(number: int | None, reason: str, at: Path) -> MachineError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        hint = "nothing was written; make room, or name another folder"
        return MachineError(f"the disk is full: {reason}", code="disk-full", at=str(at), hint=hint)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        message = f"the folder cannot be written: {reason}"
        hint = "nothing was written; name another folder"
        return MachineError(message, code="not-writable", at=str(at), hint=hint)
    message = f"the run could not be written: {reason}"
    hint = "nothing was written; try again, or name another folder"
    return MachineError(message, code="write-failed", at=str(at), hint=hint)


def reason(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"{reason}: {error.filename!r}" if error.filename else reason
