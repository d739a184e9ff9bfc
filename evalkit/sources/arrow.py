"""Whether the batches of an Arrow file or stream can be what they claim, before any is decoded.

Readers allocate what metadata claims, and go down as deep as a schema is nested. So blocks,
lengths, buffers and fields (FlatBuffers, in the tables of Arrow's columnar format) are held against
one another and against the file. What is looked at is a few bytes a column and batch.
"""

import mmap
import os
import struct

import numpy as np

MAGIC = b"ARROW1"
CONTINUES = b"\xff\xff\xff\xff"  # before the size of a message; files of old writers lack it
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # kinds of messages; the latter two have buffers
MOST_LEVELS = 64  # of fields inside fields, also of Parquet; readers take one call's stack for each
MOST_NAME = 4_096  # bytes of a column's name
TOO_DEEP = f"its schema is nested more than {MOST_LEVELS} levels deep"
LONG_NAME = f"a column's name has more than {MOST_NAME:,} bytes"
_MOST_ROWS = 1 << 24  # of a batch without buffers: all its columns are null
# bytes that one stored byte stands for at most: a byte adds 255 to a length of LZ4; a block of
# Zstandard has at most 128 KiB, and four bytes at least
_MOST_TIMES = {0: 255, 1: 1 << 15}
_SLACK = 1 << 17
_LEAST_FIELD = 16  # bytes of a field of a schema; fewer: fields stand inside several others
_UNREADABLE = "its metadata cannot be read"


class _DamagedError(Exception):
    """What is wrong with a file."""


def batch_fault(path: str) -> str | None:
    """What is wrong with the metadata of an Arrow file or stream; None where nothing is.

    What begins as neither is left to the reader.

    Raises:
        OSError: the file cannot be opened or read.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < len(MAGIC):
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                if content[: len(MAGIC)] == MAGIC:
                    _check_file(content)
                elif content[: len(CONTINUES)] == CONTINUES:
                    _check_stream(content)
            except _DamagedError as fault:
                return str(fault)
            except struct.error:
                return _UNREADABLE
    return None


def kept_schema_fault(content: bytes) -> str | None:
    """What is wrong with a schema that Parquet's metadata keep; None also of what is none."""
    try:
        n_head = 8 if content[:4] == CONTINUES else 4 if content[:1] == b"\xff" else 0
        _check_message(_Table.root(content, n_head), len(content), 0)
    except _DamagedError as fault:
        return str(fault) if str(fault) in (TOO_DEEP, LONG_NAME) else None
    except struct.error:
        pass
    return None


def _check_file(content: mmap.mmap | bytes) -> None:
    end = len(content) - len(MAGIC) - 4
    if end < len(MAGIC) or content[-len(MAGIC) :] != MAGIC:
        raise _DamagedError("it has no footer: was it cut short?")
    start = end - _number(content, "<i", end)
    if not len(MAGIC) <= start < end:
        raise _DamagedError("its footer claims more bytes than the file has")
    footer = _Table.root(content, start)
    _check_fields(footer.table(1), end - start)
    for field in (2, 3):  # dictionaries, batches
        for place in footer.places(field, 24):
            first, n_metadata, _, n_body = struct.unpack_from("<qiiq", content, place)
            body = first + n_metadata
            if min(first, n_metadata, n_body) < 0 or body + n_body > start:
                raise _DamagedError("its footer names a batch where the file has none")
            n_head = 8 if content[first : first + 4] == CONTINUES else 4
            _check_message(_Table.root(content, first + n_head), body, n_body)


def _check_stream(content: mmap.mmap | bytes) -> None:
    place = 0
    while content[place : place + 4] == CONTINUES:
        n_metadata = _number(content, "<i", place + 4)
        if n_metadata == 0:
            place += 8
            break
        body = place + 8 + n_metadata
        if not place < body <= len(content):
            raise _DamagedError("a message claims more bytes than the file has")
        n_body = len(content) - body
        place = body + _check_message(_Table.root(content, place + 8), body, n_body)
    if place < len(content):  # readers take what is no message for the end of the rows
        raise _DamagedError("it goes on after its last message")


def _check_message(message: "_Table", body: int, n_most: int) -> int:
    """Bytes of a message's body, which begins at a place and has at most `n_most`."""
    n_body = message.number(3, "<q")
    if not 0 <= n_body <= n_most:
        raise _DamagedError("a message claims more bytes than the file has")
    kind = message.number(1, "<B")
    if kind == _BATCH:
        _check_buffers(message.table(2), body, n_body)
    elif kind == _DICTIONARY:
        _check_buffers(message.table(2).table(1), body, n_body)
    elif kind == _SCHEMA:
        _check_fields(message.table(2), body)
    return n_body


def _check_fields(schema: "_Table", n_bytes: int) -> None:
    """Refuse a schema whose fields are nested too deep, or of names too long."""
    level, n_seen = schema.tables(1), 0
    depth = 1
    while level:
        n_seen += len(level)
        if depth > MOST_LEVELS or n_seen * _LEAST_FIELD > n_bytes:
            raise _DamagedError(TOO_DEEP)
        if any(field.n_bytes(0) > MOST_NAME for field in level):
            raise _DamagedError(LONG_NAME)
        level = [child for field in level for child in field.tables(5)]
        depth += 1


def _check_buffers(batch: "_Table", body: int, n_body: int) -> None:
    offsets, sizes = batch.numbers(2).reshape(-1, 2).T
    if (sizes < 0).any() or (offsets < 0).any() or (offsets > n_body - sizes).any():
        raise _DamagedError("a buffer claims more bytes than its batch has")
    claimed = int(sizes.sum())
    if batch.has(3):
        most_times = _MOST_TIMES.get(batch.table(3).number(0, "<b"), 0)
        claims = [
            (max(size, _number(batch.content, "<q", body + offset)), size)
            for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True)
            if size >= 8
        ]
        if any(claim > size * most_times + _SLACK for claim, size in claims):
            raise _DamagedError("a compressed buffer claims more bytes than it can hold")
        claimed = sum(claim for claim, _ in claims)
    rows = [batch.number(0, "<q"), *batch.numbers(1).tolist()]
    if min(rows) < 0 or rows[0] > max(8 * claimed, _MOST_ROWS):
        raise _DamagedError("a batch claims another number of rows than its buffers hold")


# ---------------------------------------------------------------- FlatBuffers


class _Table:
    """A table of FlatBuffers: numbered fields, each of which may be missing.

    Every place is held against the file's end where it is read (`struct.error`).
    """

    def __init__(self, content: mmap.mmap | bytes, place: int) -> None:
        self.content = content
        self._place = place
        self._fields = place - _number(content, "<i", place)
        self._size = _number(content, "<H", self._fields)

    @classmethod
    def root(cls, content: mmap.mmap | bytes, place: int) -> "_Table":
        return cls(content, _referred(content, place))

    def _place_of(self, field: int) -> int:
        """Where a field stands; 0: it is missing."""
        if 4 + 2 * field >= self._size:
            return 0
        after = _number(self.content, "<H", self._fields + 4 + 2 * field)
        return self._place + after if after else 0

    def has(self, field: int) -> bool:
        return self._place_of(field) > 0

    def number(self, field: int, form: str) -> int:
        """A number; 0 where the field is missing, as Arrow's definitions have it."""
        place = self._place_of(field)
        return _number(self.content, form, place) if place else 0

    def table(self, field: int) -> "_Table":
        place = self._place_of(field)
        if not place:
            raise _DamagedError(_UNREADABLE)
        return _Table.root(self.content, place)

    def tables(self, field: int) -> list["_Table"]:
        """The tables of a vector; none where the field is missing."""
        return [_Table.root(self.content, place) for place in self.places(field, 4)]

    def n_bytes(self, field: int) -> int:
        """Bytes of a text; 0 where the field is missing."""
        place = self._place_of(field)
        return _number(self.content, "<I", _referred(self.content, place)) if place else 0

    def places(self, field: int, size: int) -> range:
        """The places of a vector's elements, each of which has so many bytes."""
        place = self._place_of(field)
        if not place:
            return range(0)
        start = _referred(self.content, place)
        n_elements = _number(self.content, "<I", start)
        if n_elements * size > len(self.content) - start - 4:
            raise _DamagedError(_UNREADABLE)
        return range(start + 4, start + 4 + n_elements * size, size)

    def numbers(self, field: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """A vector of structs, all of whose fields are of 8 bytes, as two of them each."""
        places = self.places(field, 16)
        return np.frombuffer(self.content[places.start : places.stop], np.int64)


def _number(content: mmap.mmap | bytes, form: str, place: int) -> int:
    if place < 0:  # Python would count from the end
        raise _DamagedError(_UNREADABLE)
    number: int = struct.unpack_from(form, content, place)[0]
    return number


def _referred(content: mmap.mmap | bytes, place: int) -> int:
    """The place that the offset at a place names."""
    return place + _number(content, "<I", place)
