"""Rows of rankings with whole lists together, so that what a list has twice is found in them."""

from collections.abc import Iterator, Sequence

import polars as pl

from evalkit.planning.survey import do_users_come_back
from evalkit.sources import Table, reading
from evalkit.sources.batches import stream_batches
from evalkit.sources.ids import IdPlan

MOST_ROWS = 1 << 22  # of lists whose rows lie apart, that are held


def read_whole_lists(
    table: Table, frame: pl.LazyFrame, by: Sequence[str], plan: IdPlan
) -> Iterator[pl.DataFrame]:
    """Rows of a frame of the table, with all of each list in one part; those of no user are left.

    Args:
        by: columns of a list's user and model.
        plan: of users.
    """
    frame, lists = frame.drop_nulls(by), pl.struct(by).hash()
    with reading(table):
        if not do_users_come_back(table, plan):
            yield from _cut(frame, by)
            return
        n_parts = -(-table.count_rows() // MOST_ROWS)
        for part in range(n_parts):
            yield frame.filter(lists % n_parts == part).collect(engine="streaming")


def find_copies(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that stand there more than once, one of each."""
    if rows.hash_rows().n_unique() == rows.height:  # half the time of looking for them
        return rows.head(0)
    return rows.filter(rows.is_duplicated()).unique()


def _cut(frame: pl.LazyFrame, by: Sequence[str]) -> Iterator[pl.DataFrame]:
    held = frame.head(0).collect()
    for few in stream_batches(frame):
        rows = pl.concat([held, few])
        is_other = pl.any_horizontal(pl.col(name) != pl.col(name).last() for name in by)
        last = rows.select(is_other.arg_true().last() + 1).item() or 0
        held = rows[last:]
        if last:
            yield rows[:last]
    yield held
