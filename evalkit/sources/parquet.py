# mypy: disable-error-code="no-untyped-def"
"""Whether a Parquet file can be what its footer and pages claim, seen before any is decoded.

Readers allocate what a header claims, and go down as deep as a schema is nested. One that a damaged
disk or a stranger wrote can claim more than there is memory or stack, which ends a process without
a word. So footer and page headers (Thrift's compact protocol) are held against one another and
against the file. What is looked at is a few bytes a page of the columns that are read.
"""

import mmap
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Ints
from evalkit.sources._thrift import (
    BYTE,
    DEEPEST,
    LIST,
    LONG,
    STRUCT,
    WHOLE,
    read_field,
    read_list,
    read_number,
    read_signed,
    skip,
)
from evalkit.sources.footers import FEW_BYTES, TAIL, footer_of, mapped_file, schema_fault

_SMALL_FILE = 1 << 20  # bytes: to interpret is quicker than to load compiled code
_SLACK = 100  # bytes that old writers forgot to count in a column chunk
_LARGEST = 1 << 31  # a page has fewer bytes
# bytes that one stored byte stands for at most, by codec, and how many more may be: a copy of
# Snappy has 64 bytes in three; Deflate 258 in two bits; LZ4 255; Zstandard as in Arrow; Brotli
# has no bound
_MOST_TIMES = np.array([1, 22, 1032, 1 << 15, 1 << 15, 255, 1 << 15, 255], np.int64)
_BROTLI, _MORE, _MORE_OF_BROTLI = 4, 1 << 17, 1 << 27
_WIDTHS = np.array([1, 4, 8, 12, 4, 8, 0, 0], np.int64)  # of values, by type; 0: any
_LEVELS = 4  # bytes a value of what says where it is null, or its list ends
# values of a row group without bytes of their own: constants and nulls, and more for stored bytes
_MOST_VALUES, _MOST_VALUES_A_BYTE = 1 << 22, 1 << 10
# columns of what is known of a column chunk
_ROWS, _VALUES, _BYTES, _STORED, _DATA, _DICTIONARY, _NAME, _NAME_SIZE = range(8)
_TYPE, _CODEC, _TIMES, _FURTHER, _SORTED, _CLAIMED = range(8, 14)
_COLUMNS = 14
_DECODED = 16  # bytes of a value, decoded
_NO_SUM = 1 << 40  # of a page whose header has no checksum
_FEW_SUMS = 64
_FINE, _BAD_FOOTER, _BAD_PLACE, _BAD_HEADER, _BAD_SIZE, _BAD_COUNT = range(6)
_BAD_RATIO, _BAD_ROWS = range(6, 8)
_FAULTS = {
    _BAD_FOOTER: "its footer cannot be read",
    _BAD_PLACE: "its footer names pages where the file has none",
    _BAD_HEADER: "the header of a page cannot be read",
    _BAD_SIZE: "a page claims more bytes than its column has",
    _BAD_COUNT: "a page claims another number of values than its column has",
    _BAD_RATIO: "a page claims more bytes than those that it has can hold",
    _BAD_ROWS: "a row group claims more values than its bytes can hold",
}


def page_fault(path: str, names: Collection[str] | None, *, is_many: bool = False) -> str | None:
    """What is wrong with the headers of the columns `names`, as `read_pages`; None: nothing."""
    return read_pages(path, names, is_many=is_many).fault


@dataclass(frozen=True, slots=True)
class Pages:
    """What the headers of a file's pages say.

    Args:
        fault: what is wrong with them; None where nothing is.
        sums: place, bytes and CRC32 of each page that has one: int64[n_pages, 3].
        is_sorted: the footer claims that row groups are sorted.
        n_bytes: that the pages claim, and their values take when they are decoded.
    """

    fault: str | None
    sums: Ints
    is_sorted: bool = False
    n_bytes: int = 0


def read_pages(path: str, names: Collection[str] | None, *, is_many: bool = False) -> Pages:
    """What the headers of the pages of the columns `names` say; None: of all.

    Files without a footer of Parquet's form are left to the reader.

    Args:
        is_many: there are many such files, so that compiled code is worth loading.

    Raises:
        OSError: the file cannot be opened or read.
    """
    with mapped_file(path) as (content, start):
        if start is None:
            return Pages(None, np.zeros((0, 3), np.int64))
        end = len(content) - TAIL
        wanted = None
        if names is not None:
            wanted = {name.encode(errors="surrogateescape") for name in names}
        is_small = end - start < FEW_BYTES and len(content) < _SMALL_FILE and not is_many
        return _check(content, start, end, wanted, is_small=is_small)


def content_fault(content: bytes, most_bytes: int) -> str | None:
    """What is wrong with a whole file, all of whose columns are to be held; None: nothing.

    Args:
        most_bytes: that its pages may take when they are unpacked, and its numbers when decoded.
    """
    start = footer_of(content)
    if start is None:
        return "it does not end as Parquet does"
    end = len(content) - TAIL
    is_small = end - start < FEW_BYTES and len(content) < _SMALL_FILE
    fault = schema_fault(content, start, end, is_small=is_small)
    if fault is not None:
        return fault
    pages = _check(content, start, end, None, is_small=is_small)
    if pages.fault is None and pages.n_bytes > most_bytes:
        return f"it holds more than {most_bytes:,} bytes"
    return pages.fault


def _room(n_bytes: int) -> tuple[Ints, Ints]:
    """For what is known of the column chunks of a footer, and for structs while it is read."""
    return np.zeros((n_bytes // 16 + 1, _COLUMNS), np.int64), np.zeros((DEEPEST, 2), np.int64)


def _check(
    content: bytes | mmap.mmap,
    start: int,
    end: int,
    wanted: Collection[bytes] | None,
    *,
    is_small: bool,
) -> Pages:
    sums = np.zeros((_FEW_SUMS, 3), np.int64)
    chunks, stack = _room(end - start)
    footer: Callable[..., tuple[int, int]] = read_footer.interpret if is_small else read_footer
    pages: Callable[..., int] = check_pages.interpret if is_small else check_pages
    # bytes are fast in Python; the mapping cannot be closed while an array looks at it
    view = memoryview(content) if is_small else np.frombuffer(content, np.uint8)
    n_chunks, n_first = footer(view, start, end, chunks, stack)
    if n_chunks < 0:
        return Pages(_FAULTS[_BAD_FOOTER], sums[:0])
    if n_chunks == 0:
        return Pages(None, sums[:0])
    columns = chunks[:n_first, _NAME : _NAME_SIZE + 1].tolist()
    is_read = [wanted is None or content[place : place + size] in wanted for place, size in columns]
    chosen = chunks[:n_chunks][np.tile(is_read, n_chunks // n_first)]
    codecs, types = (np.clip(chosen[:, place], 0, 7) for place in (_CODEC, _TYPE))
    chosen[:, _TIMES] = _MOST_TIMES[codecs]
    chosen[:, _FURTHER] = np.where(codecs == _BROTLI, _MORE_OF_BROTLI, _MORE)
    chosen[:, _TYPE] = _WIDTHS[types]
    fault = int(pages(view, start, chosen, stack, sums))
    n_sums = int(stack[0, 0])
    if n_sums > len(sums):
        sums = np.zeros((n_sums, 3), np.int64)
        pages(view, start, chosen, stack, sums)
    if fault == _FINE and len(chosen):
        of_groups = chosen.reshape(n_chunks // n_first, -1, _COLUMNS)
        n_values, stored = of_groups[:, :, _VALUES].max(1), of_groups[:, :, _STORED].sum(1)
        if (n_values > _MOST_VALUES + _MOST_VALUES_A_BYTE * stored).any():
            fault = _BAD_ROWS
    n_bytes = int(chosen[:, _CLAIMED].sum() + _DECODED * chosen[:, _VALUES].sum())
    return Pages(_FAULTS.get(fault), sums[:n_sums], bool(chosen[:, _SORTED].any()), n_bytes)


def group_bytes(path: str, names: Collection[str]) -> Ints:
    """Rows and unpacked bytes of the columns `names`, of each row group: int64[n_groups, 2].

    Of lists their items count as rows. None of a file whose footer cannot be read.

    Raises:
        OSError: the file cannot be opened or read.
    """
    wanted = {name.encode(errors="surrogateescape") for name in names}
    with mapped_file(path) as (content, start):
        if start is None:
            return np.zeros((0, 2), np.int64)
        end = len(content) - TAIL
        chunks, stack = _room(end - start)
        n_chunks, n_first = read_footer(np.frombuffer(content, np.uint8), start, end, chunks, stack)
        if n_chunks <= 0:
            return np.zeros((0, 2), np.int64)
        columns = chunks[:n_first, _NAME : _NAME_SIZE + 1].tolist()
        is_read = [content[place : place + size] in wanted for place, size in columns]
        groups = chunks[:n_chunks].reshape(-1, n_first, _COLUMNS)
        rows = np.maximum(groups[:, 0, _ROWS], groups[:, is_read, _VALUES].max(1, initial=0))
        return np.column_stack([rows, groups[:, is_read, _BYTES].sum(1)])


# ---------------------------------------------------------------- the footer


@kernel
def read_footer(data, start, end, chunks, stack):
    """Fill `chunks`, one a row; their number, or -1, and how many are of the first row group."""
    n_chunks = n_first = n_rows = n_all = 0
    field, place = 0, start
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0:
            return -1, 0
        if kind == 0:
            break
        if field == 3 and kind == LONG:
            n_all, place = read_signed(data, place, end)
        elif field == 4 and kind == LIST:
            n_groups, inner, place = read_list(data, place, end)
            if inner != STRUCT:
                return -1, 0
            for group in range(n_groups):
                if place < 0:
                    return -1, 0
                n_before = n_chunks
                rows, n_chunks, place = read_group(data, place, end, chunks, n_chunks, stack)
                n_rows += rows
                if group == 0:
                    n_first = n_chunks
                elif n_chunks - n_before != n_first:
                    return -1, 0
        else:
            place = skip(data, place, end, kind, stack)
    if n_rows != n_all:
        return -1, 0
    return n_chunks, n_first


@kernel
def read_group(data, place, end, chunks, n_chunks, stack):
    """Fill the chunks of a row group; its rows, the chunks so far, and the place after it."""
    first, rows, field, n_sorted = n_chunks, 0, 0, 0
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0:
            return 0, n_chunks, -1
        if kind == 0:
            break
        if field == 3 and kind == LONG:
            rows, place = read_signed(data, place, end)
        elif field == 1 and kind == LIST:
            n_columns, inner, place = read_list(data, place, end)
            if inner != STRUCT or n_columns > len(chunks) - n_chunks:
                return 0, n_chunks, -1
            for _ in range(n_columns):
                place = read_chunk(data, place, end, chunks[n_chunks], stack)
                if place < 0:
                    return 0, n_chunks, -1
                n_chunks += 1
        else:
            if field == 4 and kind == LIST:
                n_sorted, _, _ = read_list(data, place, end)
            place = skip(data, place, end, kind, stack)
    if rows < 0 or rows >= 1 << 48:
        return 0, n_chunks, -1
    for chunk in range(first, n_chunks):
        chunks[chunk, _ROWS] = rows
        chunks[chunk, _SORTED] = n_sorted
    return rows, n_chunks, place


@kernel
def read_chunk(data, place, end, chunk, stack):
    """Fill what is known of a column chunk; the place after it."""
    field = inside = 0
    is_inside = False
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0:
            return -1
        if kind == 0:
            if not is_inside:
                return place
            is_inside = False
            field = inside
        elif not is_inside:
            if field == 3 and kind == STRUCT:
                is_inside = True
                inside = field
                field = 0
            else:
                place = skip(data, place, end, kind, stack)
        elif field == 3 and kind == LIST:
            n_names, _, place = read_list(data, place, end)
            for number in range(n_names):
                size, place = read_number(data, place, end)
                if place < 0 or size > end - place:
                    return -1
                if number == 0:
                    chunk[_NAME] = place
                    chunk[_NAME_SIZE] = size
                place += size
        elif kind == LONG and (5 <= field <= 7 or field == 9 or field == 11):
            value, place = read_signed(data, place, end)
            chunk[field - 4 if field <= 7 else field // 2] = value
        elif kind == WHOLE and (field == 1 or field == 4):
            value, place = read_signed(data, place, end)
            chunk[_TYPE if field == 1 else _CODEC] = value
        else:
            place = skip(data, place, end, kind, stack)


# ---------------------------------------------------------------- pages


@kernel
def check_pages(data, end_of_pages, chunks, stack, sums):
    """What is wrong with the pages of these chunks; 0 where nothing is.

    `sums` is filled with place, bytes and checksum of the pages that have one, as far as it goes;
    `stack[0, 0]` is their number.
    """
    n_sums = 0
    for row in range(len(chunks)):
        n_values = chunks[row, _VALUES]
        chunks[row, _CLAIMED] = 0
        start, dictionary = chunks[row, _DATA], chunks[row, _DICTIONARY]
        if 0 < dictionary and (dictionary < start or n_values == 0):
            start = dictionary  # a chunk without values may have no other page
        n_bytes, n_stored = chunks[row, _BYTES], chunks[row, _STORED]
        width = chunks[row, _TYPE]
        if n_values == n_stored == chunks[row, _ROWS] == 0:
            continue
        if n_values < chunks[row, _ROWS] or n_values >= 1 << 48:
            return _BAD_COUNT
        if start < 4 or n_stored < 0 or n_bytes < 0 or n_stored > end_of_pages - start:
            return _BAD_PLACE
        end = min(start + n_stored + _SLACK, end_of_pages)
        place = start
        is_first = n_stored > 0
        while is_first or n_values > 0:
            is_first = False
            page = read_page(data, place, end, stack)
            stored, claimed, values, is_dictionary, crc, place = page
            if place < 0:
                return _BAD_HEADER
            if stored < 0 or stored > end - place or claimed < 0 or claimed >= _LARGEST:
                return _BAD_SIZE
            if claimed > n_bytes + _SLACK:
                return _BAD_SIZE
            if claimed > stored * chunks[row, _TIMES] + chunks[row, _FURTHER]:
                return _BAD_RATIO
            if values < 0 or values > (claimed if is_dictionary else n_values):
                return _BAD_COUNT
            if width > 0 and claimed > values * (width + _LEVELS) + _MORE:
                return _BAD_RATIO
            chunks[row, _CLAIMED] += claimed
            if not is_dictionary:
                n_values -= values
            if crc != _NO_SUM:
                if n_sums < len(sums):
                    sums[n_sums, 0] = place
                    sums[n_sums, 1] = stored
                    sums[n_sums, 2] = crc
                n_sums += 1
            place += stored
    stack[0, 0] = n_sums
    return _FINE


@kernel
def read_page(data, place, end, stack):
    """Bytes stored and claimed, values, whether it is a dictionary, checksum, place of bytes."""
    stored = claimed = page = -1
    values = 0
    crc = _NO_SUM
    field = inside = 0
    is_inside = False
    while True:
        field, kind, place = read_field(data, place, end, field)
        if place < 0:
            return 0, 0, 0, False, crc, -1
        if kind == 0:
            if not is_inside:
                return stored, claimed, values, page == 2, crc, place
            is_inside = False
            field = inside
        elif is_inside:
            if field == 1 and kind <= LONG and kind > BYTE:
                values, place = read_signed(data, place, end)
            else:
                place = skip(data, place, end, kind, stack)
        elif field in (5, 7, 8) and kind == STRUCT:
            is_inside = True
            inside = field
            field = 0
        elif field <= 4 and kind > BYTE and kind <= LONG:
            number, place = read_signed(data, place, end)
            if field == 1:
                page = number
            elif field == 2:
                claimed = number
            elif field == 3:
                stored = number
            else:
                crc = number
        else:
            place = skip(data, place, end, kind, stack)
