"""Records made of what JSON holds, by the types that their fields have."""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Reader = Callable[[Any], Any]

HAS_DEFAULT = object()


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
        raise TypeError(f"{row!r} stands where an object belongs")
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
        raise TypeError(f"{value!r} stands where a list belongs")
    return value


def read_text(value: object) -> str:
    """`value`, which is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} stands where a text belongs")
    return value


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Reader, object], ...]:
    """Name, reader, and what stands for an absent value: None, a default's mark, or MISSING."""
    hints = get_type_hints(kind)
    found = []
    for each in fields(kind):
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        may_be_none = type(None) in get_args(hints[each.name])
        absent = HAS_DEFAULT if has_default else None if may_be_none else MISSING
        found.append((each.name, _reader_of(hints[each.name]), absent))
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
        return lambda value: {key: read(each) for key, each in _object(value).items()}
    raise AssertionError(hint)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} stands where an object belongs")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} stands where true or false belongs")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} stands where a whole number belongs")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} stands where a number belongs")
    return float(value)


def _number_or_none(value: object) -> float | None:
    if isinstance(value, float) or value is None:
        return value
    return _number(value)


def _value(value: object) -> float:
    return math.nan if value is None else _number(value)


def _text_or_number(value: object) -> str | float:
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r} stands where a text or a number belongs")


_SIMPLE: dict[Any, Reader] = {str: read_text, bool: _flag, int: _whole, float: _value}
