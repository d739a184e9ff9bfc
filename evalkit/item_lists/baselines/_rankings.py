"""A baseline as a table of rankings, made when it is read: user, item, rank."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from threading import Lock
from time import time

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from evalkit.config import RankingsTable
from evalkit.errors import DataError, warn
from evalkit.item_lists.baselines import _counting as counting
from evalkit.item_lists.baselines._counting import TrainCounts, UserHistories
from evalkit.item_lists.baselines._lists import fill_drawn, fill_ordered, halve
from evalkit.kernels.arrays import Floats, Int32s, Ints, Keys
from evalkit.sources import ChosenColumns, Made, Table, newest_second, reading
from evalkit.sources.ids import ITEM, USER_KEY, IdPlan, plan_ids, stable_hashes, try_seeds
from evalkit.truth import null_id_error

DEFAULT_K, DEFAULT_SEED, DEFAULT_HALF_LIFE = 50, 1, "30d"
ROWS_A_BATCH = 1 << 19
UNITS = {"m": 60, "h": 3600, "d": 86400}
A_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
RANK = "rank"


def needs_time(rule: RankingsTable) -> bool:
    """Whether a baseline is made of the times of train's rows, too."""
    return rule.builtin == "recent" or (rule.builtin == "last" and rule.by != "count")


def keeps_rows(rule: RankingsTable) -> tuple[bool, bool]:
    """Whether a baseline holds train's rows of its users, and when they were."""
    is_last = rule.builtin == "last"
    return is_last or rule.seen != "keep", is_last and rule.by != "count"


def make_rankings(
    rule: RankingsTable,
    train: Table,
    users: Table,
    *,
    null_ids: str,
    counts: pl.DataFrame | None = None,
) -> Table:
    """The rankings that a baseline gives to users, in the order of their ids.

    Rows of train are read once, and once more for the latest time of `recent`. What is held is 12
    bytes of each train row of these users where their own items matter (28 with its time) while it
    is read, then 4 (12), about 40 of an item and of a user, and some lists on their way.

    Args:
        users: a table with the users, each as often as it may be.
        null_ids: `error` or `drop`, of rows without ids.
        counts: `item`, and what its `rows` of all of train count, where `train` is a share of it.
    Raises:
        DataError: ids of different kinds [id-kind, ...]; no time where it is needed
            [missing-column]. Reading the table raises [null-id], [bad-time].
    """
    schemas = [(each.role, each.at, each.frame.collect_schema()) for each in (users, train)]
    if needs_time(rule) and "time" not in schemas[1][2]:
        message = f"{rule.builtin} needs to know when the rows of train were"
        hint = 'time = "timestamp" under [train.columns]'
        raise DataError(message, code="missing-column", at=train.at, hint=hint)
    of_users = [
        (role, at, {name: each for name, each in schema.items() if name.startswith("user_")})
        for role, at, schema in schemas
    ]
    of_items = [("train", train.at, {ITEM: schemas[1][2][ITEM]})]
    make = partial(_plans, of_users, of_items)
    user_plan, item_plan = make(1)
    columns = dict(zip(user_plan.columns, user_plan.dtypes, strict=True))
    schema = {**columns, ITEM: item_plan.dtypes[0], RANK: pl.Int32()}
    lists = _Lists(rule, train, users, null_ids, counts, make)
    n_users = users.n_rows_hint()
    recipe = rule.model_dump_json(exclude={"model", "path", "columns", "format", "where"})
    names = users.user_names
    chosen: dict[str, str | tuple[str, ...]] = {
        "user": names[0] if len(names) == 1 else names,
        "item": str(train.columns.get("item", ITEM)),
        "rank": RANK,
    }
    return Table(
        role="rankings",
        frame=register_io_source(lists.read, schema=schema, is_pure=True),
        user_names=names,
        at=f"builtin {rule.builtin}",
        paths=(f"builtin {rule.builtin}",),
        chosen=ChosenColumns(chosen),
        model=rule.model,
        made=Made(recipe, (train, users), *keeps_rows(rule)),
        _n_rows=None if n_users is None else n_users * (rule.k or DEFAULT_K),
    )


def _plans(of_users: list, of_items: list, seed: int) -> tuple[IdPlan, IdPlan]:  # type: ignore[type-arg]
    return plan_ids("user", of_users, seed=seed), plan_ids("item", of_items, seed=seed)


@dataclass(frozen=True, slots=True)
class _TrainFacts:
    """What lists are made of: users in the order of their ids, and what train says."""

    users: pl.DataFrame
    hashes: Keys
    counted: TrainCounts


class _Lists:
    """Lists of all users, made as they are read; what train says is found out once."""

    def __init__(
        self,
        rule: RankingsTable,
        train: Table,
        users: Table,
        null_ids: str,
        counts: pl.DataFrame | None,
        plans: Callable[[int], tuple[IdPlan, IdPlan]],
    ) -> None:
        self.rule, self.train, self.users = rule, train, users
        self.null_ids, self.counts, self.plans = null_ids, counts, plans
        self._known: _TrainFacts | None = None
        self._lock = Lock()

    def read(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        """The rows, as Polars asks for them."""
        with self._lock:
            known = self._known = self._known or try_seeds(self._learn)
        for frame in self._frames(known):
            if n_rows is not None:
                frame = frame.head(n_rows)
                n_rows -= frame.height
            shown = frame if predicate is None else frame.filter(predicate)
            yield shown if columns is None else shown.select(columns)
            if n_rows == 0:
                return

    def _learn(self, seed: int) -> _TrainFacts:
        rule, plans = self.rule, self.plans(seed)
        user_plan = plans[0]
        with reading(self.users):
            distinct = self.users.frame.select(user_plan.canonical()).unique()
            found = distinct.sort(user_plan.columns).collect(engine="streaming")
        users = found.drop_nulls()
        if users.height < found.height and self.null_ids == "error":
            raise null_id_error(self.users.role, self._without_user(user_plan), self.users.at)
        keyed = users.select(*user_plan.select(USER_KEY))
        keeps, with_times = keeps_rows(rule)
        counted = counting.count_train(
            self.train,
            plans,
            keyed,
            null_ids=self.null_ids,
            weigh=None if self.rule.builtin != "recent" else self._weigh(),
            keeps=keeps,
            with_times=with_times,
            counts=self.counts,
        )
        return _TrainFacts(users, stable_hashes(keyed, user_plan), counted)

    def _without_user(self, plan: IdPlan) -> int:
        absent = pl.any_horizontal([pl.col(name).is_null() for name in plan.columns])
        with reading(self.users):
            return int(self.users.frame.select(absent.sum()).collect(engine="streaming").item())

    def _weigh(self) -> Callable[[Ints], Ints]:
        is_counted = self.counts is not None  # then times are only looked at whether they are there
        now = 0 if is_counted else find_latest(self.train) or 0
        return weigher(self.rule, self.train, now)

    def _frames(self, known: _TrainFacts) -> Iterator[pl.DataFrame]:
        step = max(1, ROWS_A_BATCH // (self.rule.k or DEFAULT_K))
        fill = self._filler(known)
        for first in range(0, known.users.height, step):
            last = min(first + step, known.users.height)
            users, items, ranks = fill(first, last)
            yield known.users[users].with_columns(
                known.counted.items.gather(items).alias(ITEM), pl.Series(RANK, ranks, pl.Int32)
            )

    def _filler(self, known: _TrainFacts) -> "Callable[[int, int], _Rows]":
        """What gives the rows of some users: their places, items, ranks."""
        counted, rule = known.counted, self.rule
        k = rule.k or DEFAULT_K
        by_count = rule.by == "count"
        if rule.builtin == "last":
            return partial(_own_items, counted.history, k, by_count=by_count)
        history = counted.history
        marks = np.zeros(len(counted.items), dtype=np.int64)
        numbers = np.arange(len(counted.items), dtype=np.int32)
        own = (history.starts if rule.seen != "keep" else np.zeros(1, np.int64), history.items)

        def fill(first: int, last: int) -> _Rows:
            lists = np.empty((last - first, k), dtype=np.int32)
            lengths = np.zeros(last - first, dtype=np.int64)
            out = (first, last, k, marks, lists, lengths)
            if rule.builtin == "random":
                seed = DEFAULT_SEED if rule.seed is None else rule.seed
                fill_drawn(known.hashes, seed, numbers, picks, *own, *out)
            else:
                fill_ordered(order, *own, *out)
            shown = np.arange(k) < lengths[:, None]
            users, ranks = np.nonzero(shown)
            return users + first, lists[shown], ranks + 1

        picks = np.empty(numbers.size, dtype=np.int32)
        order = np.argsort(-counted.weights, kind="stable").astype(np.int32)
        return fill


_Rows = tuple[Ints, Int32s, Ints]


def _own_items(history: UserHistories, k: int, first: int, last: int, *, by_count: bool) -> _Rows:
    """Each user's own items, the latest first, or those of most rows; ties by item id."""
    begin, end = int(history.starts[first]), int(history.starts[last])
    lengths = np.diff(history.starts[first : last + 1])
    rows = pl.DataFrame(
        {
            "user": np.repeat(np.arange(first, last), lengths),
            "item": history.items[begin:end],
            **({} if by_count else {"time": history.times[begin:end]}),
        }
    )
    worth = pl.len() if by_count else pl.col("time").max()
    found = (
        rows.group_by("user", "item")
        .agg(worth.cast(pl.Int64).alias("worth"))
        .sort("user", "worth", "item", descending=[False, True, False])
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
        .filter(pl.col("rank") <= k)
    )
    return found["user"].to_numpy(), found["item"].to_numpy(), found["rank"].to_numpy()


def find_latest(train: Table) -> int | None:
    """The latest time of a training log, told where it is after now; None where it has none.

    Raises:
        DataError: whole numbers that are no seconds [bad-time].
    """
    with reading(train):
        if train.frame.collect_schema()["time"].is_integer():
            latest = newest_second(train.frame, train.columns["time"], train.at)
        else:
            times = train.frame.select(counting.time_of(train).max())
            latest = times.collect(engine="streaming").item()
    if latest is not None and latest > (time() + UNITS["d"]) * _a_second(train):
        message = "the latest time is after now, and ages are counted back from it"
        warn("odd-times", message, at=train.at, hint="leave such rows out")
    return None if latest is None else int(latest)


def _a_second(train: Table) -> int:
    dtype = train.frame.collect_schema()["time"]
    return A_SECOND.get("us" if dtype == pl.Date else str(getattr(dtype, "time_unit", "")), 1)


def weigher(rule: RankingsTable, train: Table, now: int) -> Callable[[Ints], Ints]:
    """What rows count by their times, of the baseline `recent`.

    Args:
        now: the latest time of all of train.
    """
    text = rule.window or rule.half_life or DEFAULT_HALF_LIFE
    span = int(text[:-1]) * UNITS[text[-1]] * _a_second(train)
    if rule.window is not None:
        return partial(_count_window, after=now - span)
    return partial(_halved, now=now, half_life=span)


def _count_window(times: Ints, *, after: int) -> Ints:
    """1 for the rows after a moment, 0 for others."""
    return (times > after).astype(np.int64)


def _halved(times: Ints, *, now: int, half_life: int) -> Ints:
    """Whole numbers that halve with every half-life."""
    weights = np.empty(times.size, dtype=np.int64)
    halve(now - times, half_life, _parts(), weights)
    return weights


def _parts() -> Floats:
    """2^(-i / 1024), the same on every machine."""
    return np.array([float(Decimal(2) ** (Decimal(-i) / 1024)) for i in range(1024)])


def named_columns(table: Table) -> dict[str, str]:
    """Our column names to those that a file of these rankings has."""
    names = {f"user_{place}": name for place, name in enumerate(table.user_names)}
    wanted = {**names, ITEM: str(table.columns["item"]), RANK: RANK}
    plain = {name: each if each.isidentifier() else name for name, each in wanted.items()}
    return plain if len(set(plain.values())) == len(plain) else {name: name for name in wanted}
