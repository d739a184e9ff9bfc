"""How many rows, items, models and segments tables have: at most, or counted by reading them."""

from collections.abc import Callable, Sequence
from itertools import chain

import polars as pl

from evalkit.aggregate.segments import MOST_GROUPS, SegmentTable
from evalkit.config import Segmentation
from evalkit.planning.tables import Tables
from evalkit.sources import Table, reading
from evalkit.sources.ids import IdPlan, as_keys
from evalkit.truth import count_runs

FIRST_ROWS, LEAST_RUN = 1 << 14, 4  # that are looked at, and of one user together
LEAST_TEXT_ROW = 4  # bytes of a row of a text file


def most_rows(table: Table) -> int:
    """How many rows a table has at most; counted by reading it where nothing else tells."""
    if table.n_text_bytes is not None:
        return table.n_text_bytes // LEAST_TEXT_ROW
    return count_rows(table)


def most_items(tables: Tables) -> int:
    """How many items lists, train and the table of items have at most."""
    given = [tables.items, tables.train, *users_of_lists(tables)]
    return most_different([each for each in given if each is not None], "item")


def most_different(tables: Sequence[Table], key: str) -> int:
    """How many users or items tables have at most: a row each, but for what footers say."""
    rows = sum(map(most_rows, tables))
    told = [table.extents(key) for table in tables]
    if not all(told):
        return rows
    every = [extent for each in told for extent in each]
    return min(rows, max(most for _, _, most in every) - min(least for _, least, _ in every) + 1)


def by_name(count: Callable[[SegmentTable], Sequence[int]], tables: Tables) -> dict[str, int]:
    """How many segments each segmentation has, as counted table by table."""
    counted = [zip(each.names, count(each), strict=True) for each in tables.segments]
    return dict(chain.from_iterable(counted))


def most_segments(source: SegmentTable) -> list[int]:
    """How many segments the segmentations of a table have at most, crosses left out."""
    return [
        MOST_GROUPS if rule.quantiles is None and rule.edges is None else 1 + _n_buckets(rule)
        for rule in source.rules
    ]


def _n_buckets(rule: Segmentation) -> int:
    return rule.quantiles or len(rule.edges or ()) + 1


def users_of_lists(tables: Tables) -> list[Table]:
    """The tables that say whose lists the rankings hold: of a baseline, those it is made for."""
    return [table if table.made is None else table.made.tables[1] for _, table in tables.rankings]


def count_rows(table: Table) -> int:
    """How many rows a table has before `where`; items of lists at most, or counted by reading."""
    hint = table.most_items() if table.is_list else table.n_rows_hint()
    return table.count_rows() if hint is None else hint


def is_plain(table: Table) -> bool:
    """Whether a table's rows are read as they stand in files that say how many there are."""
    is_whole = table.has_all_rows and table.n_rows_hint() is not None
    columns = table.frame.collect_schema()
    return is_whole and not table.is_list and table.made is None and "model" not in columns


def begins_by_user(table: Table, plan: IdPlan) -> bool:
    """Whether the first rows of rankings are several of each user: if so, none are gathered."""
    with reading(table):
        rows = table.frame.head(FIRST_ROWS).select(plan.key().alias("key")).collect()
    keys = as_keys(rows["key"].drop_nulls())
    return LEAST_RUN * int(count_runs(keys)) <= keys.size


def models_by_score(table: Table, n_models: int) -> int:
    """How many models' ranks are counted at one time, of so many in all tables."""
    names = table.frame.collect_schema()
    return n_models if "model" in names and "rank" not in names else int("rank" not in names)


def count_models(tables: Tables) -> int:
    """How many models the rankings name."""
    n_models = 0
    for _, table in tables.rankings:
        if "model" not in table.frame.collect_schema():
            n_models += 1
            continue
        with reading(table):
            found = table.frame.select(pl.col("model").n_unique()).collect(engine="streaming")
        n_models += int(found.item())
    return n_models


def count_segments(source: SegmentTable) -> list[int]:
    """About how many segments the segmentations of a table have, crosses left out."""
    n_segments = []
    for place, rule in enumerate(source.rules):
        if rule.quantiles is not None or rule.edges is not None or source.table is None:
            n_segments.append(1 + _n_buckets(rule))
            continue
        values = pl.col(f"value_{place}").approx_n_unique()
        with reading(source.table):
            found = source.table.frame.select(values).collect(engine="streaming")
        n_segments.append(1 + min(MOST_GROUPS, int(found.item())))
    return n_segments
