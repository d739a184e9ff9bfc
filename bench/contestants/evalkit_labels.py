"""evalkit's metrics of labels, in a process that has its kernels loaded."""

from collections.abc import Sequence
from pathlib import Path

from labels import METRICS

import evalkit
from contestants import Answer, Call
from contestants.evalkit_call import notes_of
from harness import digest_report


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`evalkit.evaluate_labels` on the log that `labels.py` makes, with its metrics."""

    def call() -> Answer:
        rows = str(log / "labels.parquet")
        report = evalkit.evaluate_labels(rows, metrics=METRICS, threads=threads)
        values = {each.metric: each.value for each in report.estimates}
        return Answer(values, notes_of(report), lambda: digest_report(report.to_json()))

    return call
