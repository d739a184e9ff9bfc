"""RePlay's OfflineMetrics on Polars frames, the fastest of the forms that it takes."""

from collections.abc import Sequence
from pathlib import Path

from replay.metrics import MAP, NDCG, OfflineMetrics, Precision, Recall

from contestants import CONTESTANTS, PEER_CUTOFF, Answer, Call
from contestants._tables import SCORE, Stopwatch, read_rankings, read_truth


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """Four metrics in one call, which shares what they have in common."""
    metrics = [each(PEER_CUTOFF) for each in (NDCG, Recall, Precision, MAP)]

    def call() -> Answer:
        clock = Stopwatch()
        truth = read_truth(log, query_id="user", item_id="item")
        rankings = read_rankings(log, query_id="user", item_id="item", rating=SCORE)
        clock.stop("load")
        means = OfflineMetrics(metrics)(rankings, truth)
        clock.stop("metrics")
        values = [means[f"{each}@{PEER_CUTOFF}"] for each in ("NDCG", "Recall", "Precision", "MAP")]
        names = CONTESTANTS["replay_metrics"].labels
        return Answer(dict(zip(names, values, strict=True)), {"stages": clock.stages})

    return call
