"""Medians, quantiles, tail means and ends of the values that users have of ratings or labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evalkit.aggregate.segments import Segment
from evalkit.aggregate.sums import Pair
from evalkit.config import Config
from evalkit.inference.ordered import ChosenUsers, OrderedValues
from evalkit.inference.shown import NO_FLOATS
from evalkit.kinds.pointwise._clusters import Clusters
from evalkit.kinds.pointwise.units import Measured, columns_of
from evalkit.metrics import Request, is_ordered
from evalkit.statistics.intervals import Interval


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
