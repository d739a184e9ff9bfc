"""What a run of the program in a process of its own needs, and what it says."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def codes(self) -> list[str]:
        """Codes of the errors on stderr."""
        lines = self.err.splitlines()
        return [line[6 : line.index("]")] for line in lines if line.startswith("error[")]

    @property
    def document(self) -> dict:
        return json.loads(self.out)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name != "EVALKIT_TRACEBACK"}
    paths = [str(ROOT), *filter(None, [known.get("PYTHONPATH")])]
    return {**known, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80", **more}
