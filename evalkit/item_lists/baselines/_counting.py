"""The training log, read once: how much each item counts, and what the wanted users have had."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.errors import CountedError
from evalkit.item_lists.baselines._codes import Codes
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Int32s, Ints
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM, ITEM_KEY, USER_KEY, IdPlan, as_array
from evalkit.truth import BATCH_ROWS, drop_null_ids, null_id_error


@dataclass(frozen=True, slots=True)
class UserHistories:
    """What some users have had, user by user.

    Args:
        starts: int64[n_users + 1], where the rows of each user begin.
        items: int32[n_rows], numbers of items in the order of their ids.
        times: int64[n_rows], of the same rows, where they were asked for; else empty.
    """

    starts: Ints
    items: Int32s
    times: Ints


@dataclass(frozen=True, slots=True)
class TrainCounts:
    """What the training log says.

    Args:
        items: the ids of its items, ascending.
        weights: int64[n_items], by which they are ordered, the largest first.
    """

    items: pl.Series
    weights: Ints
    history: UserHistories


_Part = tuple[Int32s, Int32s, Ints]  # rows of a batch: users, items, times or none


def _by_user(parts: list[_Part], n_users: int, numbers: Ints, *, has_times: bool) -> UserHistories:
    """The rows laid by user, items numbered anew; parts are given back as they are laid."""
    counts = np.zeros(n_users, dtype=np.int64)
    for users, _, _ in parts:
        counts += np.bincount(users, minlength=n_users)
    starts = np.concatenate([[0], counts.cumsum()])
    items = np.empty(starts[-1], dtype=np.int32)
    times = np.empty(starts[-1] if has_times else 0, dtype=np.int64)
    places = starts[:-1].copy()
    parts.reverse()
    while parts:
        lay_by_user(*parts.pop(), numbers, places, items, times)
    return UserHistories(starts, items, times)


@kernel(allocates=False)
def lay_by_user(users, items, old_times, numbers, places, laid, times):  # type: ignore[no-untyped-def]
    """Bring rows of users together, in their order; `places` are where the next ones go."""
    for row in range(users.size):
        place = places[users[row]]
        laid[place] = numbers[items[row]]
        if times.size:
            times[place] = old_times[row]
        places[users[row]] = place + 1


@kernel(allocates=False)
def add_weights(codes, weights, sums):  # type: ignore[no-untyped-def]
    """Add the weight of each row, or 1 where there are none, to its item."""
    for row in range(codes.size):
        sums[codes[row]] += weights[row] if weights.size else 1


def count_train(
    train: Table,
    plans: tuple[IdPlan, IdPlan],
    users: pl.DataFrame,
    *,
    null_ids: str,
    weigh: Callable[[Ints], Ints] | None = None,
    keeps: bool,
    with_times: bool = False,
    counts: pl.DataFrame | None = None,
) -> TrainCounts:
    """Read the training log once.

    Args:
        users: the wanted ones, each once: key, and ids where these are hashed.
        weigh: what rows of such times count; 1 each by default.
        keeps: keep the rows of the wanted users; `with_times`: and when they were.
        counts: `item`, and how many `rows` have it, where the log is a share of a larger one.
    Raises:
        DataError: rows without ids, where the policy forbids them [null-id]; without a time, where
            it is needed [bad-time].
        KeyCollisionError: two ids share a key.
    """
    user_plan, item_plan = plans
    known_users, known_items = Codes(user_plan), Codes(item_plan)
    known_users.encode(users, USER_KEY)
    sums = np.zeros(0, dtype=np.int64)
    if counts is not None:
        whole = counts.cast({ITEM: item_plan.dtypes[0]})
        known_items.encode(whole.select(item_plan.select(ITEM_KEY)), ITEM_KEY)
        sums = counts["rows"].to_numpy().copy()
    parts: list[_Part] = []
    n_null = n_timeless = 0
    columns = [*user_plan.select(USER_KEY), *item_plan.select(ITEM_KEY)]
    has_times = weigh is not None or with_times
    if has_times:
        columns.append(time_of(train))
    with reading(train):
        for batch in train.stream(columns, most=BATCH_ROWS):
            kept, dropped = drop_null_ids(batch)
            n_null += dropped
            if has_times and (without := kept["time"].null_count()):
                n_timeless += without
                continue
            times = as_array(kept["time"]) if has_times else np.empty(0, dtype=np.int64)
            codes = known_items.encode(kept, ITEM_KEY)
            if known_items.n > sums.size:
                sums = np.concatenate([sums, np.zeros(known_items.n, dtype=np.int64)])
            if counts is None:
                add_weights(codes, times[:0] if weigh is None else weigh(times), sums)
            if keeps:
                of_users = known_users.find(kept, USER_KEY)
                wanted = of_users >= 0
                owners, own = (each[wanted].astype(np.int32) for each in (of_users, codes))
                parts.append((owners, own, times[wanted] if with_times else times[:0]))
    if n_timeless:
        message = "{n} rows of the training log have no time"
        hint = "filter them by where"
        raise CountedError(message, n_timeless, code="bad-time", at=train.at, hint=hint)
    if n_null and null_ids == "error":
        raise null_id_error("training log", n_null, train.at)
    ids = known_items.ids[ITEM]
    order = ids.arg_sort().to_numpy().astype(np.int64)
    numbers = np.empty(order.size, dtype=np.int64)
    numbers[order] = np.arange(order.size)
    del known_users
    history = _by_user(parts, users.height, numbers, has_times=with_times)
    return TrainCounts(ids.gather(order), sums[: order.size][order], history)


def time_of(train: Table) -> pl.Expr:
    """The times of a training log as whole numbers: dates as microseconds, others as they are."""
    time = pl.col("time")
    if train.frame.collect_schema()["time"] == pl.Date:
        time = time.cast(pl.Datetime("us"))
    return time.to_physical().cast(pl.Int64)
