"""Which columns of somebody's files are user, item, rank, score and relevance."""

import glob
import os
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from evalkit.cli import console
from evalkit.errors import EvalkitError, RequestError

if TYPE_CHECKING:
    from evalkit.config import Config, RankingsTable, TrainTable, TruthTable

Columns = Mapping[str, str | Sequence[str]]


def split_name(text: str) -> tuple[str, str]:
    """Name and path of `[NAME=]PATH`.

    An existing path wins over NAME=, and NAME has no slash. Without NAME= a file or folder
    gives its own name.
    """
    name, equals, path = text.partition("=")
    if equals and name and "/" not in name and not (os.path.exists(text) or glob.glob(text)):
        return name, path
    return _name_of(text), text


def _name_of(path: str) -> str:
    for part in reversed(re.split(r"[/\\]+", path.rstrip("/\\"))):
        stem = part.split(".")[0] if not part.startswith(".") else ""
        if stem and not re.search(r"[*?\[\]{}=:]", stem):
            return stem
    return "model"


def name_rankings(texts: Sequence[str]) -> list[tuple[str, str]]:
    """(model, path) of every `[NAME=]PATH`.

    Raises:
        RequestError: two have one name [duplicate-model].
    """
    named = [split_name(text) for text in texts]
    names = [name for name, _ in named]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise RequestError(
                f"two rankings are called {name!r}",
                code="duplicate-model",
                at=f"--rankings {texts[number]}",
                hint=f"name them: --rankings {name}-2={named[number][1]}",
            )
    return named


def is_named(text: str) -> bool:
    """Whether `[NAME=]PATH` has a NAME=."""
    return split_name(text)[1] != text


def with_guessed_columns(config: "Config", *, named_models: Collection[str]) -> "Config":
    """The config with every column that nobody named, read off the files and told on stderr.

    A model column gives the names of models that are not among `named_models`.
    """
    told: dict[str, list[str]] = {}
    update: dict[str, object] = {}
    if config.truth is not None:
        update["truth"] = _complete(config.truth, "truth", "truth", told)
    if config.train is not None:
        update["train"] = _complete(config.train, "train", "train", told)
    rankings = []
    for table in config.rankings:
        full = _complete(table, "rankings", table.model or "rankings", told)
        if table.model in named_models:
            full = full.model_copy(
                update={"columns": full.columns.model_copy(update={"model": None})}
            )
        elif full.columns.model is not None:
            full = full.model_copy(update={"model": None})
        rankings.append(full)
    update["rankings"] = tuple(rankings)
    for columns, titles in told.items():
        console.note(f"{', '.join(titles)}: columns are guessed: {columns}")
    return config.model_copy(update=update)


AnyTable = TypeVar("AnyTable", "TruthTable", "RankingsTable", "TrainTable")


def _complete(table: AnyTable, role: str, title: str, told: dict[str, list[str]]) -> AnyTable:
    named = {
        name: column
        for name in table.columns.model_fields_set
        if (column := getattr(table.columns, name)) is not None
    }
    guessed = guess(table.path, table.format, role, named)
    if guessed:
        spelled = ", ".join(f"{name} = {column}" for name, column in guessed.items())
        told.setdefault(spelled, []).append(title)
    columns = {name: (column,) if name == "user" else column for name, column in guessed.items()}
    return table.model_copy(update={"columns": table.columns.model_copy(update=columns)})


def guess(
    paths: Sequence[str],
    format: str | None,
    role: str,
    named: Mapping[str, str | Sequence[str]] = MappingProxyType({}),
) -> dict[str, str]:
    """Our names to the columns that the files at `paths` suggest, without those `named`.

    Raises:
        DataError: as `evalkit.sources.read_schema` and `guess_columns`.
    """
    from evalkit.sources import guess_columns, read_schema

    names = list(read_schema(paths, format, role=role))
    for key, column in named.items():
        used = {column} if isinstance(column, str) else set(column)
        names = [each for each in names if each not in used and not _suggests(each, key, role)]
    guessed = guess_columns([*names, *named], role, at=", ".join(paths[:3]))
    if "rank" in named or "score" in named:
        guessed = {key: guessed[key] for key in guessed if key not in ("rank", "score")}
    if "rank" in guessed:
        guessed.pop("score", None)  # ranks order; scores would only cost reading
    return {key: column for key, column in guessed.items() if key not in named}


def _suggests(name: str, key: str, role: str) -> bool:
    """Whether a column's name looks like the key."""
    from evalkit.sources import guess_columns

    others = [each for each in ("user", "item", "label") if each != key]
    try:
        return guess_columns([name, *others], role).get(key) == name
    except EvalkitError:
        return False
