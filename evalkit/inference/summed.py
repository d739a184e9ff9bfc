"""What the sums of all segments say, read at one time: there are very many numbers."""

import math

import numpy as np
import numpy.typing as npt

from evalkit.aggregate.sums import GrandTotals, Pair
from evalkit.kernels.arrays import Floats
from evalkit.statistics.exact import Summaries, summarize

TOGETHER = 1 << 12  # sums of differences that are read at one time


def listed(numbers: Floats) -> list[float]:
    """One after the other; none but one object is NaN, since records with it else differ."""
    return [math.nan if each != each else each for each in numbers.ravel().tolist()]


def none_if_nan(numbers: npt.NDArray[np.generic]) -> list[float | None]:
    """One after the other, as records hold what need not exist."""
    return [None if each != each else each for each in numbers.ravel().tolist()]


class Summed:
    """Summaries of each model and pair: one row a segment, one column a request.

    Args:
        totals: to which nothing is added any more.
        n_requests: the first columns, which are read.
    """

    def __init__(self, totals: GrandTotals, n_requests: int) -> None:
        self.totals, self.n_requests, self.segments = totals, n_requests, totals.segments
        self.pairs = [*dict.fromkeys(pair for _, pair in totals.pairs)]
        self._models: dict[str, Summaries] = {}
        self._deltas: dict[Pair, Summaries] = {}

    def model(self, name: str) -> Summaries:
        """Of the values of a model."""
        if name not in self._models:
            sums = [self.totals.models[segment, name] for segment in self.segments]
            self._models[name] = summarize(sums, self.n_requests)
        return self._models[name]

    def deltas(self, pair: Pair) -> Summaries:
        """Of the differences of two models."""
        if pair not in self._deltas:
            n = len(self.segments)
            begin = self.pairs.index(pair)
            some = self.pairs[begin : begin + max(1, TOGETHER // n)]
            sums = [self.totals.pairs[one, each].deltas for each in some for one in self.segments]
            found = summarize(sums, self.n_requests)
            for place, each in enumerate(some):
                self._deltas[each] = found.rows(place * n, (place + 1) * n)
        return self._deltas[pair]
