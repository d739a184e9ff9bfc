"""Values of some models over one share of the users, added up in every way that is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from evalkit.aggregate.accumulators.counted import CountedValues, HitCounts
from evalkit.aggregate.accumulators.curves import CurveValues
from evalkit.aggregate.accumulators.histograms import Histograms, bin_values
from evalkit.aggregate.accumulators.kept import UserRows
from evalkit.aggregate.accumulators.parts import PartSums, WordSums, add_parts
from evalkit.aggregate.segments import CellSet, ItemPart
from evalkit.aggregate.sums import Pair, Totals, add_to, pairs_among
from evalkit.aggregate.user_values.blocks import (
    BlockValues,
    Keep,
    Measuring,
    UserValues,
    measure_models,
)
from evalkit.aggregate.user_values.gather import RankSets
from evalkit.aggregate.user_values.outcomes import as_kept
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.rankings._job import RankingJob
from evalkit.kinds.rankings._reader import Probed
from evalkit.kinds.rankings._splits import ShareSplit
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.metrics import Request
from evalkit.planning.counters import RowCounts
from evalkit.ranks import NO_TIES
from evalkit.truth import Truth

if TYPE_CHECKING:
    from evalkit.kinds.rankings._lists import ShareLists


@dataclass(frozen=True, slots=True)
class ShareValues:
    """Adds up values of models over one share of the users.

    Args:
        sums: what the values are added to.
    """

    job: RankingJob
    truth: Truth
    split: ShareSplit
    sums: RankingSums

    def add(self, probed: Mapping[str, Probed], lists: "ShareLists | None") -> None:
        """Add up the values of some models, user by user.

        Args:
            lists: what measures metrics of lists.
        Raises:
            DataError: the baseline is none of the models [unknown-model].
            RequestError: draws do not fit into the memory, or into passes [resampling-memory,
                bootstrap-passes].
        """
        job, truth, split, sums = self.job, self.truth, self.split, self.sums
        config, statistics = job.config, job.config.statistics
        for name, each in probed.items():
            sums.models.setdefault(name, RowCounts()).add_model(each.main, config, truth)
        pairs = pairs_among(tuple(probed), statistics, at=config.at("statistics", "baseline"))
        ranks = {name: each.ranks for name, each in probed.items()}
        models = _Models(job, truth, split, ranks, pairs, lists)
        _add_means(models, sums)
        if lists is not None:
            lists.add(models.ranks, pairs, split, sums, together=job.compares)
        if any(each.metric.combined is not None for each in job.requests):
            from evalkit.kinds.rankings._combined import add_combined  # rarely asked for

            rows, together = _rows_of(truth, split), job.compares
            add_combined(config, job.measured, rows, models.values, sums, together=together)
        if requests := job.ordered:
            rows = _rows_of(truth, split)
            sums.ordered.add(rows, models.values(requests), models.names, job.threads)
        for segment, part in split.items:
            totals, columns = _measure_part(models, part)
            sums.totals.take(totals, {segment: np.arange(1)}, columns)
        if job.is_cut and job.items:
            has = frozenset(segment for segment, _ in split.items)
            nothing = ItemPart.of(truth, np.empty(0, dtype=np.int64))
            sums.totals.lacking[has].take(*_measure_part(models, nothing))
        if statistics.two_way is not None:
            from evalkit.aggregate.accumulators.items import ItemSums  # rarely asked for

            sums.items = sums.items or ItemSums()
            sums.items.add(truth, models.values(job.requests), split.users, pairs, job.threads)
        self._add_draws(models)

    def _add_draws(self, models: "_Models") -> None:
        """Draw users, and add what is weighted or varies together."""
        job, sums, names = self.job, self.sums, models.names
        resampling = job.resampling(sums.draws, in_passes=job.is_cut)
        if resampling is None and not job.has_ratios:
            return
        rows = _rows_of(self.truth, self.split)
        if job.keeps_clusters or job.keeps_draws:
            sums.kept.add(rows, models.values(job.of_ratios), names, job.threads)
        if resampling is not None and not job.keeps_draws:
            drawn, cells = models.values(resampling.requests), self.split.cells
            resampling.add(drawn, rows.clusters, names, models.pairs, cells, job.threads)
        if job.has_ratios and not job.keeps_clusters:
            values = models.values(job.of_ratios)
            sums.ratios.add(rows, values, names, models.pairs, job.threads)

    def add_tie_shifts(self, probed: Mapping[str, Probed]) -> None:
        """Add what orders of equal scores change, where hits have such; then forget them."""
        job, split = self.job, self.split
        for name, each in probed.items():
            sets = each.ranks.sets.values()
            if not any(ranks.tied.firsts.size for ranks in sets):
                continue
            from evalkit.aggregate.accumulators.tied import moved_by_ties, tie_shifts

            policies = job.config.policies
            if requests := moved_by_ties(job.measured, policies):
                users = UserValues(self.truth, {name: each.ranks}, requests, policies)
                found = [tie_shifts(users, name, split.cells, split.weights, job.threads)]
                for segment, part in split.items:
                    own = {name: each.ranks.over(part.ranks_of)}
                    users = UserValues(part.truth, own, requests, policies)
                    cells = [CellSet.of_one(users.n_users, segment)]
                    found.append(tie_shifts(users, name, cells, split.weights, job.threads))
                for segment, shifts in chain.from_iterable(found):
                    add_to(self.sums.tie_shifts, (segment, name), shifts)
            for ranks in sets:
                ranks.tied = NO_TIES


@dataclass(frozen=True, slots=True)
class _Models:
    """Some models, measured side by side over one share of the users."""

    job: RankingJob
    truth: Truth
    split: ShareSplit
    ranks: Mapping[str, RankSets]
    pairs: Sequence[Pair]
    lists: "ShareLists | None"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.ranks)

    def values(self, requests: Sequence[Request]) -> UserValues:
        lists = None if self.lists is None else self.lists.measure
        return UserValues(self.truth, self.ranks, requests, self.job.config.policies, lists)

    def values_and_curves(self) -> CurveValues:
        lists = None if self.lists is None else self.lists.measure
        of_all = self.truth, self.ranks, self.job.measured, self.job.config.policies, lists
        return CurveValues(*of_all, self.job.curve_requests)


def _rows_of(truth: Truth, split: ShareSplit) -> UserRows:
    """What is known of the users beside their values."""
    keys = truth.stable_hashes()
    clusters = keys if split.clusters is None else split.clusters
    weights = np.ones(keys.size) if split.weights is None else split.weights
    return UserRows(keys, clusters, weights, split.users)


def _add_means(models: _Models, sums: RankingSums) -> None:
    """The sums of every segment of users, and what is seen of each block on the way."""
    job, truth, split = models.job, models.truth, models.split
    users = models.values_and_curves() if job.curve_requests else models.values(job.measured)
    watch = _Watch.of(models, sums.histograms, users)
    counted = _counted(models, users, watch)
    values = counted or users
    totals = measure_models(
        values,
        models.names,
        cell_sets=split.cells,
        pairs=models.pairs,
        threads=job.threads,
        keep=_keeping(job, truth, sums) if job.options.per_user else None,
        watch=None if watch is None else watch.add,
    )
    if counted is not None and counted.are_counted:
        parts = {} if watch is None else watch.by_model
        counted.add_to(totals[0].models, users.groups, users.firsts, parts)
    if isinstance(users, CurveValues):
        sums.curves.add(users, counted)
    if watch is not None and watch.parts is not None:
        sums.parts = add_parts(sums.parts, watch.parts.rows(job.requests, users.columns))
    for each, found in zip(split.cells, totals, strict=True):
        sums.totals.take(found, each.members, users.columns, is_last=True)


def _counted(models: _Models, users: UserValues, watch: "_Watch | None") -> CountedValues | None:
    """Values that are measured by counts of hits; None where users are of too many kinds."""
    cells = models.split.cells
    is_split = len(cells) > 1 or cells[0].n_cells > 1
    is_drawn = watch is not None and watch.histograms is not None
    are_apart = bool(models.job.options.per_user or models.pairs or is_split or is_drawn)
    parts = {} if is_split or watch is None else watch.by_model
    first = max(map(_first_counted, users.measuring.values()), default=0)
    places = range(first, len(users.widths))
    if not places or len(set(users.higher_is_better[first:])) > 1:
        return None
    found = {}
    for name, measuring in users.measuring.items():
        each = HitCounts.of(measuring, places, parts[name].codes if parts else None)
        if each is None or not each.is_cheap:
            return None
        found[name] = each
    return CountedValues(users, found, are_apart=are_apart, are_counted=not is_split)


def _first_counted(measuring: Measuring) -> int:
    """The first of the last groups of requests that count hits at the same ranks."""
    probes, first = measuring.probes, len(measuring.groups)
    while first and probes[first - 1] == probes[-1] and measuring.counts_hits(first - 1):
        first -= 1
    return first


def _measure_part(models: _Models, part: ItemPart) -> tuple[Totals, Ints]:
    """Sums over all users, of the items of one part alone, and the column of each request."""
    own = {name: each.over(part.ranks_of) for name, each in models.ranks.items()}
    users = replace(models, truth=part.truth, ranks=own).values(models.job.measured)
    (found,) = measure_models(
        users,
        models.names,
        cell_sets=[CellSet.of_one(users.n_users)],
        pairs=models.pairs,
        threads=models.job.threads,
    )
    return found, users.columns


def _keeping(job: RankingJob, truth: Truth, sums: RankingSums) -> Keep:
    """What keeps the values of a block of users, on disk or in memory."""
    table, kept = job.tables.truth, job.kept
    labels = [job.requests[place].label for place in kept]
    schema = table.frame.collect_schema()
    types = pl.Schema({name: schema[name] for name in schema if name.startswith("user_")})

    def keep(users: Ints, values: Mapping[str, Floats]) -> None:
        ids = truth.ids_of_users(users).cast(types)
        ids.columns = list(table.user_names)
        rows = {}
        for name, of_model in values.items():
            own = as_kept(of_model)
            columns = [pl.Series(label, own[:, n]) for n, label in enumerate(labels)]
            rows[name] = ids.hstack(columns)
        if job.writer is not None:
            job.writer.add(rows)
        else:
            for name, of_users in rows.items():
                sums.users.setdefault(name, []).append(of_users)

    return Keep(keep, np.array(kept, dtype=np.int64), truth.order_of_users())


@dataclass(frozen=True, slots=True)
class _Watch:
    """Looks at every block of values of one share, from any thread."""

    histograms: Histograms | None
    parts: PartSums | None
    n_requests: int
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, models: _Models, histograms: Histograms, users: UserValues) -> "_Watch | None":
        """What looks at every block; None where nobody asks."""
        job, split, parts = models.job, models.split, None
        if job.keeps_parts:
            present = {name: each.present[0] for name, each in users.measuring.items()}
            n_columns = users.columns.size
            parts = PartSums(models.truth, present, split.users, split.cells, n_columns)
        drawn = histograms if job.config.statistics.distributions else None
        return None if drawn is None and parts is None else cls(drawn, parts, len(job.requests))

    @property
    def by_model(self) -> Mapping[str, WordSums]:
        """The sums of each model's parts, of one set of cells."""
        return {} if self.parts is None else self.parts.only

    def add(
        self, users: Ints, values: Mapping[str, Sequence[Floats]], measured: BlockValues
    ) -> None:
        """A block of users; what measured their values."""
        if self.histograms is not None:
            found = bin_values(values, measured.columns, self.n_requests)
            with self.lock:
                self.histograms.merge(found)
        if self.parts is not None:
            n_added = measured.n_added
            self.parts.add(users, {name: each[:n_added] for name, each in values.items()})
