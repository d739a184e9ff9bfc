"""Files of partials: a mark, a version, three parts in pieces, a checksum of it all.

    evalkit-partial | version | header | tree | arrays | sha256

A part is its length, then pieces of at most 1 MiB, each compressed where that makes it smaller.
Nothing is made of a claim before the file has shown the bytes that it takes.
"""

import hashlib
import io
import json
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, TypeVar

import polars as pl

from evalkit.errors import DataError, EvalkitError, MachineError
from evalkit.planning.partials._codec import ALIGNED, BlockReader, Blocks, codec_of
from evalkit.report.by_hints import load_json
from evalkit.report.version import VERSION
from evalkit.runs import machine_errors, replacing

Value = TypeVar("Value")

MARK = b"evalkit-partial\n"
FORMAT = 1
PIECE = 1 << 20
SAMPLE = 1 << 14  # bytes of a piece that tell whether it is worth while to compress it
PACKED = 1 << 31  # marks the length of a compressed piece
MOST_PACKING = 1032  # zlib packs no more bytes into one
MOST_TREE, MOST_PACKING_OF_TREES = 64 << 20, 32  # bytes of JSON, and more for each packed one
N_DIGEST = hashlib.sha256().digest_size


def write_file(path: Path, header: object, body: object) -> None:
    """Write a file that is whole or not there; an earlier one is replaced.

    Raises:
        MachineError: the disk is full, or cannot be written [disk-full, not-writable,
            write-failed].
    """
    with machine_errors(path), replacing(path) as file:
        for piece in pieces_of_file(header, body):
            file.write(piece)


def pieces_of_file(header: object, body: object) -> Iterator[bytes]:
    """The bytes of a file, in pieces."""
    digest = hashlib.sha256()
    for piece in _checked_pieces(header, body):
        digest.update(piece)
        yield piece
    yield digest.digest()


def _checked_pieces(header: object, body: object) -> Iterator[bytes]:
    yield MARK + struct.pack("<I", FORMAT)
    blocks: Blocks = []
    for value in (header, body):
        kind: Any = type(value)
        tree = codec_of(kind).encode(value, blocks)
        assert value is not header or not blocks  # a header holds no arrays
        yield from _part([memoryview(json.dumps(tree, separators=(",", ":")).encode())])
    padding = (memoryview(bytes(-len(each) % ALIGNED)) for each in blocks)
    yield from _part([each for pair in zip(blocks, padding, strict=True) for each in pair])


def _part(blocks: Blocks) -> Iterator[bytes]:
    """The length of the blocks side by side, then their pieces."""
    yield struct.pack("<Q", sum(map(len, blocks)))
    waiting = bytearray()
    for block in blocks:
        for first in range(0, len(block), PIECE):
            waiting += block[first : first + PIECE]
            if len(waiting) >= PIECE:
                yield _packed(bytes(waiting[:PIECE]))
                del waiting[:PIECE]
    if waiting:
        yield _packed(bytes(waiting))


def _packed(piece: bytes) -> bytes:
    middle = piece[(len(piece) - SAMPLE) // 2 :][:SAMPLE] if len(piece) > SAMPLE else piece
    if 10 * len(zlib.compress(middle, 1)) < 9 * len(middle):
        packed = zlib.compress(piece, 1)
        return struct.pack("<I", len(packed) | PACKED) + packed
    return struct.pack("<I", len(piece)) + piece


class _File:
    """The bytes of a file before its checksum, each read once."""

    def __init__(self, file: IO[bytes], n_bytes: int) -> None:
        self._file, self.n_left, self._digest = file, n_bytes - N_DIGEST, hashlib.sha256()
        self.take(len(MARK))  # which was looked at
        (self.version,) = struct.unpack("<I", self.take(4))

    def take(self, n_bytes: int) -> bytes:
        found = self._file.read(n_bytes) if n_bytes <= self.n_left else b""
        if len(found) < n_bytes:
            raise ValueError("it ends too soon")
        self.n_left -= n_bytes
        self._digest.update(found)
        return found

    def open_part(self) -> "_Part":
        (n_bytes,) = struct.unpack("<Q", self.take(8))
        if n_bytes > self.n_left * MOST_PACKING:
            raise ValueError(f"it claims to hold {n_bytes:,} bytes")
        return _Part(self, n_bytes)

    def take_tree(self) -> bytearray:
        part = self.open_part()
        if part.n_left > MOST_TREE + MOST_PACKING_OF_TREES * self.n_left:
            raise ValueError(f"it claims to hold {part.n_left:,} bytes of JSON")
        return part.take(part.n_left)

    def close(self) -> bytes:
        """The checksum of all bytes, once they are the bytes that were written."""
        while self.n_left:
            self.take(min(self.n_left, PIECE))
        if self._file.read(N_DIGEST + 1) != self._digest.digest():
            raise ValueError("its checksum is another one")
        return self._digest.digest()


class _Part:
    """A part of a file, unpacked piece by piece as its bytes are asked for."""

    def __init__(self, file: _File, n_bytes: int) -> None:
        self._file, self.n_left = file, n_bytes
        self._waiting = b""

    def take(self, n_bytes: int) -> bytearray:
        found = bytearray(self._waiting[:n_bytes])
        self._waiting = self._waiting[n_bytes:]
        while len(found) < n_bytes:
            piece = self._next_piece()
            n_missing = n_bytes - len(found)
            found += piece[:n_missing]
            self._waiting = piece[n_missing:]
        return found

    def _next_piece(self) -> bytes:
        (length,) = struct.unpack("<I", self._file.take(4))
        piece = self._file.take(length & ~PACKED)
        if length & PACKED:
            opened = zlib.decompressobj()
            piece = opened.decompress(piece, PIECE + 1)
            if not opened.eof or opened.unused_data:
                raise ValueError("a piece is not packed whole")
        if not piece or len(piece) != min(PIECE, self.n_left):
            raise ValueError("a piece has another length")
        self.n_left -= len(piece)
        return piece


@contextmanager
def _stream_of(source: Path | bytes) -> Iterator[tuple[BufferedReader, int]]:
    """What reads a file, or bytes in memory, and how many bytes there are."""
    if isinstance(source, bytes):
        yield BufferedReader(io.BytesIO(source)), len(source)
        return
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _no_partial(source, "no regular file")
        yield file, found.st_size


@contextmanager
def _opened(source: Path | bytes) -> Iterator[_File]:
    """A file, or bytes, that are a partial of this version, as far as the first bytes say.

    Raises:
        DataError: there is none [path-not-found, unreadable-file], it is something else
            [not-a-partial], of another version [partial-version], or damaged [damaged-partial].
    """
    path = Path("bytes") if isinstance(source, bytes) else source
    try:
        with _stream_of(source) as (file, n_bytes):
            if file.peek(len(MARK))[: len(MARK)] != MARK:
                what = "something else" if n_bytes else "an empty file"
                raise _no_partial(path, what)
            yield _start(file, n_bytes, path)
    except EvalkitError:
        raise
    except IsADirectoryError:
        raise _no_partial(path, "a folder") from None
    except MemoryError:
        message = "memory ran out while a partial was read"
        hint = "merge on a machine with more memory"
        raise MachineError(message, code="out-of-memory", at=str(path), hint=hint) from None
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise DataError(
            f"no partial can be read there: {(error.strerror or str(error)).lower()}",
            code="path-not-found" if gone else "unreadable-file",
            at=str(path),
            hint="look for misspellings" if gone else "give this user the right to read it",
        ) from error
    except (Exception, pl.exceptions.PanicException) as error:  # as bytes of any kind may end
        message = f"a partial is damaged: {str(error)[:200] or type(error).__name__}"
        hint = "write it again: evalkit partial CONFIG --share I/N --out FILE"
        raise DataError(message, code="damaged-partial", at=str(path), hint=hint) from error


def _start(file: BufferedReader, n_bytes: int, path: Path) -> _File:
    found = _File(file, n_bytes)
    if found.version != FORMAT:
        message = f"a partial has format {found.version}, and evalkit {VERSION} reads {FORMAT}"
        hint = "write and merge partials with one version of evalkit"
        raise DataError(message, code="partial-version", at=str(path), hint=hint)
    return found


def _no_partial(path: Path, what: str) -> DataError:
    message = f"this is {what}, and no partial"
    hint = "evalkit partial CONFIG --share I/N --out FILE writes one"
    return DataError(message, code="not-a-partial", at=str(path), hint=hint)


def read_header(path: Path | bytes, kind: type[Value]) -> tuple[Value, bytes]:
    """The header of a file whose every byte was checked, and the checksum.

    Raises:
        DataError: as `read_body`, without [changed].
    """
    with _opened(path) as file:
        tree = file.take_tree()
        digest = file.close()
        header: Value = _decoded(kind, tree, BlockReader())
        return header, digest


def read_body(path: Path | bytes, kind: type[Value], digest: bytes) -> Value:
    """What a file holds behind its header.

    Args:
        digest: that `read_header` gave of the same file.
    Raises:
        DataError: as `_opened`; it is no longer the same file [damaged-partial].
    """
    with _opened(path) as file:
        file.take_tree()
        tree, arrays = file.take_tree(), file.open_part()
        body: Value = _decoded(kind, tree, BlockReader(arrays.n_left, arrays.take))
        if file.n_left:
            raise ValueError("there are bytes behind its parts")
        if file.close() != digest:
            raise ValueError("it changed while it was read")
        return body


def _decoded(kind: Any, tree: bytearray, reader: BlockReader) -> Any:
    found = codec_of(kind).decode(load_json(bytes(tree)), reader)
    reader.close()
    return found


def is_partial(path: Path) -> bool:
    """Whether a file begins as one."""
    with open(path, "rb") as file:
        return file.read(len(MARK)) == MARK
