"""`{name}` places in paths and SQL, and paths relative to the config."""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from evalkit.config._joined import kinds_in
from evalkit.config._places import Key
from evalkit.config._problems import Problems
from evalkit.config._records import AGE, Config, OutputSection, is_path_of
from evalkit.errors import EvalkitError, RequestError, nearest, raise_all
from evalkit.metrics import declared
from evalkit.metrics.profiles import is_path

SECTIONS = (
    *("truth", "rankings", "log", "train", "ratings", "predictions", "labels"),
    *("items", "users"),
)


def sections(keys: Collection[str]) -> tuple[str, ...]:
    """The sections that hold tables of rows, of every kind that keys of a config may be of."""
    of_kinds = (name for kind in kinds_in(Config, keys) for name in declared(kind).sections)
    return tuple(dict.fromkeys((*SECTIONS, *of_kinds)))


def sections_in(tree: Mapping[str, object]) -> set[str]:
    """Those that a tree has."""
    return {section for section in sections(tree) if tree.get(section, []) != []}


VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
SHARE_PLACE = re.compile(r"\{(share0?)\}")  # from 1, and from 0: filled by each share
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_SQL_PIECE = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")|\{(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\}"""
)


def parse_variables(texts: Sequence[str]) -> dict[str, str]:
    """Names and values of `--var name=value` texts.

    Raises:
        RequestError: [bad-var] no equals sign, no name, or a name twice.
    """
    variables: dict[str, str] = {}
    problems: list[EvalkitError] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not VARIABLE_NAME.fullmatch(name):
            message = f"{text!r} is not name=value"
        elif name in variables:
            message = f"{name!r} is given twice"
        else:
            variables[name] = value
            continue
        problems.append(
            RequestError(message, code="bad-var", at=f"--var {text}", hint="--var day=2026-01-31")
        )
    raise_all(problems)
    return variables


def tables_of(tree: Mapping[str, object]) -> Iterator[tuple[Key, dict[str, object]]]:
    """Every table of rows that the tree holds, whatever else is wrong with it."""
    for section in (*sections(tree), "split"):
        match tree.get(section):
            case dict() as table:
                yield (section,), table
            case list() as tables:
                for number, table in enumerate(tables):
                    if isinstance(table, dict):
                        yield (section, number), table
    match tree.get("segments"):
        case dict() as named:
            for name, table in named.items():
                if isinstance(table, dict):
                    yield ("segments", name), table
    match tree.get("statistics"):
        case {"weight": dict() as weight}:
            yield ("statistics", "weight"), weight


Rewrite: TypeAlias = Callable[[Key, str], str]


def _rewrite(branch: object, name: str, key: Key, rewrite: Rewrite) -> None:
    """Rewrite the text, the list of texts or the table of texts under one name."""
    if not isinstance(branch, dict) or name not in branch:
        return
    match branch[name]:
        case str() as text:
            branch[name] = rewrite((*key, name), text)
        case list() as texts:
            branch[name] = [
                rewrite((*key, name, number), text) if isinstance(text, str) else text
                for number, text in enumerate(texts)
            ]
        case dict() as table:
            for inner in table:
                _rewrite(table, inner, (*key, name), rewrite)


def _rewrite_paths(tree: Mapping[str, object], rewrite: Rewrite) -> None:
    for key, table in tables_of(tree):
        if not isinstance(table.get("path"), dict):
            _rewrite(table, "path", key, rewrite)
        _rewrite(table, "split", key, rewrite)
        if key[0] == "rankings":
            _rewrite(table, "earlier", key, rewrite)
    match tree.get("metrics"):
        case {"reference": str() as reference} if is_path_of(reference):
            if reference not in (table.get("model") for _, table in tables_of(tree)):
                _rewrite(tree["metrics"], "reference", ("metrics",), rewrite)
    _rewrite(tree.get("metrics"), "files", ("metrics",), rewrite)
    _rewrite(tree.get("output"), "path", ("output",), rewrite)
    _rewrite(tree.get("split"), "out", ("split",), rewrite)


def fill_variables(
    tree: Mapping[str, object], variables: Mapping[str, str], problems: Problems
) -> None:
    places: set[str] = set()

    def value_of(key: Key, name: str) -> str | None:
        places.add(name)
        if name not in variables:
            close = nearest(name, variables)
            hint = f"--var {close} is given" if close else f"give it: --var {name}=..."
            message = f"{{{name}}} has no value"
            problems.add(key, "unknown-variable", message, hint=hint)
        return variables.get(name)

    def fill_path(key: Key, text: str) -> str:
        def piece(place: re.Match[str]) -> str:
            if place[1] not in variables and SHARE_PLACE.fullmatch(place[0]):
                if key[0] not in ("metrics", "output"):
                    return place[0]
            return value_of(key, place[1]) or ""

        return _PLACE.sub(piece, text)

    def fill_sql(key: Key, text: str) -> str:
        def piece(found: re.Match[str]) -> str:
            if found["name"]:
                value = value_of(key, found["name"]) or ""
                return "'" + value.replace("'", "''") + "'"
            for name in _PLACE.findall(found["quoted"]):
                if name in variables:
                    places.add(name)
                    message = f"{{{name}}} stands inside quotes"
                    hint = f"write {{{name}}} alone: it becomes a quoted literal"
                    problems.add(key, "quoted-variable", message, hint=hint)
            return found["quoted"]

        return _SQL_PIECE.sub(piece, text)

    _rewrite_paths(tree, fill_path)
    for key, table in tables_of(tree):
        if isinstance(table.get("where"), str):
            _rewrite(table, "where", key, fill_sql)
        if isinstance(table.get("columns"), dict):
            _rewrite(table, "columns", key, fill_sql)
        if key[0] in ("segments", "statistics"):
            for name in ("by", "user", "item"):
                _rewrite(table, name, key, fill_sql)
    gates = tree.get("gates")
    if isinstance(gates, list) and any(isinstance(x, dict) and x.get("data") == AGE for x in gates):
        places.add("day")  # age counts from it
    for name in variables:
        if name not in places:
            close = nearest(name, places)
            hint = f"did you mean {close!r}?" if close else "no path and no SQL has that place"
            error = RequestError(
                f"{{{name}}} is nowhere in the config",
                code="unused-variable",
                at=f"--var {name}={variables[name]}",
                hint=hint,
            )
            problems.found.append(((1, 0), error))


def resolve_paths(tree: dict[str, object], base: str) -> None:
    folder = "" if base == "." else base

    def resolve(key: Key, path: str) -> str:
        is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path)
        return path if not path or is_url else os.path.join(folder, os.path.expanduser(path))

    if "output" not in tree:
        tree["output"] = {}
    if isinstance(tree["output"], dict):
        tree["output"].setdefault("path", OutputSection.model_fields["path"].default)
    _rewrite_paths(tree, resolve)
    selection = tree.get("selection")
    for name in ("trials", "path"):
        _rewrite(selection, name, ("selection",), resolve)
    if isinstance(selection, dict):
        for name in ("path", "split", "rankings"):
            _rewrite(selection.get("confirm"), name, ("selection", "confirm"), resolve)
    match tree.get("metrics"):
        case {"profile": str() as profile} if is_path(profile):
            _rewrite(tree["metrics"], "profile", ("metrics",), resolve)
