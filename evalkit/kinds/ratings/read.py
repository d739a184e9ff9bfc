# mypy: disable-error-code="no-untyped-def"
"""Pairs of a true rating and a prediction, from one table or from two, part of the users by part.

Two tables are joined part by part: rows of both lie in the part of their user, and one small hash
table finds those of one user and item, and those that are there twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Policies
from evalkit.errors import CountedError, RequestError
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.kinds.pointwise import store
from evalkit.kinds.pointwise.counts import CheckedRows, Grouping, RowOutcomes
from evalkit.kinds.pointwise.measure import SourceTable
from evalkit.kinds.pointwise.passes import ModelRows, shares_together
from evalkit.sources import Table
from evalkit.sources.ids import KeyCollisionError, as_array, mix

NOTHING = np.uint64(0)  # the key of a value that is not there; no number has it
VALUES = ("rating", "prediction")


def refuse_policies(policies: Policies) -> None:
    """Repeated pairs are refused; of a rating that is there twice, the largest may count."""
    refused = []
    if policies.duplicates != "error":
        refused.append(f"duplicates = {policies.duplicates!r}")
    if policies.truth_duplicates not in ("error", "max"):
        refused.append(f"truth_duplicates = {policies.truth_duplicates!r}")
    if policies.bad_scores == "last":
        refused.append("bad_scores = 'last'")
    if refused:
        message = f"{', '.join(refused)} says nothing about ratings"
        hint = "leave it out: a pair predicted twice is an error"
        raise RequestError(message, code="bad-policy", at="[policies]", hint=hint)


@dataclass(slots=True)
class Extremes:
    """The smallest and the largest finite rating and prediction; infinite where there is none."""

    low: Floats
    high: Floats

    @classmethod
    def nothing(cls) -> "Extremes":
        """Of no rows."""
        return cls(np.full(2, np.inf), np.full(2, -np.inf))

    @classmethod
    def in_frame(cls, frame: pl.DataFrame) -> "Extremes":
        """Of its ratings and predictions, where it has them."""
        found = cls.nothing()
        for place, name in enumerate(VALUES):
            if name in frame.columns:
                values = frame[name].cast(pl.Float64).drop_nulls().to_numpy()
                values = values[np.isfinite(values)]
                found.low[place] = values.min(initial=np.inf)
                found.high[place] = values.max(initial=-np.inf)
        return found

    def to_frame(self, model: str | None) -> pl.DataFrame:
        """As one row of what `survey` gives."""
        ends = {"low": self.low, "high": self.high}
        values = {f"{end}_{name}": ends[end][n] for n, name in enumerate(VALUES) for end in ends}
        return pl.DataFrame({"model": [model], **values}, schema_overrides={"model": pl.String})

    @classmethod
    def of_survey(cls, surveyed: pl.DataFrame) -> "Extremes":
        """Of what `survey` gave of some rows."""
        found = cls.nothing()
        for place, name in enumerate(VALUES):
            found.low[place] = surveyed[f"low_{name}"].to_numpy().min(initial=np.inf)
            found.high[place] = surveyed[f"high_{name}"].to_numpy().max(initial=-np.inf)
        return found

    def merge(self, other: "Extremes") -> None:
        """Take over those of other rows."""
        np.minimum(self.low, other.low, out=self.low)
        np.maximum(self.high, other.high, out=self.high)


@dataclass(frozen=True, slots=True)
class PairReader:
    """Makes keys of ratings, predictions and items; what is not there becomes `NOTHING`."""

    policies: Policies
    item: Grouping | None

    def columns(self, table: Table) -> list[pl.Expr]:
        """What is read of a table."""
        found = [pl.col(name).cast(pl.Float64) for name in self._values(table)]
        item = self._item(table)
        return found + ([] if item is None else item.select())

    def dtypes(self, table: Table) -> dict[str, type]:
        """The columns of the store."""
        found: dict[str, type] = dict.fromkeys(self._values(table), np.uint64)
        item = self._item(table)
        return found if item is None else {**found, **item.dtypes()}

    def prepare(self, rows: CheckedRows, table: Table) -> None:
        """Rows without item are refused, or counted and left out."""
        item = self._item(table)
        if item is not None:
            n_before = rows.row_counts.dropped["null_id"]
            rows.drop_nulls([item.key], "null_id")
            n_null = rows.row_counts.dropped["null_id"] - n_before
            if n_null and self.policies.null_ids == "error":
                rows.row_counts.refuse(refused("null-id", n_null, "rows have no item", table))
            rows.take_groups((item,))
        for name in self._values(table):
            rows.columns[name] = _keys(rows.frame[name])

    def mark(self, rows: CheckedRows) -> None:
        """Notes between what the values lie."""
        rows.row_counts.marks["extremes"] = Extremes.in_frame(rows.frame)

    def _item(self, table: Table) -> Grouping | None:
        return self.item if "item" in table.frame.collect_schema() else None

    @staticmethod
    def _values(table: Table) -> list[str]:
        schema = table.frame.collect_schema()
        return [name for name in VALUES if name in schema]


def _keys(values: pl.Series) -> store.Column:
    keys = store.order_keys(as_array(values.fill_null(0.0)), np.zeros(2, dtype=np.int64))
    np.maximum(keys, 1, out=keys)  # of a NaN
    if values.null_count():
        keys[values.is_null().to_numpy()] = NOTHING
    return keys


@dataclass(frozen=True, slots=True)
class PairPart:
    """The rated and predicted pairs of some users, user by user.

    Args:
        keys: of the users.
        starts: int64[n_users + 1], where each user's pairs begin.
        row_counts: rows without a partner, and what else is wrong with them.
    """

    keys: Keys
    starts: Ints
    ratings: Floats
    predictions: Floats
    row_counts: RowOutcomes


@dataclass(frozen=True, slots=True)
class PairShare:
    """Some users' rows, in parts: one store with both values, or one of each."""

    stores: Sequence[store.Store]
    user: Grouping
    item: Grouping | None

    @property
    def n_parts(self) -> int:
        return self.stores[0].n_parts

    def part(self, number: int) -> PairPart:
        """The pairs of one part.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        row_counts = RowOutcomes()
        users, values = self._read(number)
        if self.item is not None and self.item.key in self.stores[0].dtypes:
            users, values = self._join(self.item, number, users, values, row_counts)
        rated, predicted = (each != NOTHING for each in values)
        alone = ~rated & predicted if len(self.stores) > 1 else ~rated
        lost = rated & ~predicted
        ratings, predictions = (store.values_of(each) for each in values)
        both = rated & predicted
        good = both & np.isfinite(ratings) & np.isfinite(predictions)
        row_counts.dropped["bad_score"] = int((both & ~good).sum())
        row_counts.dropped["unrated"] = int(alone.sum())
        row_counts.noted["unpredicted"] = int(lost.sum())
        if len(self.stores) == 1:
            row_counts.dropped["unpredicted"] = row_counts.noted["unpredicted"]
        is_used = _mark(users, good)
        row_counts.noted["users_without_rows"] = int((_mark(users, both) & ~is_used).sum())
        row_counts.noted["users_without_prediction"] = int((_mark(users, lost) & ~is_used).sum())
        row_counts.noted["users_without_rating"] = int((_mark(users, alone) & ~is_used).sum())
        numbers = (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[users.numbers[good]]
        groups = store.Numbered(numbers, users.keys[is_used])
        starts, columns = np.zeros(1, dtype=np.int64), [each[good] for each in values]
        if numbers.size:
            starts, columns = store.sort_rows(groups, columns)
        ratings, predictions = (store.values_of(each) for each in columns)
        return PairPart(groups.keys, starts, ratings, predictions, row_counts)

    def join(self, *, threads: int) -> tuple[store.Store, RowOutcomes]:
        """The pairs alone, in one store, and what became of the other rows."""
        names = (self.user.key, *VALUES)
        n_rows = sum(batch.n_rows for held in self.stores for batch in held.batches)
        held = store.Store(dict.fromkeys(names, np.uint64), store.parts_for(n_rows), 0)
        placing, counts = store.by_hash(self.user.key, held.n_parts), np.zeros(2, dtype=np.int64)

        def work(number: int) -> RowOutcomes:
            pairs = self.part(number)
            users = np.repeat(pairs.keys, np.diff(pairs.starts))
            values = [store.order_keys(each, counts) for each in (pairs.ratings, pairs.predictions)]
            held.fill(dict(zip(names, (users, *values), strict=True)), placing)
            return pairs.row_counts

        total = RowOutcomes()
        for row_counts in ordered_map(work, range(self.n_parts), threads=threads):
            total.add(row_counts)
        held.seal()
        return held, total

    def _read(self, number: int) -> tuple[store.Numbered, list[store.Column]]:
        """Users of all rows, one table after the other, and the values of each table."""

        def together(name: str) -> store.Column:
            return np.concatenate([held.part(number, [name])[0] for held in self.stores])

        check = self.user.check if self.user.check in self.stores[0].dtypes else None
        users = store.number_groups(
            together(self.user.key), None if check is None else together(check)
        )
        if users is None:
            raise KeyCollisionError
        names = [[name for name in VALUES if name in held.dtypes] for held in self.stores]
        values = [
            column
            for held, wanted in zip(self.stores, names, strict=True)
            for column in held.part(number, wanted)
        ]
        return users, values

    def _join(
        self,
        item: Grouping,
        number: int,
        users: store.Numbered,
        values: list[store.Column],
        row_counts: RowOutcomes,
    ) -> tuple[store.Numbered, list[store.Column]]:
        """Users of all pairs of user and item, and the values of each pair."""
        n_rows = users.numbers.size
        n_checks = 0 if item.check is None else n_rows
        table = np.full(1 << max(4, (2 * n_rows - 1).bit_length()), -1, dtype=np.int32)
        pair_users, pair_items = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.uint64)
        pairs = Pairs(table, pair_users, pair_items, np.empty(n_checks, dtype=np.uint32))
        found = [np.zeros(n_rows, dtype=np.uint64) for _ in self.stores]
        counts = np.zeros((len(self.stores), 2), dtype=np.int64)
        n_pairs = first = 0
        for place, held in enumerate(self.stores):
            items = held.part(number, [item.key])[0]
            checks = np.empty(0, dtype=np.uint32)
            if item.check is not None:
                checks = held.part(number, [item.check])[0]
            own = values[place] if len(self.stores) > 1 else np.ones(n_rows, dtype=np.uint64)
            numbers = users.numbers[first : first + items.size]
            rows = Keyed(numbers, items, checks, own)
            n_pairs = add_pairs(rows, pairs, found[place], n_pairs, counts[place])
            first += items.size
        if counts[:, 1].any():
            raise KeyCollisionError
        row_counts.noted["repeats"] = int(counts[-1, 0])
        if len(self.stores) == 1:
            return users, values
        row_counts.noted["truth_duplicates"] = int(counts[0, 0])
        row_counts.dropped["unpredicted"] = int((values[1] == NOTHING).sum())
        return store.Numbered(pair_users[:n_pairs], users.keys), [each[:n_pairs] for each in found]


def _mark(users: store.Numbered, rows: Flags) -> Flags:
    """bool[n_users], users with such rows."""
    found = np.zeros(users.n_groups, dtype=np.bool_)
    found[users.numbers[rows]] = True
    return found


class Keyed(NamedTuple):
    """Rows of one table: numbers of users, keys and second hashes of items, and a value.

    Second hashes are empty where keys are no hashes.
    """

    users: Int32s
    items: store.Column
    checks: store.Column
    values: store.Column


class Pairs(NamedTuple):
    """Users and items of the pairs that were met, and `table`: int32, pairs by hash, -1 if none."""

    table: Int32s
    users: Int32s
    items: Keys
    checks: npt.NDArray[np.uint32]


@kernel(allocates=False)
def add_pairs(rows, pairs, found, n, counts):
    """Find the pair of user and item of each row, and keep its largest value.

    Args:
        rows: `Keyed`; pairs: `Pairs`, of which the first `n` are known.
        found: uint64, a value of each pair; 0 where there is none.
        counts: int64[2], gets rows that repeat a pair, and items that share a key.
    Returns:
        How many pairs there are now.
    """
    users, items, item_checks, values = rows.users, rows.items, rows.checks, rows.values
    table, pair_users, pair_items, pair_checks = pairs.table, pairs.users, pairs.items, pairs.checks
    mask = np.uint64(table.size - 1)
    for row in range(users.size):
        user, item = users[row], items[row]
        if values[row] == np.uint64(0):
            continue
        slot = mix(mix(item) ^ np.uint64(user)) & mask
        while True:
            pair = np.int64(table[slot])
            if pair < 0 or (pair_items[pair] == item and pair_users[pair] == user):
                break
            slot = (slot + np.uint64(1)) & mask
        if pair < 0:
            pair = np.int64(n)
            n += 1
            table[slot] = pair
            pair_users[pair] = user
            pair_items[pair] = item
            if pair_checks.size > 0:
                pair_checks[pair] = item_checks[row]
        elif pair_checks.size > 0 and pair_checks[pair] != item_checks[row]:
            counts[1] += 1
        counts[0] += found[pair] != np.uint64(0)
        found[pair] = max(found[pair], values[row])
    return n


def shares_of(
    tables: Sequence[ModelRows], user: Grouping, item: Grouping | None
) -> Iterator[PairShare]:
    """The pairs of ratings and predictions, or of one table with both, share of users by share."""
    for stores in shares_together(tables, user):
        yield PairShare(stores, user, item)


_POLICY = {  # and a value that allows it
    "unpredicted": ("unpredicted", "skip"),
    "unrated": ("unrated", "skip"),
    "null-id": ("null_ids", "drop"),
    "duplicate-truth": ("truth_duplicates", "max"),
    "bad-score": ("bad_scores", "drop"),
}


def check_pairs(row_counts: RowOutcomes, policies: Policies, table: SourceTable) -> None:
    """Refuse what the policies do not allow.

    Raises:
        DataError: the first such kind of row [duplicate-pair, duplicate-truth, unpredicted,
            unrated, bad-score].
    """
    repeats = (
        "pairs are predicted twice or more" if table.is_joined else "rows list a user's item again"
    )
    noted, dropped = row_counts.noted, row_counts.dropped
    for code, number, what in (
        ("duplicate-pair", noted.get("repeats", 0), repeats),
        ("duplicate-truth", noted.get("truth_duplicates", 0), "ratings repeat a pair"),
        ("unpredicted", noted.get("unpredicted", 0), "ratings have no prediction"),
        ("unrated", dropped.get("unrated", 0), "predictions have no true rating"),
        (
            "bad-score",
            dropped.get("bad_score", 0),
            "rows have a rating or prediction that is no number",
        ),
    ):
        is_refused = code not in _POLICY or getattr(policies, _POLICY[code][0]) == "error"
        if number and is_refused:
            raise refused(code, number, what, table)


def refused(code: str, number: int, what: str, table: SourceTable | Table) -> CountedError:
    """Rows that a policy does not allow."""
    hint = "keep one of them: a pair that is there twice moves every number"
    if table.role == "ratings":
        hint = "leave columns.item out to take every row as it stands"
    if code in _POLICY:
        name, allowing = _POLICY[code]
        hint = f'write {name} = "{allowing}" under [policies] to leave them out and count them'
    return CountedError(f"{{n}} {what}", number, code=code, at=table.at, hint=hint)
