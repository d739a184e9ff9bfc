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
_MARK = b"\xef\xbb\xbf"  # of the order of bytes, as Windows begins a text
_FIRST_OF_TAG = 5
_NO_RANK = "no rank"  # in place of a score, so that the cast of it fails


def kind_of_lines(path: str) -> Kind | None:
    """What the first lines of a file are: qrels, a run, or neither.

    Both have words of their own that logs of other forms lack: an iteration of 0, or `Q0`, in
    every line. A table of users, items, ratings and times is none, whatever parts its fields;
    one line of numbers alone may be either, and is none.
    """
    found: set[Kind] = set()
    n_lines, has_words = 0, False
    lines = _head_lines(path)
    by_tabs = _is_by_tabs(lines)
    for line in lines:
        fields = [*map(bytes.strip, line.split(b"\t"))] if by_tabs else line.split()
        if not any(fields) or fields[0].startswith(b"#"):
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
    lines = head.removeprefix(_MARK).split(b"\n")
    return lines if len(head) < _HEAD else lines[:-1]


def _is_by_tabs(lines: list[bytes], least: int = _NEEDED["qrels"]) -> bool:
    """Whether tabs alone part the fields of the first lines, so that ids may hold spaces."""
    rows = [line for line in lines if line.strip() and not line.startswith(b"#")]
    return bool(rows) and all(line.count(b"\t") >= least - 1 for line in rows)


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

    Fields are parted by any number of spaces and tabs, or by tabs alone where these part the
    fields of the first lines: then ids may hold spaces. Empty lines and lines that begin with `#`
    are left out; a `#` elsewhere is part of its field. A run's rank is a whole number and no more,
    as TREC orders by similarity; its tag may hold spaces.

    Source:
        trec_eval 9.0.8, README and get_qrels.c, get_trec_results.c. It compares similarities
        as float32; these are float64.
    """
    by_tabs = _is_by_tabs(_head_lines(path), _NEEDED[kind])
    columns = []
    for name, place in _FIELDS[kind].items():
        field = _number_field(kind, by_tabs) if name == _NUMBER[kind] else _field(place)
        field = _tag() if name == "tag" else field
        columns.append(field.cast(pl.Float64 if name == _NUMBER[kind] else pl.String).alias(name))
    lines = pl.scan_lines(path, name=_LINE, glob=False)
    return _split(lines, by_tabs=by_tabs).select(columns)


def _field(place: int) -> pl.Expr:
    return pl.col("fields").list.get(place, null_on_oob=True)


def _tag() -> pl.Expr:
    rest = pl.col("fields").list.slice(_FIRST_OF_TAG)
    return pl.when(rest.list.len() > 0).then(rest.list.join(" "))


def _number_field(kind: Kind, by_tabs: bool) -> pl.Expr:
    """The text of the score or the relevance; no number where the line is shifted."""
    return (
        pl.when(~_is_shifted(kind, by_tabs))
        .then(_field(_FIELDS[kind][_NUMBER[kind]]))
        .otherwise(pl.lit(_NO_RANK))
    )


def _is_shifted(kind: Kind, by_tabs: bool) -> pl.Expr:
    """Whether an id holds a space, so that what follows it is another field than it seems."""
    if kind == "qrels":
        more = _field(_NEEDED[kind]).cast(pl.Float64, strict=False).is_not_null()
        return pl.lit(False) if by_tabs else more
    has_rank = _field(_FIELDS[kind]["score"] - 1).cast(pl.Int64, strict=False).is_not_null()
    if by_tabs:
        return ~has_rank
    # `doc 1` is an id, if the score is a rank and a number follows it, before the tag
    seems = _field(_FIELDS[kind]["score"]).cast(pl.Int64, strict=False).is_not_null()
    seems &= _field(_FIRST_OF_TAG).cast(pl.Float64, strict=False).is_not_null()
    return ~has_rank | ((pl.col("fields").list.len() > _FIRST_OF_TAG + 1) & seems)


def _split(lines: pl.LazyFrame, *, by_tabs: bool) -> pl.LazyFrame:
    text = pl.col(_LINE).str.strip_prefix(_MARK.decode())
    if by_tabs:
        fields = (
            text.str.strip_chars_end("\r")
            .str.split("\t")
            .list.eval(pl.element().str.strip_chars(" "))
        )
    else:
        text = text.str.replace_all("\t", " ", literal=True)
        fields = text.str.split(" ").list.filter(pl.element() != "")
    return (
        lines.filter(text.str.strip_chars() != "")
        .with_columns(fields.alias("fields"))
        .drop(_LINE)
        .filter(~pl.col("fields").list.first().str.starts_with("#"))
    )


def bad_trec_line(path: str, kind: Kind) -> tuple[int, str] | None:
    """Number and fault of the first line that is not TREC; None when all are."""
    lines = pl.scan_lines(path, name=_LINE, glob=False, row_index_name="row", row_index_offset=1)
    by_tabs = _is_by_tabs(_head_lines(path), _NEEDED[kind])
    needed, number = _NEEDED[kind], _NUMBER[kind]
    fields = pl.col("fields")
    text = _field(_FIELDS[kind][number])
    is_bad = (fields.list.len() < needed) | text.cast(pl.Float64, strict=False).is_null()
    bad = (
        _split(lines, by_tabs=by_tabs)
        .filter(is_bad | _is_shifted(kind, by_tabs))
        .select("row", fields.alias("fields"))
        .head(1)
        .collect(engine="streaming")
    )
    if bad.is_empty():
        return None
    row, found = bad.row(0)
    if len(found) < needed:
        return row, f"the line has {len(found)} of {needed} fields"
    place = _FIELDS[kind][number]
    if kind == "qrels" and _is_number(found[place].encode()):
        return row, f"the line has {len(found)} fields, not {needed}: an id may hold a space"
    if kind == "run" and not _RANK.fullmatch(found[place - 1].encode()):
        return row, f"the field of the rank is {found[place - 1]!r}: an id may hold a space"
    if _is_number(found[place].encode()):
        return row, f"the line has {len(found)} fields: an id may hold a space, or the tag"
    return row, f"{number} is {found[place]!r}"
