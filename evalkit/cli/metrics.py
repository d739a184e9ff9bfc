"""`evalkit metrics` and `evalkit explain`: what can be measured, and what it means."""

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import Json, LogFormat, Quiet, choose_format

if TYPE_CHECKING:
    from evalkit.metrics import Metric, Parameter, Request

WIDTH = 80
INDENT = "  "

# The worked example: relevance of the user's relevant items, and of what each rank shows.
EXAMPLE_RELEVANT = (3.0, 2.0, 2.0, 1.0)
EXAMPLE_RANKED = (3.0, 0.0, 1.0, 2.0, 0.0)
EXAMPLE_CUTOFFS = (1, 3, 5)

ListFormat = Annotated[Literal["table", "json"] | None, Option("--format", help="Default: table.")]


def metrics(
    format: ListFormat = None,
    json: Json = False,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """List all metrics."""
    shown = choose_format(format, json)
    from evalkit.metrics import registry

    known = list(registry().values())
    if shown == "json":
        console.say_json([_record(metric) for metric in known])
        return
    width = max(len(metric.name) for metric in known) + 2
    for metric in known:
        lines = textwrap.wrap(metric.summary, WIDTH - width)
        for detail in (
            ", ".join(parameter.name for parameter in metric.parameters),
            f"also {', '.join(metric.aliases)}" if metric.aliases else "",
        ):
            lines += textwrap.wrap(detail, WIDTH - width, break_on_hyphens=False)
        for number, line in enumerate(lines):
            console.say(f"{'' if number else metric.name:<{width}}{line}")
    console.say("")
    console.say("Written name(parameter=value)@cutoff, as nDCG@10 or recall@{5,20}.")
    console.say("evalkit explain NAME shows formula, parameters and a worked example.")


def explain(
    name: Annotated[str, Argument(metavar="NAME", help="As nDCG, MAP or precision@10.")],
    format: ListFormat = None,
    json: Json = False,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """Show a metric's formula, parameters, source and an example."""
    shown = choose_format(format, json)
    from evalkit.metrics import parse_metrics

    requests = parse_metrics([name], at=lambda number: f"evalkit explain {name}")
    if shown == "json":
        console.say_json([_record(request.metric) for request in requests])
        return
    asked: dict[str, Request] = {}
    for request in requests:
        asked.setdefault(request.metric.name, request)
    for request in asked.values():
        for line in _explanation(name, request):
            console.say(line)


def _record(metric: "Metric") -> dict[str, object]:
    return {
        "name": metric.name,
        "aliases": list(metric.aliases),
        "summary": metric.summary,
        "formula": metric.formula,
        "latex": metric.latex,
        "source": metric.source,
        "bounds": [each if math.isfinite(each) else None for each in metric.bounds],
        "higher_is_better": metric.higher_is_better,
        "undefined": metric.undefined,
        "cutoff": metric.cutoff,
        "parameters": [_parameter_record(parameter) for parameter in metric.parameters],
    }


def _parameter_record(parameter: "Parameter") -> dict[str, object]:
    record: dict[str, object] = {
        "name": parameter.name,
        "default": parameter.default,
        "doc": parameter.doc,
    }
    if parameter.choices:
        record["choices"] = dict(zip(parameter.choices, parameter.meanings, strict=True))
    else:
        record["above"] = parameter.above if math.isfinite(parameter.above) else None
        record["below"] = parameter.below if math.isfinite(parameter.below) else None
    return record


def _explanation(name: str, request: "Request") -> Iterator[str]:
    metric = request.metric
    head = metric.request().label
    yield from textwrap.wrap(f"{head}: {metric.summary}", WIDTH)
    written = name.partition("@")[0].strip()
    if written.lower() not in (metric.name.lower(), request.metric.request().label.lower()):
        bare = metric.request(None, **dict(request.parameters)).label
        yield f"{written} is read as {bare}."
    yield ""
    low, high = (f"{each:g}" if math.isfinite(each) else "no limit" for each in metric.bounds)
    better = "higher" if metric.higher_is_better else "lower"
    cutoff = f"{head}@10, or {head} alone for whole lists"
    for title, text in (
        ("formula", metric.formula),
        ("latex", metric.latex),
        ("bounds", f"{low} to {high}; {better} is better"),
        ("undefined", metric.undefined),
        ("cutoff", cutoff if metric.cutoff == "optional" else "none: the metric has its own"),
        ("aliases", ", ".join(metric.aliases)),
        ("source", metric.source),
    ):
        if text:
            yield from _entry(title, text)
    yield ""
    if metric.parameters:
        yield "Parameters"
        for parameter in metric.parameters:
            yield from _parameter_lines(parameter)
    else:
        yield "No parameters"
    yield ""
    yield "Profiles"
    yield from _entry("evalkit", "sets nothing else than the defaults above")
    yield ""
    yield from _example(request)


def _entry(title: str, text: str, width: int = 11) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{INDENT}{title:<{width}}",
        subsequent_indent=" " * (len(INDENT) + width),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _parameter_lines(parameter: "Parameter") -> Iterator[str]:
    default = f"{parameter.default!r}" if parameter.choices else f"{parameter.default:g}"
    domain = "" if parameter.choices else f" It is {parameter.domain}."
    yield from _entry(f"{parameter.name}={default}", f"  {parameter.doc}{domain}", 0)
    width = max((len(choice) for choice in parameter.choices), default=0) + 4
    for choice, meaning in zip(parameter.choices, parameter.meanings, strict=True):
        for number, line in enumerate(textwrap.wrap(meaning, WIDTH - width - 6)):
            shown = "" if number else repr(choice)
            yield f"{INDENT * 3}{shown:<{width}}{line}"


def _example(request: "Request") -> Iterator[str]:
    """What the metric makes of one small ranking, and what each of its choices changes."""
    metric = request.metric
    yield "Example"
    found = ", ".join(f"{gain:g}" for gain in EXAMPLE_RELEVANT)
    ranked = ", ".join(f"{gain:g}" if gain else "-" for gain in EXAMPLE_RANKED)
    yield f"{INDENT}a user's relevant items have the relevance {found};"
    yield f"{INDENT}the ranking shows, from rank 1: {ranked}   (- is not relevant)"
    cutoffs = EXAMPLE_CUTOFFS if metric.cutoff == "optional" else (None,)
    values = dict(request.parameters)
    variants = [metric.request(cutoff, **values) for cutoff in cutoffs]
    for parameter in metric.parameters:
        variants += [
            metric.request(cutoffs[-1], **{**values, parameter.name: choice})
            for choice in parameter.choices
            if choice != values[parameter.name]
        ]
    width = max(len(each.label) for each in variants)
    for each in variants:
        yield f"{INDENT}{each.label:<{width}}  {_example_value(each):.6f}"


def _example_value(request: "Request") -> float:
    """The value that the metric's kernel, as plain Python, gives to the example."""
    import numpy as np

    from evalkit.metrics import Hits, Relevant

    shown = [gain for gain in EXAMPLE_RANKED if gain > 0]
    ranks = [rank for rank, gain in enumerate(EXAMPLE_RANKED, start=1) if gain > 0]
    out = np.full((1, 1), np.nan)
    request.metric.kernel.plain(
        Hits(
            np.array([0, len(shown)]),
            np.array(ranks, dtype=np.int32),
            np.array(shown),
            np.array(sorted(shown, reverse=True)),
        ),
        Relevant(np.array([0, len(EXAMPLE_RELEVANT)]), np.array(EXAMPLE_RELEVANT)),
        np.array([len(EXAMPLE_RANKED)]),
        np.array([request.kernel_cutoff]),
        *request.encoded,
        out,
    )
    return float(out[0, 0])
