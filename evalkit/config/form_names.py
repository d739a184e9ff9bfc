"""The forms of a report: the files of `report/forms`, and what is shown or no text.

Names are known without importing a file, so that the command line lists them at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Literal

_FOLDER = Path(__file__).parents[1] / "report" / "forms"
_MODULES = {each.name.removesuffix("_"): each.name for each in iter_modules([str(_FOLDER)])}


@dataclass(frozen=True, slots=True)
class Form:
    """A form that is text in a file: `FORM` of a file of `evalkit/report/forms`, which names it.

    Args:
        file: in a run's directory.
        render: the text of a report, ending in a newline.
        is_filed: whether it has the labels, and the names beside them; shown names by default.
    """

    file: str
    render: Callable[..., str]
    is_filed: bool = False


ON_TERMINALS = ("screen", "table")
TEXTS = (*ON_TERMINALS, *_MODULES)
FILES = (*_MODULES, "parquet")
FORMATS = (*TEXTS, "parquet")


def form_of(name: str) -> Form:
    """The form of one of `evalkit/report/forms`, whose file is loaded."""
    form: Form = import_module(f"evalkit.report.forms.{_MODULES[name]}").FORM
    return form


def file_of(name: str) -> str:
    """In a run's directory, of one of `FILES`."""
    return "metrics.parquet" if name == "parquet" else form_of(name).file


if TYPE_CHECKING:
    AnyForm = str
    TextForm = str
    FileForm = str
else:  # what config and command line take
    AnyForm, TextForm, FileForm = Literal[FORMATS], Literal[TEXTS], Literal[FILES]
