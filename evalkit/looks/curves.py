"""Every metric at every cutoff: curves of models, and graphs of two of them."""

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from evalkit.config import Policies
from evalkit.exact import ExactSums, StepSums
from evalkit.kernels.threads import ordered_map
from evalkit.metrics import Request
from evalkit.report import Curve, Graph
from evalkit.statistics.means import interval_of
from evalkit.sums import add_to
from evalkit.values.blocks import UserValues
from evalkit.values.gather import is_mean_of_users

USERS_AT_ONCE = 2048  # whose values stay close to the core, at fifty cutoffs


def curve_requests(requests: Sequence[Request], policies: Policies) -> list[Request]:
    """Every metric that has a cutoff, at each one up to its deepest."""
    deepest: dict[Request, int] = {}
    for request in requests:
        if request.cutoff is not None and is_mean_of_users(request, policies):
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
        own: dict[int, tuple[dict[str, StepSums], npt.NDArray[np.float64]]] = {}  # of each thread

        def work(block: npt.NDArray[np.int64]) -> None:
            thread = threading.get_ident()
            if thread not in own:
                sums = {name: StepSums(users.widths) for name in models}
                own[thread] = sums, np.empty(USERS_AT_ONCE * max(users.widths))
            sums, room = own[thread]
            for begin in range(0, block.size, USERS_AT_ONCE):
                some = block[begin : begin + USERS_AT_ONCE]
                for name, steps in sums.items():
                    first = 0
                    for values in users.measuring[name].each(some, room):
                        steps.add(values, first_column=first)
                        first += values.shape[1]

        for _ in ordered_map(work, users.blocks(), threads=threads):
            pass
        for sums, _ in own.values():
            for name, steps in sums.items():
                add_to(self.sums, name, steps.sums().take(users.columns))

    def merge(self, other: "CurveSums") -> None:
        """Take over the sums of other users."""
        for name, sums in other.sums.items():
            add_to(self.sums, name, sums)

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
