"""How often items are shown, by model and segment; sums of lists; and the lists of some users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evalkit.aggregate.accumulators.counting import Columns, ShownCounts, gains_of
from evalkit.aggregate.segments import ALL, CellSet, Segment, UserSegments
from evalkit.aggregate.sums import Pair, add_all, add_to
from evalkit.aggregate.user_values.gather import ranges
from evalkit.item_lists import ItemFacts, Measure
from evalkit.kernels.arrays import Flags, Floats, Int32s, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import NO_CUTOFF, Lists, Request, family_of
from evalkit.sources.ids import mix
from evalkit.statistics.exact import CellRows, ExactSums

SAMPLED = 50_000  # users whose lists are kept, of all and of each segment
USERS_A_PIECE = 1 << 14


@dataclass(slots=True)
class Sampled:
    """What a model shows the users whose lists are kept.

    Args:
        present: bool[n], whether the user has a list.
        lengths: int64[n], items of each list.
        items: int32, list after list.
        values: float64[n, n_sums], what each user adds to the sums.
        gains: float64[rows, n_gains], beside the items.
    """

    present: Flags
    lengths: Ints
    items: Int32s
    values: Floats
    gains: Floats

    @property
    def lists(self) -> Lists:
        """The lists."""
        return Lists(np.cumsum(self.lengths) - self.lengths, self.lengths, self.items)

    def at(self, users: Ints) -> "Sampled":
        """What some of the users are shown."""
        lengths = self.lengths[users]
        places = ranges(self.lists.starts[users], lengths)
        return Sampled(
            self.present[users], lengths, self.items[places], self.values[users], self.gains[places]
        )

    @classmethod
    def joined(cls, parts: Sequence["Sampled"]) -> "Sampled":
        """What the users of several parts are shown."""
        return cls(
            np.concatenate([each.present for each in parts]),
            np.concatenate([each.lengths for each in parts]),
            np.concatenate([each.items for each in parts]),
            np.concatenate([each.values for each in parts]),
            np.concatenate([each.gains for each in parts]),
        )


@dataclass(frozen=True, slots=True)
class Shares:
    """Lists of some models over one share of the users, to be counted.

    Args:
        lists: of each model.
        present: bool[n_users], of each model.
        hashes: of the users' ids.
        segmentations: of the users.
        cells: what their segments are made of.
        pairs: models that are compared.
    """

    measure: Measure
    lists: Mapping[str, Lists]
    present: Mapping[str, Flags]
    hashes: Keys
    segmentations: Sequence[UserSegments]
    cells: Sequence[CellSet]
    pairs: Sequence[Pair]
    threads: int

    def others(self, name: str) -> Iterator[tuple[Pair, str]]:
        """The pairs of a model, each with the other model of it."""
        for pair in self.pairs:
            if name in pair:
                yield pair, pair[0] if name == pair[1] else pair[1]

    def segments(self, users: Flags) -> Iterator[tuple[Segment, Ints]]:
        """The users of every segment among some, all of them first, in pieces for threads."""
        chosen = np.flatnonzero(users)
        size = max(USERS_A_PIECE, -(-chosen.size // self.threads))
        for begin in range(0, max(chosen.size, 1), size):
            yield ALL, chosen[begin : begin + size]
        for segmentation in self.segmentations:
            codes = segmentation.groups.codes[chosen]
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=len(segmentation.groups.labels)))
            parts = np.split(chosen[order], ends)[:-1]  # none of no groups
            for label, own in zip(segmentation.groups.labels, parts, strict=True):
                if own.size:
                    yield (segmentation.name, label), own


@dataclass(slots=True)
class ShownSums:
    """What lists leave behind of a share of the users; shares add up in any order.

    Args:
        items: what is known of the items.
        counted: by segment and model.
        sums: of each segment and model, one column a request, cutoff and number of its kernel.
        lone, lone_sums: by segment, pair and model: users of this one alone.
        hashes: of the users whose lists are kept.
        segments: of each segmentation the labels, and int32[n], the place of each user's.
        sampled: by model.
    """

    items: ItemFacts = field(default_factory=ItemFacts.nothing)
    counted: dict[tuple[Segment, str], ShownCounts] = field(default_factory=dict)
    sums: dict[tuple[Segment, str], ExactSums] = field(default_factory=dict)
    lone: dict[tuple[Segment, Pair, str], ShownCounts] = field(default_factory=dict)
    lone_sums: dict[tuple[Segment, Pair, str], ExactSums] = field(default_factory=dict)
    hashes: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    segments: dict[str, tuple[tuple[str, ...], Int32s]] = field(default_factory=dict)
    sampled: dict[str, Sampled] = field(default_factory=dict)

    @classmethod
    def of(cls, share: Shares, requests: Sequence[Request]) -> "ShownSums":
        """What the lists of a share leave behind for requests of the families counts and sums."""
        found = cls(share.measure.facts)
        counts = [each for each in requests if family_of(each) == "counts"]
        users = np.flatnonzero(np.logical_or.reduce([*share.present.values()]))
        chosen = found._sample(users, share.hashes, share.segmentations)
        columns = Columns.of(counts)
        if counts:
            found._count(share, columns)
        sums = [each for each in requests if family_of(each) == "sums"]
        for name in share.lists:
            values = found._add_sums(share, name, sums, chosen)
            found.sampled[name] = _shown_to(chosen, share, name, values, columns)
        return found

    @classmethod
    def of_values(
        cls,
        values: Callable[[Ints], Mapping[str, Floats]],
        hashes: Keys,
        segmentations: Sequence[UserSegments],
    ) -> "ShownSums":
        """Values of some users of a share, for numbers that are combined of several.

        Args:
            values: of some users, by model float64[n, n_metrics].
            hashes: of the users' ids.
        """
        found = cls()
        chosen = found._sample(np.arange(hashes.size), hashes, segmentations)
        for name, own in values(chosen).items():
            nothing = np.zeros(chosen.size, dtype=np.int64)
            empty = np.empty(0, np.int32), own, np.empty((0, 0))
            found.sampled[name] = Sampled(nothing > 0, nothing, *empty)
        return found

    def _sample(self, users: Ints, hashes: Keys, segmentations: Sequence[UserSegments]) -> Ints:
        """Note the users whose hashes are the smallest, of some."""
        hashes = draw_numbers(hashes[users])
        segments = {
            each.name: (each.groups.labels, each.groups.codes[users]) for each in segmentations
        }
        places = smallest(hashes, segments)
        self.hashes = hashes[places]
        self.segments = {name: (labels, own[places]) for name, (labels, own) in segments.items()}
        return users[places]

    def _count(self, share: Shares, columns: Columns) -> None:
        for name, lists in share.lists.items():

            def count(part: tuple[Segment, Ints], lists: Lists = lists) -> ShownCounts:
                return ShownCounts.of(lists, part[1], columns, share.measure.context)

            for pair, users in self._who(share, name):
                parts = list(share.segments(users))
                found = ordered_map(count, parts, threads=share.threads)
                for (segment, _), counted in zip(parts, found, strict=True):
                    if pair is None:
                        add_to(self.counted, (segment, name), counted)
                    else:
                        add_to(self.lone, (segment, pair, name), counted)

    def _who(self, share: Shares, name: str) -> Iterator[tuple[Pair | None, Flags]]:
        """The users of a model; and those whom the other model of a pair lacks, if any."""
        present = share.present[name]
        yield None, present
        for pair, other in share.others(name):
            alone = present & ~share.present[other]
            if alone.any():
                yield pair, alone

    def _add_sums(
        self, share: Shares, name: str, requests: Sequence[Request], chosen: Ints
    ) -> Floats:
        """Add up the sums of a model; float64[n, n_sums] of the users whose lists are kept."""
        n_users, n = share.hashes.size, share.measure.n_sums(requests)
        kept, places = np.full((chosen.size, n), np.nan), np.full(n_users, -1)
        places[chosen] = np.arange(chosen.size)
        if not requests:
            return kept
        others: dict[Pair | None, str] = {None: name}
        for both, other in share.others(name):
            is_shown = share.present[other] & (share.lists[other].lengths > 0)
            if (share.present[name] & ~is_shown).any():
                others[both] = other
        sums = {pair: [ExactSums(n, each.n_cells) for each in share.cells] for pair in others}

        def measure(users: Ints) -> tuple[Ints, Floats]:
            return users, share.measure.sums(
                requests, share.lists[name], share.present[name], users
            )

        blocks = (
            np.arange(begin, min(begin + USERS_A_PIECE, n_users))
            for begin in range(0, n_users, USERS_A_PIECE)
        )
        for users, values in ordered_map(measure, blocks, threads=share.threads):
            known = places[users] >= 0
            kept[places[users][known]] = values[known]
            for pair, other in others.items():
                own = values
                if pair is not None:
                    own = np.where(_has_number(share, other, requests, users), np.nan, values)
                for each, cells in zip(sums[pair], share.cells, strict=True):
                    each.add(own, rows=CellRows.of(cells.codes[users], cells.n_cells))
        for pair, found in sums.items():
            for comparison, cells in zip(found, share.cells, strict=True):
                for segment, members in cells.members.items():
                    if pair is None:
                        add_to(self.sums, (segment, name), comparison.over(members))
                    else:
                        add_to(self.lone_sums, (segment, pair, name), comparison.over(members))
        return kept

    def merge(self, other: "ShownSums") -> None:
        """Take over what the lists of other users left behind."""
        self.items, theirs = self.items.joined(other.items)
        for key, counted in other.counted.items():
            add_to(self.counted, key, counted.renamed(theirs))
        for lone, counted in other.lone.items():
            add_to(self.lone, lone, counted.renamed(theirs))
        add_all(self.sums, other.sums)
        add_all(self.lone_sums, other.lone_sums)
        self._merge_sample(other, theirs)

    def _merge_sample(self, other: "ShownSums", codes: Int32s) -> None:
        hashes = np.concatenate([self.hashes, other.hashes])
        segments = dict(self.segments)
        for name in self.segments.keys() | other.segments.keys():
            nobody = ((), np.empty(0, dtype=np.int32))
            segments[name] = _joined(
                self.segments.get(name, nobody), other.segments.get(name, nobody)
            )
        places = smallest(hashes, segments)
        for name in self.sampled.keys() | other.sampled.keys():
            one = self.sampled.get(name) or _nobody(self.hashes.size, other.sampled[name])
            two = other.sampled.get(name) or _nobody(other.hashes.size, one)
            two = Sampled(two.present, two.lengths, codes[two.items], two.values, two.gains)
            self.sampled[name] = Sampled.joined([one, two]).at(places)
        self.hashes = hashes[places]
        self.segments = {name: (labels, own[places]) for name, (labels, own) in segments.items()}

    def pool(self, pooled: Mapping[Segment, Segment]) -> None:
        """Put small segments together as others."""
        for table in (self.counted, self.lone, self.sums, self.lone_sums):
            for key in [each for each in table if each[0] in pooled]:
                add_to(table, (pooled[key[0]], *key[1:]), table.pop(key))  # type: ignore[arg-type, misc]
        for name, (labels, codes) in self.segments.items():
            into = tuple(pooled.get((name, label), (name, label))[1] for label in labels)
            self.segments[name] = (into, codes)

    def by_segment(self, name: str) -> dict[str, Ints]:
        """The places of the users of each segment, of all whose lists are kept, in their order."""
        labels, codes = self.segments[name]
        first = {label: place for place, label in enumerate(dict.fromkeys(labels))}
        same = np.array([first[label] for label in labels], dtype=np.int64)[codes]
        order = np.argsort(same, kind="stable")
        ends = np.cumsum(np.bincount(same, minlength=len(first)))
        return dict(zip(first, np.split(order, ends)[:-1], strict=True))


def _has_number(share: Shares, name: str, requests: Sequence[Request], users: Ints) -> Flags:
    """bool[n, 1 or n_sums], whether a model adds to a sum for a user: one without items may not."""
    is_there = share.present[name][users, None]
    is_empty = is_there[:, 0] & (share.lists[name].lengths[users] == 0)
    if not is_empty.any():
        return is_there
    lists, present = share.lists[name], share.present[name]
    found = np.repeat(is_there, share.measure.n_sums(requests), axis=1)
    found[is_empty] = ~np.isnan(share.measure.sums(requests, lists, present, users[is_empty]))
    return found


def draw_numbers(hashes: Keys) -> Keys:
    """A number for each user; those with the smallest ones are drawn."""
    numbers: Keys = mix.interpret(hashes ^ np.uint64(0x9E3779B97F4A7C15))
    return numbers


def smallest(hashes: Keys, segments: Mapping[str, tuple[tuple[str, ...], Int32s]]) -> Ints:
    """The places of the users of the smallest hashes, of all and of each segment, in order."""
    kept = np.zeros(hashes.size, dtype=np.bool_)
    kept[_smallest_of(hashes, np.arange(hashes.size))] = True
    if hashes.size > SAMPLED:
        for labels, codes in segments.values():
            ends = np.cumsum(np.bincount(codes, minlength=len(labels)))
            for members in np.split(np.argsort(codes, kind="stable"), ends[:-1]):
                kept[_smallest_of(hashes, members)] = True
    return _in_order(hashes, np.flatnonzero(kept))


def _smallest_of(hashes: Keys, users: Ints) -> Ints:
    """Of some users those of the smallest hashes; of equal ones the first."""
    if users.size <= SAMPLED:
        return users
    most = np.partition(hashes[users], SAMPLED - 1)[SAMPLED - 1]  # few need be put in order
    return _in_order(hashes, users[hashes[users] <= most])[:SAMPLED]


def _in_order(hashes: Keys, users: Ints) -> Ints:
    ordered: Ints = users[np.argsort(hashes[users], kind="stable")]
    return ordered


def _shown_to(users: Ints, share: Shares, name: str, values: Floats, columns: Columns) -> Sampled:
    """What a model shows some users."""
    lists = share.lists[name]
    lengths = lists.lengths[users]
    rows = ranges(lists.starts[users], lengths)
    gains = np.empty((rows.size, len(columns.gains)))
    for column, gain in enumerate(columns.gains):
        gains[:, column] = gains_of(lists, users, NO_CUTOFF, share.measure.context, gain)
    return Sampled(share.present[name][users], lengths, lists.items[rows], values, gains)


def _nobody(n: int, like: Sampled) -> Sampled:
    nothing = np.zeros(n, dtype=np.int64)
    values = np.full((n, like.values.shape[1]), np.nan)
    gains = np.empty((0, like.gains.shape[1]))
    return Sampled(nothing > 0, nothing, np.empty(0, dtype=np.int32), values, gains)


Labelled = tuple[tuple[str, ...], Int32s]


def _joined(one: Labelled, other: Labelled) -> Labelled:
    labels = tuple(dict.fromkeys((*one[0], *other[0])))
    places = np.array([labels.index(label) for label in other[0]], dtype=np.int32)
    theirs = places[other[1]] if other[1].size else other[1]
    return labels, np.concatenate([one[1], theirs])
