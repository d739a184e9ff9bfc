"""ranx as its documentation says: a Qrels and a Run, made from dictionaries."""

from collections.abc import Sequence
from pathlib import Path

from ranx import Qrels, Run, evaluate

from contestants import CONTESTANTS, PEER_CUTOFF, Answer, Call
from contestants._tables import Stopwatch, read_nested

MEASURES = [f"{name}@{PEER_CUTOFF}" for name in ("ndcg", "recall", "precision", "map")]


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`evaluate(Qrels, Run, measures)`, without saving every user's values in the Run."""

    def call() -> Answer:
        clock = Stopwatch()
        truth, rankings = read_nested(log, clock)
        judged, run = Qrels(truth), Run(rankings)
        clock.stop("convert")
        means = evaluate(judged, run, MEASURES, save_results_in_run=False)
        clock.stop("metrics")
        names = CONTESTANTS["ranx_objects"].labels
        values = {name: float(means[each]) for name, each in zip(names, MEASURES, strict=True)}
        return Answer(values, {"stages": clock.stages})

    return call
