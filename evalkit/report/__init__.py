"""One record of a run, and its renderings; nothing here computes a number or reads a log.

In: estimates, comparisons, counts, warnings.
Out: `Report`, and its text, page or table in each form.
Open first: `record.py`, then `entries.py`.
"""

from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalkit.report._public import *  # noqa: F403  # for type checkers


def __getattr__(name: str) -> object:
    if name.startswith("_") or PathFinder.find_spec(name, __spec__.submodule_search_locations):
        raise AttributeError(name)  # a module of the room, which loads without the others
    from evalkit.report import _public

    globals()[name] = found = getattr(_public, name)  # is not asked for again
    return found
