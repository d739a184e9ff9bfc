"""RecTools' calc_metrics on pandas frames, which merges truth and rankings once for all metrics."""

from collections.abc import Sequence
from pathlib import Path

from rectools.metrics import MAP, NDCG, Precision, Recall, calc_metrics

from contestants import CONTESTANTS, PEER_CUTOFF, Answer, Call
from contestants._tables import Stopwatch, read_rankings, read_truth, to_pandas


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """Four metrics in one call; nDCG against the ideal list of each user's own items."""
    wanted = [
        NDCG(k=PEER_CUTOFF, divide_by_achievable=True),
        Recall(k=PEER_CUTOFF),
        Precision(k=PEER_CUTOFF),
        MAP(k=PEER_CUTOFF),
    ]
    metrics = dict(zip(CONTESTANTS["rectools_metrics"].labels, wanted, strict=True))

    def call() -> Answer:
        clock = Stopwatch()
        truth = read_truth(log, user_id="user", item_id="item")
        rankings = read_rankings(log, user_id="user", item_id="item", rank="rank")
        clock.stop("load")
        reco, interactions = to_pandas(rankings), to_pandas(truth)
        clock.stop("convert")
        values = calc_metrics(metrics, reco=reco, interactions=interactions)
        clock.stop("metrics")
        return Answer(values, {"stages": clock.stages})

    return call
