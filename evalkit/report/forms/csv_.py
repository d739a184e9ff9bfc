"""metrics.csv: the rows of metrics.parquet, safe to open in a spreadsheet."""

import csv
import re
from collections.abc import Sequence
from io import StringIO
from typing import cast

from evalkit.config.form_names import Form
from evalkit.report.frames import spell_numbers
from evalkit.report.parquet import COLUMNS, TEXT, tidy_columns
from evalkit.report.record import Report, readable

# What a spreadsheet takes for the begin of a formula (also as East Asian keyboards write it), and
# the mark in front of it, which is doubled by one more where a text begins with it already.
FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def render_csv(report: Report) -> str:
    """One row for each number; undefined is empty.

    Texts are safe as `safe_cell` has them; numbers stay as they are.
    """
    columns = [_cells(name, each) for name, each in tidy_columns(report).items()]
    return "\n".join([",".join(COLUMNS), *map(",".join, zip(*columns, strict=True)), ""])


def _cells(name: str, values: Sequence[str | int | float | None]) -> list[str]:
    if name not in TEXT:
        return spell_numbers(cast(Sequence[float | None], values), safe_cell)
    texts = {each: _quoted(safe_cell(each)) for each in set(values)}  # few, in very many rows
    return [*map(texts.__getitem__, values)]


def _quoted(cell: str) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerow([cell, ""])
    return out.getvalue()[:-2]


def safe_cell(value: str | int | float | None) -> str:
    """`value` as a cell that no spreadsheet runs and no terminal obeys.

    A text that begins as a formula does gets a `'` in front, as one that begins with `'`, so that
    taking one `'` away gives the text back. Control characters but tab and line feed become U+FFFD.
    """
    if isinstance(value, str):
        text = _CONTROLS.sub("\ufffd", readable(value))
        return f"'{text}" if text.startswith(FORMULA) else text
    return "" if value is None else repr(value)


FORM = Form("metrics.csv", render_csv, is_filed=True)
