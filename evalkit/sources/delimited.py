"""Text files whose fields a separator parts: their columns, their rows, and rows that do not fit.

A row of more or fewer fields than the first line is refused, as one that is cut or shifted. Polars
fills such rows up, or leaves the rest out.
"""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

import polars as pl

from evalkit.config.credentials import reader_options
from evalkit.errors import DataError
from evalkit.sources.paths import File
from evalkit.sources.shell import writing

MORE = "__more"  # what stands behind the last column of a row
Use: TypeAlias = Literal["id", "number", "any"]  # what a column of text files serves as
SHORT, LONG = "__short", "__long"
SEPARATORS = {"csv": ",", "tsv": "\t"}
_DOUBLE = "::"  # of MovieLens 1M and 10M; nothing is quoted there
_MOST_HEADER = 1 << 16
_LINE, _FIELDS = "__line", "__fields"
_MARK = "\ufeff"  # of the order of bytes, as Windows begins a text
_AGAIN = re.compile(r"_duplicated_\d+$")


def columns_of(file: File) -> tuple[str, ...]:
    """The names in the first line; `column_1`, `column_2`, ... of a file without a header.

    Raises:
        DataError: a name stands there twice [duplicate-column].
    """
    separator = separator_of(file)
    if file.header is False or separator == _DOUBLE:
        first = first_row(file, separator)
        if file.header is False:
            return tuple(f"column_{place}" for place in range(1, len(first) + 1))
        names = first
    else:
        names = tuple(_scan_csv(file, separator, {}).collect_schema())
        has_more = any(map(_AGAIN.search, names)) or len({*map(str.strip, names)}) < len(names)
        if not has_more:
            return tuple(name.strip(" ") for name in names) if has_spaces(file) else names
        first = first_row(file, separator)
    counts = Counter(name.strip() for name in first)
    twice = [name for name, count in counts.items() if count > 1 and name]
    if twice and not (file.header is None and looks_like_a_row(first)):  # told as no header
        message = f"the first line names the column {twice[0]!r} {counts[twice[0]]} times"
        hint = "give every column a name of its own"
        raise DataError(message, code="duplicate-column", at=file.path, hint=hint)
    return names


def looks_like_a_row(names: Sequence[str]) -> bool:
    """Whether what should name columns is a row: numbers, but for those that count columns."""
    numbers = [name for name in names if _is_number(name)]
    if not numbers or len(numbers) == len(names):
        return bool(numbers)
    if len(numbers) == 1 or not all(name.isdecimal() for name in numbers):
        return True
    first = int(numbers[0])
    return [int(name) for name in numbers] != [*range(first, first + len(numbers))]


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return float(text) == float(text)
    return False


def scan_delimited(
    file: File, names: Sequence[str], types: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """Rows as the columns `names` and `MORE`; text, unless `types` says otherwise.

    An empty line is a row of nulls.
    """
    separator = separator_of(file)
    empty = [name for name, dtype in types.items() if dtype == pl.Null]  # of a header alone
    if empty:
        rows = scan_delimited(file, names, {k: v for k, v in types.items() if k not in empty})
        return rows.with_columns(pl.col(name).cast(pl.Null) for name in empty)
    if separator == _DOUBLE:
        return _scan_double(file, names, types)
    if file.remote:
        return _scan_csv(file, separator, types).with_columns(pl.lit(None, pl.String).alias(MORE))
    is_spaced = has_spaces(file)
    read = {} if is_spaced else types
    schema = {name: read.get(name, pl.String()) for name in (*names, MORE)}
    frame = pl.scan_csv(
        file.path,
        separator=separator,
        has_header=file.header is not False and not is_spaced,
        skip_lines=int(is_spaced),
        schema=schema,
        missing_columns="insert",
        glob=False,
    )
    return _trimmed(frame, names, types) if is_spaced else frame


def _trimmed(
    frame: pl.LazyFrame, names: Sequence[str], types: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """Values without the spaces around them, and without quotes behind a space."""
    columns = []
    for name in names:
        text = pl.col(name).str.strip_chars(" ").str.replace(r'^"(.*)"$', "$1")
        columns.append(
            pl.when(text != "").then(text).cast(types.get(name, pl.String())).alias(name)
        )
    return frame.with_columns(columns)


def has_spaces(file: File) -> bool:
    """Whether spaces stand around the names of a header, so that they mean nothing in the rows."""
    if file.format not in SEPARATORS or file.header is False or file.remote:
        return False
    header, separator = _first_line(file).rstrip(b"\r\n"), separator_of(file).encode()
    if separator == _DOUBLE.encode():
        return False
    if b" " + separator not in header and separator + b" " not in header:
        return False
    names = [name.strip(b" ") for name in header.split(separator)]
    return all(name.count(b'"') in (0, 2) for name in names) and len({*names}) == len(names)


def _scan_csv(file: File, separator: str, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """As Polars finds the columns; those of a file without a header are numbered from 1."""

    def number(names: list[str]) -> list[str]:
        return [f"column_{place}" for place in range(1, len(names) + 1)]

    return pl.scan_csv(
        file.path,
        separator=separator,
        has_header=file.header is not False,
        with_column_names=number if file.header is False else None,
        infer_schema=False,
        schema_overrides=types,
        glob=file.remote,
        storage_options=reader_options(file.path) if file.remote else None,
    )


def _scan_double(
    file: File, names: Sequence[str], types: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    lines = pl.scan_lines(file.path, name=_LINE, glob=False)
    if file.header is not False:
        lines = lines.slice(1)
    text = pl.col(_LINE).str.strip_prefix(_MARK)
    fields = pl.when(text != "").then(text).str.split(_DOUBLE)
    columns = [
        pl.col(_FIELDS)
        .list.get(place, null_on_oob=True)
        .cast(types.get(name, pl.String()))
        .alias(name)
        for place, name in enumerate((*names, MORE))
    ]
    return lines.select(fields.alias(_FIELDS)).select(columns)


def first_row(file: File, separator: str) -> tuple[str, ...]:
    """The fields of the first line."""
    if separator == _DOUBLE:
        line = _first_line(file).decode(errors="replace")
        return tuple(line.removeprefix(_MARK).rstrip("\r\n").split(_DOUBLE))
    row = pl.scan_csv(
        file.path,
        separator=separator,
        has_header=False,
        infer_schema=False,
        n_rows=1,
        glob=file.remote,
        storage_options=reader_options(file.path) if file.remote else None,
    ).collect()
    return tuple(value or "" for value in row.row(0)) if row.height else ()


def _first_line(file: File) -> bytes:
    """Nothing of a file that cannot be read here."""
    name = file.path.lower()
    if name.endswith(".gz"):
        with suppress(OSError, EOFError), gzip.open(file.path) as packed:
            return packed.readline(_MOST_HEADER)
        return b""
    if not file.is_plain_text:
        return b""
    with open(file.path, "rb") as stream:
        return stream.readline(_MOST_HEADER)


def separator_of(file: File) -> str:
    """A comma or a tab, by the name; of a CSV file without one in its header what stands there."""
    separator = SEPARATORS[file.format]
    if file.remote or file.format != "csv":
        return separator
    header = _first_line(file)
    if _DOUBLE.encode() in header and header.find(b",") < 0:
        return _DOUBLE
    others = [each for each in ";\t|" if each.encode() in header]
    return others[0] if len(others) == 1 and b"," not in header else separator


# ---------------------------------------------------------------- rows that do not fit


def doubts(names: Sequence[str]) -> list[pl.Expr]:
    """Columns `SHORT` and `LONG`: whether a row may have fewer fields, whether it has one more."""
    is_short = pl.nth(len(names) - 1).is_null()  # by place: Polars takes a name `*` for all
    if len(names) > 1:
        is_short &= pl.nth(0).is_not_null()  # no empty line
    return [is_short.alias(SHORT), pl.col(MORE).is_not_null().alias(LONG)]


def ragged_row(file: File, n_columns: int) -> DataError | None:
    """The first row that has more or fewer fields than the first line; None where all fit."""
    found = _first_ragged(file, n_columns)
    if found is None:
        return None
    line, n_fields = found
    hint = "write the file again; a row that is cut or has a separator inside a field is another's"
    if n_fields > n_columns:
        hint = 'put fields that hold the separator into quotes, as "Toy Story, The"'
        if line == 2 and n_fields == n_columns + 1:
            sed = f"sed '1s/^/\"row\"{separator_of(file)}/' FILE"
            named = writing(sed, file.path, ".csv")
            hint += f"; where R wrote names of rows, name their column: {named}"
    elif lacks_line_end(file):
        hint = "its last line has no end: the file is cut short, write it again"
    message = (
        f"the row has {'more' if n_fields > n_columns else 'fewer'} fields than the first line: "
        f"{n_fields}, not {n_columns}"
    )
    return DataError(message, code="unreadable-file", at=f"{file.path}:{line}", hint=hint)


def _first_ragged(file: File, n_columns: int) -> tuple[int, int] | None:
    separator = separator_of(file)
    if file.remote:
        return None
    line = pl.col(_LINE).str.strip_chars_end("\r")
    is_quoted = pl.lit(separator != _DOUBLE) & line.str.contains('"', literal=True)
    lines = pl.scan_lines(
        file.path, name=_LINE, glob=False, row_index_name="row", row_index_offset=1
    )
    quotes = line.str.count_matches('"', literal=True)
    if (
        separator != _DOUBLE
        and lines.select((quotes % 2 == 1).any()).collect(engine="streaming").item()
    ):
        for number, row in _rows_of(file, separator):  # a field has several lines
            if len(row) < n_columns or len(row) > n_columns + (row[-1] == ""):
                return number, len(row)
        return None
    plain = pl.when(is_quoted).then(line.str.replace_all('"[^"]*"', "")).otherwise(line)
    n_fields = plain.str.count_matches(separator, literal=True) + 1
    is_more = n_fields > n_columns
    if separator != _DOUBLE:  # a last separator, behind which nothing stands, is none
        is_more &= ~((n_fields == n_columns + 1) & line.str.ends_with(separator))
    found = (
        lines.filter(line != "")
        .select("row", n_fields.alias("n"), is_more.alias("more"))
        .filter((pl.col("n") < n_columns) | pl.col("more"))
        .head(1)
        .collect(engine="streaming")
    )
    return None if found.is_empty() else (found["row"][0], found["n"][0])


def _rows_of(file: File, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line and fields of each row, read slowly."""
    is_gzip = file.path.lower().endswith(".gz")
    if not is_gzip and not file.is_plain_text:
        return  # Zstandard: nothing else of ours unpacks it
    opening = gzip.open if is_gzip else open
    with opening(file.path, "rt", encoding="utf-8-sig", errors="replace", newline="") as stream:
        reader = csv.reader(stream, delimiter=separator)
        line = 1
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1


def lacks_line_end(file: File) -> bool:
    """Whether the last line of a local text file, which is not compressed, has no end."""
    if file.remote or not file.is_plain_text:
        return False
    with suppress(OSError), open(file.path, "rb") as stream:
        if stream.seek(0, 2):
            stream.seek(-1, 2)
            return stream.read(1) not in (b"\n", b"\r")
    return False


# ---------------------------------------------------------------- types

CANDIDATES: dict[Use, tuple[pl.DataType, ...]] = {
    "id": (pl.Int64(), pl.UInt64()),
    "number": (pl.Int64(), pl.Float64(), pl.Boolean()),
    "any": (pl.Int64(), pl.UInt64(), pl.Float64(), pl.Boolean()),
}


# how programs write a null where an id belongs
NO_IDS = ("\\N", "NULL", "null", "NA", "N/A", "<NA>", "nan", "NaN", "None")
SUMS = ("Total", "TOTAL", "total", "Grand Total", "Sum", "SUM", "sum")  # of a last row


def type_tests(name: str, use: Use, *, is_first: bool = False) -> list[pl.Expr]:
    """Expressions `<name> <type>`: does each value fit; `<name> any`: is there one at all;
    `<name> text`: a value that is no number; `<name> word`: one of `NO_IDS` or `SUMS`, if all
    others are.

    Args:
        is_first: only of the first candidate, which is an integer, and whether there is a value.
    """
    text = pl.when(pl.col(name) != "").then(pl.col(name))
    tests = [text.is_not_null().any().alias(f"{name} any")]
    if use == "number" and not is_first:
        no_number = text.cast(pl.Float64, strict=False).is_null() & text.is_not_null()
        tests.append(text.filter(no_number).first().alias(f"{name} text"))
    if use == "id" and not is_first:
        is_word = text.is_in(NO_IDS + SUMS)
        is_number = text.cast(pl.Int64, strict=False).is_not_null()
        are_both = (is_number | is_word | text.is_null()).all() & is_number.any()
        word = pl.when(are_both).then(text.filter(is_word).first())
        tests.append(word.alias(f"{name} word"))
    for dtype in CANDIDATES[use][: 1 if is_first else None]:
        if dtype == pl.Boolean:
            fits = text.is_in(["true", "false"])
        elif dtype.is_integer() and use != "number":
            is_short = text.str.len_bytes() == 1
            is_odd = text.str.starts_with("0") | text.str.starts_with("-0")
            is_odd |= text.str.starts_with("+")
            fits = text.cast(dtype, strict=False).is_not_null() & (is_short | ~is_odd)
        else:
            fits = text.cast(dtype, strict=False).is_not_null()
            if use == "any":
                fits = fits & ~text.str.contains(r"^[+-]?0[0-9]")
        tests.append((fits.fill_null(False) | text.is_null()).all().alias(f"{name} {dtype}"))
    return tests
