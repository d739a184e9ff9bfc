"""What a key of the config is declared with."""

from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from evalkit.config._joined import joined, kinds_in
from evalkit.config._places import Key
from evalkit.config._policies import OneOf
from evalkit.config._records import Config
from evalkit.config._tables import Record


def annotation_at(key: Key) -> object:
    """The type that a key is declared with; None where no such key exists."""
    annotation: object = joined(Config, kinds_in(Config, [str(step) for step in key[:1]]))
    for step in key:
        if isinstance(step, int):
            continue  # tables and texts keep their declaration inside a list
        if get_origin(annotation) is dict:  # names of one's own, as options of a store
            annotation = get_args(annotation)[1]
            continue
        record = record_in(annotation)
        if record is None:
            return None
        if step in record.model_fields:
            field = record.model_fields[step]
            chosen = (each.annotation for each in field.metadata if isinstance(each, OneOf))
            annotation = next(chosen, field.annotation)
        elif (annotation := entry_of(record)) is None:
            return None
    return annotation


def record_in(annotation: object) -> type[Record] | None:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return annotation
    for inner in get_args(annotation):
        if (record := record_in(inner)) is not None:
            return record
    return None


def takes_text(annotation: object) -> bool:
    """Whether a key takes text, and no number that text might spell."""
    if annotation is str:
        return True
    if any(each is int or each is float for each in get_args(annotation)):
        return False
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple):
        return any(takes_text(inner) for inner in get_args(annotation))
    return get_origin(annotation) is Literal


def entry_of(record: type[Record]) -> type[Record] | None:
    """What a table of names of the user's own choice holds under each of them."""
    if record.model_config.get("extra") != "allow":
        return None
    return record_in(record.__annotations__["__pydantic_extra__"])
