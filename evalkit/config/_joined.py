"""Sections that kinds declare in their own folders, as keys of the config."""

from typing import Any

from pydantic import BaseModel, BeforeValidator

from evalkit.config._tables import is_none, key, tuple_of_list
from evalkit.metrics import KINDS, Section, declared, other_kinds

_own: dict[str, Any] = {}  # keys of the config that stand in its class
_joined: dict[str, str] = {}  # the list of kinds whose sections it has besides


def join_kinds(config: type[BaseModel]) -> None:
    """Give the config a key for each section of the kinds that are listed, and no others."""
    if KINDS == _joined:
        return
    fields = config.model_fields
    if not _own:
        _own.update(fields)
    declarations = [declared(kind) for kind in other_kinds()]
    sections = {name: each for one in declarations for name, each in one.sections.items()}
    found = {name: _field_of(each) for name, each in sections.items() if name not in _own}
    if found or fields.keys() != _own.keys():
        fields.clear()
        fields.update({**_own, **found})
        config.model_rebuild(force=True)
    _joined.clear()
    _joined.update(KINDS)


def _field_of(section: Section) -> Any:
    table: Any = section.table
    default = () if section.is_listed else None
    field = key(default, section.description, exclude_if=is_none)
    field.annotation = tuple[table, ...] if section.is_listed else table | None
    if section.is_listed:
        field.metadata = [BeforeValidator(tuple_of_list)]
    return field


def of_one_table() -> list[str]:
    """Lists of tables of which one may be written alone: [labels] is one of [[labels]]."""
    return [kind for kind in other_kinds() if declared(kind).sections[kind].is_listed]
