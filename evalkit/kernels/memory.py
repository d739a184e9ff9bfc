"""How much memory the machine has for a run, and how what was used is given back."""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from evalkit.errors import MachineError
from evalkit.kernels import cache_directory, kept_alone
from evalkit.kernels.object_file import PLACES_CODE
from evalkit.kernels.threads import kernels_are_compiled

Done = TypeVar("Done")

SHARE = 0.8
LEAST_KEPT = 20  # kernels; a run that is refused leaves a few
COMPILING = 300 << 20  # numba, LLVM, and what they keep of the kernels of a run
LLVM = 0 if PLACES_CODE else 44 << 20  # its library, where kept kernels are loaded by it, too
LEAST_DEFAULT_BYTES = 512 << 20  # below it a run may fail, but not because nobody set a limit
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of `mallopt`
_KEPT = 64 << 20  # of each thread: what arrays of a few batches take
_ALLOCATOR = "_RJEM_MALLOC_CONF"  # what Polars' allocator reads when it is loaded
_KEEPING = "dirty_decay_ms:10000,muzzy_decay_ms:0"  # what `import evalkit` sets ends so
_OF_POLARS = "dirty_decay_ms:500,muzzy_decay_ms:1000"  # what `import polars` sets
_A_SECOND = "dirty_decay_ms:1000,muzzy_decay_ms:0"
_GIVING = "dirty_decay_ms:50,muzzy_decay_ms:50"


def default_limit() -> int:
    """Bytes that a run may use where nobody sets a limit."""
    return max(int(SHARE * _memory_bytes()), LEAST_DEFAULT_BYTES)


def _memory_bytes() -> int:
    """Memory of the machine, or of the container where that is less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            sizes.append(int(Path("/sys/fs/cgroup", limit).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # no such limit, or "max"
    return min(sizes)


def too_small(limit: int, needed: int) -> MachineError:
    """What is said of a limit in bytes, where so many MiB are needed."""
    hint = f"give --memory-limit {needed}MiB"
    if _to_compile():
        hint += ", or run evalkit warm first, after which less is needed"
    message = f"a limit of {limit >> 20:,} MiB is too small: about {needed:,} MiB are needed"
    return MachineError(message, code="memory-limit", hint=hint)


_leaves_room = False  # for kernels, as one was met that is not kept


def run_within(run: Callable[[], Done], again: Callable[[], Done]) -> Done:
    """What `run` gives; `again`, with room for compiling, where a kernel is not kept after all."""
    global _leaves_room
    if _leaves_room:  # inside of another one
        return run()
    with kept_alone:
        try:
            return run()
        except BaseException:
            if not kept_alone.is_broken:
                raise
    kept_alone.stop()
    _leaves_room = True
    try:
        return again()
    finally:
        _leaves_room = False


def _to_compile() -> bool:
    """Whether kernels are to be compiled, or numba is there already, for all that is known."""
    if not kernels_are_compiled():
        return False
    if _leaves_room or "numba" in sys.modules:
        return True
    kept = cache_directory()
    return kept is None or len(os.listdir(kept)) < LEAST_KEPT


def room_to_compile() -> int:
    """Bytes that compiling takes; where there are none, the run is held to it (`run_within`)."""
    if _to_compile():
        return COMPILING
    kept_alone.begin()
    return 0


def fits(n_bytes: int, limit: int) -> bool:
    """Whether there is room beside compiling; or without any, to which the run is then held."""
    return n_bytes + COMPILING <= limit or n_bytes + room_to_compile() <= limit


_keeps_arrays = False


def give_back_early() -> None:
    """Let arrays above 1 MiB go back to the system when they are freed.

    glibc keeps those below 32 MiB that it has seen freed before, in pieces that later ones do not
    fit: 60 to 120 MiB of a run in passes (`bench/memory.py`), whose time it does not change.
    """
    global _keeps_arrays
    with suppress(OSError, AttributeError):  # another system
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)
        if _keeps_arrays:
            ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, 1 << 17)
    _keeps_arrays = False


def keep_arrays(room: int, threads: int) -> int:
    """Let memory that arrays of a batch leave be used again, where there is room to keep it.

    glibc gives it back once it is twice the largest array that was freed, while other threads ask
    for pages, and wait: 5 to 20 % of the CPU and 10 to 25 % of the time of 50M rows, of no other
    peak. Where there is no room, what an earlier run has kept is given back.

    Args:
        room: bytes that a run leaves.

    Returns:
        Bytes of the room that are taken.
    """
    global _keeps_arrays
    kept = _KEPT * threads
    if room < kept:
        if _keeps_arrays:
            give_back_early()
        return 0
    with suppress(OSError, AttributeError):  # another system
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 4 << 20)
        ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, _KEPT)
    _keeps_arrays = True
    return kept


def give_back_freed() -> None:
    """Let pages that are free between what is kept go back to the system, where many may be."""
    with suppress(OSError, AttributeError):  # another system
        ctypes.CDLL(None).malloc_trim(0)


def let_polars_give_back(*, soon: bool = True) -> None:
    """Let Polars return memory 50 ms after its last use, or a second, if it is not loaded yet.

    As `import evalkit` sets it, it keeps what it once had for ten seconds, which is worth it in a
    process that evaluates again: 3 to 7 % of CPU. A command saves no CPU by it, and takes up to 240
    MiB more. Returning it soon costs a tenth of the CPU of a run in passes.
    """
    known = os.environ.get(_ALLOCATOR, "")  # perhaps a parent's
    if soon and known.endswith((_KEEPING, _A_SECOND, _OF_POLARS)):
        os.environ[_ALLOCATOR] = _GIVING
    elif known.endswith(_KEEPING):
        os.environ[_ALLOCATOR] = known.removesuffix(_KEEPING) + _A_SECOND


def polars_gives_back() -> bool:
    """Whether Polars was loaded so that it returns memory soon."""
    return os.environ.get(_ALLOCATOR, "").endswith(_GIVING)
