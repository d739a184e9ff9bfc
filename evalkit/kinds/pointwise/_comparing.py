"""Models of ratings or of labels compared, user by user or by the users' influence."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evalkit.aggregate.accumulators.resampling import Resampling
from evalkit.aggregate.segments import ALL, CellSet, Segment
from evalkit.aggregate.sums import GrandTotals, Pair, pairs_among
from evalkit.aggregate.user_values.blocks import GivenValues, measure_models
from evalkit.aggregate.user_values.checks import differing
from evalkit.config import Config
from evalkit.errors import RequestError
from evalkit.inference.conclude import Inference
from evalkit.inference.ordered import ChosenUsers, OrderedValues
from evalkit.inference.shown import NO_FLOATS
from evalkit.kernels.arrays import Floats, Keys
from evalkit.kinds.pointwise._clusters import Bundles, Clusters
from evalkit.kinds.pointwise.numbers import NO_NUMBER, RowNumber
from evalkit.kinds.pointwise.units import Measured, columns_of
from evalkit.metrics import Request, is_drawn, is_ordered, is_plain_mean
from evalkit.planning.record import as_followed
from evalkit.report import Warning_
from evalkit.statistics.intervals import Interval
from evalkit.statistics.ratios import RatioSum


def check_resampled(config: Config) -> list[Request]:
    """The requests that are resampled, tested by ranks or searched: means over users.

    Raises:
        RequestError: what was asked for holds for means of users' values alone
            [not-a-mean-of-users].
    """
    chosen = config.statistics
    asked = [
        f"{key} = {value}"
        for key, value, is_asked in (
            ("method", "'bootstrap'", chosen.method == "bootstrap"),
            ("test", repr(chosen.test), chosen.test not in ("auto", "t")),
            ("search", "true", chosen.search),
        )
        if is_asked
    ]
    requests = list(config.read_metrics(chosen.metrics) if chosen.metrics else config.requests)
    others = [each.label for each in requests if not (is_drawn(each) or is_ordered(each))]
    if asked and others:
        raise RequestError(
            f"{' and '.join(asked)} takes values of users, of which {', '.join(others)} "
            f"{'has' if len(others) == 1 else 'have'} none",
            code="not-a-mean-of-users",
            at=config.at("statistics"),
            hint="name means under [statistics], such as metrics = [\"log-loss(over='users')\"], "
            "or leave it out",
        )
    return requests


@dataclass(frozen=True, slots=True)
class _Total:
    count: int
    mean: float
    std_error: float | None
    df: float = math.nan
    skewness: float = math.nan

    @classmethod
    def of_users(cls, n: int, mean: float, std_error: float | None) -> "_Total":
        return cls(n, mean, std_error, n - 1.0)

    @classmethod
    def of_clusters(cls, mean: float, spread: RatioSum, *, is_mean: bool) -> "_Total":
        skewness = spread.skewness if is_mean else math.nan
        return cls(spread.count, mean, spread.std_error, spread.df, skewness)


_OfPair = tuple[_Total, _Total, _Total]  # a difference, and each of both models


@dataclass(slots=True)
class RowTotals:
    """Numbers over all rows, weighted means, means over clusters, and their differences.

    Users have no values of a number over all rows. A difference is that of the numbers as they are
    reported; its error is that of the differences of the users' influences.

    Args:
        clustered: of pairs, where users vary together.
    """

    requests: Sequence[Request]
    measured: Mapping[Segment, Mapping[str, Measured]]
    totals: GrandTotals
    clustered: dict[tuple[Segment, Pair, int], _OfPair] = field(default_factory=dict)

    def total(self, segment: Segment, model: str, column: int) -> _Total | None:
        """One request of one model; None where it is a finite mean of users' values."""
        if self._has_values(segment, column):
            return None
        one = _number(self.measured[segment], model, column)
        return _Total.of_users(one.n_users, one.value, one.std_error)

    def of_pair(self, segment: Segment, pair: Pair, column: int) -> _OfPair | None:
        """The difference of two models, and each of both; None where it is one of users' values."""
        if (segment, pair, column) in self.clustered:
            return self.clustered[segment, pair, column]
        one, other = (self.total(segment, model, column) for model in pair)
        if one is None or other is None:
            return None
        error = None
        if one.std_error is not None and other.std_error is not None:
            error = self.totals.pairs[segment, pair].deltas.sum_of(column).std_error
        n_users = self.users_without_values(segment, pair, column) or 0
        return _Total.of_users(n_users, other.mean - one.mean, error), one, other

    def users_without_values(self, segment: Segment, pair: Pair, column: int) -> int | None:
        """Of numbers over all rows, of weighted means and of infinite ones; None of others."""
        if self._has_values(segment, column):
            return None
        known = self.totals.pairs[segment, pair].deltas.sum_of(column).count
        return known or max(_number(self.measured[segment], each, column).n_users for each in pair)

    def users_carrying(self, segment: Segment, pair: Pair, column: int) -> float:
        """Those of the model that has fewer."""
        both = (_number(self.measured[segment], each, column) for each in pair)
        return min(each.n_carrying for each in both)

    def note_clusters(
        self, segment: Segment, pair: Pair, units: "_Units", bundles: Bundles
    ) -> None:
        """The errors of a pair, clusters drawn at random."""
        old, new = (units.values[model] for model in pair)
        for column in range(len(self.requests)):
            found = self.totals.pair_total(segment, pair, column)
            is_mean = self._has_values(segment, column)
            with np.errstate(invalid="ignore"):  # of infinite values of both
                deltas = new[:, column] - old[:, column]

            def total(
                values: Floats, mean: float, deltas: Floats = deltas, *, is_mean: bool = is_mean
            ) -> _Total:
                n_users = max(1, int(np.count_nonzero(~np.isnan(deltas))))
                with np.errstate(invalid="ignore"):
                    moves = np.where(np.isnan(deltas), np.nan, (values - mean) / n_users)
                return _Total.of_clusters(
                    mean, bundles.spread(moves, is_mean=is_mean), is_mean=is_mean
                )

            delta = total(deltas, found.delta.mean)
            if is_mean:
                one = total(old[:, column], found.baseline.mean)
                other = total(new[:, column], found.candidate.mean)
                self.clustered[segment, pair, column] = delta, one, other
            elif plain := self.of_pair(segment, pair, column):
                error = None if plain[0].std_error is None else delta.std_error
                of_both = replace(delta, mean=plain[0].mean, std_error=error)
                self.clustered[segment, pair, column] = of_both, *plain[1:]

    def _has_values(self, segment: Segment, column: int) -> bool:
        numbers = [each.numbers[column] for each in self.measured[segment].values()]
        is_infinite = any(math.isinf(each.value) for each in numbers)
        return is_plain_mean(self.requests[column]) and not is_infinite


def _number(models: Mapping[str, Measured], model: str, column: int) -> RowNumber:
    return models[model].numbers[column] if model in models else NO_NUMBER


def infer(
    config: Config,
    requests: Sequence[Request],
    measured: Mapping[Segment, Mapping[str, Measured]],
    totals: GrandTotals,
    *,
    clusters: Clusters | None,
    hash_users: Callable[[Keys], Keys],
    threads: int,
    n_lonely: int | None = None,
) -> Inference:
    """Estimates, and comparisons where the config asks for them.

    Args:
        n_lonely: as `add_pairs` found it, where sums of pairs were added already.
        measured: of each segment, ALL among them, and model.
        totals: knows the segments and their users; sums are added.
        clusters: of the users, where they vary together.
        hash_users: stable hashes of users by their keys.
    """
    models = tuple(measured.get(ALL, {}))
    config = as_followed(config)
    pairs = pairs_among(models, config.statistics, at=config.at("statistics", "baseline"))
    resampling = Resampling.of(
        config, [each for each in requests if is_drawn(each)], in_passes=False
    )
    if clusters is not None:
        measured = _by_cluster(requests, measured, clusters, level=config.statistics.level)
    ordered = None
    if any(map(is_ordered, requests)):
        ordered = ordered_values(config, requests, measured, pairs, clusters)
        measured = with_ordered(requests, measured, ordered)
    known = RowTotals(requests, measured, totals)
    is_added = n_lonely is not None or not (pairs or resampling is not None)
    for segment in () if is_added else totals.segments:
        units = _Units.of(requests, models, measured[segment])
        if pairs and segment == ALL:
            n_lonely = _count_lonely(units.users, measured[ALL])
        _add_sums(requests, segment, units, models, pairs, totals, threads)
        if clusters is not None:
            for pair in pairs:
                known.note_clusters(segment, pair, units, clusters.bundle(units.users))
        if resampling is not None:
            wanted = [requests.index(request) for request in resampling.requests]
            users = slice(0, units.users.size)
            drawn = GivenValues(
                {name: _finite(each[users, wanted]) for name, each in units.values.items()},
                [bool(request.metric.higher_is_better) for request in resampling.requests],
            )
            one = CellSet.of_one(units.users.size, segment)
            keys_of = hash_users if clusters is None else clusters.keys_of
            resampling.add(drawn, keys_of(units.users), models, pairs, [one], threads)
    followed, estimates = differing(config.policies), []
    for model in models:
        for segment in totals.segments:
            for column, request in enumerate(requests):
                number = _number(measured[segment], model, column)
                if resampling is not None and math.isfinite(number.value):
                    drawn_limits = resampling.interval(segment, model, request.label, number.value)
                    number = replace(number, interval=drawn_limits or number.interval)
                estimates.append(number.estimate(model, request, segment, followed))
    inference = Inference.of(
        config, requests, models, totals, resampling, known, estimates, shown=ordered
    )
    if n_lonely:
        message = (
            f"{n_lonely:,} users have rows of some models alone: means over users are compared "
            "over the users of both, numbers over rows as each model has them"
        )
        told = Warning_("different-users", message)
        return replace(inference, warnings=(told, *inference.warnings))
    return inference


def add_pairs(
    config: Config,
    requests: Sequence[Request],
    measured: Mapping[Segment, Mapping[str, Measured]],
    totals: GrandTotals,
    threads: int,
) -> int:
    """Add what some users, of whom all rows are here, make of every pair of models.

    Returns:
        How many of them have rows of some models alone.
    """
    models = tuple(measured.get(ALL, {}))
    pairs = pairs_among(models, config.statistics, at=config.at("statistics", "baseline"))
    n_lonely = 0
    for segment in totals.segments if pairs else ():
        units = _Units.of(requests, models, measured[segment])
        if segment == ALL:
            n_lonely = _count_lonely(units.users, measured[ALL])
        _add_sums(requests, segment, units, models, pairs, totals, threads)
    return n_lonely


def _add_sums(
    requests: Sequence[Request],
    segment: Segment,
    units: "_Units",
    models: Sequence[str],
    pairs: Sequence[Pair],
    totals: GrandTotals,
    threads: int,
) -> None:
    """Add the values of units, and their differences, to the sums of a segment."""
    given = GivenValues(units.values, [bool(r.metric.higher_is_better) for r in requests])
    cells = CellSet.of_one(units.n_units, segment)
    (found,) = measure_models(given, models, cell_sets=[cells], pairs=pairs, threads=threads)
    totals.take(found, cells.members, given.columns)


def _by_cluster(
    requests: Sequence[Request],
    measured: Mapping[Segment, Mapping[str, Measured]],
    clusters: Clusters,
    *,
    level: float,
) -> dict[Segment, dict[str, Measured]]:
    """The same numbers with the errors of clusters drawn at random."""
    found: dict[Segment, dict[str, Measured]] = {}
    places = columns_of(requests, "users")
    for segment, by_model in measured.items():
        for name, columns in by_model.items():
            users, numbers = columns.columns["users"], list(columns.numbers)
            bundles = clusters.bundle(users.keys)
            for place, column in enumerate(places):
                moves, number = users.values[:, place], numbers[column]
                if number.std_error is None:
                    continue
                if is_mean := is_plain_mean(requests[column]):
                    moves = (moves - number.value) / number.n_users
                spread = bundles.spread(moves, is_mean=is_mean)
                numbers[column] = number.with_error(spread, is_mean=is_mean, level=level)
            found.setdefault(segment, {})[name] = replace(columns, numbers=numbers)
    return found


def _finite(values: Floats) -> Floats:
    """Values to draw from; an infinite mean has no limits, so nothing is drawn for it."""
    return np.where(np.isinf(values), np.nan, values)


def _count_lonely(users: Keys, measured: Mapping[str, Measured]) -> int:
    """Users whom one of the models has no rows of."""
    has_rows = [np.isin(users, each.columns["users"].keys) for each in measured.values()]
    return int(np.count_nonzero(~np.all(has_rows, axis=0)))


@dataclass(frozen=True, slots=True)
class _Units:
    """Users, then sessions, of all models, and a column a request.

    Args:
        users: keys of the users, ascending.
        values: for each model float64[n_units, n_requests], NaN where a user has none; numbers
            over all rows, and weighted means, plus what the users move them by times their number.
    """

    users: Keys
    n_units: int
    values: dict[str, Floats]

    @classmethod
    def of(
        cls, requests: Sequence[Request], models: Sequence[str], measured: Mapping[str, Measured]
    ) -> "_Units":
        """Users of any model stand in one row for all."""
        kinds = [
            kind
            for kind in ("users", "sessions")
            if any(kind in each.columns for each in measured.values())
        ]
        blocks: dict[str, list[Floats]] = {model: [] for model in models}
        users = np.empty(0, dtype=np.uint64)
        for kind in kinds:
            own = {name: each.columns[kind] for name, each in measured.items()}
            keys = np.unique(np.concatenate([each.keys for each in own.values()]))
            users = keys if kind == "users" else users
            found = {}
            for model in models:
                found[model] = np.full((keys.size, len(requests)), np.nan)
                if model in own:
                    rows, columns = (
                        np.searchsorted(keys, own[model].keys),
                        columns_of(requests, kind),
                    )
                    found[model][rows[:, None], columns] = own[model].values
            for column in columns_of(requests, kind):
                if not (is_plain_mean(requests[column]) or is_ordered(requests[column])):
                    numbers = {name: each.numbers[column] for name, each in measured.items()}
                    _stand_in(found, column, numbers)
            for model in models:
                blocks[model].append(found[model])
        empty = np.empty((0, len(requests)))
        values = {model: np.concatenate([empty, *found]) for model, found in blocks.items()}
        return cls(users, next(iter(values.values())).shape[0], values)


def _stand_in(found: Mapping[str, Floats], column: int, numbers: Mapping[str, RowNumber]) -> None:
    """Put in place of influences what has the number as its mean, and the same standard error.

    Who moves one model alone moves the others by nothing.
    """
    moves = ~np.all([np.isnan(each[:, column]) for each in found.values()], axis=0)
    for model, number in numbers.items():
        influence = found[model][moves, column]
        if not np.all(np.isnan(influence)):
            influence = np.nan_to_num(influence, nan=0.0)
            mean = math.fsum(influence) / influence.size  # the same in any order of users
            around = (influence - mean) * influence.size
            found[model][moves, column] = number.value + around


def ordered_values(
    config: Config,
    requests: Sequence[Request],
    measured: Mapping[Segment, Mapping[str, Measured]],
    pairs: Sequence[Pair],
    clusters: Clusters | None,
) -> OrderedValues:
    """What numbers that stand on the order of users are made of."""
    places = columns_of(requests, "users")

    def choose(segment: Segment, models: Sequence[str], request: Request) -> ChosenUsers:
        known = measured[segment]
        if any(model not in known for model in models):
            return ChosenUsers([NO_FLOATS] * len(models), NO_FLOATS, np.empty(0, dtype=np.int64))
        own = [known[model].columns["users"] for model in models]
        column, keys = places.index(requests.index(request)), own[0].keys
        for each in own[1:]:
            keys = np.intersect1d(keys, each.keys, assume_unique=True)
        values = [each.values[np.searchsorted(each.keys, keys), column] for each in own]
        held = ~np.isnan(values).any(axis=0)
        drawn = keys[held] if clusters is None else clusters.keys_of(keys[held])
        _, units = np.unique(drawn, return_inverse=True)
        return ChosenUsers([each[held] for each in values], np.ones(drawn.size), units)

    return OrderedValues(config, list(filter(is_ordered, requests)), pairs, choose)


def with_ordered(
    requests: Sequence[Request],
    measured: Mapping[Segment, Mapping[str, Measured]],
    ordered: OrderedValues,
) -> dict[Segment, dict[str, Measured]]:
    """The same numbers, those that stand on the order of users among them."""
    found: dict[Segment, dict[str, Measured]] = {}
    for segment, by_model in measured.items():
        for model, own in by_model.items():
            numbers = list(own.numbers)
            for column in filter(lambda place: is_ordered(requests[place]), range(len(requests))):
                made = ordered.number(segment, model, requests[column])
                number = replace(
                    numbers[column],
                    value=made.mean,
                    std_error=made.std_error,
                    interval=Interval(*made.limits),
                )
                if ordered.config.statistics.cluster is not None:
                    number = replace(number, n_clusters=made.units, df=made.units - 1.0)
                numbers[column] = number
            found.setdefault(segment, {})[model] = replace(own, numbers=numbers)
    return found
