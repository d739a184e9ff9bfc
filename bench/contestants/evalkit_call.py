"""evalkit as a library, in a process that has its kernels loaded."""

from collections.abc import Sequence
from pathlib import Path

import evalkit
from contestants import Answer, Call
from harness import digest_report


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`evalkit.evaluate` on the folders, with every model that is there."""
    truth = str(log / "truth" / "*.parquet")
    models = sorted((log / "rankings").iterdir(), key=lambda each: (len(each.name), each.name))
    rankings = {each.name: str(each / "*.parquet") for each in models}

    def call() -> Answer:
        report = evalkit.evaluate(truth, rankings, metrics=labels, threads=threads)
        meta = report.meta
        return Answer(
            {
                label if len(rankings) == 1 else f"{model}: {label}": report.value(
                    label, model=model
                )
                for model in rankings
                for label in labels
            },
            {
                "seconds": meta.seconds,
                "stages": dict(meta.stages),
                "threads": meta.threads,
                "source": str(evalkit.__file__),
            },
            lambda: digest_report(report.to_json()),
        )

    return call
