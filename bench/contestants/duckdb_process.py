"""The hand-written DuckDB query in a new process, from its imports to its numbers."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from contestants import Answer, Call


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`python duckdb_query.py` on the log."""
    program = Path(__file__).parent / "duckdb_query.py"
    command = [sys.executable, str(program), str(log), json.dumps(list(labels)), str(threads)]

    def call() -> Answer:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return Answer(json.loads(done.stdout))

    return call
