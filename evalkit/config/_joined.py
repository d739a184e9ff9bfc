"""Sections that kinds declare in their own folders, as keys of the config."""

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, BeforeValidator, create_model

from evalkit.config._tables import tuple_of_list, unsaid
from evalkit.metrics import Section, declared, other_kinds

Model = TypeVar("Model", bound=BaseModel)

_OF_KINDS = {"ratings", "predictions", "labels"}  # sections that stand in the class of the config
_joined: dict[tuple[object, ...], type[BaseModel]] = {}  # by the sections it has besides


def kinds_in(config: type[BaseModel], keys: Collection[str]) -> tuple[str, ...]:
    """The kinds that keys of a config may be of: those they name, all where one is of none.

    No declaration is loaded for keys of rankings: all together cost a start some 25 ms.
    """
    named = tuple(kind for kind in other_kinds() if kind in keys)
    known = config.model_fields.keys() - _OF_KINDS
    known = known.union(*(declared(kind).sections for kind in named))
    return named if known.issuperset(keys) else other_kinds()


def joined(config: type[Model], kinds: Iterable[str]) -> type[Model]:
    """The config with a key for each section of some kinds; itself where it has them."""
    sections = {name: each for kind in kinds for name, each in declared(kind).sections.items()}
    found = {name: each for name, each in sections.items() if name not in config.model_fields}
    if not found:
        return config
    tables = (config, *((name, each.table) for name, each in found.items()))
    if tables not in _joined:
        fields = {name: _field_of(each) for name, each in found.items()}
        name, home, told = config.__name__, config.__module__, config.__doc__
        made = create_model(name, __base__=config, __module__=home, __doc__=told, **fields)
        _joined[tables] = made
    return _joined[tables]  # type: ignore[return-value]


def _field_of(section: Section) -> Any:
    table: Any = section.table
    field = unsaid(section.description, () if section.is_listed else None)
    if section.is_listed:
        field.metadata = [BeforeValidator(tuple_of_list)]
    return (tuple[table, ...] if section.is_listed else table | None), field


def of_one_table(kinds: Iterable[str]) -> list[str]:
    """Lists of tables of which one may be written alone: [labels] is one of [[labels]]."""
    return [kind for kind in kinds if declared(kind).sections[kind].is_listed]
