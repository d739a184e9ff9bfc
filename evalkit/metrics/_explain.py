"""Texts about metrics: everything stands in their declarations, numbers come from their kernels."""

import math
from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from ._declare import Example, Hits, Metric, Relevant, Request, TiedHits, View
from ._parameters import NO_CUTOFF, Parameter, Value, write_value
from ._registry import registry
from .sampling import bias_variance, most_likely

WIDTH = 80
LABEL = 44

# one user's list, rank by rank, and the relevant items that it lacks
EXAMPLE = Example((0.0, 3.0, 1.0, 2.0), (2.0, 3.0))
THRESHOLD = 2.0
CUTOFFS = (3, 6)


def describe(metric: Metric) -> dict[str, Any]:
    """A metric's declaration in plain values, ready for JSON; None for a limit that is infinite."""
    return {
        "name": metric.name,
        "aliases": list(metric.aliases),
        "summary": metric.summary,
        "formula": metric.formula,
        "latex": metric.latex,
        "source": metric.source,
        "bounds": [_finite(bound) for bound in metric.bounds],
        "higher_is_better": metric.higher_is_better,
        "monotone": metric.monotone,
        "undefined": metric.undefined,
        "cutoff": metric.cutoff,
        "parameters": [
            {
                "name": parameter.name,
                "default": parameter.default,
                "doc": parameter.doc,
                "choices": dict(zip(parameter.choices, parameter.meanings, strict=True)),
                "above": _finite(parameter.above),
                "below": _finite(parameter.below),
            }
            for parameter in metric.parameters
        ],
    }


def explain(metric: Metric) -> str:
    """One metric: formula, parameters, source, and an example that its kernel works out."""
    low, high = (_limit(bound) for bound in metric.bounds)
    lines = [*wrap(f"{metric.request().label}: {metric.summary}", WIDTH), ""]
    facts = {
        "formula": metric.formula,
        "bounds": f"{low} to {high}; {metric.direction}",
        "undefined": metric.undefined,
        "cutoff": "any, or none for the whole list"
        if metric.cutoff == "optional"
        else "takes none",
        "also read": ", ".join(_aliases(metric)),
        "source": metric.source,
    }
    for word, text in facts.items():
        lines += _beside(word, text, 11) if text else []
    if metric.parameters:
        lines += ["", "parameters"]
        for parameter in metric.parameters:
            lines += _explain_parameter(parameter)
    example = _example(metric) if metric.lists is None else []
    return "\n".join([*lines, "", *example]).rstrip() + "\n"


def warm_metrics() -> int:
    """Compile the kernels of every metric, or load them from the cache; the number of metrics."""
    import numpy as np

    for metric in registry().values():
        request = metric.request()
        hits, relevant = _rows(EXAMPLE, request.view)
        out = np.zeros((1, 1))
        lengths = np.array([len(EXAMPLE.ranked)], dtype=np.int64)
        cutoffs = np.array([NO_CUTOFF], dtype=np.int64)
        request.measure(hits, relevant, lengths, cutoffs, out)
        if metric.tied is not None:
            ranks = hits.ranks
            tied = TiedHits(*hits, firsts=ranks, lasts=ranks, untils=ranks)
            request.measure(tied, relevant, lengths, cutoffs, out)
    bias_variance(0, 20, 5, 0.01, (3,))
    most_likely([0.5, 0.5], 0, 20, 1, 3)
    return len(registry())


def _explain_parameter(parameter: Parameter) -> list[str]:
    lines = wrap(
        f"{parameter.name} = {_shown(parameter)}: {parameter.doc}",
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent="      ",
    )
    if not parameter.choices:
        return [*lines, f"      {parameter.domain}"]
    width = max(len(each) for each in parameter.choices) + 4
    for value, meaning in zip(parameter.choices, parameter.meanings, strict=True):
        lines += [f"      {line}" for line in _beside(repr(value), meaning, width, WIDTH - 6)]
    return lines


def _example(metric: Metric) -> list[str]:
    example = metric.example or EXAMPLE
    shown = "  ".join(write_value(gain) for gain in example.ranked)
    ranks = "  ".join(str(rank) for rank in range(1, len(example.ranked) + 1))
    missed = " and ".join(write_value(gain) for gain in example.missed)
    cutoffs = CUTOFFS if metric.cutoff == "optional" else (None,)
    lines = [
        "example",
        f"  rank        {ranks}",
        f"  relevance   {shown}   0 is a miss; relevant from {write_value(THRESHOLD)} on",
        f"  not shown: {f'two items of relevance {missed}' if missed else 'nothing relevant'}",
        "",
    ]
    variants = list(_variants(metric))
    width = max(LABEL, *(len(each.label) for each in variants))
    heads = "".join(f"{'' if each is None else f'@{each}':>10}" for each in cutoffs)
    lines.append(" " * (width + 2) + heads)
    for request in variants:
        values = _work_out(request, cutoffs)
        text = "".join(
            f"{'undefined' if value != value else f'{value:.6f}':>10}" for value in values
        )
        lines.append(f"  {request.label:{width}}{text}")
    return lines


def _variants(metric: Metric) -> Iterable[Request]:
    shown = {} if metric.example is None else dict(metric.example.values)
    yield metric.request(None, **shown)
    for parameter in metric.parameters:
        others: tuple[Value, ...] = parameter.choices or (_other_number(parameter),)
        if parameter.name in shown:
            others = (parameter.default,)
        for value in others:
            if value != shown.get(parameter.name, parameter.default):
                yield metric.request(None, **{**shown, parameter.name: value})


def _other_number(parameter: Parameter) -> float:
    if math.isfinite(parameter.above) and math.isfinite(parameter.below):
        return (parameter.above + parameter.below) / 2
    return float(parameter.default) + 1.0


def _work_out(request: Request, cutoffs: tuple[int | None, ...]) -> list[float]:
    # in plain Python: one user is not worth loading numba for
    import numpy as np

    example = request.metric.example or EXAMPLE
    hits, relevant = _rows(example, request.view)
    out = np.zeros((1, len(cutoffs)))
    wanted = np.array([each or NO_CUTOFF for each in cutoffs], dtype=np.int64)
    lengths = np.array([len(example.ranked)], dtype=np.int64)
    arguments = request.arguments(hits, relevant, lengths, wanted)
    request.metric.kernel.plain(hits, relevant, lengths, wanted, *arguments, out)
    return [float(value) for value in out[0]]


def _rows(example: Example, view: View) -> tuple[Hits, Relevant]:
    import numpy as np

    least = THRESHOLD if view == "relevant" else 0.5
    ranks = [rank for rank, gain in enumerate(example.ranked, 1) if gain >= least]
    gains = [gain for gain in example.ranked if gain >= least]
    ideal = sorted(gains, reverse=True)
    wanted = sorted(
        [gain for gain in example.ranked + example.missed if gain >= least], reverse=True
    )
    hits = Hits(
        np.array([0, len(ranks)], dtype=np.int64),
        np.array(ranks, dtype=np.int32),
        np.array(gains, dtype=np.float64),
        np.array(ideal, dtype=np.float64),
    )
    return hits, Relevant(np.array([0, len(wanted)], dtype=np.int64), np.array(wanted))


def _aliases(metric: Metric) -> list[str]:
    names = [alias.partition("(") for alias in metric.aliases]
    fixed = [f"{name}={metric.name}({rest}" if rest else name for name, _, rest in names]
    if metric.suffix is None:
        return fixed
    return [f"{metric.name}2, {metric.name}0.5 and so on for {metric.suffix}", *fixed]


def _beside(word: str, text: str, width: int, total: int = WIDTH) -> list[str]:
    first, *others = wrap(text, total - width) or [""]
    return [f"{word:{width}}{first}", *(f"{'':{width}}{line}" for line in others)]


def _shown(parameter: Parameter) -> str:
    value = parameter.default
    return repr(value) if isinstance(value, str) else write_value(value)


def _limit(bound: float) -> str:
    return write_value(bound) if math.isfinite(bound) else "no limit"


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
