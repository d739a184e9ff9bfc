"""Where compiled kernels are kept: one file each, in a directory for this very code and machine.

The directory is `<user cache>/evalkit/<key>/`. The key covers every source of this package that
holds a kernel, the versions, the processor and the NUMBA_* flags that change code. A file begins
with a checksum of the rest. A cache that is corrupt, unwritable or that others could have written
costs time, never a wrong number, never a crash, and never runs their code (`private.py`).
"""

import os
import re
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from evalkit.errors import clean

from .private import PRIVATE, Distrust, let_all_read, open_folder, read_file, write_file

MARK = re.compile(b"@kernel|@intrinsic")
WITHOUT_EFFECT_ON_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"}
N_BYTES = 32  # of a checksum


class Cache:
    """The directory, opened at the first use; told once where it cannot be read or written.

    All that is read or written goes through the handle that was checked when it was opened.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._handle: int | None = None
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
        if self._handle is None:
            return None
        try:
            kept = read_file(self._handle, name)
        except OSError:
            return None
        if kept is None:
            return None
        checksum, content = kept[:N_BYTES], kept[N_BYTES:]
        return content if checksum == _checksum(content) else None

    def keep(self, name: str, content: bytes) -> None:
        """Keep something under this name, for other processes too."""
        self._open()
        if self._handle is None or self._is_told:
            return
        try:
            mode = 0o644 if self._is_for_all else 0o600
            write_file(self._handle, name, _checksum(content) + content, mode=mode)
        except OSError as error:
            self._tell(f"{self._path}: {error.strerror or error}")

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
            self._tell(f"{error}; set NUMBA_CACHE_DIR to a folder that this user can write")

    def _tell(self, why: str) -> None:
        sys.stderr.write(
            clean(f"warning[no-kernel-cache]: kernels are compiled anew: {why}") + "\n"
        )
        self._is_told = True


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
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry.path)


def _version(package: str) -> bytes:
    """What a package says of its version, without importing it."""
    from importlib.util import find_spec

    found = find_spec(package)
    if found is None or found.origin is None:
        raise RuntimeError(f"{package} is not installed")
    return Path(found.origin).with_name("_version.py").read_bytes()
