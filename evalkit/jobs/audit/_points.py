"""Conventions as points: for every axis a value, of which a metric has one number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from evalkit.config import Config, Policies, with_conventions
from evalkit.errors import RequestError
from evalkit.metrics import POLICIES, Metric, Request, Value, registry_of

# policies that change the truth, so that numbers under two of them need two readings
OF_TRUTH = ("unknown_users", "negative_relevance", "fractional_relevance", "threshold_rule")
AXES = (*(name for name in POLICIES if name != "propensity"), *OF_TRUTH)
OF_LISTS = (
    "ties",
    "score_type",
    "duplicates",
    "list_users",
    "round_users",
    "round_mean",
    *OF_TRUTH,
)
METRIC = "metric"  # the axis of libraries that mean other metrics by one name

Point = tuple[tuple[str, Value], ...]


def point_of(request: Request, policies: Policies, *, among: Iterable[Metric]) -> Point:
    """The value of every axis for a request: its parameters, its policies, the run's.

    Args:
        among: what libraries mean by the name; parameters of others than the request's own metric
            have their defaults.
    """
    values: dict[str, Value] = {}
    if len({each.name for each in among}) > 1:
        values[METRIC] = request.metric.name
        for each in among:
            values.update(each.defaults)
    values.update(request.parameters)
    axes = [name for name in AXES if name != "list_users"]
    if request.metric.lists is not None:
        axes = [name for name in AXES if name in OF_LISTS]
    own = dict(request.policies)
    values.update({name: own.get(name, getattr(policies, name)) for name in axes})
    return tuple(values.items())


def with_values(point: Point, changed: Mapping[str, Value]) -> Point:
    """The same point with other values of some axes."""
    return tuple((axis, changed.get(axis, value)) for axis, value in point)


def differing(one: Point, other: Point) -> tuple[str, ...]:
    """The axes in which two points differ, in order."""
    theirs = dict(other)
    return tuple(axis for axis, value in one if theirs[axis] != value)


def switched(one: Point, other: Point, axes: Iterable[str]) -> Point:
    """`one` with the other's values of these axes."""
    theirs = dict(other)
    return with_values(one, {axis: theirs[axis] for axis in axes})


def subsets(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every subset, the smaller ones first."""
    for size in range(len(axes) + 1):
        yield from combinations(axes, size)


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Points that one reading of the logs measures, and the config that does it.

    Args:
        nameless: points whose conventions do not go together, which no run measures.
    """

    config: Config
    labels: Mapping[Point, str]
    nameless: frozenset[Point]


def batches(config: Config, request: Request, points: Iterable[Point]) -> Iterator[PointBatch]:
    """One batch for each way to read the truth.

    Args:
        config: without a profile; its policies about faults in the data hold for all points.
        request: of the metric and the cutoff; its own parameters do not matter.
    """
    by_truth: dict[tuple[Value, ...], list[Point]] = {}
    for point in dict.fromkeys(points):
        values = dict(point)
        by_truth.setdefault(tuple(values[name] for name in OF_TRUTH), []).append(point)
    for truth, group in by_truth.items():
        policies = config.policies.model_copy(update=dict(zip(OF_TRUTH, truth, strict=True)))
        texts = {point: _text(request, point) for point in group}
        section = config.metrics.model_copy(update={"profile": "evalkit"})
        own = config.model_copy(update={"metrics": section, "policies": policies})
        own._by_hand = policies
        followed = with_conventions(own)
        found = {point: _label(followed, text) for point, text in texts.items()}
        labels = {point: label for point, label in found.items() if label is not None}
        section = section.model_copy(update={"names": tuple(texts[point] for point in labels)})
        ready = own.model_copy(update={"metrics": section})
        yield PointBatch(with_conventions(ready), labels, frozenset(group) - labels.keys())


def _label(config: Config, text: str) -> str | None:
    """What a metric is called; None where its conventions do not go together."""
    try:
        return config.read_metrics([text])[0].label
    except RequestError as error:
        if error.code == "no-tie-bounds":
            return None
        raise


def _text(request: Request, point: Point) -> str:
    name = str(dict(point).get(METRIC, request.metric.name))
    own = request.metric if name == request.metric.name else registry_of("lists")[name]
    known = {*POLICIES, *(each.name for each in own.parameters)}
    named = [f"{axis}={value!r}" for axis, value in point if axis in known]
    cutoff = "" if request.cutoff is None else f"@{request.cutoff}"
    return f"{name}({', '.join(named)}){cutoff}"
