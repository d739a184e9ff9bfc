"""metrics.csv: the rows of metrics.parquet, safe to open in a spreadsheet."""

import csv
from io import StringIO

from evalkit.report.parquet import COLUMNS, TEXT, tidy_columns
from evalkit.report.record import Report

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: Report) -> str:
    """One row for each number; undefined is empty.

    A text that a spreadsheet would run as a formula gets a `'` in front.
    """
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    columns = [[_cell(name, each) for each in of] for name, of in tidy_columns(report).items()]
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()


def _cell(column: str, value: str | int | float | None) -> str:
    if value is None:
        return ""
    if column in TEXT and isinstance(value, str):
        return safe_cell(value)
    return repr(value)


def safe_cell(value: str | int | float | None) -> str:
    """`value` as a cell that no spreadsheet runs."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    return "" if value is None else repr(value)
