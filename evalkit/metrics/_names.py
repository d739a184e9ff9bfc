"""What libraries mean by a name, by their profiles: the one registry of other libraries' names."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import RequestError, did_you_mean
from ._declare import Metric, write_call
from ._declared import KINDS
from ._over_users import opens_over_users
from ._parameters import Parameter, Value
from ._registry import fold, tiers

_NUMBERED = re.compile(r"(?P<name>.+?)[_.](?P<numbers>[\d.]+(?:,[\d.]+)*)")  # P_10, P.5,10
_LIKE = re.compile(r'^like *= *"(?P<library>\w+)"', re.MULTILINE)
_WILD = frozenset("*?[")
PROFILES = Path(__file__).parent / "profiles"


MEANT = "metric"  # the key of a metric's table that says which one is meant


def read_call(text: str) -> tuple[str, dict[str, Value]]:
    """The metric and the values of `AP(over='hits')`.

    Raises:
        ValueError: it is none.
    """
    name, bracket, inside = text.partition("(")
    try:
        body = ast.parse(f"call({inside}" if bracket else "call()", mode="eval").body
        keywords = body.keywords  # type: ignore[attr-defined]
        if body.args:  # type: ignore[attr-defined]
            raise ValueError(text)
        return name, {each.arg: ast.literal_eval(each.value) for each in keywords}
    except (SyntaxError, AttributeError):
        raise ValueError(text) from None


@dataclass(frozen=True, slots=True)
class LibraryName:
    """A name as a library uses it.

    Args:
        kind: of the tables that it is about; empty where it is refused.
        metric: which one is meant; empty where it is refused.
        means: how that is written under the library's profile, or why there is none.
    """

    library: str
    name: str
    kind: str
    metric: str
    means: str


@cache
def _names_in(library: str) -> tuple[tuple[str, LibraryName], ...]:
    """The names of a library, each behind its folded form."""
    # files are read as they are: to make profiles of them reads the metrics of all kinds
    return tuple((fold(each.name), each) for each in _names_of(library, library))


@cache
def _written_in(library: str) -> str:
    """The text that a library's names stand in, folded; read in a tenth of the time of its keys."""
    text = (PROFILES / f"{library}.toml").read_text(encoding="utf-8")
    base = _LIKE.search(text)
    return fold(text) + (_written_in(base["library"]) if base else "")


@cache
def _libraries() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in PROFILES.glob("*.toml")))


def _names_of(library: str, file: str) -> Iterator[LibraryName]:
    tree: Mapping[str, Any] = tomllib.loads((PROFILES / f"{file}.toml").read_text(encoding="utf-8"))
    if "like" in tree:
        not_read = {fold(name) for names in tree.get("refused", {}).values() for name in names}
        base = _names_of(library, tree["like"])
        yield from (each for each in base if fold(each.name) not in not_read)
    for kind in KINDS:
        section = tree if kind == "rankings" else tree.get(kind, {})
        said = {name: dict(values) for name, values in section.get("metrics", {}).items()}
        called = {name: values.pop(MEANT, name) for name, values in said.items()}
        for name, metric in called.items():
            if name != metric and not name.endswith("@k"):
                yield LibraryName(library, name, kind, metric, write_call(metric, said[name]))
        for text, names in section.get("names", {}).items():
            metric, own = (text, {}) if opens_over_users(text) else read_call(text)
            meant = called.get(metric, metric)
            means = write_call(meant, {**said.get(metric, {}), **own})
            yield from (LibraryName(library, name, kind, meant, means) for name in names)
    for why, names in tree.get("refused", {}).items():
        for name in names:
            yield LibraryName(library, name, "", "", why)


def in_parts(name: str) -> tuple[str, str | None]:
    """The metric and the cutoffs that other libraries write in one name: P_10, precision_at_k."""
    if name.lower().endswith("_at_k"):
        return name[: -len("_at_k")], None
    found = _NUMBERED.fullmatch(name)
    return (found["name"], found["numbers"]) if found else (name, None)


@cache
def names_like(name: str, *, with_refused: bool = True) -> list[LibraryName]:
    """Every meaning of a name, in any case, that a library gives to it; P_10 is its P.

    Without those that patterns of names refuse, most files need not be read.
    """
    folded = fold(name)
    word = re.compile(rf"(?<![a-z0-9]){re.escape(folded)}(?![a-z0-9])")
    found = [
        each
        for library in _libraries()
        if with_refused or word.search(_written_in(library))
        for known, each in _names_in(library)
        if known == folded
        or (with_refused and not _WILD.isdisjoint(known) and fnmatchcase(folded, known))
    ]
    stem = in_parts(name)[0]
    if found or stem == name:
        return found
    return names_like(stem if with_refused else name)


def by_meaning(names: Iterable[LibraryName]) -> Iterator[tuple[LibraryName, list[str]]]:
    """Each meaning once, and the libraries that have it."""
    found: dict[tuple[str, str], tuple[LibraryName, list[str]]] = {}
    for each in names:
        _, libraries = found.setdefault((each.kind, each.means), (each, []))
        libraries += [each.library] if each.library not in libraries else []
    yield from found.values()


def refused_metric(name: str, why: str, at: str) -> RequestError:
    """That a library's metric is none here."""
    message = f"{name} is no metric here: {why}"
    return RequestError(message, code="refused-metric", at=at)


def needed_parameter(name: str, parameter: str, at: str) -> RequestError:
    """That a library gives a parameter no default."""
    message = f"{name} takes {parameter}, which has no default there"
    hint = f"write {name}({parameter}=...) with its number"
    return RequestError(message, code="bad-parameter-value", at=at, hint=hint)


def ambiguous_metric(
    name: str, metrics: Mapping[str, Metric], at: str, own: str = ""
) -> RequestError | None:
    """That libraries call several metrics so, and how each is written."""
    kind = next(iter(next(iter(tiers(metrics))).values())).kind
    said = [each for each in names_like(name, with_refused=False) if each.kind == kind]
    if len({each.metric for each in said} | ({own} if own else set())) < 2:
        return None
    means = [(each.means, libraries) for each, libraries in by_meaning(said)]
    means = [(own, ["evalkit"]), *means] if own else means
    return RequestError(
        f"{name!r} is the name of several metrics: "
        + "; ".join(f"{means} ({', '.join(libraries)})" for means, libraries in means),
        code="ambiguous-metric",
        at=at,
        hint=f"write {means[0][0]}, or whose it is: profile = {means[-1][1][0]!r}",
    )


def unknown_parameter(
    metric: Metric, name: str, at: str, policies: Mapping[str, Parameter]
) -> RequestError:
    """That a metric lacks a parameter, and which one was meant."""
    known = [each.name for each in metric.parameters]
    hint = f"it has {', '.join(known)}" if known else "it takes none of its own"
    return RequestError(
        f"{metric.name} has no parameter {name!r}",
        code="unknown-parameter",
        at=at,
        hint=did_you_mean(name, [*known, *policies], hint),
    )


def bad_value(metric: Metric, parameter: Parameter, text: str, at: str) -> RequestError:
    """That a parameter does not take a value."""
    word = text.strip("'\"")
    spelling = f"write {parameter.name}={_written(parameter.default)}, the default"
    message = f"{parameter.name} of {metric.name} is {parameter.domain}, not {word!r}"
    hint = did_you_mean(word, parameter.choices, spelling)
    return RequestError(message, code="bad-parameter-value", at=at, hint=hint)


def _written(value: Value) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"
