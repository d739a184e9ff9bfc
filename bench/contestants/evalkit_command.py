"""evalkit as a scheduled job pays for it: a new process, imports, kernels from the cache, files."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from contestants import Answer, Call, labels


def prepare(log: Path, cutoffs: Sequence[int], threads: int) -> Call:
    """`evalkit run` on the config that lies beside the logs."""
    names = set(labels(cutoffs))

    def call() -> Answer:
        with tempfile.TemporaryDirectory() as runs:
            options = ["--out", runs, "--threads", str(threads), "--json"]
            command = [sys.executable, "-m", "evalkit", "run", str(log / "config.toml"), *options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        report = json.loads(done.stdout)
        values = {each["metric"]: each["value"] for each in report["metrics"]}
        return Answer(
            {name: values[name] for name in values if name in names},
            {"seconds": report["meta"]["seconds"]},
        )

    return call
