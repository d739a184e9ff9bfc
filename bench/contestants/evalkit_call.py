"""evalkit as a library, in a process that has its kernels loaded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import evalkit
from contestants import Answer, Call
from harness import digest_report


def prepare(
    log: Path,
    labels: Sequence[str],
    threads: int,
    *,
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
) -> Call:
    """`evalkit.evaluate` on the folders, with every model that is there."""
    truth = str(log / "truth" / "*.parquet")
    models = sorted((log / "rankings").iterdir(), key=lambda each: (len(each.name), each.name))
    rankings = {each.name: str(each / "*.parquet") for each in models}

    def call() -> Answer:
        more = {"segments": segments, "statistics": statistics}
        asked: dict[str, Any] = {
            name: section for name, section in more.items() if section is not None
        }
        report = evalkit.evaluate(truth, rankings, metrics=labels, threads=threads, **asked)
        return Answer(
            {
                label if len(rankings) == 1 else f"{model}: {label}": report.value(
                    label, model=model
                )
                for model in rankings
                for label in labels
            },
            notes_of(report),
            lambda: digest_report(report.to_json()),
        )

    return call


def notes_of(report: evalkit.Report) -> dict[str, object]:
    """What a report says of its own run, and whose code made it."""
    meta = report.meta
    return {
        "seconds": meta.seconds,
        "stages": dict(meta.stages),
        "threads": meta.threads,
        "source": str(evalkit.__file__),
    }
