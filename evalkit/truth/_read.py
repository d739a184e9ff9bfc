"""The truth: what the rankings of a run are held against, read from the interactions."""

# Long: one reading, from rows to the truth, with the errors of each step.

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import polars as pl

from evalkit.config import Policies
from evalkit.errors import NAMED_USERS, CountedError, RequestError
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.sources import Table, reading
from evalkit.sources.ids import (
    ITEM_KEY,
    USER_KEY,
    IdPlan,
    KeyCollisionError,
    PassShare,
    Sample,
    Share,
    as_array,
    as_keys,
    distinct_keys,
    hashes_of_keys,
    ids_of_keys,
)
from evalkit.truth._build import (
    BuildCounts,
    UserItems,
    build_user_items,
)
from evalkit.truth._ids import KnownIds
from evalkit.truth._index import count_unknown
from evalkit.truth._rows import ManyGradesError, PairRows, RowPlaces
from evalkit.truth._seen_rows import SeenRows
from evalkit.truth._shared import count_shared

BATCH_ROWS = 1 << 18  # arrays of so many rows stay in a core's cache


@dataclass(frozen=True, slots=True)
class Propensities:
    """How likely items were to be seen.

    Args:
        of_places: float64[n_places], beside the item keys; anything where there is no item.
        n_bad: rows without a propensity, or with one that is none.
        n_others: rows that say another one than an earlier row of their user's item.
    """

    of_places: Floats
    n_bad: int
    n_others: int

    @staticmethod
    def count_bad(found: Floats) -> int:
        """How many are no propensity."""
        return found.size - int(((found > 0.0) & (found <= 1.0)).sum())


@dataclass(frozen=True, slots=True)
class Weights:
    """What items count by: 1 / propensity.

    Args:
        of_places: float64[n_places], beside the item keys; 0 where there is no item.
        n_raised: relevant items whose propensity was raised to the floor.
        made: truths whose relevances are gains times weights, by how gains are made.
    """

    of_places: Floats
    n_raised: int
    made: dict[tuple[str, bool], "Truth"] = field(default_factory=dict, compare=False)

    def over(self, places: Ints) -> "Weights":
        """Those of a part of the items."""
        return Weights(self.of_places[places], self.n_raised)


@dataclass(frozen=True, slots=True)
class Truth:
    """What a run holds rankings against: items with a gain, by user, and the ids behind the keys.

    Args:
        pairs: items by user.
        relevant_from: an item is relevant from this relevance on.
        has_threshold: some items with a gain may not be relevant.
        has_judged: items that are not relevant stand in it, too.
        subtracts: relevance below 0 is a gain.
        user_plan: how user ids become keys.
        item_plan: how item ids become keys.
        counts: rows and reasons, for the report.
        is_extra: bool[n_users], users whom only rankings know; None when there are none.
        propensities: as they were read, where few relevances were read beside them.
        weights: what items count by, where their propensities are known.
        known_users, known_items: the ids behind the keys; only for hashed ids.
    """

    pairs: UserItems
    relevant_from: float
    has_threshold: bool
    user_plan: IdPlan
    item_plan: IdPlan
    counts: "TruthRows"
    is_extra: Flags | None = None
    has_judged: bool = False
    subtracts: bool = False
    propensities: Propensities | None = None
    weights: Weights | None = None
    known_users: KnownIds | None = field(default=None, repr=False, compare=False)
    known_items: KnownIds | None = field(default=None, repr=False, compare=False)

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return self.pairs.n_users

    def codes_of(self, users: Keys) -> Ints:
        """int64[n_rows], the code of each row's user; -1 for a user that is not there."""
        return self.pairs.codes_of(users)

    @property
    def threshold(self) -> float:
        """The threshold as gains count from it: 1 where none is given."""
        return self.relevant_from if self.relevant_from != SMALLEST_POSITIVE else 1.0

    def ids_of_users(self, codes: Ints) -> pl.DataFrame:
        """The id columns of user codes, in their order."""
        keys = self.pairs.users[codes]
        if self.known_users is not None:
            return self.known_users.ids_of(keys)
        return ids_of_keys(self.user_plan, keys)

    def are_ids_of_users(self, rows: pl.DataFrame) -> bool:
        """Whether rows with keys of the truth's users show their ids."""
        known, keys = self.known_users, as_keys(rows[USER_KEY])
        return known is None or known.are_those_of(keys, rows, np.arange(keys.size))

    def item_keys(self) -> Keys:
        """uint64[n_items], ascending; where ids are hashed also of items that no user has."""
        if self.known_items is not None:
            return self.known_items.keys()
        return distinct_keys(self.pairs.item_keys())

    def stable_hashes(self) -> Keys:
        """uint64[n_users], hashes of the users' ids that no version of any library changes."""
        if self.known_users is not None:
            return self.known_users.stable_hashes(self.pairs.users)
        return hashes_of_keys(self.pairs.users, self.user_plan)

    def stable_hashes_of_items(self, keys: Keys) -> Keys:
        """uint64[n_items], such hashes of the ids of items, by their keys."""
        if self.known_items is not None:
            return self.known_items.stable_hashes(keys)
        return hashes_of_keys(keys, self.item_plan)

    def order_of_users(self) -> Ints:
        """User codes in ascending order of their ids."""
        ids = self.ids_of_users(np.arange(self.pairs.n_users))
        order: Ints = (
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


SMALLEST_POSITIVE = 5e-324

# errors of `build_truth` in the order in which it looks for them
TRUTH_CODES = (
    "null-id",
    "bad-relevance",
    "threshold-without-relevance",
    "duplicate-truth",
    "negative-relevance",
    "bad-propensity",
)


@dataclass(frozen=True, slots=True)
class Interactions:
    """What is read of the interactions.

    Args:
        extra: ids of users whom they may lack, each with any item: users without relevant items.
    """

    table: Table
    user_plan: IdPlan
    item_plan: IdPlan
    threads: int
    sample: Sample | None = None
    share: Share | None = None
    extra: pl.LazyFrame | None = None

    @property
    def keys(self) -> dict[str, IdPlan]:
        """The ids that are read."""
        return {USER_KEY: self.user_plan, ITEM_KEY: self.item_plan}

    def columns(self, policies: Policies) -> list[pl.Expr]:
        """What is read beside ids: relevance where it counts."""
        found: list[pl.Expr] = []
        if "relevance" in self.table.frame.collect_schema():
            found.append(pl.col("relevance").cast(pl.Float64))
        elif policies.truth_duplicates == "sum":  # a row without relevance counts 1
            found.append(pl.lit(1.0).alias("relevance"))
        if self.has_propensity:
            found.append(pl.col("propensity").cast(pl.Float64).fill_null(0.0))
        return found

    @property
    def has_propensity(self) -> bool:
        """Whether items count by 1 / propensity."""
        return "propensity" in self.table.columns

    def others(self) -> pl.LazyFrame | None:
        """The same columns of users whom only rankings know; nothing is relevant to them."""
        if self.extra is None:
            return None
        ids = [each for name, plan in self.keys.items() for each in plan.select(name)]
        return self.extra.select(*ids, pl.lit(0.0).alias("relevance"))


def build_truth(
    source: Interactions,
    *,
    threshold: float | None,
    policies: Policies,
    clock: Callable[[str], None] = lambda stage: None,
    keep_judged: bool = False,
) -> Truth:
    """Read the interactions and group them by user.

    Args:
        keep_judged: items that are not relevant, too.
    Raises:
        RequestError: no item can reach the threshold [threshold-without-relevance].
        DataError: [null-id], [duplicate-truth], [bad-relevance], [negative-relevance] as the
            policies ask.
        KeyCollisionError: two ids share a key.
    """
    table, threads = source.table, source.threads
    rows = _read(source, policies)
    clock("read")
    if rows.null_ids and policies.null_ids == "error":
        raise null_id_error("truth", rows.null_ids, table.at)
    relevant_from = SMALLEST_POSITIVE if threshold is None else threshold
    if "relevance" in table.frame.collect_schema():
        _check_relevance(rows, table)
        if rows.pairs.is_plain and relevant_from <= 1.0 and not rows.weighed:
            rows.pairs.forget_grades()  # all the same: nothing to carry along
    elif relevant_from > 1.0 and policies.truth_duplicates != "sum":
        message = f"threshold is {threshold}, and the truth has no relevance"
        hint = 'name its column, such as relevance = "rating" under [truth.columns]'
        raise RequestError(message, code="threshold-without-relevance", at=table.at, hint=hint)
    pairs, found = build_user_items(
        rows.pairs,
        relevant_from=relevant_from,
        duplicates=policies.truth_duplicates,
        keep_negative=policies.negative_relevance == "subtract",
        keep_judged=keep_judged,
        threads=threads,
    )
    propensities = None
    if rows.weighed:
        own, grades = pairs.grades.own, pairs.grades._replace(own=pairs.grades.own[:0])
        if rows.pairs.is_plain and relevant_from <= 1.0:
            grades = grades._replace(codes=grades.codes[:0])
        pairs = replace(pairs, grades=grades)
        propensities = Propensities(own, rows.bad_propensities, found.others)
    is_extra = None
    if rows.extra_keys:
        is_extra = np.isin(pairs.users, np.concatenate(rows.extra_keys))
        if keep_judged:  # their items are whatever was at hand
            pairs.counts[is_extra] = 0
    truth = Truth(
        pairs,
        relevant_from,
        threshold is not None and pairs.grades.is_graded,
        source.user_plan,
        source.item_plan,
        TruthRows(rows.n_rows, rows.null_ids, found.duplicates, found.negative, rows.not_sampled),
        is_extra,
        keep_judged,
        policies.negative_relevance == "subtract",
        propensities,
        known_users=rows.known_users,
        known_items=rows.known_items,
    )
    _refuse_rows(truth, found, policies, table)
    return truth


def _refuse_rows(truth: Truth, found: BuildCounts, policies: Policies, table: Table) -> None:
    if found.duplicates and policies.truth_duplicates == "error":
        raise CountedError(
            "{n} rows of the truth repeat a user's item",
            found.duplicates,
            code="duplicate-truth",
            at=table.at,
            users=first_users(truth, found.copied),
            hint='write truth_duplicates = "max", "sum" or "last" under [policies]',
        )
    if found.negative and policies.negative_relevance == "error":
        raise CountedError(
            "{n} items of the truth have a relevance below 0",
            found.negative,
            code="negative-relevance",
            at=table.at,
            hint='write negative_relevance = "ignore" or "subtract" under [policies]',
        )


@dataclass(slots=True)
class _InteractionRows:
    """The interactions that were read.

    Args:
        pairs: the rows with ids, of the sample and of the share.
        known_users, known_items: their ids, where keys are hashes.
        weighed: propensities are among them.
    """

    pairs: PairRows
    n_rows: int = 0
    null_ids: int = 0
    not_sampled: int = 0
    null_relevance: int = 0
    known_users: KnownIds | None = None
    known_items: KnownIds | None = None
    extra_keys: list[Keys] = field(default_factory=list)
    weighed: bool = False
    bad_propensities: int = 0


def _read(source: Interactions, policies: Policies) -> _InteractionRows:
    """The interactions in arrays of our own, filled batch by batch while they are decoded."""
    if policies.truth_duplicates != "sum":  # which are values of their own
        with suppress(ManyGradesError):
            return _read_once(source, source.columns(policies), coded=True)
    return _read_once(source, source.columns(policies), coded=False)


def _read_once(source: Interactions, columns: list[pl.Expr], *, coded: bool) -> _InteractionRows:
    has_grades = "relevance" in source.table.frame.select(columns).collect_schema()
    others = source.others()
    weighed = source.has_propensity and coded
    graded = has_grades or others is not None or weighed
    # untouched room costs nothing, so what the metadata says may be too much
    room = source.table.n_rows_hint() if others is None else None
    rows = _InteractionRows(PairRows(room, graded=graded, coded=coded, weighed=weighed))
    rows.weighed = weighed
    rows.known_users = KnownIds(source.user_plan) if source.user_plan.hashed else None
    rows.known_items = KnownIds(source.item_plan) if source.item_plan.hashed else None
    has_texts = source.user_plan.hashed or source.item_plan.hashed

    def placed() -> Iterator[tuple[pl.DataFrame, RowPlaces]]:
        most = rows_together(source.share, has_texts=has_texts)
        together = source.share is None
        for batch in source.table.stream(
            columns, keys=source.keys, most=most, side_by_side=together
        ):
            part, null_ids, not_sampled = choose_rows(batch, source.share, source.sample)
            rows.null_ids += null_ids
            rows.not_sampled += not_sampled
            rows.n_rows += part.height + null_ids + not_sampled
            if not has_grades and graded:
                part = part.with_columns(relevance=pl.lit(1.0))
            elif graded and (n_null := part["relevance"].null_count()):
                rows.null_relevance += n_null
                part = part.with_columns(pl.col("relevance").fill_null(0.0))
            if weighed:
                rows.bad_propensities += Propensities.count_bad(as_array(part["propensity"]))
            yield part, rows.pairs.place(as_keys(part[USER_KEY]))
        if others is not None:
            known = source.table.frame.select(source.user_plan.key().alias(USER_KEY)).unique()
            unknown = others.unique(USER_KEY).join(known, on=USER_KEY, how="anti").collect()
            part, _, _ = choose_rows(unknown, source.share, source.sample)
            if part.height:
                rows.extra_keys.append(as_keys(part[USER_KEY]))
                part = part.with_columns(propensity=pl.lit(1.0))
                yield part, rows.pairs.place(as_keys(part[USER_KEY]))

    def write(placed: tuple[pl.DataFrame, RowPlaces]) -> None:
        part, place = placed
        relevance = as_array(part["relevance"]) if graded else None
        propensity = as_array(part["propensity"]) if weighed else None
        users, items = as_keys(part[USER_KEY]), as_keys(part[ITEM_KEY])
        for ids, keys in ((rows.known_users, users), (rows.known_items, items)):
            if ids is not None:
                ids.take(keys, part)
        rows.pairs.write(place, users, items, relevance, propensity)

    with reading(source.table):  # arrays that may still grow are written by one thread
        for _ in ordered_map(write, placed(), threads=source.threads if room else 1):
            pass
    return rows


def rows_together(share: Share | None, *, has_texts: bool) -> int:
    """How many rows come together: fewer with texts, and fewer of a share of the users."""
    quarters = 4 - has_texts if share is None else 2 - has_texts
    return BATCH_ROWS * quarters // 4


def drop_null_ids(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows whose user and item exist, and how many others there were."""
    if not frame[USER_KEY].null_count() and not frame[ITEM_KEY].null_count():
        return frame, 0
    kept = frame.drop_nulls([USER_KEY, ITEM_KEY])
    return kept, frame.height - kept.height


def choose_rows(
    frame: pl.DataFrame, share: Share | None, sample: Sample | None
) -> tuple[pl.DataFrame, int, int]:
    """The rows with ids, of a share of the users and of a sample.

    Returns:
        The rows; how many have no id, which the first share counts; how many of the share are not
        in the sample.
    """
    kept, n_null = drop_null_ids(frame)
    chosen, not_sampled = choose_users(kept, share, sample)
    return chosen, n_null if share is None or share.is_first else 0, not_sampled


def choose_users(
    kept: pl.DataFrame, share: Share | None, sample: Sample | None
) -> tuple[pl.DataFrame, int]:
    """The rows of a share of the users and of a sample; how many of the share are not in it."""
    if share is not None:
        kept = kept.filter(pl.Series(share.holds(kept)))
    if sample is None:
        return kept, 0
    chosen = kept.filter(pl.Series(sample.holds(kept)))
    return chosen, kept.height - chosen.height


def null_id_error(role: str, n_rows: int, at: str) -> CountedError:
    """Rows without a user or an item, which the policies do not allow."""
    message = f"{{n}} rows of the {role} have no user or no item"
    hint = 'filter them by where, or write null_ids = "drop" under [policies]'
    return CountedError(message, n_rows, code="null-id", at=at, hint=hint)


def _check_relevance(rows: _InteractionRows, table: Table) -> None:
    n_bad = rows.null_relevance + rows.pairs.count_not_finite()
    if n_bad:
        message = "{n} rows of the truth have a relevance that is null, NaN or infinite"
        hint = 'drop them by where, or write an expression: relevance = "coalesce(rating, 0)"'
        raise CountedError(message, n_bad, code="bad-relevance", at=table.at, hint=hint)


def first_users(truth: Truth, codes: Ints) -> list[tuple[Any, ...]]:
    """The ids of the smallest of some users, for messages."""
    ids = truth.ids_of_users(codes)
    rows: list[tuple[Any, ...]] = ids.sort(ids.columns).head(NAMED_USERS).rows()
    return rows


@dataclass(frozen=True, slots=True)
class Train:
    """What the models had seen of the truth's users.

    Args:
        pairs: seen items by user.
        known_items: the ids behind their keys; only for hashed ids.
        rows: rows of the whole log, with the first share of the users.
        has_copies: rows of the truth's users repeat an item.
    """

    pairs: UserItems
    known_items: KnownIds | None
    rows: int
    has_copies: bool

    def item_keys(self) -> Keys:
        """uint64[n], of seen items, one or several times each."""
        known = self.known_items
        return self.pairs.item_keys() if known is None else known.keys()


class Watch(Protocol):
    """Looks at the rows of the training log while they are read.

    Args:
        is_over: it need not be shown what follows.
    """

    is_over: bool

    def add(self, rows: pl.DataFrame, others: pl.DataFrame) -> None:
        """All rows with ids, in their order; and those of them whose users the truth lacks."""

    def add_known(self, items: Keys) -> None:
        """Items of the rows whose users the truth has; from any thread."""


def build_train(
    table: Table,
    truth: Truth,
    *,
    null_ids: str,
    threads: int,
    share: Share | None = None,
    watch: Watch | None = None,
    kept_rows: SeenRows | None = None,
) -> Train:
    """Read the training log; rows of users that the truth lacks are passed over.

    All rows, and those without ids, are counted with the first share of the users.

    Args:
        watch: is shown rows with ids, until it is over.
        kept_rows: take all rows with the first share, and are read in its place with later ones.
    Raises:
        DataError: rows without ids, where the policy forbids them [null-id].
        KeyCollisionError: two ids share a key.
    """
    keys = {USER_KEY: truth.user_plan, ITEM_KEY: truth.item_plan}
    room = table.n_rows_hint()
    own = None
    if kept_rows is not None and kept_rows.is_whole and isinstance(share, PassShare):
        own, room = kept_rows.stream(share.number), kept_rows.n_rows(share.number)
    pairs = PairRows(room)
    known_items = KnownIds(truth.item_plan) if truth.item_plan.hashed else None
    n_null = n_rows = 0

    def placed() -> Iterator[tuple[pl.DataFrame, RowPlaces]]:
        nonlocal n_null, n_rows
        for rows in own or table.stream([], keys=keys, most=BATCH_ROWS):
            kept, dropped = drop_null_ids(rows)
            if kept_rows is not None and own is None:
                kept_rows.add(kept)
            if share is None or share.is_first:
                n_rows += rows.height
                n_null += dropped
            is_watched = watch is not None and not watch.is_over
            if not is_watched and own is None:
                kept, _ = choose_users(kept, share, None)
            known, others = _known(kept, truth)
            if watch is not None and is_watched:
                watch.add(kept, others)
            yield known, pairs.place(as_keys(known[USER_KEY]))

    def write(placed: tuple[pl.DataFrame, RowPlaces]) -> None:
        known, place = placed
        users, items = as_keys(known[USER_KEY]), as_keys(known[ITEM_KEY])
        if not truth.are_ids_of_users(known):
            raise KeyCollisionError
        if known_items is not None:
            known_items.take(items, known)
        pairs.write(place, users, items, None)
        if watch is not None and not watch.is_over:
            watch.add_known(items)

    with reading(table):  # arrays that may still grow are written by one thread
        for _ in ordered_map(write, placed(), threads=threads if room else 1):
            pass
    if kept_rows is not None and own is None:
        kept_rows.complete()
    if n_null and null_ids == "error":
        raise null_id_error("training log", n_null, table.at)
    seen, found = build_user_items(pairs, threads=threads)
    return Train(seen, known_items, n_rows, found.duplicates > 0)


def _known(rows: pl.DataFrame, truth: Truth) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of users that the truth has, and the others."""
    users = as_keys(rows[USER_KEY])
    if not count_unknown(truth.pairs.index, users):
        return rows, rows.clear()
    is_known = pl.Series(truth.codes_of(users) >= 0)
    return rows.filter(is_known), rows.filter(~is_known)


def count_in_train(truth: Truth, train: Train, *, threads: int) -> int:
    """Relevant pairs of a user and an item that stand in the training log, each once.

    Raises:
        KeyCollisionError: two items share a key.
    """
    ours, theirs = truth.known_items, train.known_items
    if ours is not None and theirs is not None and not ours.agree_with(theirs):
        raise KeyCollisionError
    return count_shared(
        truth.pairs, train.pairs, relevant_from=truth.relevant_from, threads=threads
    )
