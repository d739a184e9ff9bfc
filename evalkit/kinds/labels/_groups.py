"""Metrics of each user, or of each session, and their averages; sums over users."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from evalkit import metrics
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kernels.threads import ordered_map
from evalkit.kinds.labels._bands import Ruler, UserSpread
from evalkit.kinds.labels._kernels import (
    add_up_called,
    add_up_influence,
    add_up_losses,
    add_up_weights,
)
from evalkit.kinds.labels._placements import Placements, is_area
from evalkit.kinds.labels._walk import losses_of
from evalkit.kinds.labels.merge import LabelSums
from evalkit.kinds.pointwise.counts import Grouping
from evalkit.kinds.pointwise.store import (
    Column,
    Numbered,
    Store,
    number_groups,
    sort_labels,
    sort_rows,
    values_of,
)
from evalkit.kinds.pointwise.units import UnitSums
from evalkit.sources.ids import KeyCollisionError

PIECES = 128  # into which parts are divided among threads; what these give is merged


def has_part(term: metrics.Term) -> bool:
    """Whether it is known what each user adds to a sum."""
    if isinstance(term, metrics.Request):
        return term.metric.is_loss
    known = term in (metrics.ROWS, metrics.POSITIVES, metrics.PREDICTED) or is_area(term)
    return known or (isinstance(term, tuple) and term[0] in ("tp", "fp"))


@dataclass(slots=True)
class GroupRows:
    """The rows of some groups, group by group, scores descending.

    Args:
        starts: int64[n_groups + 1], where each group's rows begin.
        keys: of the scores.
        labels: uint8, 0 or 1.
        weights: float64, all 1 where rows have none.
        placements: what rows do to areas, where that is known.
        sums: weight, weight of labels 1, sum of scores of each group.
        known: values that several requests share.
    """

    starts: Ints
    keys: Column
    scores: Floats
    labels: Column
    weights: Floats
    placements: Placements | None
    sums: dict[metrics.Term, Floats] = field(default_factory=dict)
    known: dict[object, Floats] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        return self.starts.size - 1

    def measure(self, request: metrics.Request) -> Floats:
        """float64[n_groups], the value of each group's rows; NaN where undefined."""
        asked = request.ungrouped
        if asked not in self.known:
            rows = (self.starts, self.scores, self.labels, self.weights)
            values = np.empty(self.n_groups)
            if request.metric.is_loss:
                values = self._mean_loss(request)
            elif request.metric.over_rows is metrics.of_counts:
                values = self._of_called(request)
            else:
                request.call(*rows, *request.encoded, values)
            self.known[asked] = values
        return self.known[asked]

    def _mean_loss(self, request: metrics.Request) -> Floats:
        sums = np.empty(self.n_groups)
        losses = losses_of(request, self.scores, self.labels)
        add_up_losses(self.starts, losses, self.weights, sums)
        rows = self.term(metrics.ROWS)
        means: Floats = np.divide(sums, rows, out=np.full(sums.size, np.nan), where=rows > 0.0)
        return means

    def _of_called(self, request: metrics.Request) -> Floats:
        """Of the rows of each group that are called positive; nothing of a group without weight."""
        threshold = metrics.called_from(request)
        tp, fp = self.term(("tp", threshold)), self.term(("fp", threshold))
        positives, negatives = self.term(("tp", -math.inf)), self.term(("fp", -math.inf))
        counts = (tp, fp, negatives - fp, positives - tp)  # sums of a prefix: exactly 0 of no row
        values = request.metric.kernel.interpret(*counts, *request.own_arguments)
        return np.where(positives + negatives > 0.0, values, np.nan)

    def weigh(self, how: str) -> Floats:
        """How much each group counts."""
        if how == "equal":
            return np.ones(self.n_groups)
        return self.term(metrics.ROWS if how == "impressions" else metrics.POSITIVES)

    def term(self, term: metrics.Term) -> Floats:
        """float64[n_groups], the sum of a term over each group's rows."""
        if term not in self.sums:
            self.sums.update(self._add_up(term))
        return self.sums[term]

    def _add_up(self, term: metrics.Term) -> dict[metrics.Term, Floats]:
        if term in (metrics.ROWS, metrics.POSITIVES, metrics.PREDICTED):
            found = [np.empty(self.n_groups) for _ in range(3)]
            add_up_weights(self.starts, self.scores, self.labels, self.weights, *found)
            return dict(
                zip((metrics.ROWS, metrics.POSITIVES, metrics.PREDICTED), found, strict=True)
            )
        if isinstance(term, metrics.Request):
            rows = self.term(metrics.ROWS)  # a group without weight has no mean
            return {term: np.where(rows > 0.0, self.measure(term) * rows, 0.0)}
        if is_area(term):
            return self._place()
        _, threshold = cast(tuple[str, float], term)
        found = [np.empty(self.n_groups) for _ in range(2)]
        add_up_called(self.starts, self.scores, self.labels, self.weights, threshold, *found)
        return {("tp", threshold): found[0], ("fp", threshold): found[1]}

    def _place(self) -> dict[metrics.Term, Floats]:
        places = self.placements
        assert places is not None
        sums = np.empty((self.n_groups, places.influence.shape[2]))
        first, shift = np.uint64(places.least), np.uint64(places.shift)
        add_up_influence(self.starts, self.keys, self.labels, first, shift, places.influence, sums)
        columns = np.ascontiguousarray(sums.T)
        return dict(zip(places.terms, columns, strict=False))


def _sort(
    groups: Numbered, columns: Sequence[Column]
) -> tuple[Ints, Column, Floats, Column, Floats]:
    """Where groups start; keys, scores, labels and weights, scores of each group descending."""
    if len(columns) == 2:
        starts, keys, scores, labels = sort_labels(groups, *columns)
        return starts, keys, scores, labels, np.ones(scores.size)
    starts, (keys, labels, weights) = sort_rows(groups, columns)
    return starts, keys, values_of(~keys), labels, values_of(weights)


def measure_groups(
    store: Store,
    grouping: Grouping,
    requests: Sequence[metrics.Request],
    smooth: Mapping[metrics.Request, metrics.Smooth],
    *,
    placements: Placements | None = None,
    keep: bool = False,
    ruler: Ruler | None = None,
    threads: int,
) -> LabelSums:
    """Means over groups, and sums for the standard errors of numbers over all rows.

    Args:
        smooth: numbers over all rows.
        placements: for those of them that are areas.
        ruler: where rows are counted for the bands of curves.
        keep: values of the groups too.

    Raises:
        KeyCollisionError: two ids share a key.
    """
    weighted = "weight" in store.dtypes
    names = ["score", "label", *(["weight"] if weighted else [])]

    def work(parts: range) -> LabelSums:
        bands = None if ruler is None else UserSpread.of_nothing(ruler)
        results = LabelSums(UnitSums.of(requests, smooth), bands)
        for part in parts:
            add(part, results)
        return results

    def add(part: int, results: LabelSums) -> None:
        keys = store.part(part, [grouping.key])[0]
        checks = store.part(part, [grouping.check])[0] if grouping.check is not None else None
        groups = number_groups(keys, checks)
        if groups is None:
            raise KeyCollisionError
        units = results.units
        most_rows = int(np.bincount(groups.numbers).max()) if keys.size else 0
        units.count(groups.n_groups, most_rows)
        if not keys.size or not (requests or smooth or keep or ruler is not None):
            return
        starts, keys, scores, labels, weights = _sort(groups, store.part(part, names))
        rows = GroupRows(starts, keys, scores, labels, weights, placements)
        if results.bands is not None:
            results.bands.add(starts, keys, labels, weights)
        values = [request.averaged(rows.measure(request)) for request in requests]
        weighed = [rows.weigh(metrics.weighting(request)) for request in requests]
        found = [rows.term(term) for term in units.spread.terms]
        if any(map(is_area, units.spread.terms)):
            good = np.add.reduceat(labels, starts[:-1], dtype=np.int64)
            n_bad = int(np.count_nonzero(good < np.diff(starts)))
            units.count_labels(np.array([n_bad, np.count_nonzero(good)]))
        terms = np.stack(found, axis=1) if found else np.empty((groups.n_groups, 0))
        units.add(groups.keys, values, weighed, terms, keep=keep)

    some = -(-store.n_parts // PIECES)
    pieces = [
        range(first, min(first + some, store.n_parts)) for first in range(0, store.n_parts, some)
    ]
    found = ordered_map(work, pieces, threads=threads)
    total = next(found)
    for each in found:
        total.merge(each)
    return total
