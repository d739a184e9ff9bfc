"""Numbers of the lists of all users together: values, errors and differences.

Their errors are those of the delta method: the deviation of what each user adds to the number.
"""

# Long: one class, whose numbers of three families share what lists left behind.

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evalkit import metrics
from evalkit.aggregate.accumulators import counting
from evalkit.aggregate.accumulators.counting import Columns, ShownCounts
from evalkit.aggregate.accumulators.resampling import resamples
from evalkit.aggregate.accumulators.shown import SAMPLED, Sampled, ShownSums
from evalkit.aggregate.segments import ALL, UNKNOWN, Segment
from evalkit.aggregate.sums import GrandTotals, Pair
from evalkit.aggregate.user_values.gather import ranges
from evalkit.config import Config, policies_of
from evalkit.errors import RequestError
from evalkit.inference.caveats import FEWEST_MOVING, of_few_lists
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints
from evalkit.metrics import Ends, ItemContext, Items, Request, Shown, Values
from evalkit.report import Warning_

STEP = 1e-100  # of the derivative by a complex number, which rounds nothing

NO_FLOATS: Floats = np.empty(0)
NO_USERS: Ints = np.empty(0, dtype=np.int64)
NO_ENDS = Ends()


@dataclass(frozen=True, slots=True)
class Number:
    """One number of all lists of a model in a segment.

    Args:
        count: users whom it stands on.
        influences: float64[n], how far each of some users whose lists are kept moves it, times
            `count`; NaN of whom it does not stand on.
        users: int64[n], places of these users.
        fewest: of them, who add anything to that of its sums which the fewest add to.
    """

    mean: float
    count: int
    influences: Floats
    error: float | None = None  # where it is known otherwise
    ends: Ends = NO_ENDS
    users: Ints = field(default_factory=lambda: NO_USERS)
    fewest: int = FEWEST_MOVING
    units: int = 0  # users, or clusters of them, where the error is known otherwise
    limits: tuple[float, float] = (math.nan, math.nan)  # where they are known otherwise

    @property
    def std_error(self) -> float | None:
        """The standard error; None where fewer than two users say nothing of it."""
        error = self.error if self.error is not None else _error(self.influences, self.count)
        return None if error is None else max(error, self.ends.error)

    @property
    def scaled(self) -> float:
        """Something other than 0 where the number is."""
        return self.mean


@dataclass(frozen=True, slots=True)
class Delta:
    """The difference of two numbers on the users of both models."""

    baseline: Number
    candidate: Number
    delta: Number
    wins: None = None
    ties: None = None
    losses: None = None


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
        totals: sums of values of users.
    """

    config: Config
    sums: Mapping[str, ShownSums]
    requests: Sequence[Request]
    apart: bool
    totals: GrandTotals
    _kept: dict[object, Number] = field(default_factory=dict)
    _beside: dict[str, ItemContext] = field(default_factory=dict)
    _places: dict[tuple[str, str], dict[str, Ints]] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], Columns] = field(default_factory=dict)

    @staticmethod
    def has(request: Request) -> bool:
        """Whether a request is such a number."""
        of_all = metrics.family_of(request) in ("counts", "sums", "means", "combined")
        return of_all or metrics.is_ordered(request)

    def number(
        self, segment: Segment, model: str, request: Request, pair: Pair | None = None
    ) -> Number:
        """A number of a model; with a pair, over the users of both models."""
        known = (segment, model, request, pair)
        if known not in self._kept:
            make = {"counts": self._of_counts, "sums": self._of_sums, "means": self._of_means}
            self._kept[known] = make[metrics.family_of(request)](segment, model, request, pair)
        return self._kept[known]

    def delta(self, segment: Segment, pair: Pair, request: Request) -> Delta:
        """Two numbers, over the users of both models."""
        if metrics.family_of(request) == "means":
            return self._delta_of_means(segment, pair, request)
        one, other = (self.number(segment, model, request, pair) for model in pair)
        influences = other.influences - one.influences
        error = 0.0
        if one.ends.error and not self._are_alike(pair, request):
            error = math.hypot(one.ends.error, other.ends.error)
        ends = Ends(error)
        return Delta(one, other, Number(other.mean - one.mean, other.count, influences, ends=ends))

    def _are_alike(self, pair: Pair, request: Request) -> bool:
        """Whether two models show the same lists, by those that are kept."""
        one, other = (self._held(model, request)[1].sampled.get(model) for model in pair)
        if one is None or other is None:
            return one is other
        return np.array_equal(one.items, other.items) and np.array_equal(one.lengths, other.lengths)

    def _held(self, model: str, request: Request) -> tuple[str, ShownSums]:
        key = key_of(request, model if self.apart else "")
        return key, self.sums.get(key) or ShownSums()

    def _users(
        self, key: str, sums: ShownSums, segment: Segment, model: str, pair: Pair | None
    ) -> Ints:
        """Whose lists are kept, of those whom the number stands on."""
        users = self._drawn(key, sums, segment)
        for name in (model,) if pair is None else pair:
            if name in sums.sampled:
                users = users[sums.sampled[name].present[users]]
        return users

    def _drawn(self, key: str, sums: ShownSums, segment: Segment) -> Ints:
        """The users of a segment by whom errors are known, of all whose lists are kept."""
        if segment == ALL:
            return np.arange(min(sums.hashes.size, SAMPLED))
        return self._members(key, sums, segment)[:SAMPLED]

    def _members(self, key: str, sums: ShownSums, segment: Segment) -> Ints:
        """The users of a segment whose lists are kept, those with the smallest hashes first."""
        name, label = segment
        if (key, name) not in self._places:
            self._places[key, name] = sums.by_segment(name)
        return self._places[key, name].get(label, NO_USERS)

    def _of_counts(
        self, segment: Segment, model: str, request: Request, pair: Pair | None
    ) -> Number:
        found = self._counters(segment, model, request, pair)
        if found is None:
            return Number(math.nan, 0, NO_FLOATS)
        key, sums, columns, shown, items = found
        function: Callable[..., tuple[float, Floats]] = request.metric.function
        value, slopes = function(shown, items, dict(request.parameters))
        users = self._users(key, sums, segment, model, pair)
        influences = _influences(sums.sampled[model], users, columns, request, slopes)
        influences *= shown.n_users
        ends = _ends(request, shown, items, slopes, influences)
        return Number(float(value), shown.n_users, influences, ends=ends, users=users)

    def shown_by(self, model: str, request: Request) -> tuple[Shown, Items] | None:
        """How often a model shows each item; None where nothing is counted."""
        found = self._counters(ALL, model, request, None)
        return None if found is None else found[3:]

    def _counters(
        self, segment: Segment, model: str, request: Request, pair: Pair | None
    ) -> tuple[str, ShownSums, Columns, Shown, Items] | None:
        key, sums = self._held(model, request)
        columns = self._columns_of(metrics.who_of(request))
        counted = sums.counted.get((segment, model))
        if counted is None or model not in sums.sampled:
            return None
        lone = None if pair is None else sums.lone.get((segment, pair, model))
        if lone is not None:
            counted = counted.without(lone)
        items = self._beside_of(key, sums).items
        return key, sums, columns, _shown(counted, columns, request, items.is_listed.size), items

    def _columns_of(self, who: tuple[object, ...]) -> Columns:
        if who not in self._alike:
            of_counts = [each for each in self.requests if metrics.family_of(each) == "counts"]
            alike = [each for each in of_counts if metrics.who_of(each) == who]
            self._alike[who] = Columns.of(alike)
        return self._alike[who]

    def _of_sums(self, segment: Segment, model: str, request: Request, pair: Pair | None) -> Number:
        key, sums = self._held(model, request)
        whole = sums.sums.get((segment, model))
        if whole is None or model not in sums.sampled:
            return Number(math.nan, 0, NO_FLOATS)
        rules, context = request.metric.lists, self._beside_of(key, sums)
        assert rules is not None
        assert rules.by is not None
        values, columns = dict(request.parameters), self._columns(request, context)
        exact = [whole.sum_of(column) for column in columns]
        lone = None if pair is None else sums.lone_sums.get((segment, pair, model))
        if lone is not None:
            exact = [each.without(lone.sum_of(n)) for each, n in zip(exact, columns, strict=True)]
        count = max((each.count for each in exact), default=0)
        if not count:
            return Number(math.nan, 0, NO_FLOATS)
        totals = np.array([each.total for each in exact])
        value = float(np.real(rules.by(values, context, totals)))
        slopes = np.array(
            [_slope(rules.by, values, context, totals, n) for n in range(totals.size)]
        )
        users = self._users(key, sums, segment, model, pair)
        own = sums.sampled[model].values[users[:, None], columns]
        fewest = int(np.count_nonzero(np.nan_to_num(own), axis=0).min())
        return Number(value, count, own @ slopes * count, users=users, fewest=fewest)

    def _of_means(
        self, segment: Segment, model: str, request: Request, pair: Pair | None
    ) -> Number:
        column, groups = self._groups(segment, request)
        sums = [self.totals.models[group, model].sum_of(column) for group in groups]
        value, slopes = _of_groups(request, [each.mean for each in sums])
        errors = [each.std_error for each in sums]
        return Number(value, sum(each.count for each in sums), NO_FLOATS, _joined(slopes, errors))

    def _delta_of_means(self, segment: Segment, pair: Pair, request: Request) -> Delta:
        column, groups = self._groups(segment, request)
        found = [self.totals.pair_total(group, pair, column) for group in groups]
        one, old = _of_groups(request, [each.baseline.mean for each in found])
        other, new = _of_groups(request, [each.candidate.mean for each in found])
        variance: float | None = 0.0
        for comparison, before, after in zip(found, old, new, strict=True):
            errors = (
                comparison.baseline.std_error,
                comparison.candidate.std_error,
                comparison.delta.std_error,
            )
            if variance is None or None in errors:
                variance = None
                continue
            a, b, d = (float(error or 0.0) ** 2 for error in errors)
            variance += before * before * a + after * after * b - before * after * (a + b - d)
        error = None if variance is None or not found else math.sqrt(max(variance, 0.0))
        n = sum(each.delta.count for each in found)
        spreads = [
            _joined(slopes, [getattr(each, side).std_error for each in found])
            for side, slopes in (("baseline", old), ("candidate", new))
        ]
        return Delta(
            Number(one, n, NO_FLOATS, spreads[0]),
            Number(other, n, NO_FLOATS, spreads[1]),
            Number(other - one, n, NO_FLOATS, error),
        )

    def _groups(self, segment: Segment, request: Request) -> tuple[int, list[Segment]]:
        """The column of the metric whose means are looked at, and the groups, for all users."""
        wanted = of_groups(self.config, request)
        by = str(dict(request.parameters)["by"])
        segments = self.totals.segments if segment == ALL else []
        groups = [each for each in segments if each[0] == by and each[1] != UNKNOWN]
        return self.requests.index(wanted), groups

    def _columns(self, request: Request, context: ItemContext) -> list[int]:
        first = 0
        for one_request in self.requests:
            if metrics.family_of(one_request) != "sums" or one_request.policies != request.policies:
                continue
            n = metrics.n_sums_of(one_request, context)
            if one_request == request:
                return list(range(first, first + n))
            first += n
        raise AssertionError("a request that was measured has columns")

    def _beside_of(self, key: str, sums: ShownSums) -> ItemContext:
        if key not in self._beside:
            self._beside[key] = sums.items.context()
        return self._beside[key]

    def warnings(self, models: Sequence[str]) -> Iterator[Warning_]:
        """Numbers of all lists that stand on few users, or are not drawn again as was asked."""
        statistics = self.config.statistics
        named = self.config.read_metrics(statistics.metrics) or self.config.requests
        kept = [each.label for each in named if self.has(each) and not metrics.is_ordered(each)]
        if kept and resamples(statistics):
            message = f"{', '.join(kept)}: limits and tests are those of influence, not drawn"
            yield Warning_("not-resampled", message)
        beyond = [
            (model, request.label, self.number(ALL, model, request).mean)
            for model in models
            for request in self.requests
            if request.metric.name in ("item_coverage", "prediction_coverage")
            and dict(request.parameters)["scale"] == "share"
            and self.number(ALL, model, request).mean > 1.0
        ]
        for model, label, value in beyond[:1]:
            message = f"{label} of {model!r} is {value:.3f}: it counts items beyond the catalogue"
            yield Warning_("coverage-above-one", message)
        yield from of_few_lists(
            (model, request.label, self.number(ALL, model, request))
            for model in models
            for request in self.requests
            if self.has(request)
        )


def of_groups(config: Config, request: Request) -> Request:
    """The metric of users whose means in groups a request of the family `means` is made of.

    Raises:
        RequestError: there is no such metric [unknown-metric], or none of users
            [no-metric-of-users]; no segmentation has the groups [unknown-segmentation].
    """
    values, at = dict(request.parameters), config.at("metrics", "names")
    by, of = str(values["by"]), str(values["of"])
    named = [*config.segments.named, *(f"{one} & {other}" for one, other in config.segments.cross)]
    rule = config.segments.named.get(by)
    if by not in named or (rule is not None and rule.item is not None):
        message = f"{request.label} needs the users in groups, and no segmentation is called {by!r}"
        hint = f'by = "COLUMN" under [segments.{by}]'
        raise RequestError(message, code="unknown-segmentation", at=at, hint=hint)
    found = config.read_metrics([of if request.cutoff is None else f"{of}@{request.cutoff}"])
    if len(found) != 1 or ShownNumbers.has(found[0]) or found[0].metric.over_users is not None:
        message = f"{request.label} needs one metric with a value of each user, which {of!r} is not"
        raise RequestError(message, code="no-metric-of-users", at=at, hint="of='nDCG', or another")
    who = policies_of(request, config.policies).list_users
    if who == "list" or found[0].metric.lists is not None:
        return found[0]
    own = {**dict(found[0].policies), "list_users": who}  # whose lists count is said of mad
    return replace(found[0], policies=tuple(sorted(own.items())))


def _of_groups(request: Request, means: Sequence[float]) -> tuple[float, list[float]]:
    function: Callable[..., tuple[float, Floats]] = request.metric.function
    value, slopes = function(means, dict(request.parameters))
    return float(value), [float(each) for each in slopes]


def _joined(slopes: Sequence[float], errors: Sequence[float | None]) -> float | None:
    """The standard error of a function of means of groups that have no user in common."""
    if None in errors or not errors:
        return None
    return math.sqrt(
        math.fsum((s * float(e or 0.0)) ** 2 for s, e in zip(slopes, errors, strict=True))
    )


def _ends(request: Request, shown: Shown, items: Items, slopes: Floats, influences: Floats) -> Ends:
    """What is known of a number by counters alone.

    Where few of the users whose lists are kept move it, their deviation says little: squares of
    what users add are no less than if each added one item.
    """
    assert request.metric.lists is not None
    if request.metric.lists.ends is None:
        return NO_ENDS
    ends = request.metric.lists.ends(shown, items, dict(request.parameters))
    if not ends.error or np.count_nonzero(np.nan_to_num(influences)) >= FEWEST_MOVING:
        return ends
    squares = float((shown.lists * slopes * slopes).sum())
    squares -= float((shown.lists * slopes).sum()) ** 2 / max(1, shown.n_users)
    return ends._replace(error=math.sqrt(max(squares, ends.error**2)))


def key_of(request: Request, model: str) -> str:
    """Under which name the sums of a request are kept; `model`: where models are apart."""
    return repr((*metrics.who_of(request), model))


def _slope(
    by: Callable[..., object], values: Values, context: ItemContext, totals: Floats, column: int
) -> float:
    moved = totals.astype(np.complex128)
    moved[column] += 1j * STEP
    return float(np.imag(by(values, context, moved)) / STEP)  # type: ignore[call-overload]


def _weights(columns: Columns, request: Request, depth: int) -> tuple[str, Floats, Floats]:
    """What each row adds to its item: by its place, times that by the length of the list."""
    weighing = metrics.weighing_of(request)
    by_rank, by_length = np.ones(depth + 1), np.ones(depth + 1)
    ranks, lengths = columns.weights(depth)
    if weighing == "attention":
        by_rank = ranks[columns.attentions.index(counting.attention_of(request))] / counting.UNIT
    elif weighing != "lists":
        by_length = lengths[columns.lengths.index(weighing)] / counting.UNIT
    return weighing, by_rank, by_length


def _shown(counted: ShownCounts, columns: Columns, request: Request, n_items: int) -> Shown:
    """The counters of one cutoff, of all items."""
    weighing, cutoff = metrics.weighing_of(request), request.kernel_cutoff
    lists = np.zeros(n_items, dtype=np.int64)
    lists[counted.items] = counted.counts[:, columns.place(cutoff)]
    weighed, rows = np.zeros(n_items), None
    if weighing == "gain":
        words = counted.counts[:, columns.place_of_gain(cutoff, counting.gain_of(request)) :]
        rows = np.zeros(n_items, dtype=np.int64)
        rows[counted.items] = words[:, 0]
        weighed[counted.items] = words[:, 1] + words[:, 2] / 2.0**counting.GAIN_BITS
    elif weighing != "lists":
        way = len(columns.attentions)
        if weighing == "attention":
            way = columns.attentions.index(counting.attention_of(request))
        else:
            way += columns.lengths.index(weighing)
        words = counted.counts[:, columns.place(cutoff, way) :][:, :2]
        weighed[counted.items] = (
            words[:, 0] * (2.0**counting.WORD / counting.UNIT) + words[:, 1] / counting.UNIT
        )
    return Shown(
        lists=lists,
        exposure=weighed,
        by_length=weighed,
        n_users=counted.n_users,
        by_share=weighed,
        rows=rows,
        gains=weighed,
        cutoff=cutoff,
        n_empty=counted.n_empty,
    )


def _influences(
    sampled: Sampled, users: Ints, columns: Columns, request: Request, slopes: Floats
) -> Floats:
    """What some users add to a number, to the first order."""
    lists, cutoff, influences = sampled.lists, request.kernel_cutoff, np.empty(users.size)
    if metrics.weighing_of(request) == "gain":
        lengths = np.minimum(lists.lengths[users], cutoff)
        rows = ranges(lists.starts[users], lengths)
        gains = sampled.gains[rows, columns.gains.index(counting.gain_of(request))]
        added = slopes[lists.items[rows], 0] + slopes[lists.items[rows], 1] * gains
        owners = np.repeat(np.arange(users.size), lengths)
        return np.asarray(np.bincount(owners, added, minlength=users.size), dtype=np.float64)
    depth = int(lists.lengths.max(initial=0))
    weighing, by_rank, by_length = _weights(columns, request, depth)
    add_slopes(
        lists,
        users,
        cutoff,
        np.ascontiguousarray(slopes, dtype=np.float64),
        by_rank,
        by_length,
        weighing != "attention",
        np.zeros(slopes.size, dtype=np.int64),
        influences,
    )
    return influences


@kernel(allocates=False)
def add_slopes(  # type: ignore[no-untyped-def]
    lists, users, cutoff, slopes, by_rank, by_length, once, last, influences
):
    """What some users add to a number, to the first order.

    Args:
        once: an item that a list repeats counts once.
        last: int64[n_items], room for the user whom each item was met with.
    """
    # Wide: called once a number; a record would be made for this call alone.
    for row in range(users.size):
        user = users[row]
        begin, n = lists.starts[user], min(lists.lengths[user], cutoff)
        total, n_different = 0.0, 0
        for place in range(n):
            item = lists.items[begin + place]
            is_first = last[item] != user + 1
            n_different += is_first
            if is_first or not once:
                total += slopes[item] * by_rank[place]
            last[item] = user + 1
        influences[row] = total * by_length[n_different]
