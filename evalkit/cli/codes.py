"""What every error and warning means, why it comes, and what to do: `evalkit explain CODE`.

To add a code, raise or warn with it as a literal (`code="new-code"`, `Warning_("new-code", ...)`),
and give it a table in `codes.toml`, in the place of the alphabet where it belongs:

    [new-code]
    means = "What is the case, in one sentence."
    cause = "What usually leads to it."
    cure = "What to write, run or mend."

`tests/test_street.py` reads the codes out of the package's source: it wants one table for each, and
no other. Where the code comes out of a variable, it follows literals in the same function.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("codes.toml")


@dataclass(frozen=True, slots=True)
class Code:
    """One code of an error or a warning.

    Args:
        means: what is the case.
        cause: what usually leads to it.
        cure: what to do.
    """

    name: str
    means: str
    cause: str
    cure: str


@cache
def all_codes() -> dict[str, Code]:
    """Every code by its name, in the order of the alphabet."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {name: Code(name, **table) for name, table in tables.items()}
