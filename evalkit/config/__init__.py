"""What to evaluate, as one frozen record: read from TOML, `--set` and `--var`, or from options.

In: a TOML file, options, arguments of Python.
Out: `Config`, or every mistake at once, each with its line.
Open first: `_records.py`, then `_building.py`.

Every mistake is reported at once, each with the line it stands on.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalkit.config._public import *  # noqa: F403  # for type checkers


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    from evalkit.config import _public

    return getattr(_public, name)
