"""The training log, read once: how much each item counts, and what the wanted users have had."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.baselines._codes import Codes
from evalkit.errors import CountedError
from evalkit.ids import ITEM, ITEM_KEY, USER_KEY, IdPlan, as_array
from evalkit.kernels import kernel
from evalkit.sources import Table, reading
from evalkit.truth import BATCH_ROWS, drop_null_ids, null_id_error

Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class History:
    """What some users have had, user by user.

    Args:
        starts: int64[n_users + 1], where the rows of each user begin.
        items: int32[n_rows], numbers of items in the order of their ids.
        times: int64[n_rows], of the same rows, where they were asked for; else empty.
    """

    starts: Places
    items: Numbers
    times: Places


@dataclass(frozen=True, slots=True)
class Counted:
    """What the training log says.

    Args:
        items: the ids of its items, ascending.
        weights: int64[n_items], by which they are ordered, the largest first.
    """

    items: pl.Series
    weights: Places
    history: History


@dataclass(slots=True)
class _Growing:
    """Arrays of one length that rows are added to."""

    users: Numbers = field(default_factory=lambda: np.empty(1 << 16, dtype=np.int32))
    items: Numbers = field(default_factory=lambda: np.empty(1 << 16, dtype=np.int32))
    times: Places = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    size: int = 0

    def add(self, users: Places, items: Places, times: Places | None) -> None:
        """Rows of wanted users."""
        begin, self.size = self.size, self.size + users.size
        if self.size > self.users.size:
            self.users, self.items = (
                np.resize(each, 2 * self.size) for each in (self.users, self.items)
            )
        self.users[begin : self.size], self.items[begin : self.size] = users, items
        if times is not None:
            if self.size > self.times.size:
                self.times = np.resize(self.times, 2 * self.size)
            self.times[begin : self.size] = times

    def by_user(self, n_users: int, numbers: Places) -> History:
        """The rows laid by user; items are numbered anew."""
        starts = np.zeros(n_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.users[: self.size], minlength=n_users), out=starts[1:])
        items = np.empty(self.size, dtype=np.int32)
        times = np.empty(self.size if self.times.size else 0, dtype=np.int64)
        lay_by_user(self.users[: self.size], self.items, self.times, numbers, starts, items, times)
        return History(starts, items, times)


@kernel(allocates=False)
def lay_by_user(users, items, old_times, numbers, starts, laid, times):  # type: ignore[no-untyped-def]
    """Rows of users brought together, in their order; `starts` is as before in the end."""
    for row in range(users.size):
        user = users[row]
        place = starts[user]
        laid[place] = numbers[items[row]]
        if times.size:
            times[place] = old_times[row]
        starts[user] = place + 1
    for user in range(starts.size - 1, 0, -1):
        starts[user] = starts[user - 1]
    starts[0] = 0


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
    weigh: Callable[[Places], Places] | None = None,
    keeps: bool,
    with_times: bool = False,
) -> Counted:
    """Read the training log once.

    Args:
        users: the wanted ones, each once: key, and ids where these are hashed.
        weigh: what rows of such times count; 1 each by default.
        keeps: keep the rows of the wanted users; `with_times`: and when they were.
    Raises:
        DataError: rows without ids, where the policy forbids them [null-id]; without a time, where
            it is needed [bad-time].
        KeyCollisionError: two ids share a key.
    """
    user_plan, item_plan = plans
    known_users, known_items = Codes(user_plan), Codes(item_plan)
    known_users.encode(users, USER_KEY)
    sums = np.zeros(0, dtype=np.int64)
    rows = _Growing()
    n_null = 0
    columns = [*user_plan.select(USER_KEY), *item_plan.select(ITEM_KEY)]
    has_times = weigh is not None or with_times
    if has_times:
        columns.append(time_of(train))
    with reading(train):
        for batch in train.stream(columns, most=BATCH_ROWS):
            kept, dropped = drop_null_ids(batch)
            n_null += dropped
            times = _times_of(kept, train) if has_times else np.empty(0, dtype=np.int64)
            codes = known_items.encode(kept, ITEM_KEY)
            if known_items.n > sums.size:
                sums = np.concatenate([sums, np.zeros(known_items.n, dtype=np.int64)])
            add_weights(codes, times[:0] if weigh is None else weigh(times), sums)
            if keeps:
                of_users = known_users.find(kept, USER_KEY)
                wanted = of_users >= 0
                own_times = times[wanted] if with_times else None
                rows.add(of_users[wanted], codes[wanted], own_times)
    if n_null and null_ids == "error":
        raise null_id_error("training log", n_null, train.at)
    ids = known_items.ids[ITEM]
    order = ids.arg_sort().to_numpy().astype(np.int64)
    numbers = np.empty(order.size, dtype=np.int64)
    numbers[order] = np.arange(order.size)
    history = rows.by_user(users.height, numbers)
    return Counted(ids.gather(order), sums[: order.size][order], history)


def time_of(train: Table) -> pl.Expr:
    """The times of a training log as whole numbers: dates as microseconds, others as they are."""
    time = pl.col("time")
    if train.frame.collect_schema()["time"] == pl.Date:
        time = time.cast(pl.Datetime("us"))
    return time.to_physical().cast(pl.Int64)


def _times_of(rows: pl.DataFrame, train: Table) -> npt.NDArray[Any]:
    times = rows["time"]
    if times.null_count():
        raise CountedError(
            "{n} rows of the training log have no time",
            times.null_count(),
            code="bad-time",
            at=train.at,
            hint="filter them by where",
        )
    return as_array(times)
