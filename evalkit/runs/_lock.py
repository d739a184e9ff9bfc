"""One writer of a name at a time, and the private directories it works in."""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evalkit.errors import BusyError, check_folder
from evalkit.runs._files import machine_errors, sync_directory
from evalkit.runs._keys import hash_name
from evalkit.runs._private import removed_at_the_end, sweep

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunLock:
    """The right to write runs of one name in one folder; `hold` gives it."""

    folder: Path
    name: str

    @property
    def key(self) -> str:
        """What stands for the name in file names."""
        return hash_name(self.name)

    @contextmanager
    def scratch(self, run_id: str) -> Iterator[Path]:
        """A private directory in the folder's file system, removed at the end.

        Files that `publish` shall take in (streamed values of users) are best written here.
        """
        with machine_errors(self.folder):
            path = Path(tempfile.mkdtemp(prefix=self.prefix(run_id), dir=self.folder))
        with removed_at_the_end(path):
            yield path

    def prefix(self, run_id: str) -> str:
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
        sweep(self.folder.absolute().parent)  # where work begins while there is no folder yet
        sweep(self.folder)


@contextmanager
def hold(folder: str | Path, name: str, *, wait_seconds: float = 0.0) -> Iterator[RunLock]:
    """The lock of the job `name` in `folder`, which is made if need be.

    Args:
        wait_seconds: how long to wait while somebody else holds it.
    Raises:
        RequestError: it is no folder of this machine [not-utf-8, bad-path].
        BusyError: somebody else holds it, still [run-locked].
        MachineError: the folder cannot be made or written [disk-full, not-writable,
            write-failed].
    """
    check_folder(folder)
    job = RunLock(Path(folder), name)
    path = job.folder / f".lock-{job.key}"
    with machine_errors(job.folder):
        _make_folder(job.folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
    try:
        with machine_errors(path):
            end = time.monotonic() + wait_seconds
            while not _try_lock(descriptor):
                if time.monotonic() >= end:
                    message = f"another process writes a run of {name!r}"
                    hint = "evalkit run --wait 600 waits; the lock ends with its process"
                    raise BusyError(message, code="run-locked", at=str(path), hint=hint)
                time.sleep(min(POLL_SECONDS, max(end - time.monotonic(), 0.0)))
            job._sweep()
        yield job
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    os.makedirs(folder, exist_ok=True)
    sync_directory(folder.parent)
