"""Whether local Parquet files can be believed: their pages, checksums and order.

A flipped bit in a page is another number, of which no reader says a word. Pages that carry a CRC32
(as Spark writes them) are held against it, once in a process, of the columns that are read.
"""

import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import polars as pl

from evalkit.errors import DataError, EvalkitError, raise_all
from evalkit.kernels.arrays import Ints
from evalkit.kernels.threads import usable_cores
from evalkit.sources.failures import mapped
from evalkit.sources.parquet import read_pages
from evalkit.sources.paths import File

_verifies: ContextVar[bool] = ContextVar("verify_pages", default=True)
_BLOCK = 1 << 20  # bytes that are read at a time
FEW_FILES = 8
_FEW_BYTES = 1 << 22  # below, one thread
_MOST_FILES = 10_000  # of which it is remembered what has been verified
_verified: dict[tuple[object, ...], set[str]] = {}


@contextmanager
def verifying(verifies: bool | None) -> Iterator[None]:
    """Whether pages of logs that are opened inside are verified; None: as outside."""
    token = _verifies.set(_verifies.get() if verifies is None else verifies)
    try:
        yield
    finally:
        _verifies.reset(token)


def forget_order(frame: pl.LazyFrame, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """The rows without what a footer says of their order: Polars would not sort them any more."""
    return frame.select(
        pl.col(name).map_batches(_without_order, return_dtype=dtype, is_elementwise=True)
        for name, dtype in types.items()
    )


def _without_order(column: pl.Series) -> pl.Series:
    if not (column.flags["SORTED_ASC"] or column.flags["SORTED_DESC"]):
        return column
    return pl.Series(column.name, column.to_arrow(), dtype=column.dtype)


def check_pages(files: Sequence[File], names: Collection[str]) -> bool:
    """Refuses Parquet files whose pages claim what would use up the memory, or were changed.

    Whether a footer claims that rows are sorted.
    """
    is_sorted = False
    local = [file.path for file in files if file.format == "parquet" and not file.remote]
    errors: list[EvalkitError] = []
    for path in local:
        with mapped(path, lambda error: None):
            pages = read_pages(path, names, is_many=len(local) > FEW_FILES)
            is_sorted |= pages.is_sorted
            changed = _sum_fault(path, names, pages.sums) if pages.fault is None else None
        if pages.fault is not None:
            errors.append(damaged(pages.fault, path))
        elif changed is not None:
            message = f"{changed}: their checksums differ"
            hint = (
                "copy the file anew, or write it again; verify_pages = false in a config reads it"
            )
            errors.append(DataError(message, code="wrong-checksum", at=path, hint=hint))
    raise_all(errors)
    return is_sorted


def damaged(fault: str, path: str) -> DataError:
    hint = "the file is damaged; write it again"
    return DataError(fault, code="unreadable-file", at=path, hint=hint)


def _sum_fault(path: str, names: Collection[str], sums: Ints) -> str | None:
    """Which pages of a file are not as they were written; None where all are, or nobody asks.

    Args:
        names: the columns that the pages are of.
        sums: place, bytes and CRC32 of the pages that have one.

    Raises:
        OSError: the file cannot be read.
    """
    if not len(sums) or not _verifies.get():
        return None
    found = os.stat(path)
    state = (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if _verified.get(state, set()).issuperset(names):
        return None
    n_threads = usable_cores() if sums[:, 1].sum() > _FEW_BYTES else 1
    shares = [sums[number::n_threads].tolist() for number in range(n_threads)]
    with ThreadPoolExecutor(n_threads) as pool:
        n_wrong = sum(pool.map(lambda share: _n_wrong(path, share), shares))
    if n_wrong:
        return f"{n_wrong:,} of {len(sums):,} pages are not as they were written"
    if len(_verified) >= _MOST_FILES:
        _verified.clear()
    _verified.setdefault(state, set()).update(names)
    return None


def _n_wrong(path: str, pages: list[list[int]]) -> int:
    n_wrong = 0
    with open(path, "rb", buffering=0) as file:
        for place, n_bytes, crc in pages:
            n_wrong += _sum_of(file.fileno(), place, n_bytes) != crc & 0xFFFFFFFF
    return n_wrong


def _sum_of(file: int, place: int, n_bytes: int) -> int:
    found, end = 0, place + n_bytes
    while place < end:
        block = os.pread(file, min(_BLOCK, end - place), place)
        if not block:
            return -1
        found = zlib.crc32(block, found)
        place += len(block)
    return found
