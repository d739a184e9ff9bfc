"""Segments of items: the same ranks, held against the relevant items of one group at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from evalkit.aggregate.segments import _buckets
from evalkit.aggregate.segments._opened import SegmentTable
from evalkit.aggregate.segments._users import CODE, one_value_each
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.ranks import Ranks
from evalkit.sources import reading
from evalkit.sources.ids import ITEM, ITEM_KEY, KeyCollisionError, as_keys, same_ids
from evalkit.truth import Grades, Truth, UserItems


@dataclass(frozen=True, slots=True)
class ItemSegment:
    """A group of the truth's items.

    Args:
        label: of the group; `key` puts it in order.
        places: int64[n_items], where its items stand in the truth, ascending.
    """

    label: str
    key: _buckets.SortKey
    places: Ints


@dataclass(frozen=True, slots=True)
class ItemSegments:
    """One way to split the truth's items; an item may be in several segments.

    Args:
        name: of the segmentation.
        segments: those that the truth has items of.
    """

    name: str
    segments: tuple[ItemSegment, ...]


@dataclass(frozen=True, slots=True)
class ItemPart:
    """The truth with the items of one group alone.

    Args:
        truth: the same users; those without such an item have none.
        places: int64[n_kept], where its items stand in the whole truth, ascending.
    """

    truth: Truth
    places: Ints

    @classmethod
    def of(cls, truth: Truth, places: Ints) -> "ItemPart":
        """The truth with the items of these places."""
        pairs = truth.pairs
        order = np.argsort(pairs.starts, kind="stable")  # users as their items lie
        owner = order[np.searchsorted(pairs.starts[order], places, side="right") - 1]
        counts = np.bincount(owner, minlength=pairs.n_users).astype(np.int32)
        starts = np.zeros(pairs.n_users, dtype=np.int64)
        starts[order] = np.cumsum(counts[order]) - counts[order]
        grades = Grades(
            pairs.grades.codes[places] if pairs.grades.codes.size else pairs.grades.codes,
            pairs.grades.values,
            pairs.grades.own[places] if pairs.grades.own.size else pairs.grades.own,
        )
        relevance = _relevances(grades, places.size)
        is_relevant = relevance >= truth.relevant_from
        n_relevant = np.bincount(owner[is_relevant], minlength=pairs.n_users).astype(np.int32)
        index = pairs.index._replace(counts=counts)
        part = UserItems(index, grades, pairs.users, starts, n_relevant)
        weights = truth.weights and truth.weights.over(places)
        return cls(replace(truth, pairs=part, weights=weights), places)

    def ranks_of(self, ranks: Ranks) -> Ranks:
        """The ranks of the items that are left."""
        copies, found = ranks.copy_places, np.searchsorted(self.places, ranks.copy_places)
        found = np.minimum(found, max(0, self.places.size - 1))
        kept = self.places[found] == copies if self.places.size else np.zeros(copies.size, bool)
        return replace(
            ranks,
            ranks=ranks.ranks[self.places],
            copy_places=found[kept],
            copy_ranks=ranks.copy_ranks[kept],
            tied=ranks.tied.over(self.places),
        )


def _relevances(grades: Grades, n_items: int) -> Floats:
    if grades.codes.size:
        values: Floats = grades.values[grades.codes]
        return values
    return grades.own if grades.own.size else np.ones(n_items)


def read_item_segments(source: SegmentTable, truth: Truth) -> list[ItemSegments]:
    """The segments that a table of items makes.

    Quantiles are those over the items of the table.

    Raises:
        DataError: an item has several values [segment-conflict].
        KeyCollisionError: two items share a key.
    """
    assert source.table is not None
    plan, at = truth.item_plan, source.table.at
    values = [pl.col(f"value_{place}") for place in range(len(source.names))]
    with reading(source.table):
        lazy = source.table.frame.select(*plan.select(ITEM_KEY), *values)
        rows = lazy.collect(engine="streaming").drop_nulls(ITEM_KEY)
    keys, first, codes = np.unique(as_keys(rows[ITEM_KEY]), return_index=True, return_inverse=True)
    if plan.hashed:
        _check_ids(rows, keys, first, codes, truth)
    rows = rows.with_columns(pl.Series(CODE, codes))
    places = _used_places(truth.pairs)
    wanted = truth.pairs.item_keys()[places]
    found = np.minimum(np.searchsorted(keys, wanted), max(0, keys.size - 1))
    known = keys[found] == wanted if keys.size else np.zeros(places.size, dtype=np.bool_)
    segmentations = []
    for number, (name, rule) in enumerate(zip(source.names, source.rules, strict=True)):
        column = rows.select(CODE, pl.col(f"value_{number}").alias("value"))
        if isinstance(column["value"].dtype, (pl.List, pl.Array)):
            column = column.explode("value").drop_nulls("value").unique(maintain_order=True)
        else:
            series = one_value_each(column, keys.size, source, number, "items")
            column = pl.DataFrame({CODE: np.arange(keys.size), "value": series})
        series = column["value"]
        edges = list(rule.edges or ())
        if rule.quantiles is not None:
            edges = _buckets.quantile_edges(_buckets.as_numbers(series, at), rule.quantiles)
        place = f"{at}: {name}"
        groups = _buckets.group_values(
            series, rule, edges, place, partial(_buckets.SeenValues().note, name, place)
        )
        items = column[CODE].to_numpy()
        segmentations.append(
            ItemSegments(name, tuple(_segments(groups, items, keys.size, found, known, places)))
        )
    return segmentations


def _segments(
    groups: _buckets.IdGroups, items: Ints, n_items: int, found: Ints, known: Flags, places: Ints
) -> Iterator[ItemSegment]:
    """The places of each group; those of items without one stand as unknown."""
    unknown = len(groups.labels) - 1
    in_any = np.zeros(n_items, dtype=np.bool_)
    for code, (label, key) in enumerate(zip(groups.labels, groups.keys, strict=True)):
        of_group = np.zeros(n_items, dtype=np.bool_)
        if code != unknown:
            of_group[items[groups.codes == code]] = True
            in_any |= of_group
        else:
            of_group = ~in_any
        chosen = known.copy()
        chosen[known] = of_group[found[known]]
        if code == unknown:
            chosen |= ~known
        if chosen.any():
            yield ItemSegment(label, key, places[chosen])


def _used_places(pairs: UserItems) -> Ints:
    """Where items stand, ascending; places between users may be unused."""
    counts = pairs.counts.astype(np.int64)
    before = np.cumsum(counts) - counts
    places = np.repeat(pairs.starts - before, counts) + np.arange(int(counts.sum()))
    places.sort()
    return places


def _check_ids(rows: pl.DataFrame, keys: Keys, first: Ints, codes: Ints, truth: Truth) -> None:
    """Raise where a key stands for two ids, in the table or in table and truth."""
    ids, known = rows.select(ITEM), truth.known_items
    own = ids[first]
    assert known is not None
    if not same_ids(ids, own[codes]) or not known.are_those_of(keys, own, np.arange(keys.size)):
        raise KeyCollisionError
