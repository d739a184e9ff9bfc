# mypy: disable-error-code="no-untyped-def"
"""Whether the schema in the footer of a Parquet file is one that readers can walk."""

import base64
import binascii
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from evalkit.kernels import kernel
from evalkit.sources._thrift import (
    BINARY,
    DEEPEST,
    LIST,
    WHOLE,
    read_field,
    read_list,
    read_number,
    read_signed,
    skip,
)
from evalkit.sources.arrow import LONG_NAME, MOST_LEVELS, MOST_NAME, TOO_DEEP, kept_schema_fault

MAGIC = b"PAR1"
TAIL = 8  # bytes: length of the footer, magic
FEW_BYTES = 4_000  # of a footer: to interpret is quicker than to load compiled code
_LARGE_FOOTER = 5_400  # bytes: below, no schema that Arrow keeps in base64 is too deep
_KEPT = b"ARROW:schema"
_AGAIN = b"\x09\x04"  # a second list of fields, which no writer writes
_FINE, _TOO_DEEP, _LONG_NAME = range(3)
_FAULTS = {_TOO_DEEP: TOO_DEEP, _LONG_NAME: LONG_NAME}


def footer_fault(path: str, *, is_many: bool = False) -> str | None:
    """What is wrong with the schema of a file, which readers walk; None where nothing is.

    Looked at before a reader sees the file. Args and Raises as `page_fault`.
    """
    with mapped_file(path) as (content, start):
        if start is None:
            return None
        end = len(content) - TAIL
        is_small = end - start < FEW_BYTES and not is_many
        return schema_fault(content, start, end, is_small=is_small)


def schema_fault(content: bytes | mmap.mmap, start: int, end: int, *, is_small: bool) -> str | None:
    reader: Callable[..., int] = read_schema.interpret if is_small else read_schema
    view = memoryview(content) if is_small else np.frombuffer(content, np.uint8)
    left, stack = np.zeros(MOST_LEVELS + 1, np.int64), np.zeros((DEEPEST, 2), np.int64)
    is_twice = content.find(_AGAIN, start, end) >= 0
    fault = int(reader(view, start, end, left, stack, is_twice))
    if fault != _FINE:
        return _FAULTS[fault]
    if end - start < _LARGE_FOOTER or content.find(_KEPT, start, end) < 0:
        return None
    view = np.frombuffer(content, np.uint8)
    places = np.zeros(((end - start) // 2, 2), np.int64)
    n_texts = read_texts(view, start, end, places, stack)
    texts = (content[place : place + size] for place, size in places[:n_texts].tolist())
    faults = (_kept_fault(text) for text in texts if len(text) >= _LARGE_FOOTER)
    return next(filter(None, faults), None)


def _kept_fault(text: bytes) -> str | None:
    """What is wrong with a schema of Arrow, in base64; None also of any other text."""
    try:
        kept = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return kept_schema_fault(kept)


@contextmanager
def mapped_file(path: str) -> Iterator[tuple[bytes | mmap.mmap, int | None]]:
    """A file's bytes, and where its footer begins; None where it has none of Parquet's form."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < len(MAGIC) + TAIL:
            yield b"", None
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content, footer_of(content)


def footer_of(content: bytes | mmap.mmap) -> int | None:
    end = len(content) - TAIL
    n_footer = int.from_bytes(content[max(0, end) : -4], "little")
    is_one = content[-4:] == MAGIC and n_footer <= end - len(MAGIC)
    return end - n_footer if is_one else None


@kernel
def read_schema(data, place, end, left, stack, goes_on):
    """What is wrong with the fields of a file; `left`: int64[levels], of each how many are left."""
    field = 0
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0 or kind == 0:
            return _FINE  # readers refuse what cannot be read
        if field != 2 or kind != LIST:
            place = skip(data, place, end, kind, stack)
            continue
        n_fields, _, place = read_list(data, place, end)
        depth = 0
        for _ in range(n_fields):
            children, n_name, place = read_element(data, place, end, stack)
            if place < 0:
                return _FINE
            if n_name > MOST_NAME:
                return _LONG_NAME
            while depth > 0 and left[depth - 1] == 0:
                depth -= 1
            if depth > 0:
                left[depth - 1] -= 1
            if children > 0:
                if depth == len(left):
                    return _TOO_DEEP
                left[depth] = children
                depth += 1
        if not goes_on:
            return _FINE


@kernel
def read_element(data, place, end, stack):
    """How many fields are inside a field of the schema, bytes of its name, the place after it."""
    field = children = n_name = 0
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0 or kind == 0:
            return children, n_name, place
        if field == 5 and kind == WHOLE:
            children, place = read_signed(data, place, end)
        elif field == 4 and kind == BINARY:
            n_name, place = read_number(data, place, end)
            if place < 0 or n_name > end - place:
                return children, n_name, -1
            place += n_name
        else:
            place = skip(data, place, end, kind, stack)


@kernel
def read_texts(data, place, end, places, stack):
    """Fill `places` with where the texts of the file's own keys and values stand; their number."""
    field = n_texts = 0
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0 or kind == 0:
            return n_texts
        if field != 5 or kind != LIST:
            place = skip(data, place, end, kind, stack)
            continue
        n_pairs, _, place = read_list(data, place, end)
        for _ in range(n_pairs):
            inside = 0
            while True:
                inside, kind, place = read_field(data, place, end, inside)
                if place < 0:
                    return n_texts
                if kind == 0:
                    break
                if kind != BINARY:
                    place = skip(data, place, end, kind, stack)
                    continue
                size, place = read_number(data, place, end)
                if place < 0 or size > end - place or n_texts == len(places):
                    return n_texts
                places[n_texts, 0] = place
                places[n_texts, 1] = size
                n_texts += 1
                place += size
