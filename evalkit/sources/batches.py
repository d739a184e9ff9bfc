"""A frame's rows as they come; where the reader fails, also by a panic, that is raised."""

from collections.abc import Iterator

import polars as pl

END = "__end"


def stream_batches(frame: pl.LazyFrame, n_rows: int | None = None) -> Iterator[pl.DataFrame]:
    """The rows in their order, in frames as the streaming engine makes them.

    Polars' `collect_batches` takes a panic of the reader for the end of the rows: a damaged file
    would count as a short or an empty one. So all rows have to arrive or, where nobody knows how
    many there are, a last one of our own, for a tenth of the reader's time. (A sink raises
    panics, but reads further ahead: 170 MiB and 2 % of the time of 50M rows.)

    Args:
        n_rows: of the frame, where that is known for sure.

    Raises:
        pl.exceptions.ComputeError: the rows ended early.
    """
    whole = frame if n_rows is not None else _with_an_end(frame)
    n_read = 0
    for batch in whole.collect_batches(maintain_order=True, engine="streaming"):
        is_last = False
        if n_rows is None:
            # in place: `drop` takes longer than all else that is done with a batch here
            is_last = bool(batch.drop_in_place(END).tail(1).any())
        rows = batch.head(-1) if is_last else batch
        n_read += rows.height
        if rows.height or not is_last:
            yield rows
        if is_last:
            return
    if n_read != n_rows:
        raise pl.exceptions.ComputeError("the reader broke off before the last row")


def _with_an_end(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The frame with one more row, which alone is marked in the column `END`."""
    last = pl.DataFrame(schema=frame.collect_schema()).clear(1)
    marked = last.lazy().with_columns(pl.lit(True).alias(END))
    return pl.concat([frame.with_columns(pl.lit(False).alias(END)), marked])
