"""From ranks to sums: blocks of users are measured and folded into exact sums at once."""
# Long: blocks are measured, folded and kept in one walk, whose steps share their types.

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.segments import CellSet
from evalkit.aggregate.sums import Pair, Totals
from evalkit.aggregate.user_values import _hits, outcomes
from evalkit.aggregate.user_values._extremes import EXTREMES, measure_extremes
from evalkit.aggregate.user_values._weighted import is_weighted, measure_weighted, prepare
from evalkit.aggregate.user_values.buffer_pool import BufferPool
from evalkit.aggregate.user_values.gather import BlockView, RankSets, View, look, pool_of
from evalkit.config import Policies, policies_of
from evalkit.kernels.arrays import Bytes, Flags, Floats, Int32s, Ints
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import NO_CUTOFF, Hits, Relevant, Request
from evalkit.ranks import Ranks
from evalkit.statistics.exact import CellRows
from evalkit.truth import Truth, weigh

if TYPE_CHECKING:
    from evalkit.item_lists import Measure

USERS_A_BLOCK = 8192  # at least, where there are so many
BLOCKS_TOGETHER = 8  # whose users are put in the order of their cells
MOST_KEPT = 8  # values of a user for which that is done, as they wait for each other
MOST_SUMS_A_THREAD = 1 << 13  # of about 2 kB each
MOST_VALUES = 1 << 20  # of a metric and block
LEAST_USERS = 1024  # of a block, whatever that takes
MOST_BLOCKS = 32  # which blocks grow to keep to, but to no more than four times as many users

Watch: TypeAlias = Callable[[Ints, Mapping[str, Sequence[Floats]], "BlockValues"], None]
PlainHits: TypeAlias = dict[tuple[int, int, str], tuple[Hits, Relevant]]  # see `gather`


@dataclass(frozen=True, slots=True)
class Keep:
    """What keeps values of users.

    Args:
        take: called with the user codes of blocks, float64[n_users, n_places] of each model.
        places: int64[n_places], the requests whose values are kept.
        order: int64[n_users], the order in which users come by.
    """

    take: Callable[[Ints, Mapping[str, Floats]], None]
    places: Ints
    order: Ints


@dataclass(frozen=True, slots=True)
class KernelCall:
    """The cutoffs of one metric with one set of parameters: one call of its kernel."""

    request: Request  # of any of the cutoffs
    cutoffs: Ints
    columns: tuple[int, ...]  # the place of each cutoff among the requests
    policies: Policies


def alike(request: Request) -> object:
    """What requests have in common that differ in their cutoff alone."""
    return request.metric.name, request.parameters, request.policies


def group_requests(requests: Sequence[Request], policies: Policies) -> list[KernelCall]:
    """Requests that differ in their cutoff alone share one call.

    Args:
        policies: of the run; a request may have some of its own.
    """
    members: dict[object, list[int]] = {}
    for place, request in enumerate(requests):
        members.setdefault(alike(request), []).append(place)
    groups = []
    for places in members.values():
        by_cutoff = sorted((requests[place].kernel_cutoff, place) for place in places)
        cutoffs = np.array([cutoff for cutoff, _ in by_cutoff], dtype=np.int64)
        columns = tuple(place for _, place in by_cutoff)
        first = requests[places[0]]
        groups.append(KernelCall(first, cutoffs, columns, policies_of(first, policies)))
    return groups


def _groups_of_pair(group: KernelCall, policies: Policies) -> list[KernelCall]:
    """The two groups that one of pairs is made of, at the same cutoffs."""
    pair = group.request.metric.pair
    assert pair is not None
    cutoffs = [None if each == NO_CUTOFF else int(each) for each in group.cutoffs]
    return [
        group_requests([pair.at(cutoff)[place] for cutoff in cutoffs], policies)[0]
        for place in (0, 1)
    ]


@dataclass(frozen=True, slots=True)
class Measuring:
    """What it takes to measure one model's ranks, block by block."""

    truth: Truth
    ranks: Sequence[Ranks]
    groups: Sequence[KernelCall]
    probes: Sequence[int]  # for each group, the place of the ranks that it looks at
    present: Sequence[Flags]
    lengths: Sequence[Int32s]
    cases: Sequence[Bytes]  # of every user, whose policies settle what counts
    lists: "Measure | None"  # what measures metrics of lists
    pairs: "Mapping[int, Measuring]"  # by group, what measures the two that it is made of

    @classmethod
    def of(
        cls,
        truth: Truth,
        ranks: RankSets,
        groups: Sequence[KernelCall],
        policies: Policies,
        lists: "Measure | None" = None,
    ) -> "Measuring":
        """One model, of which each group looks at the ranks by its own rules."""
        rules = list(ranks.sets)
        found = list(ranks.sets.values())
        present, lengths = zip(*(each.lists_of_users() for each in found), strict=True)
        n_relevant, is_extra = truth.pairs.n_relevant, truth.is_extra
        counts_extra = policies.unknown_users == "count"
        measuring = cls(
            truth,
            found,
            groups,
            [rules.index(ranks.rules_of(group.request, policies)) for group in groups],
            present,
            lengths,
            [
                outcomes.cases_of(*each, n_relevant, is_extra, counts_extra=counts_extra)
                for each in zip(present, lengths, strict=True)
            ],
            lists,
            {
                id(group): cls.of(truth, ranks, _groups_of_pair(group, policies), policies)
                for group in groups
                if group.request.metric.pair is not None
            },
        )
        for group in groups:  # once, before threads ask for them
            prepare(truth, group.request, group.policies, which=measuring._view(group).which)
        return measuring

    def measure(self, users: Ints, pool: BufferPool | None = None) -> list[Floats]:
        """For each group float64[n_users, n_cutoffs] of a block of users; NaN where left out."""
        return list(self.each(users, range(len(self.groups)), {}, pool))

    def each(
        self,
        users: Ints,
        places: Iterable[int],
        plain: PlainHits,
        pool: BufferPool | None = None,
        own: BufferPool | None = None,
    ) -> Iterator[Floats]:
        """The same of some groups, one after the other.

        Args:
            places: of the groups.
            plain: of these users; what is gathered here goes into it.
            pool: what values stand in until it is cleared, and what is gathered.
            own: where values stand, if apart.
        """
        looks: dict[tuple[int, View, int], BlockView] = {}
        about: dict[int, tuple[Ints, Bytes]] = {}
        take = np.empty if pool is None else pool.take
        for group, probe in ((self.groups[place], self.probes[place]) for place in places):
            request, policies = group.request, group.policies
            if request.metric.combined is not None:
                yield np.full((users.size, group.cutoffs.size), np.nan)
                continue
            if (pair := request.metric.pair) is not None:
                values = outcomes.round_users(
                    pair.of(*self.pairs[id(group)].measure(users)), policies
                )
                yield request.averaged(values)
                continue
            if request.metric.lists is not None:
                yield request.averaged(self._measure_lists(users, group, probe))
                continue
            if probe not in about:
                lengths = self.lengths[probe][users].astype(np.int64)
                about[probe] = lengths, self.cases[probe][users]
            lengths, cases = about[probe]
            view = self._view(group)
            values = (own.take if own else take)((users.size, group.cutoffs.size), np.float64)
            if is_weighted(self.truth, request, policies):
                gather = partial(self.gather, users, probe, plain, pool)
                given = gather, lengths, group.cutoffs, values
                measure_weighted(request, policies, view.which, *given)
            elif policies.unjudged in EXTREMES:
                judged, _ = self.gather(users, probe, plain, pool, which=pool_of(policies))
                shown = self.gather(users, probe, plain, pool, which=view.which)
                rest = lengths, group.cutoffs, values
                measure_extremes(request, policies.unjudged, shown, judged, *rest)
            elif view.is_plain:
                hits, relevant = self.gather(users, probe, plain, pool, which=view.which)
                threshold = self.truth.threshold
                request.measure(hits, relevant, lengths, group.cutoffs, values, threshold=threshold)
            else:
                n_relevant = self._look(users, group, probe, view, values, looks)
                cases = outcomes.with_relevant(cases, n_relevant)
            higher_is_better = bool(request.metric.higher_is_better)
            outcomes.apply_user_policies(values, cases, policies, higher_is_better=higher_is_better)
            if self.lists is not None and "list_users" in dict(request.policies):  # of `mad`
                counted = self.lists.who_counts(request, policies, self.present[probe])
                values[~counted[users]] = np.nan
            yield request.averaged(values)

    def counts_hits(self, place: int) -> bool:
        """Whether users of as many hits, relevant items and rows have the same value of a group."""
        group, view = self.groups[place], self._view(self.groups[place])
        is_plain = view.is_plain and view.which == _hits.RELEVANT
        is_plain &= group.policies.unjudged not in EXTREMES
        is_plain &= self.ranks[self.probes[place]].copy_places.size == 0
        return group.request.metric.counts_hits and is_plain

    def _view(self, group: KernelCall) -> View:
        two_views = self.truth.has_threshold or self.truth.counts.negative > 0
        return View.of(group.request, group.policies, two_views=two_views)

    def _measure_lists(self, users: Ints, group: KernelCall, probe: int) -> Floats:
        assert self.lists is not None
        counted = self.lists.who_counts(group.request, group.policies, self.present[probe])
        given = group.cutoffs, self.ranks[probe].lists, counted, users
        return outcomes.round_users(self.lists.values(group.request, *given), group.policies)

    def _look(
        self,
        users: Ints,
        group: KernelCall,
        probe: int,
        view: View,
        values: Floats,
        looks: dict[tuple[int, View, int], BlockView],
    ) -> npt.NDArray[np.integer]:
        """Fill `values` through a view; how many relevant items each user has in it."""
        cuts = [int(cutoff) for cutoff in group.cutoffs] if view.duplicates == "multiply" else [0]
        seen: BlockView | None = None
        for column, cutoff in enumerate(cuts):
            seen = looks.get((probe, view, cutoff))
            if seen is None:
                ranks = self.ranks[probe]
                seen = look(self.truth, ranks, users, view, cutoff=cutoff)
                looks[probe, view, cutoff] = seen
            one = slice(column, column + 1) if len(cuts) > 1 else slice(None)
            out = np.empty((users.size, group.cutoffs[one].size))
            group.request.measure(
                seen.hits,
                seen.relevant,
                seen.lengths,
                group.cutoffs[one],
                out,
                threshold=self.truth.threshold,
            )
            values[:, one] = out
        assert seen is not None
        return seen.n_relevant

    def gather(
        self,
        users: Ints,
        probe: int,
        plain: PlainHits,
        pool: BufferPool | None = None,
        *,
        which: int = _hits.RELEVANT,
        gain: str = "",
    ) -> tuple[Hits, Relevant]:
        """Hits of a block of users and what is relevant to them, in `plain`; `gain`: by weights."""
        if gain and not self.truth.pairs.grades.is_graded:
            gain, which = "binary", _hits.RELEVANT
        if (probe, which, gain) in plain:
            return plain[probe, which, gain]
        truth = weigh(self.truth, gain, graded=which == _hits.GRADED) if gain else self.truth
        pairs, ranks = truth.pairs, self.ranks[probe]
        n_places = int(pairs.counts[users].sum())
        n_hits = n_places + ranks.copy_places.size + 1  # one is written before it counts
        take = np.empty if pool is None else pool.take
        hits = Hits(
            take((users.size + 1,), np.int64),
            take((n_hits,), np.int32),
            take((n_hits,), np.float64),
            take((n_hits,), np.float64),
        )
        relevant = Relevant(take((users.size + 1,), np.int64), take((n_places,), np.float64))
        _hits.gather_hits(
            users,
            _hits.RelevantItems(pairs.starts, pairs.counts, pairs.grades),
            truth.relevant_from,
            which,
            truth.subtracts,
            self.present[probe],
            _hits.ShownRanks(ranks.ranks, ranks.copy_places, ranks.copy_ranks),
            hits,
            relevant,
        )
        plain[probe, which, gain] = hits, relevant
        return hits, relevant


class BlockValues(Protocol):
    """Values of users under several models, a block of users at a time.

    Args:
        columns: int64[n_requests], the column of each request where groups stand side by side.
        higher_is_better: of each group.
        n_added: how many of the groups are added user by user to the sums of models.
    """

    columns: Ints
    higher_is_better: list[bool]
    n_added: int

    def measure(self, users: Ints, pool: BufferPool | None = None) -> dict[str, list[Floats]]:
        """For each model, for each group of requests float64[n_users, n_cutoffs].

        Args:
            pool: what they may stand in until it is cleared.
        """

    def blocks(self, order: Ints | None = None) -> Iterator[Ints]:
        """User codes, a few thousand at a time; at least one block, be it empty."""


def stack_columns(
    values: BlockValues, measured: Sequence[Floats], places: Ints | slice = slice(None)
) -> Floats:
    """float64[n_users, n_places] of one model, of some requests, from its groups."""
    columns = [column for each in measured for column in each.T]
    wanted = [columns[place] for place in values.columns[places]]
    return np.stack(wanted, axis=1) if wanted else np.empty((measured[0].shape[0], 0))


def users_a_block(n_users: int) -> int:
    """How many of so many users are measured together, at most."""
    return max(USERS_A_BLOCK, min(n_users // MOST_BLOCKS, 4 * USERS_A_BLOCK))


def _blocks_of(n_users: int, order: Ints | None, width: int = 1) -> Iterator[Ints]:
    n = n_users if order is None else order.size
    size = min(users_a_block(n), max(LEAST_USERS, MOST_VALUES // width))
    for begin in range(0, max(n, 1), size):
        yield np.arange(begin, min(begin + size, n)) if order is None else order[begin:][:size]


class GivenValues:
    """Values that are there already, such as those of a finished run.

    Args:
        values: for each model float64[n_users, n_requests].
        higher_is_better: of each request.
    """

    def __init__(self, values: Mapping[str, Floats], higher_is_better: Sequence[bool]) -> None:
        self.columns = np.arange(len(higher_is_better))
        self.higher_is_better, self.n_added = list(higher_is_better), len(higher_is_better)
        self._values = values

    def measure(self, users: Ints, _: BufferPool | None = None) -> dict[str, list[Floats]]:
        """For each model, for each request float64[n_users, 1]."""
        return {
            name: [np.ascontiguousarray(each[users, place, None]) for place in self.columns]
            for name, each in self._values.items()
        }

    def blocks(self, order: Ints | None = None) -> Iterator[Ints]:
        """User codes, a few thousand at a time."""
        return _blocks_of(next(iter(self._values.values())).shape[0], order)


class UserValues:
    """The values of users under several models, measured a block of users at a time.

    Args:
        ranks: of each model.
        requests: what is measured; those that differ in their cutoff alone are measured together.
        policies: of the run; a request may have some of its own.
        lists: what measures metrics of lists.
        beside: requests of the same metrics, at whose cutoffs they are measured as well.
    """

    def __init__(
        self,
        truth: Truth,
        ranks: Mapping[str, RankSets],
        requests: Sequence[Request],
        policies: Policies,
        lists: "Measure | None" = None,
        beside: Sequence[Request] = (),
    ) -> None:
        groups = group_requests(requests, policies)
        groups.sort(key=lambda group: group.request.metric.counts_hits)  # these may be counted
        self.n_users, self.groups, self.n_beside = truth.pairs.n_users, groups, len(beside)
        self.n_added = len(groups)
        self.widths = tuple(len(group.columns) for group in groups)
        self.firsts = tuple(accumulate(self.widths, initial=0))[:-1]
        # the column that each request stands in, where the groups stand side by side
        self.columns = np.argsort([column for group in groups for column in group.columns])
        self.higher_is_better = [bool(group.request.metric.higher_is_better) for group in groups]
        more = {alike(group.request): group.cutoffs for group in group_requests(beside, policies)}
        self.measured = [  # the groups at all cutoffs
            replace(group, cutoffs=np.union1d(group.cutoffs, more[alike(group.request)]))
            if alike(group.request) in more
            else group
            for group in groups
        ]
        self.measuring = {
            name: Measuring.of(
                truth, by_rules, self.measured, policies, lists and lists.of_model(name)
            )
            for name, by_rules in ranks.items()
        }

    def measure(self, users: Ints, pool: BufferPool | None = None) -> dict[str, list[Floats]]:
        """For each model, for each group of requests float64[n_users, n_cutoffs]."""
        places = range(len(self.groups))
        return {name: [*self.each(name, users, places, {}, pool)] for name in self.measuring}

    def each(
        self,
        model: str,
        users: Ints,
        places: Sequence[int],
        plain: PlainHits,
        pool: BufferPool | None = None,
    ) -> Iterator[Floats]:
        """The same of one model and some groups, one after the other, as `Measuring.each`."""
        return self.measuring[model].each(users, places, plain, pool)

    def blocks(self, order: Ints | None = None) -> Iterator[Ints]:
        """User codes, a few thousand at a time; at least one block, be it empty."""
        return _blocks_of(self.n_users, order, max(each.cutoffs.size for each in self.measured))


def measure_models(
    users: BlockValues,
    models: Iterable[str],
    *,
    cell_sets: Sequence[CellSet],
    pairs: Sequence[Pair] = (),
    threads: int,
    keep: Keep | None = None,
    watch: Watch | None = None,
) -> list[Totals]:
    """Exact sums of every request over the users, for each set of cells.

    Args:
        models: of the values.
        cell_sets: cells of the users, one set at least.
        pairs: models to compare, user by user.
        keep: what takes values, block after block.
        watch: told of each block's user codes, values, and whose values they are, from any thread.
    """
    models = tuple(models)

    def begin() -> list[Totals]:
        n = users.columns.size
        return [Totals(models, pairs, n, each.n_cells, by_steps=True) for each in cell_sets]

    totals = begin()
    n_cells, n_sums = sum(each.n_cells for each in cell_sets), len(models) + len(pairs)
    are_few = n_cells * n_sums * users.columns.size <= MOST_SUMS_A_THREAD
    own: dict[int, list[Totals]] = {}  # of each thread where they are few, so that none waits
    pools: dict[int, BufferPool] = {}  # of each thread

    def work(piece: _Piece) -> tuple[_Piece, dict[str, Floats]]:
        thread = threading.get_ident()
        pool = pools.setdefault(thread, BufferPool())
        pool.clear()
        if are_few and thread not in own:
            own[thread] = begin()
        block = piece.codes
        values = users.measure(block, pool)
        for each, cells in zip(own.get(thread, totals), cell_sets, strict=True):
            each.add(values, users.higher_is_better, cells.codes[block], users.n_added)
        if watch is not None:
            watch(block, values, users)
        kept = {} if keep is None else values
        places = slice(None) if keep is None else keep.places
        return piece, {name: stack_columns(users, each, places) for name, each in kept.items()}

    n_kept = 0 if keep is None else keep.places.size * len(models)
    n_together = BLOCKS_TOGETHER if cell_sets[0].n_cells > 1 and n_kept <= MOST_KEPT else 1
    blocks = users.blocks(None if keep is None else keep.order)
    whole: dict[str, Floats] = {}
    pieces = _pieces(blocks, cell_sets[0], n_together)
    for piece, kept in ordered_map(work, pieces, threads=threads):
        for name, values in kept.items():
            assert keep is not None
            if name not in whole:
                whole[name] = np.empty((piece.whole.size, keep.places.size))
            whole[name][piece.order] = values
        if keep is not None and piece.is_last:
            keep.take(piece.whole, whole)
            whole = {}
    for number, each in enumerate(totals):
        each.finish([sums[number] for sums in own.values()])
    return totals


class _Piece(NamedTuple):
    """Users of a few blocks whose cells lie together, so that sums stay close to the core.

    Args:
        codes: of the users of this piece.
        order: their places in `whole`.
        whole: the users of these blocks as they came by.
    """

    codes: Ints
    order: Ints | slice
    whole: Ints
    is_last: bool


def _pieces(blocks: Iterator[Ints], cells: CellSet, n_together: int) -> Iterator[_Piece]:
    """The users of every few blocks, cell by cell, in pieces as large as blocks."""
    if cells.n_cells == 1:
        yield from (_Piece(each, slice(None), each, is_last=True) for each in blocks)
    while some := list(islice(blocks, n_together)):  # none are left where there is one cell
        whole = some[0] if len(some) == 1 else np.concatenate(some)
        order = CellRows.of(cells.codes[whole], cells.n_cells).order
        end = 0
        for size in some:
            begin, end = end, end + size.size
            yield _Piece(whole[order[begin:end]], order[begin:end], whole, end == whole.size)
