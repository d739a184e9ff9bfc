"""What a file is, seen by its first bytes: whether it is what its name or the config calls it."""

from collections.abc import Mapping
from contextlib import suppress

import polars as pl

from evalkit.errors import DataError, RequestError
from evalkit.sources.arrow import MAGIC, batch_fault
from evalkit.sources.checksums import damaged
from evalkit.sources.delimited import SEPARATORS, first_row, looks_like_a_row, separator_of
from evalkit.sources.footers import footer_fault
from evalkit.sources.heads import PACKED
from evalkit.sources.paths import File
from evalkit.sources.shell import quoted, writing


def is_blank(file: File) -> bool:
    """Whether a local text file holds nothing, as engines write for empty partitions."""
    if file.remote or file.format not in ("csv", "tsv", "ndjson"):
        return False
    try:
        with open(file.path, "rb") as stream:
            return not stream.read(4096).strip()
    except OSError:
        return False


MOST = 8  # fields of a row that are shown
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def _refuse_packed(file: File, head: bytes) -> None:
    """Refuses text that is packed in a way, or of an encoding, that is not read."""
    name = file.path.rpartition("/")[2]
    for signature, command in PACKED.items():
        if head.startswith(signature):
            message = "the file is packed in a way that is not read: gzip and Zstandard are"
            hint = f"unpack it: {command} {quoted(file.path)}"
            raise DataError(message, code="unreadable-file", at=file.path, hint=hint)
    if head.startswith(_UTF_16):
        message = "the text is UTF-16, not UTF-8"
        hint = f"iconv -f UTF-16 -t UTF-8 {quoted(file.path)} > {quoted(f'utf8-{name}')}"
        raise DataError(message, code="unreadable-file", at=file.path, hint=hint)
    if file.format in SEPARATORS and head.lstrip()[:1] in (b"[", b"{"):
        is_lines = head.lstrip()[:1] == b"{"
        raise DataError(
            f"the file is no {file.format} file: it begins as JSON does",
            code="unreadable-file",
            at=file.path,
            hint='write format = "ndjson", one object a line'
            if is_lines
            else "write one object a line: " + writing("jq -c '.[]' FILE", file.path, ".ndjson"),
        )


_SIGNATURES = {b"PAR1": "parquet", MAGIC: "ipc"}


def check_content(file: File, *, is_many: bool) -> None:
    """Refuses binary formats that are called text, and others that claim what cannot be."""
    if file.remote or file.version is not None:
        return
    if file.format in ("parquet", "ipc"):
        is_parquet = file.format == "parquet"
        fault = footer_fault(file.path, is_many=is_many) if is_parquet else batch_fault(file.path)
        if fault is not None:
            raise damaged(fault, file.path)
        return
    with open(file.path, "rb") as stream:
        head = stream.read(6)
    _refuse_packed(file, head)
    for signature, format_ in _SIGNATURES.items():
        if head.startswith(signature):
            message = f"the file is no {file.format} file: it begins as {format_} files do"
            hint = f'write format = "{format_}"'
            raise DataError(message, code="unreadable-file", at=file.path, hint=hint)


def check_header(file: File, schema: Mapping[str, pl.DataType], advice: str) -> None:
    """Refuses a text file whose first line looks like a row, where nobody said what it is.

    Raises:
        DataError: no-header.
        RequestError: somebody said it of a file of another format [conflicting-keys].
    """
    if file.header is not None and file.format not in SEPARATORS:
        message = f"header is for {' and '.join(SEPARATORS)} files, and this is {file.format}"
        raise RequestError(message, code="conflicting-keys", at=file.path, hint="leave header out")
    if file.header is None and file.format in SEPARATORS and looks_like_a_row(list(schema)):
        row = tuple(schema)
        with suppress(pl.exceptions.PolarsError):  # quotes inside of fields
            row = row if file.remote else first_row(file, separator_of(file))
        first = ", ".join(f"column_{n} {name!r}" for n, name in enumerate(row[:MOST], 1))
        first += ", ..." * (len(row) > MOST)
        message = f"the first line names no columns, it looks like a row: {first}"
        raise DataError(message, code="no-header", at=file.path, hint=advice)
