"""Users and items both drawn: what each item adds to the sums over users.

A value that adds up over hits is split among the user's relevant items: by what each hit would
count alone, or in equal parts where there is none. Sums by item stand on a fixed grid of 2^-48, so
that no order of users changes them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from evalkit.aggregate.accumulators.weighted import OfPair, Target, Who
from evalkit.aggregate.segments import ALL, Segment, UserSegments
from evalkit.aggregate.sums import Pair, add_to, pool
from evalkit.aggregate.user_values.blocks import UserValues, stack_columns
from evalkit.aggregate.user_values.gather import ranges, single_hits
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Int32s, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import Hits, Relevant, Request, registry
from evalkit.report import Warning_
from evalkit.statistics.exact import CellRows, ExactSums
from evalkit.statistics.two_way import TwoWay
from evalkit.truth import Truth

BITS = 48  # below the point of the lower word
PAIRS, PARTS, SHARES = 0, 1, 3  # words of an item and request: a count, and two sums of two words
N_WORDS = 5
PARTS_AT_ONCE = 1 << 18  # of pairs and requests, but never less than a user's


@kernel(allocates=False)
def add_parts(parts, owners, shares, cells, words):  # type: ignore[no-untyped-def]
    """Add pairs of users and items to the items' sums.

    Args:
        parts: float64[n_pairs, n_columns], of the users' values; NaN of a user without one.
        owners: int64[n_pairs], the user's row in `shares`, float64[n_users].
        cells: int64[n_pairs], the item's row in `words`, int64[n_items, n_columns, N_WORDS].
    """
    one = np.float64(1 << BITS)
    for row in range(parts.shape[0]):
        for column in range(parts.shape[1]):
            if np.isnan(parts[row, column]):
                continue
            found = words[cells[row], column]
            found[PAIRS] += 1
            for first in (PARTS, SHARES):
                value = parts[row, column] if first == PARTS else shares[owners[row]]
                whole = np.floor(value)
                low = found[first + 1] + np.int64(np.rint((value - whole) * one))
                found[first] += np.int64(whole) + (low >> BITS)
                found[first + 1] = low & ((1 << BITS) - 1)


@dataclass(slots=True)
class CrossedSums:
    """The sums of one target in one segment.

    Args:
        items: uint64[n_items] ascending, stable hashes of their ids.
        words: int64[n_items, n_requests, N_WORDS], as `add_parts` makes them.
        users: of the values, a column a request.
        pairs: a column a request of parts, then of shares, then of the sums of both.
    """

    items: Keys
    words: Ints
    users: ExactSums
    pairs: ExactSums

    def merge(self, other: "CrossedSums") -> None:
        """Take over the sums of other users."""
        items = np.union1d(self.items, other.items)
        words = np.zeros((items.size, *self.words.shape[1:]), dtype=np.int64)
        for sums_of_one in (self, other):
            places = np.searchsorted(items, sums_of_one.items)
            for column in range(words.shape[1]):  # so that no copy of all is made
                words[places, column] += sums_of_one.words[:, column]
        for first in (PARTS, SHARES):
            words[:, :, first] += words[:, :, first + 1] >> BITS
            words[:, :, first + 1] &= (1 << BITS) - 1
        self.items, self.words = items, words
        self.users.merge(other.users)
        self.pairs.merge(other.pairs)

    def total(self, column: int) -> TwoWay:
        """One request."""
        words = self.words[self.words[:, column, PAIRS] > 0, column]
        parts, shares = (
            words[:, first] + words[:, first + 1] / (1 << BITS) for first in (PARTS, SHARES)
        )
        n = self.users.n_columns
        of_parts, of_shares, of_both = (self.pairs.sum_of(place * n + column) for place in range(3))
        pairs = of_parts, of_shares, of_both
        return TwoWay.of(self.users.sum_of(column), pairs, parts, shares)


@dataclass(slots=True)
class ItemSums:
    """Sums of every model and pair by segment, of users and of items; `common` as of `Ratios`."""

    sums: dict[tuple[Segment, Target], CrossedSums] = field(default_factory=dict)
    common: dict[tuple[Segment, OfPair], CrossedSums] = field(default_factory=dict)

    def add(
        self,
        truth: Truth,
        values: UserValues,
        segments: Sequence[UserSegments],
        pairs: Sequence[Pair],
        threads: int,
    ) -> None:
        """Add the users of one share."""
        apart: set[Pair] = set()

        def parts_of(
            target: Target | OfPair, found: Mapping[str, "_Parts"]
        ) -> tuple[Floats, Floats]:
            if isinstance(target, str):
                return found[target].values, found[target].parts
            first, second = target
            pair = (first, second) if isinstance(first, str) else first
            before, after = found[pair[0]], found[pair[1]]
            deltas = after.values - before.values, after.parts - before.parts
            if not isinstance(first, str):
                own = found[second].values, found[second].parts
                of_users, parts = (
                    np.where(np.isnan(delta), np.nan, each)
                    for delta, each in zip(deltas, own, strict=True)
                )
                return of_users, parts
            if (np.isnan(before.values) != np.isnan(after.values)).any():
                apart.add(pair)
            return deltas

        targets: list[Target] = [*values.measuring, *pairs]
        found = ItemSums(_sums_of(truth, values, segments, targets, parts_of, threads))
        sides = [(pair, model) for pair in pairs if pair in apart for model in pair]
        if sides:
            found.common = _sums_of(truth, values, segments, sides, parts_of, threads)
        self.merge(found)

    def merge(self, other: "ItemSums") -> None:
        """Take over the sums of other users, which must not be used again."""
        for pair in dict.fromkeys(pair for _, (pair, _) in (*self.common, *other.common)):
            for side in (self, other):
                side._note_common(pair)
        for of_pair in list(other.common):
            add_to(self.common, of_pair, other.common.pop(of_pair))
        for key in list(other.sums):
            add_to(self.sums, key, other.sums.pop(key))

    def _note_common(self, pair: Pair) -> None:
        """Let a pair have sums of its own, which are those of its models."""
        for segment in [segment for segment, target in self.sums if target == pair]:
            for model in pair:
                own, key = self.sums[segment, model], (segment, (pair, model))
                if key not in self.common:
                    sums = (each.over(np.array([0])) for each in (own.users, own.pairs))
                    self.common[key] = CrossedSums(own.items, own.words, *sums)

    def pool(self, pooled: Mapping[Segment, Segment]) -> None:
        """Put segments together as the sums were."""
        pool(self.sums, pooled)
        pool(self.common, pooled)


def _sums_of(
    truth: Truth,
    values: UserValues,
    segments: Sequence[UserSegments],
    targets: Sequence[Who],
    parts_of: Callable[[Who, Mapping[str, "_Parts"]], tuple[Floats, Floats]],
    threads: int,
) -> dict[tuple[Segment, Who], CrossedSums]:
    """Sums over the users and the items of these users, by segment and target."""
    models = list(values.measuring)
    everyone = np.zeros(truth.n_users, dtype=np.int32)
    groups: list[tuple[tuple[Segment, ...], Int32s]] = [((ALL,), everyone)]
    for segment in segments:
        labels = tuple((segment.name, label) for label in segment.groups.labels)
        groups.append((labels, segment.groups.codes))
    items = _Items.of(truth)
    n = values.columns.size
    known = [items.by_segment(truth, codes) for _, codes in groups]
    hashes = items.hashes
    del items  # 24 bytes a pair
    sums = {
        (target, place): (
            np.zeros((held.codes.size, n, N_WORDS), dtype=np.int64),
            ExactSums(n, len(labels)),
            ExactSums(3 * n, len(labels)),
        )
        for target in targets
        for place, ((labels, _), held) in enumerate(zip(groups, known, strict=True))
    }
    lock = Lock()

    def work(block: Ints) -> None:
        crossed = _Pairs.of(truth, block)
        owners, places, shares = crossed.owners, crossed.places, crossed.shares
        found = {name: _Parts.of(values, name, block, crossed) for name in models}
        for target in targets:
            of_users, parts = parts_of(target, found)
            own = np.where(np.isnan(parts), np.nan, shares[owners, None])
            rows = np.concatenate([parts, own, parts + own], axis=1)
            for place, ((labels, codes), held) in enumerate(zip(groups, known, strict=True)):
                words, by_user, by_pair = sums[target, place]
                with lock:
                    add_parts(parts, owners, shares, held.cells[places], words)
                    cells = codes[block]
                    by_user.add(of_users, rows=CellRows.of(cells, len(labels)))
                    by_pair.add(rows, rows=CellRows.of(cells[owners], len(labels)))

    most = max(1, PARTS_AT_ONCE // max(1, n))
    for _ in ordered_map(work, _pieces(values, truth, most), threads=threads):
        pass
    table: dict[tuple[Segment, Who], CrossedSums] = {}
    for target, place in list(sums):
        words, by_user, by_pair = sums.pop((target, place))  # which are copied now
        (labels, codes), held = groups[place], known[place]
        ends = np.searchsorted(held.labels, np.arange(len(labels) + 1))
        for code in np.unique(codes).tolist():
            own = slice(ends[code], ends[code + 1])
            here = np.array([code])
            order = np.argsort(hashes[held.codes[own]])
            crossed = CrossedSums(
                hashes[held.codes[own]][order],
                words[own][order],
                by_user.over(here),
                by_pair.over(here),
            )
            table[labels[code], target] = crossed
    return table


def _pieces(values: UserValues, truth: Truth, most: int) -> Iterator[Ints]:
    """Blocks of users with about so many items together."""
    for block in values.blocks():
        ends = np.cumsum(truth.pairs.counts[block].astype(np.int64)) // most
        yield from np.split(block, np.flatnonzero(ends[1:] != ends[:-1]) + 1)


class ItemTotals:
    """What the sums say, each worked out once, for estimates and comparisons."""

    def __init__(self, sums: ItemSums) -> None:
        self._sums, self._common = sums.sums, sums.common
        self._told: dict[tuple[Segment, Target, int], TwoWay] = {}

    def total(self, segment: Segment, target: Target, column: int) -> TwoWay | None:
        """One request of one target in one segment; None where there is none."""
        key = segment, target, column
        if key not in self._told and (segment, target) in self._sums:
            self._told[key] = self._sums[segment, target].total(column)
        return self._told.get(key)

    def of_pair(
        self, segment: Segment, pair: Pair, column: int
    ) -> tuple[TwoWay, TwoWay, TwoWay] | None:
        """The difference of two models, and each on the users of both; None where there is none."""
        delta, one, other = (self.total(segment, each, column) for each in (pair, *pair))
        if (segment, (pair, pair[0])) in self._common:
            one, other = (self._common[segment, (pair, each)].total(column) for each in pair)
        return None if delta is None or one is None or other is None else (delta, one, other)

    def users_without_values(self, segment: Segment, pair: Pair, column: int) -> int | None:
        """None: users have values."""
        return None

    def users_carrying(self, segment: Segment, pair: Pair, column: int) -> float:
        """All of them may."""
        return np.inf

    def warnings(self, labels: Sequence[str]) -> Iterator[Warning_]:
        """One where variances are below 0, as they may be where items hardly vary."""
        below = [key for key, each in self._told.items() if each.variance < 0.0]
        if below:
            segment, target, column = min(below, key=str)
            who = target if isinstance(target, str) else f"{target[1]} less {target[0]}"
            where = "" if segment == ALL else f" in {segment[0]} = {segment[1]}"
            yield Warning_(
                "two-way-negative",
                f"{len(below):,} variances over users and items are below 0, which can happen "
                f"where items add next to nothing: these numbers have no error, as "
                f"{labels[column]} of {who}{where}",
            )


@dataclass(frozen=True, slots=True)
class _ItemCells:
    """Items of the truth, apart by segment.

    Args:
        cells: int64[n_places], of each place of the truth.
        codes, labels: int64[n_cells], the item of each, and its segment, in whose order they are.
    """

    cells: Ints
    codes: Ints
    labels: Ints


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of the truth.

    Args:
        used: int64[n_pairs], places of the truth that hold one.
        owners: int64[n_pairs], whose.
        codes: int64[n_pairs], which.
        hashes: uint64[n_items], stable hashes of their ids.
    """

    used: Ints
    owners: Ints
    codes: Ints
    hashes: Keys

    @classmethod
    def of(cls, truth: Truth) -> "_Items":
        pairs = truth.pairs
        used = ranges(pairs.starts, pairs.counts)
        owners = np.repeat(np.arange(truth.n_users), pairs.counts)
        keys, codes = np.unique(pairs.item_keys()[used], return_inverse=True)
        return cls(used, owners, codes, truth.stable_hashes_of_items(keys))

    def by_segment(self, truth: Truth, segments: Int32s) -> _ItemCells:
        n = max(1, self.hashes.size)
        distinct, found = np.unique(
            segments[self.owners].astype(np.int64) * n + self.codes, return_inverse=True
        )
        cells = np.full(truth.pairs.n_places, -1, dtype=np.int64)
        cells[self.used] = found
        return _ItemCells(cells, distinct % n, distinct // n)


class _Parts(NamedTuple):
    """The values of a block of users under one model, split among their items.

    Args:
        values: float64[n_users, n_requests].
        parts: float64[n_pairs, n_requests]; NaN of a user without a value.
    """

    values: Floats
    parts: Floats

    @classmethod
    def of(cls, values: UserValues, model: str, block: Ints, pairs: "_Pairs") -> "_Parts":
        measuring = values.measuring[model]
        measured = measuring.measure(block)
        hits: dict[tuple[int, bool], tuple[Hits, Ints, Ints]] = {}
        split = []
        for group, probe, found in zip(measuring.groups, measuring.probes, measured, strict=True):
            graded = group.request.view == "graded"
            if (probe, graded) not in hits:
                ranks = measuring.ranks[probe]
                hits[probe, graded] = single_hits(measuring.truth, ranks, block, graded=graded)
            single, owners, places = hits[probe, graded]
            alone = np.empty((owners.size, group.cutoffs.size))
            lengths = measuring.lengths[probe][block][owners].astype(np.int64)
            relevant = Relevant(single.starts, single.gains)
            _of_one_hit(group.request).measure(
                single, relevant, lengths, group.cutoffs, alone, threshold=measuring.truth.threshold
            )
            split.append(pairs.split(found, alone, owners, places))
        return cls(
            stack_columns(values, measured), np.ascontiguousarray(stack_columns(values, split))
        )


def _of_one_hit(request: Request) -> Request:
    """What a hit counts by, with the parameters that both metrics have."""
    metric = registry()[str(request.metric.over_hits)]
    given = dict(request.parameters)
    shared = {name: given[name] for name in metric.defaults if name in given}
    return metric.request(request.cutoff, **shared)


class _Pairs(NamedTuple):
    """The users of a block, each beside every item of theirs.

    Args:
        owners: int64[n_pairs], the user's row.
        places: int64[n_pairs] of the items.
        shares: float64[n_users], one over the user's items.
        order: int64[n_pairs], the pairs by place.
    """

    owners: Ints
    places: Ints
    shares: Floats
    order: Ints

    @classmethod
    def of(cls, truth: Truth, block: Ints) -> "_Pairs":
        counts = truth.pairs.counts[block].astype(np.int64)
        places = ranges(truth.pairs.starts[block], counts)
        owners = np.repeat(np.arange(block.size), counts)
        return cls(owners, places, 1.0 / np.maximum(counts, 1), np.argsort(places))

    def split(self, values: Floats, alone: Floats, users: Ints, places: Ints) -> Floats:
        """float64[n_pairs, n_cutoffs]: the values of users by what each hit counts alone."""
        at = self.order[np.searchsorted(self.places, places, sorter=self.order)]
        parts = np.zeros((self.owners.size, values.shape[1]))
        for column in range(values.shape[1]):
            of_hits = alone[:, column]  # by user and rank: added in one order
            totals = np.bincount(users, weights=of_hits, minlength=values.shape[0])
            one = np.bincount(at, weights=of_hits, minlength=self.owners.size)
            is_split = totals > 0.0
            factors = np.where(is_split, values[:, column], 0.0) / np.where(is_split, totals, 1.0)
            rest = np.where(is_split, 0.0, values[:, column]) * self.shares
            parts[:, column] = one * factors[self.owners] + rest[self.owners]
        return parts
