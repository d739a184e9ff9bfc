"""Files and folders that are on their way: nobody guesses their names, and none outlives its job.

Each is locked by the process that makes it. What nobody holds was left by a killed one, and whoever
comes next removes it. A file system without locks keeps such leftovers.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path

from evalkit.runs._files import DIRECTORY, NEW_FILE, OLD_FILE, machine_errors

_NAME = re.compile(r"\.evalkit-[0-9a-f]{16}")
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
MOST_TRIES = 100
_unfinished: set[Path] = set()


@contextmanager
def private_folder(beside: Path) -> Iterator[Path]:
    """A directory on the disk of `beside`, which need not exist yet; removed at the end."""
    there = next(each for each in beside.absolute().parents if each.is_dir())
    with machine_errors(there):
        sweep(there)
        path, descriptor = _new(there, _new_folder)
    try:
        with removed_at_the_end(path):
            yield path
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[BufferedWriter]:
    """A new file that takes the place of `path` when it is whole; a failure leaves `path` alone.

    No link is followed, neither there nor at `path`. What is no regular file (a pipe, a terminal)
    is written to as it is.

    Raises:
        OSError: the file cannot be written; it names `path`.
    """
    if _is_device(path):
        with open(path, "wb") as device:
            yield device
        return
    try:
        sweep(path.parent)
        fresh, descriptor = _new(path.parent, lambda name: os.open(name, NEW_FILE, 0o666))
        with removed_at_the_end(fresh), open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            os.replace(fresh, path)
    except OSError as error:
        error.filename = str(path)
        with suppress(AttributeError):  # None would be told as a second name
            del error.filename2
        raise


def _is_device(path: Path) -> bool:
    with suppress(OSError):
        found = path.stat() if path.parent in _DEVICES else path.lstat()
        return not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode))
    return False


def _new_folder(path: Path) -> int:
    os.mkdir(path, 0o700)
    return os.open(path, DIRECTORY | os.O_NOFOLLOW)


def _new(folder: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    """What `make` makes under a new name, and the descriptor that holds it locked."""
    for n_left in reversed(range(MOST_TRIES)):
        path = folder / f".evalkit-{secrets.token_hex(8)}"
        try:
            descriptor = make(path)
        except (FileExistsError, FileNotFoundError):  # the latter: swept before it was locked
            if not n_left:  # or there is no such place, as in /proc
                raise
            continue
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(path, descriptor):
            return path, descriptor
        os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False


def sweep(folder: Path) -> None:
    """Remove what killed processes of this user left in a folder; what a live one holds stays."""
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [Path(each.path) for each in entries if _NAME.fullmatch(each.name)]:
            with suppress(OSError):
                descriptor = os.open(path, OLD_FILE)
                try:
                    if os.fstat(descriptor).st_uid == os.geteuid():
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        if _is_at(path, descriptor):
                            _remove(path)
                finally:
                    os.close(descriptor)


@contextmanager
def removed_at_the_end(path: Path) -> Iterator[None]:
    """A file or a directory that is gone afterwards, also where the process is ended."""
    _unfinished.add(path)
    try:
        yield
    finally:
        _remove(path)
        _unfinished.discard(path)


def _remove(path: Path) -> None:
    """Remove a file or a directory as far as that is possible; the next job removes the rest."""
    with suppress(OSError):  # rmtree itself raises where it cannot look
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def abandon() -> None:
    """Remove everything private of this process, which is about to be ended."""
    for path in list(_unfinished):
        _remove(path)
