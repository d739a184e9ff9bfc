"""metrics.parquet and comparisons.parquet: a row each, columns named as in report.json."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from io import BytesIO
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evalkit.report.by_hints import MOST_VALUES, load_json
from evalkit.report.entries import Comparison
from evalkit.report.frames import frame_of, numbers_first
from evalkit.report.json_ import OF_EXPERIMENTS, dump_column, has_any, shown_labels
from evalkit.report.record import Report, once, readable
from evalkit.report.turning import against

if TYPE_CHECKING:
    import polars as pl

TEXT = ("model", "metric", "label", "name", "parameters", "segmentation", "segment", "policies")
MAPPINGS = ("parameters", "policies")
NUMBER = ("value", "low", "high", "std_error", "df")
COLUMNS = (  # the first are what a notebook shows
    *("model", "metric", *NUMBER[:4], "n_users", "n_undefined", "n_clusters", "df", "policies"),
    *("label", "name", "cutoff", "parameters", "segmentation", "segment"),
)
MOST_TEXT, MOST_TEXT_A_CELL = 1 << 28, 64  # bytes of all texts
OF_RUN = ("job", "run_id", "started")  # of files, so that those of many runs are one table


@once
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
            texts = {each: each and readable(each) for each in set(values)}  # few, met very often
            values = [*map(texts.__getitem__, values)]
        if name in NUMBER and not (
            set(map(type, values)) == {float} and all(map(isfinite, values))
        ):
            values = [
                None if each is None or not isfinite(each) else float(each) for each in values
            ]
        found[name] = values
    return found


def metrics_frame(report: Report) -> pl.DataFrame:
    """What metrics.parquet says of one run; NaN and infinity are null, as in report.json."""
    import polars as pl

    kinds = {**dict.fromkeys(TEXT, pl.String), **dict.fromkeys(NUMBER, pl.Float64)}
    schema = {name: kinds.get(name, pl.Int64) for name in COLUMNS}
    return pl.DataFrame(tidy_columns(report), schema=schema)


def tidy_frame(report: Report) -> pl.DataFrame:
    """`metrics_frame`, and beside each number the comparison of its model with the reference."""
    import polars as pl

    from evalkit.report.answer import answer_of

    pairs = against(report.comparisons, answer_of(report).reference)
    place = ["model", "label", "segmentation", "segment"]
    compared = frame_of(Comparison, pairs, readable).select(
        pl.col("candidate").alias("model"),
        pl.col("metric").alias("label"),
        *("segmentation", "segment", "baseline", "delta"),
        pl.col("low").alias("delta_low"),
        pl.col("high").alias("delta_high"),
        *("p_value", "p_adjusted", "verdict"),
    )
    numbers = metrics_frame(report)
    joined = numbers.join(compared, on=place, how="left", nulls_equal=True, maintain_order="left")
    return numbers_first(joined)


def comparisons_frame(report: Report) -> pl.DataFrame:
    """What comparisons.parquet says of one run, as metrics.parquet does."""
    import polars as pl
    import polars.selectors as cs

    frame = frame_of(Comparison, report.comparisons, readable)
    lacking = [name for name in OF_EXPERIMENTS if frame[name].null_count() == frame.height]
    frame = frame.drop(lacking)
    return frame.with_columns(pl.when(cs.float().is_finite()).then(cs.float()))


def tables_of(report: Report) -> dict[str, pl.DataFrame]:
    """What a run's directory holds as Parquet, by the name of the file."""
    import polars as pl

    caveats = [each.caveats and readable(each.caveats) for each in report.estimates]
    metrics = metrics_frame(report).with_columns(
        *(
            pl.Series(name, [getattr(each, name) for each in report.estimates], dtype=pl.Float64)
            for name in ("low_gate", "high_gate")
            if has_any(name, report.estimates)
        ),
        pl.Series("caveats", caveats, dtype=pl.String),
    )
    found = {"metrics.parquet": _of_run(report, metrics)}
    if report.comparisons:
        found["comparisons.parquet"] = _of_run(report, comparisons_frame(report))
    return found


def _of_run(report: Report, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows, and of which job and run they are, and when it began (UTC)."""
    import polars as pl

    job, run_id, started = (
        pl.lit(readable(text)) for text in (report.name, report.run_id, report.meta.started)
    )
    moment = started.str.to_datetime("%+", time_unit="ms", time_zone="UTC", strict=False)
    return frame.with_columns(job=job, run_id=run_id, started=moment)


def read_kept(content: bytes, metrics: Collection[str] | None = None) -> pl.DataFrame:
    """A table of a run, which a stranger may have written; its pages have been looked at.

    Args:
        metrics: read rows of these alone.
    Raises:
        ValueError: this is no table, or it holds too much.
    """
    import polars as pl
    import polars.selectors as cs

    try:
        log = pl.scan_parquet(BytesIO(content))
        if metrics is not None:
            log = log.filter(pl.col("metric").is_in(metrics))
        frame = log.collect()
        texts = frame.select(cs.string().str.len_bytes().cast(pl.Int64).sum())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    n_bytes = sum(each or 0 for each in texts.rows()[0]) if texts.width else 0
    if n_bytes > MOST_TEXT + MOST_TEXT_A_CELL * frame.height * frame.width:
        raise ValueError(f"its texts have {n_bytes:,} bytes")  # a dictionary says them once
    return frame


def read_rows(content: bytes, metrics: Collection[str] | None = None) -> list[dict[str, object]]:
    """The rows of such a file, which a stranger may have written, as report.json has them.

    Args:
        metrics: read rows of these alone.
    Raises:
        ValueError: this is no such table.
    """
    frame = read_kept(content, metrics)
    if frame.height * frame.width > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")
    rows = frame.drop(OF_RUN, strict=False).to_dicts()
    parsed = cache(load_json)
    for name in set(MAPPINGS).intersection(frame.columns):
        for row in rows:
            row[name] = parsed(row[name])
    return rows


def write_metrics_parquet(report: Report, target: Path | IO[bytes]) -> None:
    """Write metrics.parquet to a path or an open binary file."""
    tables_of(report)["metrics.parquet"].write_parquet(target, compression="zstd", statistics=True)
