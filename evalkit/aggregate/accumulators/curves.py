"""Every metric at every cutoff: curves of models, and graphs of two of them."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from threading import get_ident
from typing import TYPE_CHECKING

import numpy as np

from evalkit.aggregate.accumulators.counted import CountedValues
from evalkit.aggregate.sums import add_all, add_to
from evalkit.aggregate.user_values.blocks import PlainHits, UserValues, alike
from evalkit.aggregate.user_values.buffer_pool import BufferPool
from evalkit.aggregate.user_values.gather import RankSets, is_mean_of_users
from evalkit.config import Policies
from evalkit.kernels.arrays import Floats, Ints
from evalkit.metrics import Request
from evalkit.report import Curve, Graph
from evalkit.statistics.exact import ExactSums, StepSums
from evalkit.statistics.means import interval_of
from evalkit.truth import Truth

if TYPE_CHECKING:
    from evalkit.item_lists import Measure


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

    def add(self, users: "CurveValues", counted: CountedValues | None) -> None:
        """Take over what was added up of one share of the users.

        Args:
            counted: values of users who were counted.
        """
        for name, sums in users.sums(counted).items():
            add_to(self.sums, name, sums)

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


class CurveValues(UserValues):
    """Values that are added up at every cutoff as they are measured; those asked for go on.

    Args:
        curves: requests as `curve_requests` gives them; the rest as of `UserValues`.
    """

    def __init__(
        self,
        truth: Truth,
        ranks: Mapping[str, RankSets],
        requests: Sequence[Request],
        policies: Policies,
        lists: "Measure | None",
        curves: Sequence[Request],
    ) -> None:
        super().__init__(truth, ranks, requests, policies, lists, curves)
        all_widths = tuple(each.cutoffs.size for each in self.measured)
        self._firsts = tuple(accumulate(all_widths, initial=0))[:-1]
        self._asked = [
            np.searchsorted(measured.cutoffs, group.cutoffs)
            for measured, group in zip(self.measured, self.groups, strict=True)
        ]
        places = {alike(group.request): place for place, group in enumerate(self.measured)}
        of_curves = [(places[alike(each)], each.kernel_cutoff) for each in curves]
        self._columns = np.array(
            [
                self._firsts[place] + np.searchsorted(self.measured[place].cutoffs, cutoff)
                for place, cutoff in of_curves
            ]
        )
        self._steps = defaultdict[tuple[str, int], StepSums](lambda: StepSums(all_widths))
        self._pools = defaultdict[int, BufferPool](BufferPool)  # of each thread

    def each(
        self,
        model: str,
        users: Ints,
        places: Sequence[int],
        plain: PlainHits,
        pool: BufferPool | None = None,
    ) -> Iterator[Floats]:
        """At the cutoffs that are asked for, of one model and some groups."""
        take = np.empty if pool is None else pool.take
        steps, own = self._steps[model, get_ident()], self._pools[get_ident()]
        measured = self.measuring[model].each(users, places, plain, pool, own)
        for place, values in zip(places, measured, strict=True):
            steps.add(values, first_column=self._firsts[place])
            asked = take((users.size, self._asked[place].size), np.float64)
            yield np.take(values, self._asked[place], axis=1, out=asked, mode="clip")
            own.clear()

    def sums(self, counted: CountedValues | None) -> dict[str, ExactSums]:
        """Those of each model, one column for each request of the curves."""
        found: dict[str, ExactSums] = {}
        for (model, _), steps in self._steps.items():
            add_to(found, model, steps.sums())
        if counted is not None:
            counted.add_to(found, self.measured, self._firsts, {})
        return {model: sums.take(self._columns) for model, sums in found.items()}


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
