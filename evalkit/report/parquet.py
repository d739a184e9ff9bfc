"""metrics.parquet: one row for each number, columns named as in report.json."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evalkit.report.json_ import dump_column, shown_labels
from evalkit.report.record import Report, finite, readable

if TYPE_CHECKING:
    import polars as pl

TEXT = ("model", "metric", "label", "name", "parameters", "segmentation", "segment", "policies")
MAPPINGS = ("parameters", "policies")
NUMBER = ("value", "low", "high", "std_error", "df")
COLUMNS = (
    "model",
    "metric",
    "label",
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
    "n_clusters",
    "df",
    "policies",
)


def tidy_columns(report: Report) -> dict[str, list[str | int | float | None]]:
    """The entries of `metrics`, flat: `parameters` and `policies` are JSON text."""
    found: dict[str, list[str | int | float | None]] = {}
    for name in COLUMNS:
        values: list[Any] = (
            shown_labels(report) if name == "label" else [*map(attrgetter(name), report.estimates)]
        )
        if name in MAPPINGS:
            values = [*dump_column(values)]
        if name in TEXT:
            values = [None if each is None else readable(each) for each in values]
        found[name] = [*map(finite, values)] if name in NUMBER else values
    return found


def metrics_frame(report: Report) -> pl.DataFrame:
    """The rows of metrics.parquet; NaN and infinity are null, as in report.json."""
    import polars as pl

    kinds = {**dict.fromkeys(TEXT, pl.String), **dict.fromkeys(NUMBER, pl.Float64)}
    schema = {name: kinds.get(name, pl.Int64) for name in COLUMNS}
    return pl.DataFrame(tidy_columns(report), schema=schema)


def write_metrics_parquet(report: Report, target: Path | IO[bytes]) -> None:
    """Write metrics.parquet to a path or an open binary file."""
    metrics_frame(report).write_parquet(target, compression="zstd", statistics=True)
