"""TREC files as lazy frames: qrels hold a truth, runs hold rankings."""

from typing import Literal

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
