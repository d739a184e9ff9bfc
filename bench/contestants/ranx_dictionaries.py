"""ranx on plain dictionaries: the fastest way in, and a trap.

It pairs truth and rankings by their place in the dictionaries: the same users have to stand in
the same order in both, or the numbers are wrong without a word.
"""

from collections.abc import Sequence
from pathlib import Path

from ranx import evaluate

from contestants import CONTESTANTS, PEER_CUTOFF, Answer, Call
from contestants._tables import Stopwatch, read_nested

MEASURES = [f"{name}@{PEER_CUTOFF}" for name in ("ndcg", "recall", "precision", "map")]


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`evaluate(dict, dict, measures)`."""

    def call() -> Answer:
        clock = Stopwatch()
        truth, rankings = read_nested(log, clock)
        clock.stop("convert")
        means = evaluate(truth, rankings, MEASURES)
        clock.stop("metrics")
        names = CONTESTANTS["ranx_dictionaries"].labels
        values = {name: float(means[each]) for name, each in zip(names, MEASURES, strict=True)}
        return Answer(values, {"stages": clock.stages})

    return call
