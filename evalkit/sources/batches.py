"""A frame's rows as they come; where the reader fails, also by a panic, that is raised."""

import threading
from collections.abc import Iterator
from queue import Queue

import polars as pl


def stream_batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows in their order, in frames as the streaming engine makes them.

    Polars' own `collect_batches` takes a panic of the reader for the end of the rows: a damaged
    file would count as a short or an empty one. A sink tells how it ended.
    """
    handed: Queue[pl.DataFrame | BaseException | None] = Queue(1)
    is_left = threading.Event()

    def hand(batch: pl.DataFrame) -> bool:
        handed.put(batch)
        return is_left.is_set()

    def read() -> None:
        try:
            frame.sink_batches(hand, maintain_order=True, engine="streaming")
        except BaseException as error:  # a panic is no Exception
            handed.put(error)
        else:
            handed.put(None)

    threading.Thread(target=read, name="reader", daemon=True).start()
    given: pl.DataFrame | BaseException | None = pl.DataFrame()
    try:
        while isinstance(given := handed.get(), pl.DataFrame):
            yield given
    finally:
        is_left.set()
        while isinstance(given, pl.DataFrame):  # nobody wants the rest
            given = handed.get()
    if given is not None:
        raise given
