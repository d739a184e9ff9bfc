"""Whatever value stands at whatever key: a config is read, or refused by name and place."""

import json
import re
import tomllib
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import pytest

from evalkit.config import load_config, spell
from evalkit.config._fields import annotation_at
from evalkit.config._reading import config_schema
from evalkit.errors import Errors, EvalkitError

ODD = """
true 7 -1 0 1.5 1e400 nan -inf 99999999999999999999 "" "x" "\\u0000" "{x}" [] [1] [true] [[]]
["a","a"] ["x",1] [[1,2],[3]] {} {a=1} {""={}} [{}] 2026-01-01 12:00:00 2026-01-01T00:00:00Z
""".split()
RANKINGS = 'truth.path = "t.csv"\nrankings = [{ model = "m", path = "r.csv" }]\n'
KINDS = {  # the least config of each
    "rankings": RANKINGS + 'metrics.names = ["RR"]\n',
    "ratings": 'ratings = [{ model = "m", path = "r.csv" }]\nmetrics.names = ["RMSE"]\n',
    "labels": 'labels = [{ model = "m", path = "r.csv" }]\nmetrics.names = ["AUC"]\n',
    "judges": 'judges = { path = "j.csv", levels = [0, 1], columns = { unit = "u", judge = "j", '
    'rating = "r" } }\nmetrics.names = ["alpha"]\n',
    "logged": 'logged = { path = "l.csv" }\n'
    'targets = [{ model = "b", probability = "p" }]\nmetrics.names = ["IPS"]\n',
    "experiment": 'experiment = { variants = { a = 50, b = 50 }, sums = { n = "click" } }\n'
    'exposures = { path = "e.csv" }\nevents = { path = "f.csv" }\nmetrics.names = ["mean(n)"]\n',
    "split": RANKINGS + 'metrics.names = ["RR"]\n'
    'split = { path = "l.csv", by = "time", test = "7d" }\n',
    "nothing": "",
}
READ_LATER = {"bad-manifest-of-split"}  # the folder of a split is named, and is not there


def paths_of(schema):
    """Every key of a schema: names, and 0 for a place in a list."""
    defined = schema["$defs"]

    def below(node, path, above):
        if "$ref" in node:
            node = defined[node["$ref"].split("/")[-1]]
        for branch in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
            yield from below(branch, path, above)
        if id(node) in above:
            return
        own = {*above, id(node)}
        further = [(name, each) for name, each in node.get("properties", {}).items()]
        further += [("x", each) for each in [node.get("additionalProperties")]]
        for name, each in further:
            if isinstance(each, dict):
                yield (*path, name)
                yield from below(each, (*path, name), own)
        if isinstance(node.get("items"), dict):
            yield from below(node["items"], (*path, 0), own)

    return list(dict.fromkeys(below(schema, (), set())))


PATHS = paths_of(config_schema())
OF_PYDANTIC = re.compile(r"pydantic|Input should|function-|datetime\.|\[str|[a-z]Table\b")
TOGETHER = 8  # values are dealt out to so many keys in turn: each key has some, each kind all
PARTS = 3  # of what a key has
QUARTERS = 4  # of the keys


class Raw(str):
    """A value as TOML spells it."""


def toml(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def put(tree, path, value):
    """The tree with a value at a place."""
    if not path:
        return value
    name, *rest = path
    if name == 0:
        first = tree[0] if isinstance(tree, list) and tree else None
        return [put(first, rest, value), *(tree[1:] if isinstance(tree, list) else [])]
    own = dict(tree) if isinstance(tree, dict) else {}
    return own | {name: put(own.get(name), rest, value)}


@pytest.mark.some_cases(len(KINDS))
@pytest.mark.parametrize("quarter", range(QUARTERS))
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_any_value_at_any_key_is_read_or_refused_where_it_stands(kind, part, quarter, tmp_path):
    base, file = tomllib.loads(KINDS[kind]), tmp_path / "c.toml"
    wrong = []
    for number, path in [*enumerate(PATHS)][quarter::QUARTERS]:
        for odd in ODD[number % TOGETHER + TOGETHER * part :: TOGETHER * PARTS]:
            tree = put(base, path, Raw(odd))
            file.write_text("".join(f"{name} = {toml(each)}\n" for name, each in tree.items()))
            try:
                load_config(file)
            except EvalkitError as error:
                for each in error.errors if isinstance(error, Errors) else [error]:
                    is_placed = re.search(r"c\.toml(:\d+)?", each.at) and each.exit_status == 2
                    if not (is_placed or each.code in READ_LATER) or OF_PYDANTIC.search(str(each)):
                        wrong.append((path, odd, str(each)))
            except Exception as error:
                wrong.append((path, odd, repr(error)))

    assert wrong == []


def forms_of(annotation):
    """The types that a value may have."""
    if get_origin(annotation) is Annotated:
        return forms_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [form for each in get_args(annotation) for form in forms_of(each)]
    return [] if annotation is type(None) else [annotation]


OF_FORMS = [path for path in PATHS if len(forms_of(annotation_at(path))) > 1]
OF_FORMS += [("judges", "levels", 0)]  # what the list holds


def test_keys_of_several_forms_are_found():
    assert {"now", "sequential", "until"} <= {path[-1] for path in OF_FORMS}
    assert {("experiment", "sums", "x"), ("experiment", "before", "x")} <= set(OF_FORMS)


@pytest.mark.parametrize("path", OF_FORMS, ids=spell)
def test_a_value_of_none_of_a_keys_forms_is_refused_once_and_where_it_stands(path, tmp_path):
    kind = path[0] if path[0] in KINDS else "rankings"
    base, file = tomllib.loads(KINDS[kind]), tmp_path / "c.toml"
    wrong = []
    for odd in ODD:
        tree = put(base, path, Raw(odd))
        file.write_text("".join(f"{name} = {toml(each)}\n" for name, each in tree.items()))
        try:
            load_config(file)
        except EvalkitError as error:
            every = error.errors if isinstance(error, Errors) else [error]
            there = [each.at for each in every if spell(path) in each.at]
            if len(there) > len(set(there)) or OF_PYDANTIC.search(str(error)):
                wrong.append((odd, str(error)))

    assert wrong == []


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("sums = { c = 3 }", "3 is neither text nor a table", 'c = "..." or c = { kind = "..." }'),
        ("before = { c = 3 }", "3 is neither text nor a list", 'c = "..." or c = ["..."]'),
        ("before = { c = [3] }", "3 is not text", "put it in quotes"),
        ("sums = { c = { knd = 'click' } }", "no key is called 'knd'", "did you mean 'kind'?"),
        ("until = 1.5", "1.5 is neither text nor a whole number", 'until = "..." or until = 1;'),
        ("phases = 2026-01-01", "2026-01-01 is not a list", "write [[experiment.phases]]"),
        ("phases = [[]]", "[] is not a table", ""),
    ],
)
def test_what_a_value_may_be_is_said_with_every_form(line, message, hint, tmp_path):
    (tmp_path / "c.toml").write_text(f"[experiment]\nvariants = {{ a = 50, b = 50 }}\n{line}\n")

    with pytest.raises(EvalkitError) as raised:
        load_config(tmp_path / "c.toml")

    every = raised.value.errors if isinstance(raised.value, Errors) else [raised.value]
    (told,) = (each for each in every if each.message == message)
    assert told.hint.startswith(hint)
    assert bool(told.hint) == bool(hint)


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "nothing"])
def test_the_least_config_of_each_kind_is_one(kind, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(KINDS[kind])

    load_config(file)
