"""evalkit as a library, in a process that has its kernels loaded."""

from collections.abc import Sequence
from pathlib import Path

import evalkit
from contestants import Answer, Call, labels


def prepare(log: Path, cutoffs: Sequence[int], threads: int) -> Call:
    """`evalkit.evaluate` on the folders."""
    names = labels(cutoffs)

    def call() -> Answer:
        report = evalkit.evaluate(
            str(log / "truth" / "*.parquet"),
            {"model-1": str(log / "rankings" / "model-1" / "*.parquet")},
            metrics=names,
        )
        meta = report.meta
        notes = {"seconds": meta.seconds, "stages": dict(meta.stages), "threads": meta.threads}
        return Answer({name: report.value(name) for name in names}, notes)

    return call
