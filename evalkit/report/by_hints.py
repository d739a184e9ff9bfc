"""Records made of what JSON holds, which a stranger may have written, by their fields' types."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Reader = Callable[[Any], Any]

HAS_DEFAULT = object()
MOST_VALUES = 20_000_000  # of one document; each takes some 100 bytes of memory
MOST_WHOLE = 1 << 63
_MAYBE_INFINITE = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{308}")


def load_json(content: str | bytes) -> object:
    """What a JSON document holds that a stranger may have written.

    Raises:
        ValueError: no UTF-8, no JSON, a key twice, NaN or infinity, nested too deep, too much.
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    if sum(text.count(each) for each in ",[{") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")
    finite = _finite if _MAYBE_INFINITE.search(text) else None
    try:
        return json.loads(text, object_pairs_hook=_once, parse_float=finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        raise ValueError(f"{twice[:40]!r} stands twice in one object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


def read_record(
    kind: type[Record], row: object, given: Mapping[str, object] = MappingProxyType({})
) -> Record:
    """A record of one row: a field that the row lacks has its default, or None where it may.

    Args:
        given: fields that the row does not hold, or not as they are.
    Raises:
        TypeError: a value of another type than its field's.
        KeyError: a field without a default is not there.
    """
    if not isinstance(row, dict):
        raise TypeError(f"{_shown(row)} stands where an object belongs")
    found = {}
    for name, read, absent in _fields_of(kind):  # type: ignore[arg-type]  # classes are hashable
        if name in row:
            found[name] = read(row[name])
        elif absent is None:
            found[name] = None
        elif absent is MISSING and name not in given:
            raise KeyError(name)
    found.update(given)
    return kind(**found)


def read_list(value: object) -> list[Any]:
    """`value`, which is a list."""
    if not isinstance(value, list):
        raise TypeError(f"{_shown(value)} stands where a list belongs")
    return value


def read_text(value: object) -> str:
    """`value`, which is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{_shown(value)} stands where a text belongs")
    return value


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Reader, object], ...]:
    """Name, reader, and what stands for an absent value: None, a default's mark, or MISSING."""
    hints = get_type_hints(kind)
    found = []
    for field in fields(kind):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        may_be_none = type(None) in get_args(hints[field.name])
        absent = HAS_DEFAULT if has_default else None if may_be_none else MISSING
        found.append((field.name, _reader_of(hints[field.name]), absent))
    return tuple(found)


@cache
def _reader_of(hint: Any) -> Reader:
    """What turns a value of JSON into one of the type."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value: read_record(hint, value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kept = [each for each in inner if each is not type(None)]
        if kept == [str, float]:
            return _text_or_number
        if kept == [str, tuple[str, ...]]:
            return _text_or_texts
        if kept == [float]:
            return _number_or_none
        read = _reader_of(kept[0])
        return lambda value: None if value is None else read(value)
    if origin is tuple and inner[-1] is Ellipsis:
        read = _reader_of(inner[0])
        return lambda value: tuple(map(read, read_list(value)))
    if origin is tuple:
        each = [_reader_of(one) for one in inner]
        return lambda value: tuple(
            read(one) for read, one in zip(each, read_list(value), strict=True)
        )
    if origin is Mapping:
        read = _reader_of(inner[1])
        return lambda value: {key: read(each) for key, each in read_object(value).items()}
    raise AssertionError(hint)


def read_object(value: object) -> dict[str, Any]:
    """`value`, which is an object."""
    if not isinstance(value, dict):
        raise TypeError(f"{_shown(value)} stands where an object belongs")
    return value


def read_wholes(value: object) -> dict[str, int]:
    """`value`, which is an object of whole numbers."""
    return {key: _whole(each) for key, each in read_object(value).items()}


def _shown(value: object) -> str:
    """A value as an error names it, however much it holds."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = "a number" if isinstance(value, int) and abs(value) > MOST_WHOLE else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{_shown(value)} stands where true or false belongs")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_shown(value)} stands where a whole number belongs")
    if abs(value) > MOST_WHOLE:
        raise ValueError(f"a whole number of {value.bit_length():,} bits is too large")
    return value


def _number(value: object) -> float:
    return value if isinstance(value, float) else float(_whole(value))


def _number_or_none(value: object) -> float | None:
    if isinstance(value, float) or value is None:
        return value
    return _number(value)


def _value(value: object) -> float:
    return math.nan if value is None else _number(value)


def _text_or_number(value: object) -> str | float:
    if value is None:  # what stands for a number that is not finite
        return math.nan
    return value if isinstance(value, str | float) else _whole(value)


def _text_or_texts(value: object) -> str | tuple[str, ...]:
    return tuple(map(read_text, value)) if isinstance(value, list) else read_text(value)


_SIMPLE: dict[Any, Reader] = {
    **{str: read_text, bool: _flag, int: _whole, float: _value},
    object: lambda value: value,
}
