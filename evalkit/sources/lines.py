"""Text files of rows: what parts their fields, and spaces that mean nothing."""

from collections.abc import Mapping

import polars as pl

from evalkit.sources.paths import File

SEPARATORS = {"csv": ",", "tsv": "\t"}
_MOST_HEADER = 1 << 16


def trimmed(frame: pl.LazyFrame, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Names and values without the spaces around them, and without quotes behind a space."""
    names = {name: name.strip(" ") for name in frame.collect_schema()}
    text = pl.all().str.strip_chars(" ").str.replace(r'^"(.*)"$', "$1")
    frame = frame.select(pl.when(text != "").then(text)).rename(names)
    casts = [pl.col(name).cast(dtype) for name, dtype in types.items() if name in names.values()]
    return frame.with_columns(casts)


def separator_of(file: File) -> str:
    """A comma or a tab, by the name; of a CSV file without one in its header what stands there."""
    separator = SEPARATORS[file.format]
    if file.remote or file.format != "csv":
        return separator
    header = _header(file)
    others = [each for each in ";\t|" if each.encode() in header]
    return others[0] if len(others) == 1 and b"," not in header else separator


def _header(file: File) -> bytes:
    with open(file.path, "rb") as stream:
        return stream.readline(_MOST_HEADER)


def has_spaces(file: File) -> bool:
    """Whether spaces stand around the names of a header, so that they mean nothing in the rows."""
    if file.format not in SEPARATORS or not file.is_plain_text or file.remote:
        return False
    header = _header(file).rstrip(b"\r\n")
    separator = separator_of(file).encode()
    if b" " + separator not in header and separator + b" " not in header:
        return False
    names = [name.strip(b" ") for name in header.split(separator)]
    is_plain = all(name.count(b'"') in (0, 2) for name in names)
    return is_plain and len(set(names)) == len(names)
