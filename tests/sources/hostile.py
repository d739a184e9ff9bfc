"""Files whose writers mean harm: Parquet's footer and pages written byte by byte."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CODECS = ("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4-raw")


def unsigned(value: int) -> bytes:
    """Seven bits a byte."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def number(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: bytes) -> bytes:
    return unsigned(len(value)) + value


def listed(n_elements: int, kind: int) -> bytes:
    """The head of a list."""
    return (
        bytes([n_elements << 4 | kind])
        if n_elements < 15
        else b"%c" % (0xF0 | kind) + unsigned(n_elements)
    )


def element(name: bytes, *, children: int = 0, type: int = 2) -> bytes:
    """A field of a schema: a group where it has children, else a required column."""
    if children:
        return b"\x35" + number(0) + b"\x18" + text(name) + b"\x15" + number(children) + b"\0"
    kind = b"\x15" + number(type) + b"\x25" + number(0) + b"\x18" + text(name)
    return kind + (b"\x25" + number(0) if type == 6 else b"") + b"\0"  # bytes are UTF-8


@dataclass(frozen=True, slots=True)
class Column:
    """One page of 64-bit numbers: `content` as stored, and what its headers claim."""

    content: bytes
    n_values: int
    claimed: int | None = None
    encoding: int = 0
    codec: str = "uncompressed"
    type: int = 2  # 6: bytes of any length
    dictionary: bytes = b""


def page(column: Column) -> bytes:
    stored = len(column.content)
    sizes = number(stored if column.claimed is None else column.claimed) + b"\x15" + number(stored)
    count = b"\x2c\x15" + number(column.n_values) + b"\x15" + number(column.encoding)
    return b"\x15\x00\x15" + sizes + count + b"\x15\x06\x15\x06\x00\x00" + column.content


def dictionary_page(content: bytes, *, is_text: bool) -> bytes:
    """One text, or numbers."""
    sizes = number(len(content)) + b"\x15" + number(len(content))
    n_values = 1 if is_text else len(content) // 8
    return b"\x15\x04\x15" + sizes + b"\x4c\x15" + number(n_values) + b"\x15\0\0\0" + content


def write(
    path: Path,
    columns: Mapping[str, Column],
    n_rows: int,
    *,
    fields: Sequence[bytes] | None = None,
    kept: bytes | None = None,
) -> Path:
    """A file of one row group; `fields`: its schema below the root; `kept`: Arrow's, in base64."""
    body, chunks = b"PAR1", []
    for name, column in columns.items():
        start = len(body)
        if column.dictionary:
            body += dictionary_page(column.dictionary, is_text=column.type == 6)
        first = len(body)
        body += page(column)
        claimed = max(len(body) - start, (column.claimed or 0) + 100)
        about = b"\x15" + number(column.type) + b"\x19\x25\x00\x10\x19\x18" + text(name.encode())
        about += b"\x15" + number(CODECS.index(column.codec)) + b"\x16" + number(column.n_values)
        about += b"\x16" + number(claimed) + b"\x16" + number(len(body) - start)
        about += b"\x26" + number(first)
        about += b"\x26" + number(start) if column.dictionary else b""
        chunks.append(b"\x26" + number(start) + b"\x1c" + about + b"\0\0")
    given = [element(name.encode(), type=one.type) for name, one in columns.items()]
    schema = [element(b"root", children=len(columns)), *(given if fields is None else fields)]
    group = b"\x19" + listed(len(chunks), 12) + b"".join(chunks)
    group += b"\x16" + number(len(body)) + b"\x16" + number(n_rows) + b"\0"
    footer = b"\x15\x02\x19" + listed(len(schema), 12) + b"".join(schema)
    footer += b"\x16" + number(n_rows) + b"\x19" + listed(1, 12) + group
    if kept is not None:
        footer += b"\x19" + listed(1, 12) + b"\x18" + text(b"ARROW:schema")
        footer += b"\x18" + text(kept) + b"\0"
    footer += b"\0"
    path.write_bytes(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path


def numbers(values: Sequence[int]) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def same(value: int, n_values: int, **claims: int) -> Column:
    """One value so many times, in a few bytes, as writers of dictionaries write it."""
    once = b"\x01" + unsigned(n_values << 1) + b"\x00"
    return Column(once, n_values, encoding=8, dictionary=numbers([value]), **claims)


def same_text(value: bytes, n_values: int) -> Column:
    """One text so many times: in the file it stands once."""
    once = b"\x01" + unsigned(n_values << 1) + b"\x00"
    dictionary = len(value).to_bytes(4, "little") + value
    return Column(once, n_values, encoding=8, type=6, dictionary=dictionary)
