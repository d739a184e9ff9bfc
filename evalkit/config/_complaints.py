"""What pydantic finds wrong with a config, in our words and with a hint."""

import difflib
import json
import math
from collections.abc import Mapping
from datetime import date, time
from shlex import quote
from typing import Literal, TypeVar, cast, get_args, get_origin

from pydantic import ValidationError

from evalkit.config._fields import annotation_at, entry_of, record_in, takes_text
from evalkit.config._joined import joined
from evalkit.config._places import Key, spell
from evalkit.config._problems import Problems
from evalkit.config._records import Config
from evalkit.config._tables import Record
from evalkit.errors import nearest
from evalkit.metrics import other_kinds

Made = TypeVar("Made", bound=Record)

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "model_type": "a table",
    "dict_type": "a table",
    "model_attributes_type": "a table",
}


def validated(
    record: type[Made], values: object, tree: object, problems: Problems, at: Key = ()
) -> Made | None:
    """The record of some values; where they make none, what is wrong stands among the problems.

    Args:
        at: where the values stand in the tree.
    """
    try:
        return record.model_validate(values)
    except ValidationError as error:
        _tell([{**each, "loc": (*at, *each["loc"])} for each in error.errors()], tree, problems)
    return None


def _tell(errors: list[dict[str, object]], tree: object, problems: Problems) -> None:
    """Say what pydantic found, at each key once, however many forms its value may have."""
    found: dict[Key, list[dict[str, object]]] = {}
    for each in errors:
        key = _as_written(cast(Key, each["loc"]), tree)
        found.setdefault(key, []).append(each)
    for key, forms in found.items():
        is_part_wrong = any(other[: len(key)] == key != other for other in found)
        if len(forms) == 1 and not (is_part_wrong and forms[0]["loc"] != key):
            translate({**forms[0], "loc": key}, tree, problems)
        elif not is_part_wrong:  # which says more
            wanted = " nor ".join(_KINDS[cast(str, each["type"])] for each in forms)
            message = f"{show(forms[0]['input'])} is neither {wanted}"
            problems.add(key, "wrong-type", message, hint=_forms_hint(key))


def _as_written(key: Key, tree: object) -> Key:
    """A key of pydantic without its names for the forms that a value may have."""
    written: Key = ()
    for step in key:
        inside = dict(enumerate(tree)) if isinstance(tree, list | tuple) else tree
        is_there = isinstance(inside, Mapping) and step in inside
        if is_there or annotation_at((*written, step)) is not None:
            written = (*written, step)
            tree = cast("Mapping[object, object]", inside)[step] if is_there else None
    return written


def _forms_hint(key: Key) -> str:
    """Every form that the value of a key may have, and what the key says."""
    name = f"{_spelt(key[-1])} = " if isinstance(key[-1], str) else ""
    forms = [name + form for form in _forms(annotation_at(key), of_entry=not name)]
    said = _description(key) or _description(key[:-1])
    return "; ".join(each for each in (" or ".join(forms), said) if each)


def _forms(annotation: object, *, of_entry: bool = False) -> list[str]:
    """How TOML writes values of a type; nothing of types that only a description tells."""
    if annotation in _EXAMPLES:
        return [_EXAMPLES[annotation]]
    if isinstance(annotation, type) and (record := record_in(annotation)) is not None:
        fields = record.model_fields.items()
        must = [f'{name} = "..."' for name, each in fields if each.is_required()]
        return [f"{{ {', '.join(must)} }}"]
    if get_origin(annotation) is tuple and not of_entry:
        return [f"[{each}]" for each in _forms(get_args(annotation)[0])]
    parts = () if get_origin(annotation) is dict else get_args(annotation)
    return [form for each in parts for form in _forms(each)]


_EXAMPLES: dict[object, str] = {str: '"..."', int: "1", float: "0.5"}


def _spelt(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def translate(each: Mapping[str, object], tree: object, problems: Problems) -> None:
    """Say one of pydantic's findings in our words."""
    key = cast(Key, each["loc"])
    kind = cast(str, each["type"])
    value = each.get("input")
    context = cast("dict[str, object]", each.get("ctx", {}))
    if kind == "extra_forbidden":
        name = str(key[-1])
        problems.add(key, "unknown-key", f"no key is called {name!r}", hint=_key_hint(key))
    elif kind == "missing":
        hint = 'names = ["nDCG@10", "recall@10"] under [metrics]' if key[0] == "metrics" else ""
        hint = '[split] with path = "log.parquet" and test = "7d"' if key == ("split",) else hint
        hint = hint or _description(key)
        where = key if key[:-1] else ()
        if spell(key) == "metrics":
            key = where = ("metrics", "names")
        problems.add(where, "missing-key", f"{spell(key)!r} is not given", hint=hint)
    elif kind == "literal_error":
        choices = _choices(annotation_at(key))
        close = nearest(value, choices) if isinstance(value, str) else None
        if str(value).lower() in _OTHER_WORDS:
            close = next(iter({_OTHER_WORDS[str(value).lower()]} & set(choices)), close)
        problems.add(
            key,
            "unknown-choice",
            f"{show(value)} is none of {', '.join(choices)}",
            hint=f"did you mean {close!r}?" if close else "",
        )
    elif kind == "model_type" and _is_near_a_key(key):
        problems.add(key, "unknown-key", f"no key is called {key[-1]!r}", hint=_key_hint(key))
    elif kind in _KINDS:
        wanted = _KINDS[kind]
        if kind == "tuple_type" and takes_text(annotation_at(key)) and key[-1] in _TEXT_KEYS:
            wanted = "text or a list of texts"
        is_set = problems.places.at(key) == f"--set {spell(key)}"
        hint = _type_hint(key, value, wanted, is_set=is_set)
        problems.add(key, "wrong-type", f"{show(value)} is not {wanted}", hint=hint)
    elif kind == "too_short":
        problems.add(key, "missing-key", f"{spell(key)!r} is empty", hint="name one at least")
    elif kind == "finite_number":
        problems.add(key, "out-of-range", f"{show(value)} is not a finite number")
    elif kind in _SIDES:
        name, side = _SIDES[kind]
        message = f"{show(value)} is not {side} {context[name]}"
        share = value / 100 if isinstance(value, int | float) else 0.0
        least = 0.5 if key[-1] == "level" else 0.01
        is_percent = least < share < 1.0 and name in ("le", "lt") and context[name] == 1.0
        hint = f"did you mean {share:g}?" if is_percent else ""
        problems.add(key, "out-of-range", message, hint=hint)
    else:
        why = str(each["msg"]).removeprefix("Value error, ")
        problems.add(key, "wrong-type", f"{show(value)}: {why}")


_OTHER_WORDS = {  # of other libraries, for our choices
    "fdr": "bh",
    "fdr_bh": "bh",
    "benjamini-hochberg": "bh",
    "ttest": "t",
    "t-test": "t",
    "student": "t",
}
_SIDES = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
    "less_than": ("lt", "below"),
}
_TEXT_KEYS = ("path", "user")


def show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    text = str(value) if isinstance(value, date | time) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _type_hint(key: Key, value: object, wanted: str, *, is_set: bool = False) -> str:
    if wanted == "text" and isinstance(value, int | float) and not isinstance(value, bool):
        return f'{_spelt(key[-1])} = "{value}"' if isinstance(key[-1], str) else "put it in quotes"
    if key[0] == "gates" and key[-1] in ("min", "max") and isinstance(value, str):
        if not _is_number(value):
            return f'{key[-1]} = 0.5; of age a span in whole m, h or d: {key[-1]} = "14d"'
    if wanted == "a list" and record_in(annotation_at(key)) is not None:
        return f"write [[{spell(key)}]], in double brackets"
    if wanted == "a list" and isinstance(value, str):
        words = value.split() if key == ("alerts", "command") else [value]
        listed = json.dumps(words if value else ["..."], ensure_ascii=False)
        return f"--set {quote(f'{spell(key)}={listed}')}" if is_set else f"{key[-1]} = {listed}"
    if wanted == "a table" and isinstance(value, str) and key[0] == "segments":
        path = json.dumps(value, ensure_ascii=False)
        return f'write {key[-1]} = {{ path = {path}, by = "COLUMN" }} under [segments]'
    if wanted == "a table" and isinstance(value, list) and isinstance(key[-1], str):
        many = "; columns.model takes a table of many models" if key == ("log",) else ""
        return f"write [{spell(key)}] once{many}"
    if wanted in ("a number", "a whole number", "true or false") and isinstance(value, str):
        name = f"{key[-1]} = " if isinstance(key[-1], str) else ""
        return f"leave the quotes out: {name}{_unquoted(value.strip(), wanted)}"
    return ""


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text.strip().removesuffix("%")))
    except ValueError:
        return False


def _unquoted(text: str, wanted: str) -> str:
    """What a text was meant as, as TOML has it; an example where nobody can tell."""
    if wanted == "true or false":
        return "true" if text.lower() in ("true", "yes", "on", "1") else "false"
    try:
        number = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        number = math.inf
    if wanted == "a whole number":
        return f"{number:.0f}" if number.is_integer() else "10"
    return f"{number:.12g}" if math.isfinite(number) else "0.5"


def _choices(annotation: object) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for inner in get_args(annotation) for choice in _choices(inner)]


def _is_near_a_key(key: Key) -> bool:
    """Whether a name among names of one's own was meant as one of ours."""
    record = record_in(annotation_at(key[:-1]))
    if record is None or entry_of(record) is None:
        return False
    return nearest(str(key[-1]), record.model_fields) is not None


def _description(key: Key) -> str:
    """What a key says, as the schema has it."""
    record = record_in(annotation_at(key[:-1]))
    field = record.model_fields.get(str(key[-1])) if record else None
    return f"{key[-1]}: {field.description}" if field and field.description else ""


def _key_hint(key: Key) -> str:
    whole = joined(Config, other_kinds())
    record = record_in(annotation_at(key[:-1])) if key[:-1] else whole
    known = list(record.model_fields) if record else []
    name = str(key[-1])
    close = nearest(name, known)
    homes = [
        spell(home) for home, fields in _known_tables(whole, ()) if name in fields and home != key
    ]
    if close and (_is_slip(name, close) or not homes):
        return f"did you mean {close!r}?"
    if homes:
        return f"{name!r} stands under {' or '.join(homes)}"
    elsewhere = {
        field: spell(home)
        for home, fields in reversed(_known_tables(whole, ()))
        for field in fields
    }
    here = f"{spell(key[:-1]) or 'a config'} has {', '.join(known)}" if known else ""
    if close := nearest(name, elsewhere):
        if _is_slip(name, close):
            meant = f"did you mean {close!r} under {elsewhere[close]}?"
            return f"{meant} {here}" if key[:-1] else meant
    return here


def _is_slip(name: str, close: str) -> bool:
    """Whether a name is another one but for a letter or two."""
    return len(difflib.get_close_matches(name.lower(), [close.lower()], cutoff=0.8)) == 1


def _known_tables(record: type[Record], at: Key) -> list[tuple[Key, list[str]]]:
    found = [(at or ("the top",), list(record.model_fields))]
    for name, declared in record.model_fields.items():
        inner = record_in(declared.annotation)
        if inner is not None:
            found += _known_tables(inner, (*at, name))
    return found
