"""TREC files as lazy frames: qrels hold a truth, runs hold rankings."""

import gzip
import re
from typing import IO, Literal, cast

import polars as pl

Kind = Literal["qrels", "run"]
_LINE = "line"
_FIELDS: dict[Kind, dict[str, int]] = {
    # what stands where: topic iteration document relevance | topic Q0 document rank similarity tag
    "qrels": {"user": 0, "iteration": 1, "item": 2, "relevance": 3},
    "run": {"user": 0, "item": 2, "score": 4, "tag": 5},
}
_NEEDED: dict[Kind, int] = {"qrels": 4, "run": 5}
_NUMBER: dict[Kind, str] = {"qrels": "relevance", "run": "score"}


_HEAD = 1 << 16
_SECOND = (b"0", b"Q0", b"q0")  # iterations of qrels, and what stands in every line of a run
_GRADE = re.compile(rb"-?\d{1,4}")
_RANK = re.compile(rb"-?\d+")


def kind_of_lines(path: str) -> Kind | None:
    """What the first lines of a file are: qrels, a run, or neither.

    Both have words of their own that logs of other forms lack: an iteration of 0, or `Q0`, in
    every line. A table of users, items, ratings and times is none, whatever parts its fields;
    one line of numbers alone may be either, and is none.
    """
    found: set[Kind] = set()
    n_lines, has_words = 0, False
    for line in _head_lines(path):
        fields = line.split()
        if not fields or fields[0].startswith(b"#"):
            continue
        n_lines += 1
        has_words |= not all(map(_is_number, fields[:4]))
        if len(fields) < 4 or fields[1] not in _SECOND:
            return None
        if len(fields) == 4 and _GRADE.fullmatch(fields[3]):
            found.add("qrels")
        elif len(fields) > 4 and _RANK.fullmatch(fields[3]) and _is_number(fields[4]):
            found.add("run")
        else:
            return None
    return found.pop() if len(found) == 1 and (has_words or n_lines > 1) else None


def _head_lines(path: str) -> list[bytes]:
    """The whole lines among a file's first bytes; none of a file that is no text."""
    try:
        with open(path, "rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = cast(IO[bytes], gzip.open(file) if is_gzip else file)
            head = stream.read(_HEAD)
    except (OSError, EOFError):
        return []
    if b"\x00" in head:
        return []
    lines = head.split(b"\n")
    return lines if len(head) < _HEAD else lines[:-1]


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def trec_schema(kind: Kind) -> dict[str, pl.DataType]:
    """Columns of a TREC file: ids and tag are text, relevance and score float64."""
    number = _NUMBER[kind]
    return {name: pl.Float64() if name == number else pl.String() for name in _FIELDS[kind]}


def scan_trec(path: str, kind: Kind) -> pl.LazyFrame:
    """The rows of a qrels or run file, lazily, with the columns of `trec_schema`.

    Fields are parted by any number of spaces and tabs. What follows the last field of a line
    is left out, as are empty lines and lines that begin with `#`; a `#` elsewhere is part of
    its field. A run's rank column is not read: TREC orders by similarity.

    Source:
        trec_eval 9.0.8, README and get_qrels.c, get_trec_results.c. It compares similarities
        as float32; these are float64.
    """
    fields = pl.col("fields")
    columns = [
        fields.list.get(place, null_on_oob=name == "tag")
        .cast(pl.Float64 if name == _NUMBER[kind] else pl.String)
        .alias(name)
        for name, place in _FIELDS[kind].items()
    ]
    return _split(pl.scan_lines(path, name=_LINE, glob=False)).select(columns)


def _split(lines: pl.LazyFrame) -> pl.LazyFrame:
    text = pl.col(_LINE).str.replace_all("\t", " ", literal=True)
    fields = text.str.split(" ").list.filter(pl.element() != "")
    return (
        lines.with_columns(fields.alias("fields"))
        .drop(_LINE)
        .filter(
            pl.col("fields").list.len() > 0,
            ~pl.col("fields").list.first().str.starts_with("#"),
        )
    )


def bad_trec_line(path: str, kind: Kind) -> tuple[int, str] | None:
    """Number and fault of the first line that is not TREC; None when all are."""
    lines = pl.scan_lines(path, name=_LINE, glob=False, row_index_name="row", row_index_offset=1)
    needed, number = _NEEDED[kind], _NUMBER[kind]
    fields = pl.col("fields")
    text = fields.list.get(_FIELDS[kind][number], null_on_oob=True)
    bad = (
        _split(lines)
        .filter((fields.list.len() < needed) | text.cast(pl.Float64, strict=False).is_null())
        .select("row", fields.list.len().alias("n"), text.alias("text"))
        .head(1)
        .collect(engine="streaming")
    )
    if bad.is_empty():
        return None
    row, n_fields, value = bad.row(0)
    if n_fields < needed:
        return row, f"the line has {n_fields} of {needed} fields"
    return row, f"{number} is {value!r}"
