"""Every metric at every cutoff: curves of models, and graphs of two of them."""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.accumulators.counted import Counts, HitCounts
from evalkit.aggregate.sums import add_all, add_to
from evalkit.aggregate.user_values.blocks import Measuring, PlainHits, UserValues
from evalkit.aggregate.user_values.buffer_pool import BufferPool
from evalkit.aggregate.user_values.gather import is_mean_of_users
from evalkit.config import Policies
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import Request
from evalkit.report import Curve, Graph
from evalkit.statistics.exact import ExactSums, StepSums
from evalkit.statistics.means import interval_of

USERS_AT_ONCE = 4096  # whose values stay close to the core, at fifty cutoffs


def curve_requests(requests: Sequence[Request], policies: Policies) -> list[Request]:
    """Every metric that has a cutoff, at each one up to its deepest."""
    deepest: dict[Request, int] = {}
    for request in requests:
        is_mean = request.metric.over_users is None and is_mean_of_users(request, policies)
        if request.cutoff is not None and is_mean:
            whole = replace(request, cutoff=None)
            deepest[whole] = max(deepest.get(whole, 0), request.cutoff)
    return [
        replace(whole, cutoff=cutoff)
        for whole, last in deepest.items()
        for cutoff in range(1, last + 1)
    ]


@dataclass(slots=True)
class CurveSums:
    """Sums of every metric at every cutoff, of each model."""

    sums: dict[str, ExactSums] = field(default_factory=dict)

    def add(self, users: UserValues, models: Sequence[str], threads: int) -> None:
        """Measure one share of the users at every cutoff."""
        shares: dict[int, _Share] = {}  # of each thread
        counted = {name: _counted(users.measuring[name]) for name in models}

        def work(block: npt.NDArray[np.int64]) -> None:
            thread = threading.get_ident()
            if thread not in shares:
                shares[thread] = _Share.empty(users, counted)
            for begin in range(0, block.size, USERS_AT_ONCE):
                shares[thread].add(users, counted, block[begin : begin + USERS_AT_ONCE])

        for _ in ordered_map(work, users.blocks(), threads=threads):
            pass
        for share in shares.values():
            for name, steps in share.steps.items():
                sums = steps.sums()
                for own, counts in zip(counted[name], share.counts[name], strict=True):
                    own.add_to(sums, counts, users.firsts)
                add_to(self.sums, name, sums.take(users.columns))

    def merge(self, other: "CurveSums") -> None:
        """Take over the sums of other users."""
        add_all(self.sums, other.sums)

    def curves(
        self, models: Sequence[str], requests: Sequence[Request], level: float
    ) -> Iterator[Curve]:
        """One curve for each model and metric; of requests as `curve_requests` gives them."""
        for name in models if self.sums else ():
            sums = self.sums[name]
            by_metric: dict[Request, list[int]] = {}
            for column, request in enumerate(requests):
                by_metric.setdefault(replace(request, cutoff=None), []).append(column)
            for whole, columns in by_metric.items():
                totals = [sums.sum_of(column) for column in columns]
                bounds = whole.metric.bounds
                limits = [
                    interval_of(total, sums.skewness_of(column), bounds, level=level)
                    for total, column in zip(totals, columns, strict=True)
                ]
                yield Curve(
                    name,
                    whole.label,
                    tuple(requests[column].cutoff or 0 for column in columns),
                    tuple(total.mean for total in totals),
                    tuple(_or_none(each.low) for each in limits),
                    tuple(_or_none(each.high) for each in limits),
                )


@dataclass(frozen=True, slots=True)
class _Share:
    """What one thread adds up: by model sums, counts of hits, and room for values."""

    steps: dict[str, StepSums]
    counts: dict[str, list[Counts]]
    pool: BufferPool

    @classmethod
    def empty(cls, users: UserValues, counted: Mapping[str, list[HitCounts]]) -> "_Share":
        """Nothing added yet."""
        return cls(
            {name: StepSums(users.widths) for name in counted},
            {name: [each.empty() for each in found] for name, found in counted.items()},
            BufferPool(),
        )

    def add(
        self,
        users: UserValues,
        counted: Mapping[str, list[HitCounts]],
        codes: npt.NDArray[np.int64],
    ) -> None:
        """Some users, of all models."""
        for name, steps in self.steps.items():
            measuring, plain = users.measuring[name], PlainHits()
            are_counted = {place for each in counted[name] for place in each.places}
            places = [place for place in range(len(users.widths)) if place not in are_counted]
            found = measuring.each(codes, places, plain, self.pool)
            self.pool.clear()
            for place, values in zip(places, found, strict=True):
                steps.add(values, first_column=users.firsts[place])
            for each, counts in zip(counted[name], self.counts[name], strict=True):
                each.count(codes, *measuring.gather(codes, each.probe, plain, self.pool), counts)


def _counted(measuring: Measuring) -> list[HitCounts]:
    places: dict[int, list[int]] = {}
    for place, probe in enumerate(measuring.probes):
        if measuring.counts_hits(place):
            places.setdefault(probe, []).append(place)
    found = (HitCounts.of(measuring, own) for own in places.values())
    return [each for each in found if each is not None]


def precision_recall(curves: Sequence[Curve]) -> Iterator[Graph]:
    """Precision by recall, cutoff by cutoff, of each model that has the curves of both.

    Of several kinds of either, the first one is drawn.
    """
    found: dict[str, dict[str, Curve]] = {}
    for curve in curves:
        name = curve.metric.partition("(")[0]
        found.setdefault(curve.model, {}).setdefault(name, curve)
    for model, by_name in found.items():
        if "precision" in by_name and "recall" in by_name:
            y, x = by_name["precision"], by_name["recall"]
            n = min(len(x.cutoffs), len(y.cutoffs))
            yield Graph(
                model,
                "precision-recall-by-cutoff",
                x.metric,
                y.metric,
                x.values[:n],
                y.values[:n],
                y.low[:n],
                y.high[:n],
                thresholds=tuple(float(each) for each in x.cutoffs[:n]),
                x_low=x.low[:n],
                x_high=x.high[:n],
            )


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number
