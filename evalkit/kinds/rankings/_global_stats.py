"""What no share of the users knows by itself: counted over all of them before any is measured.

Each share notes rows that add up: rows that are equal but for `users` and `rows` are one.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from evalkit.aggregate.segments import quantile_edges
from evalkit.config import Config
from evalkit.errors import Faults
from evalkit.kinds.rankings._job import RankingJob, RankingTask
from evalkit.kinds.rankings._splits import numbers_of_users
from evalkit.kinds.rankings.open import open_logs
from evalkit.metrics import needs_of
from evalkit.planning.tables import Tables
from evalkit.planning.work import GlobalStats, MeasureOptions
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM, try_seeds

NOTED = {  # what is noted, of which table or segmentation, and which value of it
    "what": pl.String,
    "name": pl.String,
    "number": pl.Float64,
    "users": pl.Int64,
    "rows": pl.Int64,
}
COUNTED = ("popular", "random")  # baselines that are made of the items of all of train
EDGES, ITEMS, OWNERS, MODELS, USERS = "edges", "items", "owners", "models", "users"
LATEST, WEIGHTS = "latest", "weights"


def unknown_to_shares(task: RankingTask, tables: Tables) -> dict[str, frozenset[str]]:
    """What must be known of all users, and the sections of `Given` that it is read of."""
    found: dict[str, frozenset[str]] = {}
    if task.has_quantiles:
        asks_others = task.of_lists or task.config.policies.unknown_users == "count"
        others = {"rankings", "train", "users"} if asks_others else set()
        found[EDGES] = frozenset({"truth", "segments", *others})
    asks_items = any({"train", "history"} & {*needs_of(each)} for each in task.of_lists)
    if asks_items or any(each.builtin in COUNTED for each in task.config.rankings):
        found[ITEMS] = frozenset({"train"})
    if any(each.builtin == "recent" for each in task.config.rankings):
        found[LATEST] = frozenset({"train"})
    if task.numbers_of_user(2):
        roles = {each.role for each in _with_users(task, tables)}
        found[USERS] = frozenset({"truth"} if task.config.log is not None else roles)
    if any("model" in table.frame.collect_schema() for _, table in tables.rankings):
        found[MODELS] = frozenset({"truth" if task.config.log is not None else "rankings"})
    return found


def _with_users(task: RankingTask, tables: Tables) -> list[Table]:
    """The tables whose users are measured."""
    config, rankings = task.config, [table for _, table in tables.rankings]
    if config.is_truthless:
        return rankings
    counts_others = config.policies.unknown_users == "count" and config.log is None
    return [tables.truth, *(rankings if counts_others else ())]


def note_share(config: Config, options: MeasureOptions) -> pl.DataFrame:
    """What the users of one share add: `NOTED` and, beside it, the item, as keys are made of it.

    What is wrong with the data is passed over: the share finds it again when it is measured. Where
    the latest time of all is known, what items count by theirs is all that is noted.
    """

    tables, _ = open_logs(config, options)
    job = RankingJob(tables.config, options, options.clock(), tables=tables)

    def note(seed: int) -> pl.DataFrame:
        job.begin(seed)
        item = job.reader.plans[1].dtypes[0]
        empty = pl.DataFrame(schema={**NOTED, ITEM: item})
        noting = _notes if options.known is None else _weights
        return pl.concat([empty, *noting(job)], how="diagonal")

    return try_seeds(note)


def _notes(job: RankingJob) -> Iterator[pl.DataFrame]:
    asked = unknown_to_shares(job, job.tables)
    if EDGES in asked:
        for name, numbers in numbers_of_users(job.reader, [None], Faults()).items():
            known = pl.DataFrame({"number": numbers}).drop_nans()
            counted = known.group_by("number").agg(users=pl.len().cast(pl.Int64))
            yield counted.with_columns(what=pl.lit(EDGES), name=pl.lit(name))
    if ITEMS in asked:
        yield from _items(job)
    if LATEST in asked:
        yield from _latest(job)
    if USERS in asked:
        n_users = _count_users(job)
        yield pl.DataFrame({"what": [USERS], "users": [n_users]}, schema_overrides=NOTED)
    if MODELS in asked:
        for number, (_, table) in enumerate(job.tables.rankings):
            if "model" in table.frame.collect_schema():
                names = pl.col("model").cast(pl.String).unique().alias("name")
                with reading(table):
                    found = table.frame.select(names).drop_nulls().collect(engine="streaming")
                where = pl.lit(float(number))
                yield found.with_columns(what=pl.lit(MODELS), number=where)


def _count_users(job: RankingJob) -> int:
    ids, frames = job.reader.plans[0], []
    for table in _with_users(job, job.tables):
        with reading(table):
            rows = table.frame.select(ids.canonical()).drop_nulls().unique()
            frames.append(rows.collect(engine="streaming"))
    return pl.concat(frames).n_unique()


def _items(job: RankingJob) -> Iterator[pl.DataFrame]:
    """How many users of the training log have each item."""
    table, (users, items) = job.tables.train, job.reader.plans
    assert table is not None
    owner = pl.struct(users.canonical()) if len(users.columns) > 1 else users.canonical()[0]
    rows = table.frame.drop_nulls([*users.columns, *items.columns])
    with reading(table):
        kept = rows.select(owner.alias("owner"), *items.canonical()).collect(engine="streaming")
    of_item = pl.col("owner").n_unique().cast(pl.Int64), pl.len().cast(pl.Int64)
    counted = kept.group_by(ITEM).agg(users=of_item[0], rows=of_item[1])
    yield counted.with_columns(what=pl.lit(ITEMS))
    n_users = kept["owner"].n_unique()
    yield pl.DataFrame({"what": [OWNERS], "users": [n_users]}, schema_overrides=NOTED)


def _latest(job: RankingJob) -> Iterator[pl.DataFrame]:
    from evalkit.item_lists.baselines import find_latest  # most runs need none

    assert job.tables.train is not None
    latest = find_latest(job.tables.train)
    if latest is not None:
        yield pl.DataFrame({"what": [LATEST], "name": [str(latest)]})


def _weights(job: RankingJob) -> Iterator[pl.DataFrame]:
    """What each item counts to each baseline `recent`."""
    from evalkit.item_lists.baselines import time_of, weigher

    table, (users, items) = job.tables.train, job.reader.plans
    known = job.options.known
    assert table is not None
    assert known is not None
    rows = table.frame.drop_nulls([*users.columns, *items.columns, "time"])
    with reading(table):
        kept = rows.select(time_of(table), *items.canonical()).collect(engine="streaming")
    for place, rule in enumerate(job.config.rankings):
        if rule.builtin == "recent":
            weigh = weigher(rule, table, known.latest or 0)
            weights = pl.Series("rows", weigh(kept["time"].to_numpy()))
            counted = kept.with_columns(weights).group_by(ITEM).agg(pl.col("rows").sum())
            yield counted.with_columns(what=pl.lit(WEIGHTS), number=pl.lit(float(place)))


def with_weights(known: GlobalStats, noted: pl.DataFrame) -> GlobalStats:
    """The same, and what items count to baselines `recent`, as all shares noted it."""
    weights = {
        int(place): rows.select(ITEM, "rows")
        for (place,), rows in noted.partition_by("number", as_dict=True).items()
    }
    return replace(known, counts={**known.counts, **weights})


def stats_of(config: Config, noted: pl.DataFrame) -> GlobalStats:
    """What is known of all users, from what all shares noted, added up."""
    parts = noted.partition_by("what", as_dict=True)
    nothing = noted.clear()
    edges, models = parts.get((EDGES,), nothing), parts.get((MODELS,), nothing)
    found = {}
    for name, rule in config.segments.named.items():
        if rule.quantiles is not None and rule.item is None:
            own = edges.filter(pl.col("name") == name)
            numbers = np.repeat(own["number"].to_numpy(), own["users"].to_numpy())
            found[name] = quantile_edges(numbers, rule.quantiles)
    names: dict[int, list[str]] = {}
    for number, name in models.select("number", "name").sort("number", "name").rows():
        names.setdefault(int(number), []).append(name)
    n_users = parts.get((OWNERS,), nothing)["users"].sum()
    items = parts.get((ITEMS,), nothing).select(ITEM, "users", "rows")
    n_measured = parts.get((USERS,), nothing)["users"].sum()
    counts = {
        place: items.select(ITEM, "rows")
        for place, table in enumerate(config.rankings)
        if table.builtin in COUNTED
    }
    times = [int(each) for each in parts.get((LATEST,), nothing)["name"]]
    latest = max(times, default=None)
    return GlobalStats(found, items, int(n_users), names, int(n_measured), latest, counts)
