"""Names of models on a command line, and what is told of columns that were guessed."""

import glob
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalkit.cli import console
from evalkit.errors import RequestError

if TYPE_CHECKING:
    from evalkit.sources import Table


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


def tell_columns(tables: Sequence["Table"]) -> None:
    """Tell on stderr which columns of the tables were guessed, alike ones together."""
    from evalkit.sources import spell_guesses

    for line in spell_guesses(tables):
        console.note(line)


def unnamed_models(texts: Sequence[str]) -> frozenset[str]:
    """Models that are called as their files are, unless a column names them."""
    return frozenset(split_name(text)[0] for text in texts if not is_named(text))
