"""`evalkit metrics` and `evalkit explain`: what can be measured, and what it means."""

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from evalkit.cli import console, explaining
from evalkit.cli.codes import all_codes
from evalkit.cli.list_examples import list_example
from evalkit.cli.options import Json, MetricFile, Profile, choose_format, refuse_idle, takes
from evalkit.cli.row_examples import row_example
from evalkit.errors import EvalkitError, RequestError

if TYPE_CHECKING:
    from evalkit.metrics import Metric, Parameter, Request, Value
    from evalkit.metrics.profiles import Profile as LibraryProfile

ListFormat = Annotated[Literal["table", "json"] | None, Option("--format", help="Default: table.")]


@takes("quiet log_format")
def metrics(metric_file: MetricFile = None, format: ListFormat = None, json: Json = False) -> None:
    """List all metrics."""
    shown = choose_format(format, json)
    from evalkit.metrics import folders

    own = _own_by_kind(metric_file)
    kinds = {kind: list(_with_own(kind, own).values()) for kind in folders()}
    if shown == "json":
        console.say_json(
            [_record(metric, kind) for kind, known in kinds.items() for metric in known]
        )
        return
    for kind, known in kinds.items():
        if kind != "rankings":
            console.say("", _WHERE.get(kind, f"Where a config has [{kind}]:"), "")
        _list(known)
    console.say("")
    console.say("Written name(parameter=value)@cutoff, as nDCG@10 or recall@{5,20}.")
    console.say("evalkit explain NAME shows formula, parameters and a worked example.")


def _own_by_kind(files: list[str] | None) -> "dict[str, list[Metric]]":
    """The metrics of files, by their kind."""
    from evalkit.metrics import metrics_of_file

    found: dict[str, list[Metric]] = {}
    for metric in (each for path in files or () for each in metrics_of_file(path)):
        found.setdefault(metric.kind, []).append(metric)
    return found


def _with_own(kind: str, own: "dict[str, list[Metric]]") -> "Mapping[str, Metric]":
    from evalkit.metrics import registry_of

    return {**registry_of(kind), **{metric.name: metric for metric in own.get(kind, ())}}


HAVE_EXAMPLES = ("rankings", "lists", "ratings", "labels")  # kinds of which rows fit a screen
_WHERE = {"lists": "Beside them, of what lists are like:"}


def _list(known: "list[Metric]") -> None:
    width = max(len(metric.name) for metric in known) + 2
    for metric in known:
        lines = textwrap.wrap(metric.summary, explaining.WIDTH - width)
        for detail in (
            ", ".join(parameter.name for parameter in metric.parameters),
            f"also {', '.join(metric.aliases)}" if metric.aliases else "",
        ):
            lines += textwrap.wrap(detail, explaining.WIDTH - width, break_on_hyphens=False)
        for number, line in enumerate(lines):
            console.say(f"{'' if number else metric.name:<{width}}{line}")


@takes("quiet log_format")
def explain(
    name: Annotated[
        str, Argument(metavar="NAME", help="As nDCG, MAP, precision@10; or a code as few-users.")
    ],
    metric_file: MetricFile = None,
    profile: Profile = None,
    latex: Annotated[bool, Option("--latex", help="The formula in LaTeX too.")] = False,
    format: ListFormat = None,
    json: Json = False,
) -> None:
    """Explain a metric, a code, or the splits of libraries (split).

    A metric: its formula, parameters, source and an example; with --profile as that library
    computes it. An error: the code in its brackets, such as few-users.
    """
    shown = choose_format(format, json)
    own = {"--latex": latex, "--metric-file": metric_file}
    if name == "split":
        refuse_idle({**own, "--json": shown == "json"}, "the splits of libraries")
        from evalkit.splits.libraries import explain_libraries

        console.say(*explain_libraries(profile))
        return
    if name in all_codes():
        refuse_idle({**own, "--profile": profile}, f"the code {name!r}")
        explaining.explain_code(all_codes()[name], as_json=shown == "json")
        return
    from evalkit.metrics.profiles import DEFAULT, find_profile

    followed = find_profile(profile or DEFAULT, at="--profile")
    said = explaining.library_names(name, profile)
    try:
        found = _find(name, followed if profile else None, _own_by_kind(metric_file))
    except RequestError as error:
        if said and error.code in ("unknown-metric", "refused-metric", "ambiguous-metric"):
            refuse_idle({"--latex": latex}, f"{name!r}, which libraries alone have")
            if shown == "json":
                console.say_json(explaining.names_record(name, said))
            else:
                console.say(*explaining.lines_of_names(name, said))
            return
        if error.code != "unknown-metric":
            raise
        raise _no_such_name(name, error) from None
    spoken = [each for each in found if followed.speaks_of(each[0])]
    found = (spoken or found) if profile else found
    theirs = {each.kind for each in said} | ({"lists"} if said and said[0].kind else set())
    found = [each for each in found if each[0] in theirs or not profile] or found
    if shown == "json":
        console.say_json(
            [
                _record(request.metric, kind)
                | explaining.profiles_record(request, followed, kind)
                | explaining.names_record(name, said)
                for kind, request in found
            ]
        )
        return
    several = len({kind for kind, _ in found}) > 1
    for number, (kind, request) in enumerate(found):
        if number:
            console.say("")
        if several or kind != "rankings":
            console.say(f"Of {kind}:")
        chosen = followed.of(kind) if profile and followed.speaks_of(kind) else None
        if profile and chosen is None:
            text = f"{followed.name} says nothing of {kind}; these do: {_speaking_of(kind)}."
            console.say(textwrap.fill(text, explaining.WIDTH))
        for line in _explanation(name, request, kind, chosen, latex=latex):
            console.say(line)
    if profile is None:
        console.say(*explaining.lines_of_names(name, said))


def _no_such_name(name: str, error: RequestError) -> RequestError:
    """What is neither a metric nor a code, which may be a code misspelt."""
    close = get_close_matches(name.lower(), all_codes(), n=1, cutoff=0.8)
    if not close:
        return error
    message = f"no metric and no code is called {name!r}"
    return RequestError(message, code=error.code, at=error.at, hint=f"did you mean {close[0]!r}?")


def _speaking_of(kind: str) -> str:
    from evalkit.metrics.profiles import speaking_of

    return ", ".join(speaking_of(kind))


def _find(
    name: str, followed: "LibraryProfile | None", own: "dict[str, list[Metric]]"
) -> "list[tuple[str, Request]]":
    """The metrics of that name, of every kind of table, as a profile has them."""
    from evalkit.metrics import folders, parse_metrics, policies_of_kind

    found: dict[tuple[str, str], Request] = {}
    first: EvalkitError | None = None
    for kind in folders():
        try:
            requests = parse_metrics(
                [name],
                metrics=_with_own(kind, own),
                conventions=None if followed is None else followed.of(kind).conventions,
                policies=policies_of_kind(kind),
                named=None if followed is None else followed.of(kind).named,
                refused=None if followed is None else followed.refused,
                at=lambda number: f"evalkit explain {name}",
            )
        except EvalkitError as error:
            known = error.code != "unknown-metric"
            if first is None or (known and first.code == "unknown-metric"):
                first = error
            continue
        for request in requests:
            found.setdefault((kind, request.metric.name), request)
    if not found and first is not None:
        raise first
    return [(kind, request) for (kind, _), request in found.items()]


def _record(metric: "Metric", kind: str) -> dict[str, Any]:
    from evalkit.metrics import describe

    record = {"kind": kind, **describe(metric)}
    del record["monotone"]
    for parameter in record["parameters"]:
        for name in ("above", "below") if parameter["choices"] else ("choices",):
            del parameter[name]
    return record


def _explanation(
    name: str, request: "Request", kind: str, followed: "LibraryProfile | None", *, latex: bool
) -> Iterator[str]:
    metric = request.metric
    if metric.over_users is not None:
        yield from textwrap.wrap(f"{request.label}: {metric.summary}", explaining.WIDTH)
        yield ""
        for title, text in (("formula", metric.formula), ("source", metric.source)):
            yield from explaining.entry(title, text)
        yield from ("", f"The values of users: evalkit explain {metric.base.name}")
        return
    head = metric.request().label
    yield from textwrap.wrap(f"{head}: {metric.summary}", explaining.WIDTH)
    written = name.partition("@")[0].strip()
    if followed is not None:
        yield from textwrap.wrap(
            f"{followed.name} speaks for {followed.version}.", explaining.WIDTH
        )
        bare = replace(request, cutoff=None).label
        yield from textwrap.wrap(f"There {head} is {bare}.", explaining.WIDTH)
    elif written.lower() not in (metric.name.lower(), request.metric.request().label.lower()):
        bare = metric.request(None, **dict(request.parameters)).label
        yield f"{written} is read as {bare}."
    yield ""
    low, high = (f"{each:g}" if math.isfinite(each) else "no limit" for each in metric.bounds)
    cutoff = f"{head}@10, or {head} alone for whole lists"
    no_cutoff = "none: the metric has its own" if kind == "rankings" else "none"
    for title, text in (
        ("formula", metric.formula),
        ("latex", metric.latex if latex else ""),
        ("bounds", f"{low} to {high}; {metric.direction}"),
        ("undefined", metric.undefined),
        ("cutoff", cutoff if metric.cutoff == "optional" else no_cutoff),
        ("aliases", ", ".join(metric.aliases)),
        ("source", metric.source),
    ):
        if text:
            yield from explaining.entry(title, text)
    yield ""
    if metric.parameters:
        yield "Parameters"
        values = dict(request.parameters)
        for parameter in metric.parameters:
            yield from _parameter_lines(parameter, values[parameter.name])
    else:
        yield "No parameters"
    yield ""
    if followed is None:
        yield from explaining.all_profiles(request, kind)
    else:
        yield from explaining.one_profile(request, followed, kind)
    yield ""
    if kind not in HAVE_EXAMPLES:
        return
    if kind != "rankings":
        if followed is not None:
            yield f"The parameters are those of {followed.name}; the policies, evalkit's own."
        yield from list_example(request) if kind == "lists" else row_example(request, kind)
        return
    yield from _example(request)
    if followed is not None and followed.has_metric(metric.name, request.cutoff or 1):
        yield from explaining.example_by_profile(request, followed)


def _parameter_lines(parameter: "Parameter", value: "Value") -> Iterator[str]:
    default = explaining.spelled(parameter.default)
    if value != parameter.default:
        default = f"{explaining.spelled(value)} (default {default})"
    domain = "" if parameter.choices else f" It is {parameter.domain}."
    yield from explaining.entry(f"{parameter.name}={default}", f"  {parameter.doc}{domain}", 0)
    width = max((len(choice) for choice in parameter.choices), default=0) + 4
    for choice, meaning in zip(parameter.choices, parameter.meanings, strict=True):
        for number, line in enumerate(textwrap.wrap(meaning, explaining.WIDTH - width - 6)):
            shown = "" if number else repr(choice)
            yield f"{explaining.INDENT * 3}{shown:<{width}}{line}"


def _example(request: "Request") -> Iterator[str]:
    """What the metric makes of one small ranking, and what each of its choices changes."""
    metric = request.metric
    yield "Example"
    example = metric.example or explaining.plain_example()
    gains = [gain for gain in (*example.ranked, *example.missed) if gain > 0]
    found = ", ".join(f"{gain:g}" for gain in sorted(gains, reverse=True))
    ranked = ", ".join(f"{gain:g}" if gain else "-" for gain in example.ranked)
    yield f"{explaining.INDENT}a user's relevant items have the relevance {found};"
    yield f"{explaining.INDENT}the ranking shows, from rank 1: {ranked}   (- is not relevant)"
    cutoffs = explaining.EXAMPLE_CUTOFFS if metric.cutoff == "optional" else (None,)
    written = {name: value for name, value in request.parameters if name in request.given}
    values = {**dict(request.parameters), **example.values, **written}
    variants = [metric.request(cutoff, **values) for cutoff in cutoffs]
    for parameter in metric.parameters:
        variants += [
            metric.request(cutoffs[-1], **{**values, parameter.name: choice})
            for choice in parameter.choices
            if choice != values[parameter.name]
        ]
    width = max(len(each.label) for each in variants)
    for each in variants:
        yield f"{explaining.INDENT}{each.label:<{width}}  {_example_value(each):.6f}"


def _example_value(request: "Request") -> float:
    """The value that the metric's kernel, as plain Python, gives to the example."""
    import numpy as np

    from evalkit.metrics import Hits, Relevant

    example = request.metric.example or explaining.plain_example()
    shown = [gain for gain in example.ranked if gain > 0]
    ranks = [rank for rank, gain in enumerate(example.ranked, start=1) if gain > 0]
    wanted = sorted([*shown, *example.missed], reverse=True)
    out = np.full((1, 1), np.nan)
    hits = Hits(
        np.array([0, len(shown)]),
        np.array(ranks, dtype=np.int32),
        np.array(shown),
        np.array(sorted(shown, reverse=True)),
    )
    relevant = Relevant(np.array([0, len(wanted)]), np.array(wanted))
    lengths, cutoffs = np.array([len(example.ranked)]), np.array([request.kernel_cutoff])
    arguments = request.arguments(hits, relevant, lengths, cutoffs)
    request.metric.kernel.plain(hits, relevant, lengths, cutoffs, *arguments, out)
    return float(out[0, 0])
