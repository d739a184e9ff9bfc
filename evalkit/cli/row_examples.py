"""The worked examples of `evalkit explain` for metrics of ratings and of labels: a few rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from evalkit.metrics import Parameter, Request, Value

INDENT = "  "

# user, rating, prediction
RATINGS: tuple[tuple[object, ...], ...] = (
    ("ann", 4.0, 3.5),
    ("ann", 2.0, 3.0),
    ("ann", 5.0, 4.5),
    ("ben", 3.0, 1.0),
    ("ben", 4.0, 4.0),
    ("cat", 3.0, 3.5),
)
# user, session, score, label; with equal scores, scores at the threshold, a user of one label
LABELS: tuple[tuple[object, ...], ...] = (
    ("ann", "a", 0.9, 1),
    ("ann", "a", 0.5, 0),
    ("ann", "b", 0.2, 0),
    ("ann", "b", 0.1, 1),
    ("ben", "c", 0.7, 1),
    ("ben", "c", 0.5, 1),
    ("ben", "c", 0.5, 0),
    ("cat", "d", 0.3, 0),
)
TARGETS = ("at_precision", "at_recall", "at_specificity")
CHOOSING = ("threshold", "rule", "at", *TARGETS)  # of which one alone is given
OTHER_NUMBERS: Mapping[str, float] = {"beta": 2.0, "bins": 2.0, "clip": 0.2, "max_fpr": 0.5}


def row_example(request: "Request", kind: str) -> Iterator[str]:
    """What the metric makes of a few rows, and what each of its choices changes."""
    yield "Example"
    yield from _rows_of(kind)
    variants = list(_variants(request))
    values = _measure(variants, kind)
    width = max(len(each.label) for each in variants)
    for variant, value in zip(variants, values, strict=True):
        shown = "undefined" if math.isnan(value) else f"{value:.6f}"
        yield f"{INDENT}{variant.label:<{width}}  {shown}"


def _rows_of(kind: str) -> Iterator[str]:
    frame = _table(kind)
    for row in (frame.columns, *frame.rows()):
        yield (INDENT + "".join(f"{each!s:<12}" for each in row)).rstrip()


def _variants(request: "Request") -> Iterator["Request"]:
    """The request, then each other value of each parameter; where it has an effect."""
    metric, values = request.metric, dict(request.parameters)
    is_chosen = values.get("at") == "best" or any(values.get(name) for name in TARGETS)
    yield metric.request(None, **values)
    for parameter in metric.parameters:
        around = values
        if parameter.name == "weighting" and values["over"] == "rows":
            around = {**values, "over": "users"}
        if is_chosen and parameter.name in (*CHOOSING, "over", "weighting"):
            continue
        if values.get("over", "rows") != "rows" and parameter.name in ("at", *TARGETS):
            continue
        for other in _others(parameter, values[parameter.name]):
            yield metric.request(None, **{**around, parameter.name: other})


def _others(parameter: "Parameter", value: "Value") -> "Iterator[Value]":
    if parameter.choices:
        yield from (each for each in parameter.choices if each != value)
    else:
        other = OTHER_NUMBERS.get(parameter.name, parameter.tried or 0.6)
        if other != value:
            yield other


def _measure(requests: "Sequence[Request]", kind: str) -> list[float]:
    from evalkit.api import evaluate_labels, evaluate_ratings

    names = [request.label for request in requests]
    if kind == "ratings":
        report = evaluate_ratings(_table(kind), metrics=names, threads=1)
    else:
        report = evaluate_labels(
            _table(kind), metrics=names, columns={"session": "session"}, threads=1
        )
    return [report.value(name) for name in names]


def _table(kind: str) -> "pl.DataFrame":
    import polars as pl

    if kind == "ratings":
        return pl.DataFrame(RATINGS, schema=["user", "rating", "prediction"], orient="row")
    return pl.DataFrame(LABELS, schema=["user", "session", "score", "label"], orient="row")
