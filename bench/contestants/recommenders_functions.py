"""The evaluation functions of Microsoft's recommenders on pandas frames."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from recommenders.evaluation import python_evaluation

from contestants import CONTESTANTS, PEER_CUTOFF, Answer, Call
from contestants._tables import SCORE, Stopwatch, read_rankings, read_truth, to_pandas

FUNCTIONS = (
    python_evaluation.ndcg_at_k,
    python_evaluation.recall_at_k,
    python_evaluation.precision_at_k,
    python_evaluation.map_at_k,
)


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """One function a metric; the join that three of them share is cached by the library.

    That cache is emptied first: it would know the frames of the round before.
    """

    def call() -> Answer:
        python_evaluation.merge_ranking_true_pred.cache_clear()
        clock = Stopwatch()
        rating = pl.col("relevance").cast(pl.Float64)
        truth = read_truth(log, userID="user", itemID="item", rating=rating)
        rankings = read_rankings(log, userID="user", itemID="item", prediction=SCORE)
        clock.stop("load")
        true, predicted = to_pandas(truth), to_pandas(rankings)
        clock.stop("convert")
        values = [float(each(true, predicted, k=PEER_CUTOFF)) for each in FUNCTIONS]
        clock.stop("metrics")
        names = CONTESTANTS["recommenders_functions"].labels
        return Answer(dict(zip(names, values, strict=True)), {"stages": clock.stages})

    return call
