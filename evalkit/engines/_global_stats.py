"""A small job first, for what no partition knows: quantiles, popular items, names of models."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from evalkit.engines._cut import Cutter, Surveyor
from evalkit.engines._refusals import refuse_large, refuse_many
from evalkit.engines._task import Task, note_rows
from evalkit.kinds import kind_named
from evalkit.kinds.rankings.kind import (
    LATEST,
    NOTED,
    RankingTask,
    stats_of,
    unknown_to_shares,
    with_weights,
)
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.planning.work import GlobalStats, MeasureOptions
from evalkit.sources.ids import ITEM

TYPES = {pl.String: "string", pl.Float64: "double", pl.Int64: "bigint"}
ADDED = ["users", "rows"]
SHIFTS = {"k": 10, "m": 20, "g": 30, "t": 40}
MOST_WITHOUT_LIMIT = 1 << 62  # where Spark has none


def _type_of_ids(dtype: pl.DataType) -> str:
    """A type of Spark that holds ids of all tables."""
    if isinstance(dtype, pl.Datetime):
        return "timestamp_ntz" if dtype.time_zone is None else "timestamp"
    if dtype in (pl.UInt64, pl.Int128):
        return "decimal(38,0)"
    return {pl.Int64: "bigint", pl.Date: "date", pl.Binary: "binary"}.get(type(dtype), "string")


def find_stats(
    session: Any, tables: Tables, task: Task, cells_of: Callable[[Sequence[int]], Any]
) -> GlobalStats | None:
    """What is known of the users of all partitions; None where nobody asks.

    Args:
        cells_of: those of some tables, by share.
    Raises:
        RequestError: train has too many items, or too many numbers of users would go to the
            driver [not-on-spark].
    """
    options = MeasureOptions(
        sample=task.sample, per_user=task.per_user, per_user_folder=task.folder
    )
    asking = RankingTask(task.config, options, options.clock())
    asked = unknown_to_shares(asking, tables)
    if not asked:
        return None
    sections = frozenset[str]().union(*asked.values())
    parts = [number for number, each in enumerate(task.kept) if each.place.section in sections]
    _, items = plan_ids_of(tables, 1)
    (item,) = items.dtypes
    known = stats_of(task.config, _noted(session, task, item, cells_of(parts)))
    if LATEST in asked:
        train = [number for number in parts if task.kept[number].place.section == "train"]
        weighing = replace(task, known=known)
        known = with_weights(known, _noted(session, weighing, item, cells_of(train)))
    if tables.train is not None:
        n_items = max(known.train.height, *(each.height for each in known.counts.values()), 0)
        refuse_large(n_items, "train has", tables.train.at)
    refuse_many(asking, tables, known, most_numbers(session))
    return known


def _noted(session: Any, task: Task, item: pl.DataType, cells: Any) -> pl.DataFrame:
    """What the users of all partitions note, added up.

    Args:
        item: the type of items.
    """
    from pyspark.sql.functions import sum

    columns = {name: TYPES[dtype] for name, dtype in NOTED.items()} | {ITEM: _type_of_ids(item)}
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    types = session.createDataFrame([], schema).toArrow().schema
    noting = partial(note_rows, pickle.dumps(task), types)
    noted = cells.mapInArrow(noting, schema)
    keys = [name for name in columns if name not in ADDED]
    added = noted.groupBy(*keys).agg(*(sum(name).alias(name) for name in ADDED))
    found = pl.from_arrow(added.toArrow())
    assert isinstance(found, pl.DataFrame)
    read_as: dict[Any, Any] = {**NOTED, ITEM: item}
    return found.cast(read_as)


def survey_rows(
    session: Any, task: Task, read_with: Callable[[Callable[..., Cutter], str], Any]
) -> list[dict[str, Any]] | None:
    """What shares have to know of all rows of a kind that surveys them; None of others.

    Args:
        read_with: what a `Cutter` that is made of the arguments of one gives of all tables.
    """
    kind = kind_named(task.config.kind)
    if kind.survey is None or kind.leaves_rows(task.config, bool(task.per_user)):
        return None
    empty = task.survey({})
    schema = ", ".join(f"{name} {TYPES[type(dtype)]}" for name, dtype in empty.schema.items())
    types = session.createDataFrame([], schema).toArrow().schema
    found = read_with(partial(Surveyor, survey=task.survey, types=types), schema).toArrow()
    return [*empty.to_dicts(), *found.to_pylist()]


def most_numbers(session: Any) -> int:
    """How many numbers of 8 bytes the driver takes from executors."""
    text = str(session.conf.get("spark.driver.maxResultSize", "1g")).lower().removesuffix("b")
    size = int(text[:-1]) << SHIFTS[text[-1]] if text[-1] in SHIFTS else int(text)
    return size // 8 or MOST_WITHOUT_LIMIT
