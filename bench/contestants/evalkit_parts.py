"""evalkit with one model at a time: what one run with all of them has to be compared with."""

from collections.abc import Sequence
from pathlib import Path

import evalkit
from contestants import Answer, Call

OF_THE_TRUTH = ("read", "build", "train")


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """As many calls of `evalkit.evaluate` as there are models.

    `parts` in the notes is the truth of one call and the rest of each.
    """
    truth = str(log / "truth" / "*.parquet")
    models = sorted((log / "rankings").iterdir(), key=lambda each: (len(each.name), each.name))

    def call() -> Answer:
        values: dict[str, float] = {}
        truths, others = [], []
        for folder in models:
            rankings = {folder.name: str(folder / "*.parquet")}
            report = evalkit.evaluate(truth, rankings, metrics=labels, threads=threads)
            values |= {f"{folder.name}: {label}": report.value(label) for label in labels}
            stages = report.meta.stages
            truths.append(sum(stages.get(stage, 0.0) for stage in OF_THE_TRUTH))
            others.append(report.meta.seconds - truths[-1])
        return Answer(values, {"parts": sum(truths) / len(truths) + sum(others)})

    return call
