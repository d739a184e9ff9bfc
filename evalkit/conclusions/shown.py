"""Numbers of the lists of all users together: values, errors and differences.

Their errors are those of the delta method: the deviation of what each user adds to the number.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.kernels import kernel
from evalkit.lists import n_sums_of
from evalkit.looks.shown import UNIT, WORD, Columns, Counted, ShownSums, attention_of, family_of
from evalkit.metrics import Beside, Request, Shown, Values
from evalkit.report import Warning_
from evalkit.segments import ALL, Segment
from evalkit.sums import Pair

STEP = 1e-100  # of the derivative by a complex number, which rounds nothing
FEWEST_OF_LISTS = 100  # users behind a number of all lists

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Number:
    """One number of all lists of a model in a segment.

    Args:
        count: users whom it stands on.
        influences: float64[n], of the users whose lists are kept how far each moves it, times
            `count`; NaN of others.
    """

    mean: float
    count: int
    influences: Floats

    @property
    def std_error(self) -> float | None:
        """The standard error; None where fewer than two users say nothing of it."""
        return _error(self.influences, self.count)

    @property
    def scaled(self) -> float:
        """Something other than 0 where the number is."""
        return self.mean


@dataclass(frozen=True, slots=True)
class Delta:
    """The difference of two numbers on the users of both models."""

    baseline: Number
    candidate: Number
    wins: None = None
    ties: None = None
    losses: None = None

    @property
    def delta(self) -> Number:
        """Candidate less baseline."""
        influences = self.candidate.influences - self.baseline.influences
        return Number(self.candidate.mean - self.baseline.mean, self.candidate.count, influences)


def _error(influences: Floats, count: int) -> float | None:
    known = influences[~np.isnan(influences)]
    if known.size < 2 or count < 2:
        return None
    return math.sqrt(float(np.var(known, ddof=1)) / count)


@dataclass(slots=True)
class ShownNumbers:
    """Numbers of what lists left behind.

    Args:
        sums: by `key_of`.
        requests: all that were measured.
        apart: whether models were measured one by one.
    """

    sums: Mapping[str, ShownSums]
    requests: Sequence[Request]
    apart: bool
    _kept: dict[object, Number] = field(default_factory=dict)
    _beside: dict[str, Beside] = field(default_factory=dict)

    @staticmethod
    def has(request: Request) -> bool:
        """Whether a request is such a number."""
        return family_of(request) in ("counts", "sums")

    def number(
        self, segment: Segment, model: str, request: Request, pair: Pair | None = None
    ) -> Number:
        """A number of a model; with a pair, over the users of both models."""
        known = (segment, model, request, pair)
        if known not in self._kept:
            make = self._of_counts if family_of(request) == "counts" else self._of_sums
            self._kept[known] = make(segment, model, request, pair)
        return self._kept[known]

    def delta(self, segment: Segment, pair: Pair, request: Request) -> Delta:
        """Two numbers, over the users of both models."""
        one, other = (self.number(segment, model, request, pair) for model in pair)
        return Delta(one, other)

    def _held(self, model: str, request: Request) -> tuple[str, ShownSums]:
        key = key_of(request, model if self.apart else "")
        return key, self.sums.get(key) or ShownSums()

    def _users(
        self, sums: ShownSums, segment: Segment, model: str, pair: Pair | None
    ) -> npt.NDArray[np.bool_]:
        """Whose lists are kept, of those whom the number stands on."""
        users = sums.of_segment(segment)
        for name in (model,) if pair is None else pair:
            if name in sums.sampled:
                users &= sums.sampled[name].present
        return users

    def _of_counts(
        self, segment: Segment, model: str, request: Request, pair: Pair | None
    ) -> Number:
        key, sums = self._held(model, request)
        alike = [
            each
            for each in self.requests
            if family_of(each) == "counts" and each.policies == request.policies
        ]
        columns = Columns.of(alike)
        counted = sums.counted.get((segment, model))
        if counted is None or model not in sums.sampled:
            return Number(math.nan, 0, np.empty(0))
        lone = None if pair is None else sums.lone.get((segment, pair, model))
        if lone is not None:
            counted = counted.without(lone)
        beside = self._beside_of(key, sums)
        shown = _shown(counted, columns, request, beside.items.is_listed.size)
        function: Callable[..., tuple[float, Floats]] = request.metric.function
        value, slopes = function(shown, beside.items, dict(request.parameters))
        users = self._users(sums, segment, model, pair)
        lists = sums.sampled[model].lists
        depth = int(lists.lengths.max(initial=0))
        weighing, by_rank, by_length = _weights(columns, request, depth)
        influences = np.full(users.size, np.nan)
        add_slopes(
            lists,
            np.flatnonzero(users),
            request.kernel_cutoff,
            np.ascontiguousarray(slopes, dtype=np.float64),
            by_rank,
            by_length,
            weighing != "attention",
            np.zeros(slopes.size, dtype=np.int64),
            influences,
        )
        return Number(float(value), counted.n_users, influences * counted.n_users)

    def _of_sums(self, segment: Segment, model: str, request: Request, pair: Pair | None) -> Number:
        key, sums = self._held(model, request)
        whole = sums.sums.get((segment, model))
        if whole is None or model not in sums.sampled:
            return Number(math.nan, 0, np.empty(0))
        rules, beside = request.metric.lists, self._beside_of(key, sums)
        assert rules is not None
        assert rules.by is not None
        values, columns = dict(request.parameters), self._columns(request, beside)
        exact = [whole.sum_of(column) for column in columns]
        lone = None if pair is None else sums.lone_sums.get((segment, pair, model))
        if lone is not None:
            exact = [each.without(lone.sum_of(n)) for each, n in zip(exact, columns, strict=True)]
        count = max((each.count for each in exact), default=0)
        if not count:
            return Number(math.nan, 0, np.empty(0))
        totals = np.array([each.total for each in exact])
        value = float(np.real(rules.by(values, beside, totals)))
        slopes = np.array([_slope(rules.by, values, beside, totals, n) for n in range(totals.size)])
        own = sums.sampled[model].values[:, columns]
        influences = np.where(self._users(sums, segment, model, pair), own @ slopes, np.nan)
        return Number(value, count, influences * count)

    def _columns(self, request: Request, beside: Beside) -> list[int]:
        first = 0
        for each in self.requests:
            if family_of(each) != "sums" or each.policies != request.policies:
                continue
            n = n_sums_of(each, beside)
            if each == request:
                return list(range(first, first + n))
            first += n
        raise AssertionError("a request that was measured has columns")

    def _beside_of(self, key: str, sums: ShownSums) -> Beside:
        if key not in self._beside:
            self._beside[key] = sums.items.beside()
        return self._beside[key]

    def warnings(self, models: Sequence[str]) -> Iterator[Warning_]:
        """Numbers of all lists that stand on few users."""
        few = [
            (model, request.label, number.count)
            for model in models
            for request in self.requests
            if self.has(request)
            and 0 < (number := self.number(ALL, model, request)).count < FEWEST_OF_LISTS
        ]
        if few:
            model, label, count = few[0]
            more = f", and {len(few) - 1:,} more" if len(few) > 1 else ""
            message = f"{label} of {model!r}{more} stands on {count:,} users: limits are rough"
            yield Warning_("few-lists", message)


def key_of(request: Request, model: str) -> str:
    """Under which name the sums of a request are kept; `model`: where models are apart."""
    return repr((request.policies, model))


def _slope(
    by: Callable[..., object], values: Values, beside: Beside, totals: Floats, column: int
) -> float:
    moved = totals.astype(np.complex128)
    moved[column] += 1j * STEP
    return float(np.imag(by(values, beside, moved)) / STEP)  # type: ignore[call-overload]


def _weights(columns: Columns, request: Request, depth: int) -> tuple[str, Floats, Floats]:
    """What each row adds to its item: by its place, times that by the length of the list."""
    assert request.metric.lists is not None
    weighing = request.metric.lists.weighing
    by_rank, by_length = np.ones(depth + 1), np.ones(depth + 1)
    ranks, lengths = columns.weights(depth)
    if weighing == "attention":
        by_rank = ranks[columns.attentions.index(attention_of(request))] / UNIT
    elif weighing != "lists":
        by_length = lengths[columns.lengths.index(weighing)] / UNIT
    return weighing, by_rank, by_length


def _shown(counted: Counted, columns: Columns, request: Request, n_items: int) -> Shown:
    """The counters of one cutoff, of all items."""
    assert request.metric.lists is not None
    weighing, cutoff = request.metric.lists.weighing, request.kernel_cutoff
    lists = np.zeros(n_items, dtype=np.int64)
    lists[counted.items] = counted.counts[:, columns.place(cutoff)]
    weighed = np.zeros(n_items)
    if weighing != "lists":
        way = len(columns.attentions)
        if weighing == "attention":
            way = columns.attentions.index(attention_of(request))
        else:
            way += columns.lengths.index(weighing)
        words = counted.counts[:, columns.place(cutoff, way) :][:, :2]
        weighed[counted.items] = words[:, 0] * (2.0**WORD / UNIT) + words[:, 1] / UNIT
    return Shown(
        lists=lists,
        rows=lists,
        exposure=weighed,
        by_length=weighed,
        n_users=counted.n_users,
        by_share=weighed,
    )


@kernel(allocates=False)
def add_slopes(  # type: ignore[no-untyped-def]
    lists, users, cutoff, slopes, by_rank, by_length, once, last, influences
):
    """What some users add to a number, to the first order.

    Args:
        once: an item that a list repeats counts once.
        last: int64[n_items], room for the user whom each item was met with.
    """
    for user in users:
        begin, n = lists.starts[user], min(lists.lengths[user], cutoff)
        total, n_different = 0.0, 0
        for place in range(n):
            item = lists.items[begin + place]
            is_first = last[item] != user + 1
            n_different += is_first
            if is_first or not once:
                total += slopes[item] * by_rank[place]
            last[item] = user + 1
        influences[user] = total * by_length[n_different]
