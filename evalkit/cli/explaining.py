"""What `evalkit explain` says of profiles and codes: conventions of a library, an error's cure."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalkit.cli import console
from evalkit.cli.codes import Code

if TYPE_CHECKING:
    from evalkit.metrics import Example, LibraryName, Metric, Request, Value, Values
    from evalkit.metrics.profiles import Profile as LibraryProfile

WIDTH = 80
INDENT = "  "

EXAMPLE_CUTOFFS = (1, 3, 5)


def plain_example() -> "Example":
    """The worked example: relevance of what each rank shows, and of relevant items not shown."""
    from evalkit.metrics import Example

    return Example((3.0, 0.0, 1.0, 2.0, 0.0), (2.0,))


def entry(title: str, text: str, width: int = 11) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{INDENT}{title:<{width}}",
        subsequent_indent=" " * (len(INDENT) + width),
        break_long_words=False,
        break_on_hyphens=False,
    )


def explain_code(code: Code, *, as_json: bool) -> None:
    """Show what an error or a warning means, why it comes, and what to do."""
    if as_json:
        console.say_json(
            {"code": code.name, "means": code.means, "cause": code.cause, "cure": code.cure}
        )
        return
    console.say(*textwrap.wrap(f"{code.name}: {code.means}", WIDTH))
    for title, text in (("cause", code.cause), ("cure", code.cure)):
        console.say(*entry(title, text, 7))


def library_names(name: str, profile: str | None) -> "list[LibraryName]":
    """What libraries mean by a name, or the one whose profile is followed."""
    from evalkit.metrics import names_like

    bare = name.partition("@")[0].partition("(")[0].strip()
    return [each for each in names_like(bare) if profile in (None, each.library)]


def lines_of_names(name: str, said: "list[LibraryName]") -> Iterator[str]:
    """What libraries mean by a name, each meaning once."""
    from evalkit.metrics import by_meaning

    if said:
        yield f"What libraries mean by {name.partition('@')[0]}, under their profiles"
    for each, libraries in by_meaning(said):
        means = f"of {each.kind}: {each.means}" if each.kind else f"refused: {each.means}"
        yield from entry(f"{', '.join(libraries)}  ", means, 22)


def names_record(name: str, said: "list[LibraryName]") -> dict[str, object]:
    """What libraries mean by a name."""
    libraries = [
        {"library": each.library, "kind": each.kind or None, "means": each.means} for each in said
    ]
    return {"asked": name, "libraries": libraries}


def profiles_record(request: "Request", followed: "LibraryProfile", kind: str) -> dict[str, object]:
    """What each profile sets; the one that is followed."""
    from evalkit.metrics.profiles import find_profile, profile_names

    all_of_them = [find_profile(each).of(kind) for each in profile_names()]
    if followed.name not in profile_names():
        all_of_them.append(followed.of(kind))
    return {
        "profiles": {
            each.name: {**dict(each.policies), **each.conventions(request.metric.name, 1)}
            for each in all_of_them
            if each.has_metric(request.metric.name, 1)
        },
        "profile": followed.name,
        "values": {**dict(request.parameters), **dict(request.policies)},
    }


def all_profiles(request: "Request", kind: str) -> Iterator[str]:
    """What every library that has the metric sets of it."""
    from evalkit.metrics.profiles import DEFAULT, find_profile, profile_names

    metric = request.metric
    yield "Profiles, as far as they differ in the metric's own parameters and policies"
    yield from entry(DEFAULT, "the defaults above", 14)
    for name in profile_names():
        profile = find_profile(name).of(kind)
        if name == DEFAULT or not profile.has_metric(metric.name, 1):
            continue
        yield from entry(name, _said(metric, profile), 14)
    yield from textwrap.wrap(
        f"evalkit explain {metric.name} --profile NAME has a library's policies, errors and "
        "example.",
        WIDTH,
        initial_indent=INDENT,
        subsequent_indent=INDENT,
    )


def _said(metric: "Metric", profile: "LibraryProfile") -> str:
    """What a library sets of a metric, under each name that it has for it."""
    parts = []
    own = {metric.name, f"{metric.name}@k"} & profile.metrics.keys()
    if own - profile.named.keys():
        said = _different(metric, profile.conventions(metric.name, None))
        at_cutoff = _different(metric, profile.conventions(metric.name, 1))
        parts.append(", ".join(said) or "as the default")
        parts += [f"with a cutoff {', '.join(at_cutoff)}"] if at_cutoff != said else []
    for alias in _fixing_aliases(metric):
        if alias in profile.metrics and alias not in profile.named:
            of_alias = _different(metric, profile.metrics[alias])
            parts.append(f"{alias}: {', '.join(of_alias) or 'as the alias says'}")
    for key in profile.keys_of(metric.name, None):
        if key in profile.named:
            of_key = _different(metric, profile.metrics[key])
            parts.append(f"{key}: {', '.join(of_key) or 'as the default'}")
    return "; ".join(parts)


def _fixing_aliases(metric: "Metric") -> list[str]:
    return [alias.partition("(")[0] for alias in metric.aliases if "(" in alias]


def _different(metric: "Metric", values: "Values") -> list[str]:
    defaults = metric.defaults
    return [
        f"{key}={spelled(value)}" for key, value in values.items() if defaults.get(key) != value
    ]


def spelled(value: "Value") -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


def one_profile(request: "Request", profile: "LibraryProfile", kind: str) -> Iterator[str]:
    """A library's conventions for the metric, and what it gets wrong."""
    from evalkit.config import Policies
    from evalkit.metrics import policies_of_kind

    defaults = {**dict(Policies()), **request.metric.defaults}
    metric = request.metric
    yield f"What {profile.name} does otherwise than the default"
    if not profile.has_metric(metric.name, request.cutoff):
        yield from entry("metric", f"{profile.name} has none; these are its policies", 22)
    own = {**profile.policies, **profile.conventions(metric.name, request.cutoff)}
    if kind != "rankings":  # where an alias may have conventions of its own
        own |= {name: value for name, value in request.parameters if value != defaults[name]}
        own |= dict(request.policies)
    told = False
    for name, value in own.items():
        default = defaults[name]
        if default == value:
            continue
        told = True
        parameters = {each.name: each for each in metric.parameters}
        known = parameters.get(name, policies_of_kind(kind).get(name))
        meaning = ""
        if known is not None and known.choices:
            meaning = f"; {known.meanings[known.choices.index(str(value))]}"
        yield from entry(name, f"{spelled(value)} instead of {spelled(default)}{meaning}", 22)
    if not told:
        yield from entry("nothing", "it computes the default", 22)
    for key in profile.keys_of(metric.name, request.cutoff or 1):
        for option, values in profile.options.get(key, {}).items():
            shown = ", ".join(f"{name}={spelled(value)}" for name, value in values.items())
            yield from entry(option, f"its option: {key}({shown})", 22)
    if kind == "rankings":
        yield from entry("path", f"read by way of {profile.path}", 22)
    if profile.differs:
        yield ""
        yield "What no parameter reproduces"
        for difference in profile.differs:
            yield from entry("-", f"{difference.what}: {difference.why}", 2)
    if profile.errors:
        yield ""
        yield "Errors seen in the library"
        for fault in profile.errors:
            yield from entry("-", f"{fault.version}: {fault.what}", 2)


def example_by_profile(request: "Request", profile: "LibraryProfile") -> Iterator[str]:
    """The same ranking measured with the policies of a profile too: as that library would."""
    import polars as pl

    from evalkit.api import evaluate

    example = plain_example()
    n = len(example.ranked)
    shown = [(item, gain) for item, gain in enumerate(example.ranked) if gain > 0]
    rows = [*shown, *enumerate(example.missed, start=n)]
    truth = pl.DataFrame(
        {
            "user": [1] * len(rows),
            "item": [item for item, _ in rows],
            "relevance": [gain for _, gain in rows],
        }
    )
    scores = [float(n - rank) for rank in range(n)]
    rankings = pl.DataFrame({"user": [1] * n, "item": list(range(n)), "score": scores})
    cutoffs = EXAMPLE_CUTOFFS if request.metric.cutoff == "optional" else (None,)
    bare = request.metric.name + (
        "" if request.metric.suffix is None else f"{dict(request.parameters)['beta']:g}"
    )
    names = [bare if cutoff is None else f"{bare}@{cutoff}" for cutoff in cutoffs]
    source = profile.name if _is_known(profile.name) else profile.file
    report = evaluate(truth, rankings, metrics=names, profile=source)
    yield f"{INDENT}and with the policies of {profile.name}, scores falling by 1 down to 1:"
    for name in names:
        yield f"{INDENT}{name}  {report.value(name):.6f}"


def _is_known(profile: str) -> bool:
    """Whether evalkit brings the profile."""
    from evalkit.metrics.profiles import profile_names

    return profile in profile_names()
