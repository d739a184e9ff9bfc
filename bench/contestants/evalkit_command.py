"""evalkit as a scheduled job pays for it: a new process, imports, kernels from the cache, files."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from contestants import Answer, Call


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`evalkit run` on the config that lies beside the logs."""

    def call() -> Answer:
        with tempfile.TemporaryDirectory() as runs:
            command = compose(log, labels, threads, Path(runs))
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        report = json.loads(done.stdout)
        return Answer(
            {each["metric"]: each["value"] for each in report["metrics"]},
            {"seconds": report["meta"]["seconds"]},
        )

    return call


def compose(log: Path, labels: Sequence[str], threads: int, runs: Path) -> list[str]:
    """The command line; its report goes to stdout as JSON, and to a folder below `runs`."""
    names = "metrics.names=" + json.dumps(list(labels))
    options = ["--set", names, "--threads", str(threads), "--out", str(runs), "--json", "--quiet"]
    return [sys.executable, "-m", "evalkit", "run", str(log / "config.toml"), *options]
