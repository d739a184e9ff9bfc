"""Medians, quantiles, tail means and ends of users' values: numbers that stand on their order.

Quantiles have Woodruff's limits, and are compared by an error of paired draws of users (or of
clusters), where hardly anybody has the value of a quantile. Tail means have those of the terms
that they are the mean of. The lowest and the highest value have no limits and no test.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.aggregate.accumulators.kept import KEY, KeptUsers, UserRows
from evalkit.aggregate.segments import ALL, Segment
from evalkit.aggregate.sums import Pair
from evalkit.config import Config
from evalkit.inference.combined import CombinedNumbers
from evalkit.inference.shown import NO_FLOATS, Delta, Number
from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.metrics import Request, bounds_of, is_ordered
from evalkit.report import Warning_
from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval
from evalkit.statistics.quantiles import Ordered, error_of_mean, paired_error, skewness_of_mean

MOST_DRAWS = 200  # of which a standard error is made (Efron and Tibshirani 1993, 6.4)
TIED = 0.1  # of the error of a share: where more users have the value, a quantile has ties


@dataclass(frozen=True, slots=True)
class ChosenUsers:
    """Some users: their values of each model asked for, weights and units."""

    values: list[Floats]
    weights: Floats
    units: Ints


@dataclass(frozen=True, slots=True)
class OrderedUsers:
    """The users of all shares, by their keys; the values of each model, float64[n, n_requests]."""

    rows: UserRows
    values: Mapping[str, Floats]
    requests: Sequence[Request]
    pooled: Mapping[Segment, Segment]

    @classmethod
    def of(
        cls,
        kept: KeptUsers,
        models: Sequence[str],
        segmentations: Sequence[str],
        requests: Sequence[Request],
        pooled: Mapping[Segment, Segment],
    ) -> "OrderedUsers":
        """Put together, in an order that shares have no part in."""
        kept.frames = [pl.concat(kept.frames).sort(KEY)]
        return cls(*kept.joined(models, segmentations, len(requests)), requests, pooled)

    def members(self, segment: Segment) -> Flags:
        """bool[n_users], who is in a segment, or in one that was too small and is part of it."""
        if segment == ALL:
            return np.ones(self.rows.keys.size, dtype=np.bool_)
        for segmentation in self.rows.segments:
            if segmentation.name == segment[0]:
                found = [(segmentation.name, label) for label in segmentation.groups.labels]
                are_in = [self.pooled.get(own, own) == segment for own in found]
                return np.array(are_in, dtype=np.bool_)[segmentation.groups.codes]
        return np.zeros(self.rows.keys.size, dtype=np.bool_)

    def choose(self, segment: Segment, models: Sequence[str], request: Request) -> ChosenUsers:
        """The users of a segment who have values of all these models."""
        column = self.requests.index(request)
        values = [self.values[model][:, column] for model in models]
        held = self.members(segment) & ~np.isnan(values).any(axis=0)
        _, units = np.unique(self.rows.clusters[held], return_inverse=True)
        return ChosenUsers([each[held] for each in values], self.rows.weights[held], units)


@dataclass(frozen=True, slots=True)
class OrderedValues:
    """Numbers that stand on the order of users, and their differences.

    Args:
        pairs: of models that are compared.
        choose: the users of a segment who have values of some models of a request.
        known: what was made already.
    """

    config: Config
    requests: Sequence[Request]
    pairs: Sequence[Pair]
    choose: Callable[[Segment, Sequence[str], Request], ChosenUsers]
    known: dict[object, Number] = field(default_factory=dict)

    @staticmethod
    def has(request: Request) -> bool:
        """Whether a request is such a number."""
        return is_ordered(request)

    def number(
        self, segment: Segment, model: str, request: Request, pair: Pair | None = None
    ) -> Number:
        """A number of a model; with a pair, over the users of both models."""
        key = (segment, model, request, pair)
        if key not in self.known:
            names = (model,) if pair is None else (model, *(each for each in pair if each != model))
            chosen = self.choose(segment, names, request)
            self.known[key] = self._made(chosen, request, with_limits=pair is None)
        return self.known[key]

    def delta(self, segment: Segment, pair: Pair, request: Request) -> Delta:
        """Two numbers, over the users of both models, and the error of their difference."""
        one, other = (self.number(segment, model, request, pair) for model in pair)
        error = None
        if one.count > 1:
            error = self._error(self.choose(segment, pair, request), request)
        both = Number(other.mean - one.mean, one.count, NO_FLOATS, error, units=one.units)
        return Delta(one, other, both)

    def _made(self, chosen: ChosenUsers, request: Request, *, with_limits: bool) -> Number:
        over, values = request.metric.over_users, chosen.values[0]
        assert over is not None
        if not values.size or not np.isfinite(values).all():
            return Number(math.nan, values.size, NO_FLOATS)
        if over.how in ("lowest", "highest"):
            end = values.min() if over.how == "lowest" else values.max()
            return Number(float(end), values.size, NO_FLOATS)
        sign = _sign(request)
        found = Ordered.of(sign * values, chosen.weights, chosen.units)
        limits, error = NO_INTERVAL, None
        n, (least, most) = found.n_units, sorted(sign * each for each in bounds_of(request))
        reach = -t_quantile(0.5 * (1.0 - self.config.statistics.level), n - 1.0) if n > 1 else 0.0
        if over.how == "tail_mean":
            terms = _terms(found, sign * values, over.parameter)
            mean = float((chosen.weights * terms[0]).sum() / chosen.weights.sum())
            if n > 1 and with_limits:
                error, above = (error_of_mean(x, chosen.weights, chosen.units) for x in terms)
                below = reach * error
                if math.isinf(least):  # few large values of many make the error too small
                    third = skewness_of_mean(terms[0], chosen.weights, chosen.units)
                    level = self.config.statistics.level
                    mended = mean_interval(
                        mean, error, n, level=level, skewness=third, only_wider=True
                    )
                    below = max(below, mean - mended.low)
                limits = Interval(max(least, mean - below), min(most, mean + reach * above))
                error = error or None
        else:
            mean = found.median() if over.how == "median" else found.quantile(over.parameter)
            if n > 1 and with_limits:
                limits = found.limits(_q_of(request), reach, (least, most))
        ends = (limits.low, limits.high) if sign > 0.0 else (-limits.high, -limits.low)
        return Number(sign * mean, values.size, NO_FLOATS, error, units=n, limits=ends)

    def _error(self, chosen: ChosenUsers, request: Request) -> float | None:
        """The standard error of a difference; None where there is none, or ties spoil it."""
        over, sign, chosen_by = request.metric.over_users, _sign(request), self.config.statistics
        assert over is not None
        weights, units = chosen.weights, chosen.units
        is_finite = all(np.isfinite(each).all() for each in chosen.values)
        if not is_finite or over.how in ("lowest", "highest") or np.unique(units).size < 2:
            return None
        one, other = (Ordered.of(sign * each, weights, units) for each in chosen.values)
        if over.how == "tail_mean":
            share, (old, new) = over.parameter, (sign * each for each in chosen.values)
            pairs = zip(_terms(one, old, share), _terms(other, new, share), strict=True)
            errors = [error_of_mean(after - before, weights, units) for before, after in pairs]
            return max(errors) if errors[0] > 0.0 else None
        q = _q_of(request)
        most = max(1.0, TIED * math.sqrt(q * (1.0 - q) * weights.size))
        if max(one.tied(q), other.tied(q)) > most:
            return None
        n_draws = min(MOST_DRAWS, chosen_by.replicates)
        old, new = chosen.values
        error = paired_error(
            *(old, new, weights, units, q), replicates=n_draws, seed=chosen_by.seed
        )
        return error or None

    def warnings(self, models: Sequence[str]) -> Iterator[Warning_]:
        """Where ties leave quantiles without a test."""
        for request in self.requests:
            over = request.metric.over_users
            assert over is not None
            if over.how in ("median", "quantile") and any(
                self.delta(ALL, pair, request).delta.error is None for pair in self.pairs
            ):
                message = f"{request.label}: too many users have this very value to test it; "
                message += "test = 'sign' tests the median of differences of the metric inside"
                yield Warning_("no-interval", message)


class OrderedNumbers(CombinedNumbers):
    """Numbers of all lists, combined ones, and those that stand on the order of users."""

    __slots__ = ("ordered",)
    ordered: OrderedValues

    def number(
        self, segment: Segment, model: str, request: Request, pair: Pair | None = None
    ) -> Number:
        """A number of a model; with a pair, over the users of both models."""
        if not is_ordered(request):
            return CombinedNumbers.number(self, segment, model, request, pair)
        return self.ordered.number(segment, model, request, pair)

    def delta(self, segment: Segment, pair: Pair, request: Request) -> Delta:
        """Two numbers, over the users of both models, and the error of their difference."""
        if not is_ordered(request):
            return CombinedNumbers.delta(self, segment, pair, request)
        return self.ordered.delta(segment, pair, request)

    def warnings(self, models: Sequence[str]) -> Iterator[Warning_]:
        """As of other numbers, and where ties leave quantiles without a test."""
        yield from CombinedNumbers.warnings(self, models)
        yield from self.ordered.warnings(models)


def _sign(request: Request) -> float:
    """Of tail means -1 where more is worse: the worst-served users have the highest values."""
    over = request.metric.over_users
    is_turned = over is not None and over.how == "tail_mean"
    return -1.0 if is_turned and request.metric.higher_is_better is False else 1.0


def _q_of(request: Request) -> float:
    over = request.metric.over_users
    assert over is not None
    return 0.5 if over.how == "median" else over.parameter


def _terms(found: Ordered, values: Floats, share: float) -> tuple[Floats, Floats]:
    """The terms of a tail mean, and those if the tail reached one error of its share further.

    Few users of a tail may have seen little of what lies beyond it.
    """
    further = found.error_of_share(share) if found.n_units > 1 else 0.0
    beyond = found.quantile(min(1.0, share + further))
    if beyond == found.values[0]:  # a tail of one value
        beyond = found.quantile(min(1.0, share + 2.0 * further))
    return found.tail_terms(share, values), beyond - np.maximum(0.0, beyond - values) / share
