"""Segments of the users whom rows are of: each is measured on its own rows, as the whole is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.aggregate.segments import (
    SMALL,
    SMALL_KEY,
    IdGroups,
    SeenValues,
    Segment,
    SegmentTable,
    UserSegments,
    cross_segments,
    open_segments,
    read_user_values,
    split_users,
)
from evalkit.aggregate.sums import GrandTotals
from evalkit.config import Config, Segmentation
from evalkit.errors import EvalkitError, RequestError, raise_all
from evalkit.kernels.arrays import Int32s, Ints, Keys
from evalkit.kinds.pointwise.counts import Grouping, RowOutcomes
from evalkit.kinds.pointwise.passes import Columns, Done, ModelRows, RowsInMemory
from evalkit.kinds.pointwise.store import Column, Placing, Store, by_hash, parts_for
from evalkit.kinds.pointwise.units import Measured
from evalkit.sources import OwnTable, Table, ids, reading

PARTS_A_BATCH = 32  # that are split together; every batch of a segment costs some milliseconds
MOST_SEGMENTS = 1000  # each of them is walked over on its own


@dataclass(frozen=True, slots=True)
class RowUsers:
    """The users of some tables.

    Args:
        user_plan: how ids become keys.
        keys: of the users, ascending.
        user_ids: their id columns; only for hashed ids, otherwise empty.
    """

    user_plan: ids.IdPlan
    keys: Keys
    user_ids: pl.DataFrame

    @classmethod
    def of(
        cls, tables: Sequence[Table], user_plan: ids.IdPlan, sample: float | None = None
    ) -> "RowUsers":
        """Every user of any of the tables.

        Raises:
            KeyCollisionError: two ids share a key.
        """
        found = []
        for table in tables:
            own_ids = table.frame.select(user_plan.select(ids.USER_KEY)).unique()
            with reading(table):
                found.append(own_ids.drop_nulls(ids.USER_KEY).collect(engine="streaming"))
        users = pl.concat(found).unique()
        if sample is not None:
            users = users.filter(pl.Series(ids.Sample(sample, user_plan).holds(users)))
        keys = ids.as_keys(users[ids.USER_KEY])
        order = np.argsort(keys)
        keys = keys[order]
        if np.any(keys[1:] == keys[:-1]):
            raise ids.KeyCollisionError
        return cls(user_plan, keys, users[order].select(pl.exclude(ids.USER_KEY)))

    def ids_of(self, keys: Keys) -> pl.DataFrame:
        """The id columns of some of the users."""
        if self.user_plan.hashed:
            return self.user_ids[self.codes_of(keys)]
        return ids.ids_of_keys(self.user_plan, keys)

    def hashes_of(self, keys: Keys) -> Keys:
        """uint64[n_users], hashes of their ids that no version of any library changes."""
        if self.user_plan.hashed:
            return ids.stable_hashes(self.ids_of(keys), self.user_plan)
        return ids.hashes_of_keys(keys, self.user_plan)

    @property
    def n_users(self) -> int:
        """How many there are."""
        return int(self.keys.size)

    def codes_of(self, keys: Keys) -> Ints:
        """The place of each user; -1 of others."""
        found = np.searchsorted(self.keys, keys)
        found[found == self.keys.size] = 0
        known = self.keys[found] == keys if self.keys.size else np.zeros(keys.size, dtype=np.bool_)
        codes: Ints = np.where(known, found, -1)
        return codes

    def are_ids_of_users(self, rows: pl.DataFrame) -> bool:
        """Whether rows with keys of these users show their ids."""
        if not self.user_plan.hashed:
            return True
        own = self.ids_of(ids.as_keys(rows[ids.USER_KEY]))
        return ids.same_ids(rows.select(own.columns), own)


@dataclass(frozen=True, slots=True)
class UserSources:
    """What says something of users: tables opened, but not read."""

    segments: Sequence[SegmentTable]
    cluster: SegmentTable | None

    @property
    def tables(self) -> list[Table]:
        """All of them, also those that are the rows themselves."""
        sources = [*self.segments, *([] if self.cluster is None else [self.cluster])]
        return [each.table for each in sources if each.table is not None]

    @property
    def inputs(self) -> list[Table]:
        """Those that are tables of their own."""
        return [table for table in self.tables if table.role.startswith("segments")]


def open_user_sources(
    config: Config, own: Sequence[tuple[OwnTable, object | None]], in_memory: Mapping[str, object]
) -> UserSources:
    """Every table that segments and clusters are read from; all that is wrong with any at once.

    Args:
        own: the tables with rows, for values that stand in them, and what holds them in memory.
        in_memory: tables of segmentations, by name, in place of theirs.
    """
    problems: list[EvalkitError] = []
    cluster = config.statistics.cluster
    rules = {} if cluster is None else {"cluster": Segmentation(by=cluster)}
    segments = open_segments(config.segments.named, own, in_memory, problems)
    clusters = open_segments(rules, own, in_memory, problems)
    raise_all(problems)
    return UserSources(segments, clusters[0] if clusters else None)


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """The rows of some users, chosen anew whenever somebody looks.

    Args:
        rows: of all users.
        members: keys of the users, ascending.
    """

    rows: ModelRows
    user: Grouping
    members: Keys
    row_counts: RowOutcomes = field(default_factory=RowOutcomes)

    def look(self, work: Callable[[Columns], Done]) -> Iterator[Done]:
        """`work` on the rows that were chosen, batch by batch."""
        return self.rows.look(lambda columns: work(self._choose(columns)))

    def shares(self, grouping: Grouping) -> Iterator[Store]:
        """Stores in which users are whole."""
        for store in self.rows.shares(grouping):
            chosen = Store(store.dtypes, store.n_parts, 0)
            for part in range(store.n_parts):
                columns = dict(zip(store.dtypes, store.part(part, list(store.dtypes)), strict=True))
                chosen.fill(self._choose(columns), _into(part))
            chosen.seal()
            yield chosen

    def cut(self, rows: Ints, bytes_a_row: int) -> list[range]:
        """Neighbouring parts that may be held at a time."""
        return self.rows.cut(rows, bytes_a_row)

    def forget(self) -> None:
        """Nothing is held."""

    def _choose(self, columns: Columns) -> Columns:
        rows = np.flatnonzero(np.isin(columns[self.user.key], self.members))
        return {name: column[rows] for name, column in columns.items()}


def _into(part: int) -> Placing:
    """All rows lie in one part."""

    def place(rows: Mapping[str, Column], starts: Int32s, places: Int32s) -> None:
        places[:] = np.arange(places.size)
        starts[part + 1 :] = places.size

    return place


@dataclass(frozen=True, slots=True)
class RowSegments:
    """Segmentations of the users of rows; small segments stand as one.

    Args:
        users: whom there are.
        listed: segmentations in the order of the config, crosses last.
        pooled: segments that were too small, and what they went into.
    """

    users: RowUsers
    listed: Sequence[UserSegments]
    pooled: Mapping[Segment, Segment]

    @classmethod
    def of(
        cls,
        config: Config,
        sources: Sequence[SegmentTable],
        users: RowUsers,
        threads: int,
        seen: SeenValues,
    ) -> "RowSegments":
        """Read the tables of segments.

        Args:
            seen: told of the values that make a segment each.
        Raises:
            DataError: a user has several values [segment-conflict].
            RequestError: more segments than can be measured one by one [too-many-segments].
        """
        everyone = np.ones(users.n_users, dtype=np.bool_)
        found: dict[str, UserSegments] = {}
        for source in sources:
            values = read_user_values(source, users)
            for each in split_users(source, values, everyone, {}, seen, threads):
                found[each.name] = each
        section = config.segments
        listed = [found[name] for name in section.named]
        listed += [cross_segments(found[one], found[two]) for one, two in section.cross]
        pooled: dict[Segment, Segment] = {}
        together = [_pool_small(each, section.min_users, pooled) for each in listed]
        for each in together:
            refuse_many(config, each.name, len(each.groups.labels))
        return cls(users, together, pooled)

    def split(
        self, rows: ModelRows, user: Grouping, *, threads: int
    ) -> Iterator[tuple[Segment, ModelRows]]:
        """The rows of each segment's users.

        Of rows in memory a copy, one segmentation at a time; others are read for each segment.
        """
        for segment in self.listed:
            n_segments = len(segment.groups.labels)
            if isinstance(rows, RowsInMemory):
                stores = self._split(rows.stores[user.name], user, segment.groups)
                for code in sorted(stores):
                    held = RowsInMemory(RowOutcomes(), {user.name: stores.pop(code)}, threads)
                    yield (segment.name, segment.groups.labels[code]), held
                continue
            present = np.bincount(segment.groups.codes, minlength=n_segments) > 0
            for code in map(int, np.flatnonzero(present)):
                members = self.users.keys[segment.groups.codes == code]
                chosen = ChosenRows(rows, user, members)
                yield (segment.name, segment.groups.labels[code]), chosen

    def _split(self, store: Store, user: Grouping, groups: IdGroups) -> dict[int, Store]:
        def codes_of(keys: Keys) -> Int32s:
            codes = self.users.codes_of(keys)
            if np.any(codes < 0):
                raise AssertionError("rows are of the users of their tables")
            found: Int32s = groups.codes[codes]
            return found

        n_segments = len(groups.labels)
        sizes = np.zeros(n_segments, dtype=np.int64)
        for part in range(store.n_parts):
            (keys,) = store.part(part, [user.key])
            sizes += np.bincount(codes_of(keys), minlength=n_segments)
        stores = {
            int(code): Store(store.dtypes, parts_for(int(sizes[code])), int(sizes[code]))
            for code in np.flatnonzero(sizes)
        }
        for first in range(0, store.n_parts, PARTS_A_BATCH):
            parts = range(first, min(first + PARTS_A_BATCH, store.n_parts))
            found = [store.part(part, list(store.dtypes)) for part in parts]
            columns = {
                name: np.concatenate([each[place] for each in found])
                for place, name in enumerate(store.dtypes)
            }
            codes = codes_of(columns[user.key])
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=n_segments))
            for code, segment in stores.items():
                rows = order[(ends[code - 1] if code else 0) : ends[code]]
                if rows.size:
                    own = {name: column[rows] for name, column in columns.items()}
                    segment.fill(own, by_hash(user.key, segment.n_parts))
        for segment in stores.values():
            segment.seal()
        return stores

    def note(self, totals: GrandTotals, measured: Mapping[Segment, Mapping[str, Measured]]) -> None:
        """Tell the totals of the segments that have rows."""
        for axis in self.listed:
            for label, key in zip(axis.groups.labels, axis.groups.keys, strict=True):
                segment = (axis.name, label)
                if segment in measured:
                    n_users = max(one.n_users for one in measured[segment].values())
                    totals.note_segment(segment, key, n_users)
        totals.pooled.update(self.pooled)


def refuse_many(config: Config, name: str, n_segments: int) -> None:
    """Raises:
    RequestError: more segments than can be measured one by one [too-many-segments].
    """
    if n_segments > MOST_SEGMENTS:
        raise RequestError(
            f"{n_segments:,} segments of {name!r} are too many to be "
            f"measured one by one, at most {MOST_SEGMENTS:,}",
            code="too-many-segments",
            at=config.at("segments", name),
            hint="make buckets of a number: quantiles = 10; or raise min_users",
        )


def _pool_small(each: UserSegments, min_users: int, pooled: dict[Segment, Segment]) -> UserSegments:
    """The segmentation with the segments below the minimum as one."""
    groups = each.groups
    n_users = np.bincount(groups.codes, minlength=len(groups.labels))
    is_small = (n_users > 0) & (n_users < min_users)
    if not is_small.any():
        return each
    for code in np.flatnonzero(is_small):
        pooled[each.name, groups.labels[code]] = (each.name, SMALL)
    codes = np.where(is_small[groups.codes], len(groups.labels), groups.codes).astype(np.int32)
    labels, keys = (*groups.labels, SMALL), (*groups.keys, SMALL_KEY)
    return UserSegments(each.name, IdGroups(labels, keys, codes))
