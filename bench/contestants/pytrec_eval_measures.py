"""trec_eval's C code by pytrec_eval; the mean over users is ours to take."""

from collections.abc import Sequence
from pathlib import Path

import pytrec_eval

from contestants import CONTESTANTS, PEER_CUTOFF, Answer, Call
from contestants._tables import Stopwatch, read_nested

MEASURES = tuple(f"{name}_{PEER_CUTOFF}" for name in ("ndcg_cut", "recall", "P", "map_cut"))


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """`RelevanceEvaluator.evaluate` on dictionaries."""

    def call() -> Answer:
        clock = Stopwatch()
        truth, rankings = read_nested(log, clock)
        clock.stop("convert")
        wanted = {f"{name}.{PEER_CUTOFF}" for name in ("ndcg_cut", "recall", "P", "map_cut")}
        users = pytrec_eval.RelevanceEvaluator(truth, wanted).evaluate(rankings).values()
        means = [sum(user[measure] for user in users) / len(users) for measure in MEASURES]
        clock.stop("metrics")
        names = CONTESTANTS["pytrec_eval_measures"].labels
        return Answer(dict(zip(names, means, strict=True)), {"stages": clock.stages})

    return call
