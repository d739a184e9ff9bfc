"""The truth: what the rankings of a run are held against, read from the interactions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Policies
from evalkit.errors import DataError, RequestError
from evalkit.keys import (
    ITEM,
    ITEM_KEY,
    USER_KEY,
    IdPlan,
    KeyCollisionError,
    Keys,
    Sample,
    Share,
    as_keys,
    same_ids,
)
from evalkit.metrics import kernel
from evalkit.pairs import UserItems, build_user_items
from evalkit.sources import Table, reading
from evalkit.threads import ordered_map

_NO_IDS = pl.DataFrame()


@dataclass(frozen=True, slots=True)
class Truth:
    """What a run holds rankings against: items with a gain, by user, and the ids behind the keys.

    Args:
        pairs: items by user.
        relevant_from: an item is relevant from this relevance on.
        has_threshold: some items with a gain may not be relevant.
        user_plan: how user ids become keys.
        item_plan: how item ids become keys.
        user_ids: the id columns of each user code; only for hashed ids, otherwise empty.
        item_ids: ids of `item_keys`, in their order; only for hashed ids.
        item_keys: uint64[n_items] ascending; only for hashed ids.
        counts: rows and reasons, for the report.
    """

    pairs: UserItems
    relevant_from: float
    has_threshold: bool
    user_plan: IdPlan
    item_plan: IdPlan
    user_ids: pl.DataFrame
    item_ids: pl.DataFrame
    item_keys: Keys
    n_relevant: npt.NDArray[np.int64]
    counts: "TruthRows"

    def ids_of_users(self, codes: npt.NDArray[np.int64]) -> pl.DataFrame:
        """The id columns of user codes, in their order."""
        if self.user_plan.hashed:
            return self.user_ids[codes]
        dtype = self.user_plan.dtypes[0]
        keys = self.pairs.users[codes]
        physical = pl.Series(
            self.user_plan.columns[0], keys if dtype == pl.UInt64 else keys.view(np.int64)
        )
        if dtype == pl.Date:
            physical = physical.cast(pl.Int32)
        return pl.DataFrame([physical.cast(dtype)])

    def order_of_users(self) -> npt.NDArray[np.int64]:
        """User codes in ascending order of their ids."""
        ids = self.ids_of_users(np.arange(self.pairs.n_users))
        order: npt.NDArray[np.int64] = (
            ids.select(pl.arg_sort_by(ids.columns)).to_series().to_numpy().astype(np.int64)
        )
        return order


@dataclass(frozen=True, slots=True)
class TruthRows:
    """Where the truth's rows went: rows in = rows used + rows dropped."""

    rows: int
    null_ids: int
    duplicates: int
    negative: int
    not_sampled: int

    @property
    def rows_used(self) -> int:
        """Rows that became a judged (user, item) pair."""
        return self.rows - self.null_ids - self.duplicates - self.not_sampled


@kernel
def count_relevant(starts, counts, relevance, relevant_from, out):  # type: ignore[no-untyped-def]
    """Relevant items of each user; `out` int64[n_users] is filled."""
    for user in range(starts.size):
        if relevance.size == 0:
            out[user] = counts[user]
            continue
        n_relevant = 0
        for place in range(starts[user], starts[user] + counts[user]):
            if relevance[place] >= relevant_from:
                n_relevant += 1
        out[user] = n_relevant


SMALLEST_POSITIVE = 5e-324


def build_truth(
    table: Table,
    *,
    threshold: float | None,
    user_plan: IdPlan,
    item_plan: IdPlan,
    policies: Policies,
    threads: int,
    sample: Sample | None = None,
    share: Share | None = None,
    clock: Callable[[str], None] = lambda stage: None,
) -> Truth:
    """Read the interactions and group them by user.

    Raises:
        RequestError: no item can reach the threshold [threshold-without-relevance].
        DataError: [null-id], [duplicate-truth], [bad-relevance], [negative-relevance] as the
            policies ask.
        KeyCollisionError: two ids share a key.
    """
    schema = table.frame.collect_schema()
    has_relevance = "relevance" in schema
    columns = [*user_plan.select(USER_KEY), *item_plan.select(ITEM_KEY)]
    if has_relevance:
        columns.append(pl.col("relevance").cast(pl.Float64))
    keeps_ids = user_plan.hashed or item_plan.hashed
    rows = _Rows.read(table, columns, sample, share, keeps_ids=keeps_ids, threads=threads)
    clock("read")
    if rows.null_ids and policies.null_ids == "error":
        raise null_id_error("truth", rows.null_ids, table.at)
    relevance = _checked(rows, table) if has_relevance else None
    relevant_from = SMALLEST_POSITIVE if threshold is None else threshold
    adds_up = policies.truth_duplicates == "sum"
    if relevance is None and relevant_from > 1.0 and not adds_up:
        raise RequestError(
            f"threshold is {threshold}, and the truth has no relevance",
            code="threshold-without-relevance",
            at=table.at,
            hint='name its column, such as relevance = "rating" under [truth.columns]',
        )
    if adds_up:  # a row without relevance counts 1
        relevance = np.ones(rows.users.size) if relevance is None else relevance
    elif relevance is not None and bool((relevance == 1.0).all()) and relevant_from <= 1.0:
        relevance = None  # all the same: nothing to carry along
    pairs, found = build_user_items(
        rows.users,
        rows.items,
        relevance,
        owned=True,
        relevant_from=relevant_from,
        duplicates=policies.truth_duplicates,
        keep_negative=policies.negative_relevance == "subtract",
        with_rows=user_plan.hashed,
        threads=threads,
    )
    user_ids, item_ids, item_keys = _real_ids(rows, pairs, user_plan, item_plan)
    n_relevant = np.empty(pairs.n_users, dtype=np.int64)
    count_relevant(pairs.starts, pairs.counts, pairs.relevance, relevant_from, n_relevant)
    truth = Truth(
        pairs,
        relevant_from,
        threshold is not None and relevance is not None,
        user_plan,
        item_plan,
        user_ids,
        item_ids,
        item_keys,
        n_relevant,
        TruthRows(rows.n_rows, rows.null_ids, found.duplicates, found.negative, rows.not_sampled),
    )
    if found.duplicates and policies.truth_duplicates == "error":
        raise DataError(
            f"{found.duplicates:,} rows of the truth repeat a user's item",
            code="duplicate-truth",
            at=f"{table.at}: {_name_users(truth, [user for user, _ in found.examples])}",
            hint='write truth_duplicates = "max", "sum" or "last" under [policies]',
        )
    if found.negative and policies.negative_relevance == "error":
        raise DataError(
            f"{found.negative:,} items of the truth have a relevance below 0",
            code="negative-relevance",
            at=table.at,
            hint='write negative_relevance = "ignore" or "subtract" under [policies]',
        )
    return truth


@dataclass(slots=True)
class _Rows:
    """The interactions as arrays of our own, filled batch by batch while they are decoded.

    Args:
        users, items, relevance: the first `size` places are filled.
        frames: the rows themselves, where real ids are needed beside their keys.
    """

    users: Keys
    items: Keys
    relevance: npt.NDArray[np.float64]
    size: int = 0
    n_rows: int = 0
    null_ids: int = 0
    not_sampled: int = 0
    null_relevance: int = 0
    frames: list[pl.DataFrame] = field(default_factory=list)

    @classmethod
    def read(
        cls,
        table: Table,
        columns: list[pl.Expr],
        sample: Sample | None,
        share: Share | None,
        *,
        keeps_ids: bool,
        threads: int,
    ) -> "_Rows":
        """All rows with ids, of the sample and of the share."""
        lazy = table.frame.select(columns)
        is_graded = "relevance" in lazy.collect_schema()
        # untouched room costs nothing, so what the metadata says may be too much
        room = table.n_rows_hint()
        rows = cls(
            np.empty(room or 1 << 16, dtype=np.uint64),
            np.empty(room or 1 << 16, dtype=np.uint64),
            np.empty((room or 1 << 16) if is_graded else 0, dtype=np.float64),
        )

        def placed() -> Iterator[tuple[pl.DataFrame, int]]:
            for batch in lazy.collect_batches(maintain_order=True, engine="streaming"):
                part, null_ids = drop_null_ids(batch)
                if share is not None:
                    part = part.filter(pl.Series(share.holds(as_keys(part[USER_KEY]))))
                    null_ids = null_ids if share.is_first else 0
                rows.null_ids += null_ids
                rows.n_rows += part.height + null_ids
                if sample is not None:
                    chosen = part.filter(pl.Series(sample.holds(part)))
                    rows.not_sampled += part.height - chosen.height
                    part = chosen
                if is_graded:
                    rows.null_relevance += part["relevance"].null_count()
                if keeps_ids:
                    rows.frames.append(part)
                if room is None:
                    rows._make_room(rows.size + part.height)
                yield part, rows.size
                rows.size += part.height

        with reading(table):  # arrays that may still grow are written by one thread
            copying = ordered_map(rows._write, placed(), threads=threads if room else 1)
            for _ in copying:
                pass
        rows.users, rows.items = rows.users[: rows.size], rows.items[: rows.size]
        rows.relevance = rows.relevance[: rows.size if is_graded else 0]
        return rows

    def _make_room(self, n_rows: int) -> None:
        more = 2 * n_rows - self.users.size
        if n_rows > self.users.size:
            self.users = np.concatenate([self.users, np.empty(more, dtype=np.uint64)])
            self.items = np.concatenate([self.items, np.empty(more, dtype=np.uint64)])
            if self.relevance.size:
                self.relevance = np.concatenate([self.relevance, np.empty(more)])

    def _write(self, placed: tuple[pl.DataFrame, int]) -> None:
        part, begin = placed
        end = begin + part.height
        self.users[begin:end] = as_keys(part[USER_KEY])
        self.items[begin:end] = as_keys(part[ITEM_KEY])
        if "relevance" in part.columns:
            self.relevance[begin:end] = part["relevance"].fill_null(0.0).to_numpy()


def drop_null_ids(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows whose user and item exist, and how many others there were."""
    if not frame[USER_KEY].null_count() and not frame[ITEM_KEY].null_count():
        return frame, 0
    kept = frame.drop_nulls([USER_KEY, ITEM_KEY])
    return kept, frame.height - kept.height


def null_id_error(role: str, n_rows: int, at: str) -> DataError:
    """Rows without a user or an item, which the policies do not allow."""
    return DataError(
        f"{n_rows:,} rows of the {role} have no user or no item",
        code="null-id",
        at=at,
        hint='filter them by where, or write null_ids = "drop" under [policies]',
    )


def _checked(rows: _Rows, table: Table) -> npt.NDArray[np.float64]:
    """The relevances, all of them numbers."""
    n_bad = rows.null_relevance + int(rows.size - np.isfinite(rows.relevance).sum())
    if n_bad:
        raise DataError(
            f"{n_bad:,} rows of the truth have a relevance that is null, NaN or infinite",
            code="bad-relevance",
            at=table.at,
            hint='drop them by where, or write an expression: relevance = "coalesce(rating, 0)"',
        )
    return rows.relevance


def _real_ids(
    rows: _Rows, pairs: UserItems, user_plan: IdPlan, item_plan: IdPlan
) -> tuple[pl.DataFrame, pl.DataFrame, Keys]:
    user_ids, item_ids = _NO_IDS, _NO_IDS
    item_keys = np.empty(0, dtype=np.uint64)
    if not rows.frames:
        return user_ids, item_ids, item_keys
    frame = pl.concat(rows.frames)
    if user_plan.hashed:
        real = frame.select(user_plan.columns)
        user_ids = real[pairs.first_rows]
        if not same_ids(real, user_ids[pairs.codes_of(as_keys(frame[USER_KEY]))]):
            raise KeyCollisionError
    if item_plan.hashed:
        item_keys, item_ids = distinct_items(frame)
    return user_ids, item_ids, item_keys


def _name_users(truth: Truth, keys: Sequence[int]) -> str:
    codes = truth.pairs.codes_of(np.array(keys, dtype=np.uint64))
    return name_users(truth, np.unique(codes))


def name_users(truth: Truth, codes: npt.NDArray[np.int64]) -> str:
    """The first three users by id, for messages: `user 17, user 90, user 204`."""
    ids = truth.ids_of_users(codes)
    rows: list[tuple[Any, ...]] = ids.sort(ids.columns).head(3).rows()
    return ", ".join("user " + " / ".join(str(value) for value in row) for row in rows)


@dataclass(frozen=True, slots=True)
class Train:
    """What the models had seen of the truth's users.

    Args:
        pairs: seen items by user.
        item_keys: uint64[n_items] ascending; only for hashed ids.
        item_ids: their ids; only for hashed ids.
        rows: rows of the whole log.
    """

    pairs: UserItems
    item_keys: Keys
    item_ids: pl.DataFrame
    rows: int


def build_train(table: Table, truth: Truth, *, null_ids: str, threads: int) -> Train:
    """Read the training log; rows of users that the truth lacks are passed over.

    Raises:
        DataError: rows without ids, where the policy forbids them [null-id].
        KeyCollisionError: two ids share a key.
    """
    columns = [*truth.user_plan.select(USER_KEY), *truth.item_plan.select(ITEM_KEY)]
    users: list[Keys] = [np.empty(0, dtype=np.uint64)]
    items: list[Keys] = [np.empty(0, dtype=np.uint64)]
    distinct: list[pl.DataFrame] = []
    n_null = n_rows = 0
    with reading(table):
        batches = table.frame.select(columns).collect_batches(
            maintain_order=False, engine="streaming"
        )
        for rows in batches:
            kept, dropped = drop_null_ids(rows)
            n_rows += rows.height
            n_null += dropped
            codes = truth.pairs.codes_of(as_keys(kept[USER_KEY]))
            known, codes = kept.filter(pl.Series(codes >= 0)), codes[codes >= 0]
            if truth.user_plan.hashed and not same_ids(
                known.select(truth.user_plan.columns), truth.user_ids[codes]
            ):
                raise KeyCollisionError
            users.append(as_keys(known[USER_KEY]))
            items.append(as_keys(known[ITEM_KEY]))
            if truth.item_plan.hashed:
                distinct.append(known.select(ITEM_KEY, ITEM).unique())
    if n_null and null_ids == "error":
        raise null_id_error("training log", n_null, table.at)
    seen, _ = build_user_items(np.concatenate(users), np.concatenate(items), None, threads=threads)
    item_keys, item_ids = distinct_items(pl.concat(distinct)) if distinct else (items[0], _NO_IDS)
    return Train(seen, item_keys, item_ids, n_rows)


def distinct_items(rows: pl.DataFrame) -> tuple[Keys, pl.DataFrame]:
    """Every item key once, ascending, and its id.

    Raises:
        KeyCollisionError: two items share a key.
    """
    distinct = (
        rows.lazy().select(ITEM_KEY, ITEM).unique().sort(ITEM_KEY).collect(engine="streaming")
    )
    keys = as_keys(distinct[ITEM_KEY])
    if keys.size > 1 and bool((keys[1:] == keys[:-1]).any()):
        raise KeyCollisionError
    return keys, distinct.select(ITEM)
