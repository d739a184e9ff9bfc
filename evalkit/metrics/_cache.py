"""Where compiled kernels are kept: one file each, in a directory for this very code and machine.

The directory is `<user cache>/evalkit/<key>/`. The key covers every source of this package that
holds a kernel, the versions, the processor and the NUMBA_* flags that change code. A file begins
with a checksum of the rest. A cache that is corrupt, unwritable or not ours costs time, never a
wrong number and never a crash.
"""

import os
import stat
import sys
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

MARKS = (b"@kernel", b"@intrinsic")
WITHOUT_EFFECT_ON_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"}
N_BYTES = 32  # of a checksum


class Cache:
    """The directory, opened at the first use; given up, with a warning, when that cannot be."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._is_given_up = False

    @property
    def path(self) -> Path | None:
        """The directory; None when kernels are not kept."""
        if self._path is None and not self._is_given_up:
            try:
                self._path = _prepare(_base() / "evalkit" / _key())
            except (OSError, RuntimeError) as error:
                self._give_up(error)
        return None if self._is_given_up else self._path

    def load(self, name: str) -> bytes | None:
        """What was kept under this name; None where that is nothing, or not whole."""
        if self.path is None:
            return None
        try:
            kept = (self.path / name).read_bytes()
        except OSError:
            return None
        checksum, content = kept[:N_BYTES], kept[N_BYTES:]
        return content if checksum == _checksum(content) else None

    def keep(self, name: str, content: bytes) -> None:
        """Keep something under this name, for other processes too."""
        if self.path is None:
            return
        file = self.path / name
        fresh = file.with_name(f".{name}.{os.getpid()}")
        try:
            fresh.write_bytes(_checksum(content) + content)
            fresh.replace(file)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        sys.stderr.write(f"warning[no-kernel-cache]: kernels are compiled anew: {error}\n")
        self._is_given_up = True


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
    from ._machine import describe_processor

    summary = blake2b(digest_size=16)
    package = Path(__file__).parent.parent
    for file in sorted(package.rglob("*.py")):
        source = file.read_bytes()
        if any(mark in source for mark in MARKS):
            summary.update(f"{file.relative_to(package)}:{len(source)}:".encode() + source)
    flags = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT_ON_CODE
    }
    versions = (_version("numba"), _version("llvmlite"), sys.version)
    summary.update(repr((versions, describe_processor(), sorted(flags.items()))).encode())
    return summary.hexdigest()


def _version(package: str) -> bytes:
    """What a package says of its version, without importing it."""
    from importlib.util import find_spec

    found = find_spec(package)
    if found is None or found.origin is None:
        raise RuntimeError(f"{package} is not installed")
    return Path(found.origin).with_name("_version.py").read_bytes()


def _prepare(path: Path) -> Path:
    """`path`, made and private."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(f"{path} is no directory") from error
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} can be written by others")
    return path
