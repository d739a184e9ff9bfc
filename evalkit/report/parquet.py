"""metrics.parquet: one row for each number, columns named as in report.json."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

from evalkit.report.json_ import dump_line, estimate_row
from evalkit.report.record import Report, readable

if TYPE_CHECKING:
    import polars as pl

TEXT = ("model", "metric", "name", "parameters", "segmentation", "segment", "policies")
WHOLE = ("cutoff", "n_users", "n_undefined")
NUMBER = ("value", "low", "high", "std_error")
COLUMNS = (
    "model",
    "metric",
    "name",
    "cutoff",
    "parameters",
    "segmentation",
    "segment",
    "value",
    "low",
    "high",
    "std_error",
    "n_users",
    "n_undefined",
    "policies",
)


def tidy_rows(report: Report) -> list[dict[str, str | int | float | None]]:
    """The entries of `metrics`, flat: `parameters` and `policies` are JSON text."""
    rows: list[dict[str, str | int | float | None]] = []
    for estimate in report.estimates:
        row: dict[str, str | int | float | None] = {}
        for key, value in estimate_row(estimate).items():
            if isinstance(value, dict):
                row[key] = readable(dump_line(value))
            elif isinstance(value, str):
                row[key] = readable(value)
            elif value is None or isinstance(value, int | float):
                row[key] = value
            else:
                raise TypeError(f"{key} of {estimate.metric} is {value!r}")
        rows.append(row)
    return rows


def metrics_frame(report: Report) -> pl.DataFrame:
    """The rows of metrics.parquet; NaN and infinity are null, as in report.json."""
    import polars as pl

    kinds = {**dict.fromkeys(TEXT, pl.String), **dict.fromkeys(NUMBER, pl.Float64)}
    schema = {name: kinds.get(name, pl.Int64) for name in COLUMNS}
    return pl.DataFrame(tidy_rows(report), schema=schema, orient="row")


def write_metrics_parquet(report: Report, target: Path | IO[bytes]) -> None:
    """Write metrics.parquet to a path or an open binary file."""
    metrics_frame(report).write_parquet(target, compression="zstd", statistics=True)
