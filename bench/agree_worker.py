"""What one library says of one log, value by value; run by agree.py in the library's environment.

    python agree_worker.py LIBRARY LOG

LOG holds truth.parquet (user, item, relevance: whole numbers) and run.parquet (user, item, score),
rows of a user from the best on. Prints JSON: metric -> mean, and user -> value where there is one.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

CUTOFFS = (1, 5, 10, 20)
Answers: TypeAlias = dict[str, dict[str, Any]]


def read(log: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    return pl.read_parquet(log / "truth.parquet"), pl.read_parquet(log / "run.parquet")


def nested(rows: pl.DataFrame, column: str, kind: type) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for user, item, value in rows.select("user", "item", column).iter_rows():
        found.setdefault(str(user), {})[str(item)] = kind(value)
    return found


def lists(log: Path) -> tuple[dict[Any, dict[Any, int]], dict[Any, list[tuple[Any, float]]]]:
    truth, run = read(log)
    judged: dict[Any, dict[Any, int]] = {}
    for user, item, relevance in truth.iter_rows():
        judged.setdefault(user, {})[item] = int(relevance)
    listed: dict[Any, list[tuple[Any, float]]] = {}
    for user, item, score in run.iter_rows():
        listed.setdefault(user, []).append((item, score))
    return judged, listed


def mean_of(values: dict[str, float]) -> dict[str, Any]:
    return {"mean": math.fsum(values.values()) / len(values), "per_user": values}


def ranx(log: Path) -> Answers:
    from ranx import Qrels, Run, evaluate

    truth, rows = read(log)
    qrels = Qrels(nested(truth, "relevance", int))
    names = {
        "hit": "hit_rate",
        "hits": "hits",
        "precision": "precision",
        "recall": "recall",
        "F1": "f1",
        "RR": "mrr",
        "AP": "map",
        "DCG": "dcg",
        "nDCG": "ndcg",
        "nDCG(gain='exp2')": "ndcg_burges",
    }
    found: Answers = {}
    for ours, theirs in names.items():
        for cutoff in CUTOFFS:
            run = Run(nested(rows, "score", float))  # anew: a call sorts it once more
            name = f"{theirs}@{cutoff}"
            mean = float(evaluate(qrels, run, [name], make_comparable=True))
            values = {user: float(value) for user, value in run.scores[name].items()}
            found[f"{ours}@{cutoff}"] = {"mean": mean, "per_user": values}
    return found


def pytrec_eval(log: Path) -> Answers:
    import pytrec_eval as peer

    truth, rows = read(log)
    at = ",".join(map(str, CUTOFFS))
    names = {
        "hit": "success",
        "precision": "P",
        "recall": "recall",
        "AP": "map_cut",
        "nDCG": "ndcg_cut",
    }
    measures = {*(f"{each}.{at}" for each in names.values()), "recip_rank", "Rprec", "ndcg", "map"}
    evaluator = peer.RelevanceEvaluator(nested(truth, "relevance", int), measures)
    values = evaluator.evaluate(nested(rows, "score", float))
    wanted = {f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in names.items() for k in CUTOFFS}
    wanted |= {"RR": "recip_rank", "R-precision": "Rprec", "nDCG": "ndcg", "AP": "map"}
    return {
        ours: mean_of({user: each[theirs] for user, each in values.items()})
        for ours, theirs in wanted.items()
    }


def ir_measures(log: Path) -> Answers:
    import ir_measures as peer

    truth, rows = read(log)
    qrels, run = nested(truth, "relevance", int), nested(rows, "score", float)
    names = {
        "hit": "Success",
        "precision": "P",
        "recall": "R",
        "AP": "AP",
        "nDCG": "nDCG",
        "RR": "RR",
    }
    found: Answers = {}
    for ours, theirs in names.items():
        for cutoff in CUTOFFS:
            measure = peer.parse_measure(f"{theirs}@{cutoff}")
            result = peer.calc([measure], qrels, run)
            values = {each.query_id: each.value for each in result[1]}
            found[f"{ours}@{cutoff}"] = {"mean": result[0][measure], "per_user": values}
    return found


def rectools(log: Path) -> Answers:
    import pandas as pd
    from rectools import Columns
    from rectools.metrics import MAP, MRR, NDCG, F1Beta, HitRate, Precision, Recall

    truth, rows = read(log)
    true = pd.DataFrame(
        {Columns.User: truth["user"].to_numpy(), Columns.Item: truth["item"].to_numpy()}
    )
    ranks = rows.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
    reco = pd.DataFrame(
        {
            Columns.User: ranks["user"].to_numpy(),
            Columns.Item: ranks["item"].to_numpy(),
            Columns.Rank: ranks["rank"].to_numpy(),
        }
    )
    makers: dict[str, Callable[[int], Any]] = {
        "hit": lambda k: HitRate(k=k),
        "precision": lambda k: Precision(k=k),
        "recall": lambda k: Recall(k=k),
        "F1": lambda k: F1Beta(k=k),
        "R-precision": lambda k: Precision(k=k, r_precision=True),
        "RR": lambda k: MRR(k=k),
        "AP": lambda k: MAP(k=k),
        "nDCG": lambda k: NDCG(k=k),
        "nDCG(idcg='all')": lambda k: NDCG(k=k, divide_by_achievable=True),
    }
    found: Answers = {}
    for ours, make in makers.items():
        for cutoff in CUTOFFS:
            values = make(cutoff).calc_per_user(reco, true)
            found[f"{ours}@{cutoff}"] = {
                "mean": float(values.mean()),
                "per_user": {str(user): float(value) for user, value in values.items()},
            }
    return found


def replay(log: Path) -> Answers:
    from replay.metrics import MAP, MRR, NDCG, HitRate, PerUser, Precision, Recall

    truth, rows = read(log)
    true = truth.select(query_id="user", item_id="item")
    reco = rows.select(query_id="user", item_id="item", rating="score")
    kinds = {
        "hit": HitRate,
        "precision": Precision,
        "recall": Recall,
        "RR": MRR,
        "AP": MAP,
        "nDCG": NDCG,
    }
    found: Answers = {}
    for ours, kind in kinds.items():
        means = kind(list(CUTOFFS))(reco, true)
        for cutoff in CUTOFFS:
            values = kind(cutoff, mode=PerUser())(reco, true)
            (name,) = values
            found[f"{ours}@{cutoff}"] = {
                "mean": float(means[name.replace("-PerUser", "")]),
                "per_user": {str(user): float(value) for user, value in values[name].items()},
            }
    return found


def recommenders(log: Path) -> Answers:
    import pandas as pd
    from recommenders.evaluation import python_evaluation as peer

    truth, rows = read(log)
    true = pd.DataFrame(
        {
            "userID": truth["user"].to_numpy(),
            "itemID": truth["item"].to_numpy(),
            "rating": truth["relevance"].cast(pl.Float64).to_numpy(),
        }
    )
    predicted = pd.DataFrame(
        {
            "userID": rows["user"].to_numpy(),
            "itemID": rows["item"].to_numpy(),
            "prediction": rows["score"].to_numpy(),
        }
    )
    functions = {
        "precision": peer.precision_at_k,
        "recall": peer.recall_at_k,
        "R-precision": peer.r_precision_at_k,
        "AP": peer.map_at_k,
        "AP(over='relevant')": peer.map,
        "nDCG": peer.ndcg_at_k,
    }
    return {
        f"{ours}@{cutoff}": {"mean": float(function(true, predicted, k=cutoff))}
        for ours, function in functions.items()
        for cutoff in CUTOFFS
    }


def sklearn(log: Path) -> Answers:
    import numpy as np
    from sklearn.metrics import dcg_score, ndcg_score

    judged, listed = lists(log)
    found: Answers = {}
    for ours, function in (("nDCG", ndcg_score), ("DCG", dcg_score)):
        for cutoff in CUTOFFS:
            values = {}
            for user, rows in listed.items():
                if user not in judged:
                    continue
                gains = np.array([[judged[user].get(item, 0) for item, _ in rows]])
                scores = np.array([[score for _, score in rows]])
                if gains.shape[1] > 1:
                    values[str(user)] = float(function(gains, scores, k=cutoff))
            found[f"{ours}@{cutoff}"] = mean_of(values)
    return found


def torchmetrics(log: Path) -> Answers:
    import torch
    import torchmetrics.retrieval as peer

    judged, listed = lists(log)
    shown = [(u, i, s) for u, rows in listed.items() if u in judged for i, s in rows]
    users = {user: n for n, user in enumerate(dict.fromkeys(u for u, _, _ in shown))}
    preds = torch.tensor([s for _, _, s in shown], dtype=torch.float32)
    target = torch.tensor([judged[u].get(i, 0) for u, i, _ in shown])
    indexes = torch.tensor([users[u] for u, _, _ in shown])
    names = {
        "hit": peer.RetrievalHitRate,
        "precision": peer.RetrievalPrecision,
        "recall": peer.RetrievalRecall,
        "RR": peer.RetrievalMRR,
        "AP": peer.RetrievalMAP,
        "nDCG(gain='linear')": peer.RetrievalNormalizedDCG,
    }
    found: Answers = {}
    for ours, kind in names.items():
        for cutoff in CUTOFFS:
            metric = kind(top_k=cutoff)
            gains = target if "nDCG" in ours else (target > 0).int()
            metric.update(preds, gains, indexes=indexes)
            found[f"{ours}@{cutoff}"] = {"mean": float(metric.compute())}
    return found


LIBRARIES = {
    each.__name__: each
    for each in (
        ranx,
        pytrec_eval,
        ir_measures,
        rectools,
        replay,
        recommenders,
        sklearn,
        torchmetrics,
    )
}

if __name__ == "__main__":
    json.dump(LIBRARIES[sys.argv[1]](Path(sys.argv[2])), sys.stdout)
