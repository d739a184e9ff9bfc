"""Where compiled kernels are kept: one file each, in a directory for this very code and machine.

The directory is `<user cache>/evalkit/<key>/`. The key covers every source of this package that
holds a kernel, the versions, the processor and the NUMBA_* flags that change code. A file begins
with a checksum of the rest. A cache that is corrupt, unwritable or that others could have written
costs time, never a wrong number, never a crash, and never runs their code (`private.py`).
"""

import errno
import os
import re
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from evalkit.errors import clean

from .private import PRIVATE, Distrust, let_all_read, open_folder, read_file, write_file

MARK = re.compile(b"@kernel|@intrinsic")
WITHOUT_KERNELS = frozenset("api cli config demo engines jobs report runs __pycache__".split())
WITHOUT_EFFECT_ON_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"}
N_BYTES = 32  # of a checksum
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
_WAY_OUT = "set NUMBA_CACHE_DIR to a folder that this user can write"


class Cache:
    """The directory, opened at the first use; told once where it cannot be read or written.

    All that is read or written goes through the handle that was checked when it was opened.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._handle: int | None = None
        self._spare: int | None = None  # in TMPDIR, where the folder cannot be written
        self._is_told = False
        self._is_shared = False

    @property
    def path(self) -> Path | None:
        """The directory; None when kernels are not kept."""
        self._open()
        return None if self._is_told else self._path

    def load(self, name: str) -> bytes | None:
        """What was kept under this name; None where that is nothing, not whole or not ours."""
        self._open()
        for handle in (self._handle, self._spare):
            if handle is None:
                continue
            try:
                kept = read_file(handle, name)
            except OSError:
                continue
            if kept is not None and kept[:N_BYTES] == _checksum(kept[N_BYTES:]):
                return kept[N_BYTES:]
        return None

    def keep(self, name: str, content: bytes) -> None:
        """Keep something under this name, for other processes too."""
        self._open()
        if self._handle is None or self._is_told:
            return
        kept = _checksum(content) + content
        try:
            if self._spare is None:
                mode = 0o644 if self._is_for_all else 0o600
                write_file(self._handle, name, kept, mode=mode)
                return
        except OSError as error:
            why = f"{self._path}: {error.strerror or error}"
            if not (error.errno in _NOT_WRITABLE and self._open_spare(why)):
                self._tell(why)
                return
        try:
            if self._spare is not None:
                write_file(self._spare, name, kept, mode=0o600)
        except OSError as error:
            self._tell(f"{_spare_folder()}: {error.strerror or error}")

    def share(self) -> None:
        """Let all users read what root keeps, as in an image build."""
        self._is_shared = True
        self._open()
        if self._handle is not None and self._is_for_all:
            try:
                let_all_read(self._handle)
            except OSError as error:
                self._tell(f"{self._path}: {error.strerror or error}")

    @property
    def _is_for_all(self) -> bool:
        """Whether other users may read it: root's, where NUMBA_CACHE_DIR or `share` says so."""
        is_shared = self._is_shared or bool(os.environ.get("NUMBA_CACHE_DIR"))
        return os.geteuid() == 0 and is_shared

    def _open(self) -> None:
        if self._handle is not None or self._is_told:
            return
        try:
            path = os.path.join(os.path.abspath(_base()), "evalkit", _key())
            self._handle = open_folder(path, mode=0o755 if self._is_for_all else PRIVATE)
            self._path = Path(path)
        except Distrust as error:
            self._tell(str(error))
        except (OSError, RuntimeError) as error:
            # a file in the place of a folder is somebody's mistake, and told as one
            if not isinstance(error, NotADirectoryError) and self._open_spare(str(error)):
                self._handle, self._path = self._spare, Path(_spare_folder(), _key())
            else:
                self._tell(f"{error}; {_WAY_OUT}")

    def _open_spare(self, why: str) -> bool:
        """Whether kernels are kept in a private folder of TMPDIR; told when that is made."""
        if os.environ.get("NUMBA_CACHE_DIR"):
            return False  # whoever named a folder is told that it does not serve
        path = os.path.join(_spare_folder(), _key())
        is_new = not os.path.isdir(path)
        try:
            self._spare = open_folder(path, mode=PRIVATE)
        except (OSError, Distrust):
            return False
        if is_new:
            _warn(f"kernels are kept in {path}: {why}; {_WAY_OUT}, and run evalkit warm once")
        return True

    def _tell(self, why: str) -> None:
        _warn(f"kernels are compiled anew: {why}")
        self._is_told = True


def _warn(message: str) -> None:
    sys.stderr.write(clean(f"warning[no-kernel-cache]: {message}") + "\n")


def _spare_folder() -> str:
    """A folder of this user alone, in the folder of temporary files."""
    folder = os.path.abspath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108
    return os.path.join(folder, f"evalkit-{os.geteuid()}")


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=N_BYTES).digest()


def _base() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if os.path.isabs(os.environ.get("XDG_CACHE_HOME", "")):
        return Path(os.environ["XDG_CACHE_HOME"])
    return Path.home() / ".cache"


def _key() -> str:
    from .machine import describe_processor

    summary = blake2b(digest_size=16)
    package = os.path.dirname(os.path.dirname(__file__))
    for file in sorted(_sources(package)):
        with open(file, "rb", buffering=0) as opened:
            source = opened.readall()
        if MARK.search(source):
            name = file[len(package) + 1 :]
            summary.update(f"{name}:{len(source)}:".encode() + source)
    flags = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT_ON_CODE
    }
    versions = (_version("numba"), _version("llvmlite"), sys.version)
    summary.update(repr((versions, describe_processor(), sorted(flags.items()))).encode())
    return summary.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    """Python files below a folder; `pathlib` takes three times as long for as many."""
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            yield entry.path
        elif entry.is_dir() and entry.name not in WITHOUT_KERNELS:
            yield from _sources(entry.path)


def _version(package: str) -> bytes:
    """What a package says of its version, without importing it."""
    from importlib.util import find_spec

    found = find_spec(package)
    if found is None or found.origin is None:
        raise RuntimeError(f"{package} is not installed")
    return Path(found.origin).with_name("_version.py").read_bytes()
