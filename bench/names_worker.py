"""What one library says of each log by each of its names; run by names.py in its environment.

    python names_worker.py LIBRARY LOGS SOURCE

LOGS is a folder of JSON files: truth (user, item, relevance), run (user, items with scores, the
best first), other (lists of another model), train, items (genres, provider, vector). SOURCE is a
clone, where the library has no package. Prints JSON: name, how evalkit is asked, log, mean and
values of users, or the error.
"""

import inspect
import json
import logging
import math
import subprocess
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

CUTOFFS = (1, 3, 10)
GENRES = ("action", "comedy", "drama", "horror", "war")
Call: TypeAlias = Callable[[], Any]  # the mean, values by user, or both
Calls: TypeAlias = Iterator[tuple[str, str, Call]]  # name, how evalkit is asked
Rows: TypeAlias = dict[int, list[int]]  # items by user


class Log:
    """One log; ids are whole numbers."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.truth = {int(u): {int(i): x for i, x in r.items()} for u, r in raw["truth"].items()}
        self.run = {int(u): [(i, x) for i, x in row] for u, row in raw["run"].items()}
        self.other: Rows = {int(u): row for u, row in raw["other"].items()}
        self.train: Rows = {int(u): row for u, row in raw["train"].items()}
        self.items = {row["item"]: row for row in raw["items"]}
        wanted = {u: [i for i, x in row.items() if x > 0] for u, row in self.truth.items()}
        self.relevant: Rows = {user: own for user, own in wanted.items() if own}
        self.shown: Rows = {u: [item for item, _ in row] for u, row in self.run.items()}
        self.popular = Counter(item for row in self.train.values() for item in row)
        self.vectors = {item: row["vector"] for item, row in self.items.items()}
        self.genres = {i: [g in row["genres"] for g in GENRES] for i, row in self.items.items()}
        self.qrels = {str(u): {str(i): x for i, x in r.items()} for u, r in self.truth.items()}
        self.scores = {str(u): {str(i): x for i, x in row} for u, row in self.run.items()}

    def first(self, k: int, users: Any = None) -> list[list[int]]:
        """The first items of every list, or of those of some users."""
        return [self.shown.get(u, [])[:k] for u in (self.shown if users is None else users)]


def at_cutoffs(names: str, call: Callable[..., Any], form: str = "{}@{}") -> Calls:
    """Names at each cutoff, of what is called with both."""
    for name in names.split():
        for k in CUTOFFS:
            yield name, form.format(name, k), partial(call, name, k)


def whole(names: str, call: Callable[..., Any], *more: Any) -> Calls:
    """Names without a cutoff."""
    for name in names.split():
        yield name, name, partial(call, name, *more)


def frame(rows: Rows, *columns: str) -> Any:
    """A table of pandas with as many of user, item and rank as there are columns."""
    import pandas as pd

    flat = [(u, i, rank) for u, row in rows.items() for rank, i in enumerate(row, 1)]
    return pd.DataFrame([row[: len(columns)] for row in flat], columns=[*columns])


def scored(log: Log, *columns: str) -> Any:
    """The lists as a table of pandas: user, item, score."""
    import pandas as pd

    rows = [(u, i, x) for u, row in log.run.items() for i, x in row]
    return pd.DataFrame(rows, columns=[*columns])


def ranx(log: Log) -> Calls:
    from ranx import Qrels, Run, evaluate

    def call(name: str, k: int = 0) -> Any:
        run, asked = Run(log.scores), f"{name}@{k}" if k else name
        mean = evaluate(Qrels(log.qrels), run, [asked], make_comparable=True)
        return float(mean), dict(run.scores[asked])

    names = "dcg dcg_burges f1 hit_rate hits map mrr ndcg ndcg_burges precision recall"
    yield from at_cutoffs(names, call)
    yield from whole(f"{names} bpref r-precision", call)
    for asked in ("rbp.80", "rbp.95"):
        yield "rbp", asked, partial(call, asked)


TREC_AT = "P recall ndcg_cut map_cut success relative_P unj"
TREC = """11pt_avg Rprec bpref dcg gm_bpref gm_map ideal_dcg infAP map ndcg rbp rbp_resid recip_rank
    set_F set_P set_map set_recall set_relative_P utility yaap"""
POINTS = ("0.00", "0.30", "0.80")


def pytrec_eval(log: Log) -> Calls:
    import pytrec_eval as peer

    def call(name: str, at: Any = "") -> Any:
        found = f"{name}_{at}" if at else name
        asked = f"{name}.{at}" if at else name
        values = peer.RelevanceEvaluator(log.qrels, {asked}).evaluate(log.scores)
        users = {user: row[found] for user, row in values.items()}
        mean = peer.compute_aggregated_measure(found, list(users.values()))
        return mean, {} if name.startswith("gm_") else users

    yield from at_cutoffs(TREC_AT, call, "{}_{}")
    yield from whole(TREC, call)
    for point in POINTS:
        name = "iprec_at_recall"
        yield name, f"{name}_{point}", partial(call, name, point)


def trec_eval_10(log: Log) -> Calls:
    """The C program, with all digits."""
    program = SOURCE / "trec_eval"
    if not program.exists():
        for file in SOURCE.glob("*.c"):
            file.write_text(file.read_text(errors="replace").replace("%6.4f", "%.17g"))
        subprocess.run(["make", "-C", str(SOURCE)], check=True, capture_output=True)
    rows = [(u, i, x) for u, row in log.truth.items() for i, x in row.items()]
    shown = [(u, i, x) for u, row in log.run.items() for i, x in row]
    (SOURCE / "qrels").write_text("".join(f"{u} 0 {i} {x}\n" for u, i, x in rows))
    (SOURCE / "run").write_text("".join(f"{u} Q0 {i} 0 {x!r} run\n" for u, i, x in shown))

    def stop() -> None:
        raise ValueError("without -c the program stops at a judged user without a ranking")

    for name in f"{TREC_AT} {TREC} iprec_at_recall".split():
        asked = f"{name}.1,3,10" if name in TREC_AT.split() else name
        command = [str(program), "-q", "-m", asked, "qrels", "run"]
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True)
        found: dict[str, dict[str, float]] = {}
        for line in done.stdout.splitlines():
            label, user, value = line.split()
            found.setdefault(label, {})[user] = float(value)
        for label, users in found.items():
            if name != "iprec_at_recall" or label.endswith(POINTS):
                mean = users.pop("all", None)
                given = mean, {} if "gm_" in name else users
                yield name, label, stop if mean is None else partial(tuple, given)


def ir_measures(log: Log) -> Calls:
    import ir_measures as peer

    by_genre = [
        peer.Qrel(str(u), str(i), 1, genre)
        for u, row in log.relevant.items()
        for i in row
        if log.items
        for genre in log.items[i]["genres"]
    ]

    def call(text: str, k: int = 0, qrels: Any = log.qrels) -> Any:
        measure = peer.parse_measure(f"{text}@{k}" if k else text)
        mean, users = peer.calc([measure], qrels, log.scores)
        return mean[measure], {each.query_id: each.value for each in users}

    both = "AP MAP RR MRR nDCG NDCG Accuracy"
    yield from at_cutoffs(f"{both} P Precision R Recall Success Judged ERR", call)
    yield from whole(
        f"{both} Rprec RPrec Bpref BPref infAP SetAP SetF SetP SetR SetRelP Compat", call
    )
    for point in POINTS:
        yield "IPrec", f"IPrec(recall={float(point)})", partial(call, f"IPrec@{point}")
    yield "RBP", "RBP", partial(call, "RBP(rel=1)")
    for name in ("INST", "INSQ", "NERR10", "NERR11"):
        yield name, f"{name}(max_relevance=3)", partial(call, f"{name}(max_rel=3)")
    for name in ("BPM", "SDCG", "NERR8", "NERR9"):
        for k in CUTOFFS:
            yield name, f"{name}(max_relevance=3)@{k}", partial(call, f"{name}(max_rel=3)", k)
    yield from whole("AP_IA MAP_IA NRBP nNRBP", call, 0, by_genre)
    of_genres = "P_IA ERR_IA nERR_IA StRecall alpha_DCG alpha_nDCG α_DCG α_nDCG"
    yield from at_cutoffs(of_genres, partial(call, qrels=by_genre))


def rectools(log: Log) -> Calls:
    import pandas as pd
    import rectools.metrics as peer

    ids = "user_id", "item_id"
    given = {
        "reco": frame(log.shown, *ids, "rank"),
        "interactions": frame(log.relevant, *ids),
        "prev_interactions": frame(log.train, *ids),
        "catalog": list(log.items) or list({i for row in log.shown.values() for i in row}),
        "ref_reco": frame(log.other, *ids, "rank"),
    }

    def call(name: str, k: int) -> Any:
        more: dict[str, Any] = {"ref_k": None} if name == "Intersection" else {}
        if name == "IntraListDiversity":
            vectors = pd.DataFrame(log.vectors).T
            more = {"distance_calculator": peer.PairwiseHammingDistanceCalculator(vectors)}
        metric = getattr(peer, name)(k=k, **more)
        found = []
        for function in filter(None, (metric.calc, getattr(metric, "calc_per_user", None))):
            asked = [each for each in given if each in inspect.signature(function).parameters]
            found.append(function(**{each: given[each] for each in asked}))
        return float(found[0]), dict(found[1].items()) if found[1:] else {}

    yield from at_cutoffs(
        """AvgRecPopularity CatalogCoverage CoveredUsers F1Beta HitRate Intersection MAP MRR
        IntraListDiversity MeanInvUserFreq NDCG PAP PartialAUC Precision Recall Serendipity
        SufficientReco UnrepeatedReco""",
        call,
    )
    yield from at_cutoffs("Accuracy MCC", call, "{}(candidates=30)@{}")


def replay(log: Log) -> Calls:
    import polars as pl
    import replay.metrics as peer

    def table(rows: dict[int, Any], *columns: str) -> Any:
        cells = [(user, *each) for user, row in rows.items() for each in row]
        return pl.DataFrame(cells, schema=["query_id", *columns], orient="row")

    def single(rows: Rows) -> Any:
        return table({user: [(i,) for i in row] for user, row in rows.items()}, "item_id")

    other = {u: [(i, -float(at)) for at, i in enumerate(row)] for u, row in log.other.items()}
    provider = {i: row["provider"] for i, row in log.items.items()}
    of = {
        "CategoricalDiversity": [
            table(
                {u: [(provider.get(i), x) for i, x in row] for u, row in log.run.items()},
                "category_id",
                "rating",
            )
        ]
    }
    recs = table(log.run, "item_id", "rating")
    of |= {name: [recs, single(log.train)] for name in ("Coverage", "Novelty", "Surprisal")}
    of["Unexpectedness"] = [recs, table(other, "item_id", "rating")]

    def call(name: str, k: int) -> Any:
        tables, kind = of.get(name, [recs, single(log.relevant)]), getattr(peer, name)
        (mean,) = kind(k)(*tables).values()
        if name == "Coverage":
            return mean
        (users,) = kind(k, mode=peer.PerUser())(*tables).values()
        return mean, users

    yield from at_cutoffs(
        """CategoricalDiversity Coverage HitRate MAP MRR NDCG Novelty Precision Recall RocAuc
        Surprisal Unexpectedness""",
        call,
    )


def recommenders(log: Log) -> Calls:
    import numpy as np
    import pandas as pd
    from recommenders.evaluation import python_evaluation as peer

    ids = "userID", "itemID"
    true, shown = frame(log.relevant, *ids).assign(rating=1.0), scored(log, *ids, "prediction")
    vectors = [(item, np.array(row)) for item, row in log.vectors.items()]
    features = pd.DataFrame(vectors, columns=["itemID", "features"])

    def of_lists(name: str, k: int) -> Any:
        more: dict[str, Any] = {}
        if name in ("diversity", "serendipity"):
            more = {"item_feature_df": features, "item_sim_measure": "item_feature_vector"}
        top = shown.groupby("userID", sort=False).head(k)
        return getattr(peer, name)(frame(log.train, *ids), top, **more)

    yield from at_cutoffs(
        "precision_at_k recall_at_k r_precision_at_k map map_at_k ndcg_at_k",
        lambda name, k: getattr(peer, name)(true, shown, k=k),
    )
    yield from at_cutoffs(
        "catalog_coverage distributional_coverage novelty diversity serendipity", of_lists
    )


def sklearn(log: Log) -> Calls:
    import numpy as np
    import sklearn.metrics as peer

    def call(name: str, k: int | None) -> Any:
        found = {}
        for user, rows in log.run.items():
            if user in log.truth and rows:
                gains = np.array([[log.truth[user].get(item, 0) for item, _ in rows]])
                scores = np.array([[score for _, score in rows]])
                found[user] = getattr(peer, name)(gains, scores, k=k)
        return found

    yield from at_cutoffs("dcg_score ndcg_score", call)
    yield from whole("dcg_score ndcg_score", call, None)


def torchmetrics(log: Log) -> Calls:
    import torch
    import torchmetrics.functional.retrieval as functional
    import torchmetrics.retrieval as peer

    users = {
        user: (
            torch.tensor([x for _, x in row], dtype=torch.float32),
            torch.tensor([log.truth[user].get(item, 0) for item, _ in row]),
        )
        for user, row in log.run.items()
        if user in log.truth and row
    }

    def call(name: str, k: int | None = None) -> Any:
        at = {} if k is None else {"top_k": k}
        is_graded = "dcg" in name.lower()
        given = {u: (x, y if is_graded else (y > 0).int()) for u, (x, y) in users.items()}
        if name.startswith("retrieval"):
            return {u: float(getattr(functional, name)(*row, **at)) for u, row in given.items()}
        metric = getattr(peer, name)(**at)
        for place, row in enumerate(given.values()):
            metric.update(*row, indexes=torch.full((len(row[0]),), place))
        return float(metric.compute())

    names = """RetrievalAUROC RetrievalFallOut RetrievalHitRate RetrievalMAP RetrievalMRR
        RetrievalNormalizedDCG RetrievalPrecision RetrievalRecall retrieval_auroc
        retrieval_fall_out retrieval_hit_rate retrieval_average_precision retrieval_recall
        retrieval_reciprocal_rank retrieval_normalized_dcg retrieval_precision"""
    yield from at_cutoffs(names, call)
    yield from whole(f"{names} RetrievalRPrecision retrieval_r_precision", call)


def cornac(log: Log) -> Calls:
    import cornac.metrics as peer
    import numpy as np

    def call(name: str, *k: int) -> Any:
        metric, found = getattr(peer, name)(*k), {}
        for user, own in log.relevant.items():
            if user in log.run:
                items = np.array(log.shown[user])
                scores = np.array([score for _, score in log.run[user]])
                lists = {"pd_rank": items, "item_indices": items, "pd_scores": scores}
                found[user] = metric.compute(gt_pos=np.array(own), **lists)
        return found

    names = "FMeasure HitRatio NCRR NDCG Precision Recall"
    yield from at_cutoffs(names, call)
    yield from whole(f"{names} MAP MRR", call)


def recmetrics(log: Log) -> Calls:
    import pandas as pd
    from recmetrics import metrics as peer

    actual = list(log.relevant.values())
    calls: dict[str, Callable[[int], Any]] = {
        "intra_list_similarity": lambda k: peer.intra_list_similarity(
            log.first(k), pd.DataFrame(log.vectors).T
        ),
        "mark": lambda k: peer.mark(actual, log.first(k, log.relevant), k),
        "novelty": lambda k: peer.novelty(log.first(k), dict(log.popular), len(log.train), k)[0],
        "personalization": lambda k: peer.personalization(log.first(k)),
        "prediction_coverage": lambda k: peer.prediction_coverage(log.first(k), list(log.items)),
        "recommender_precision": lambda k: peer.recommender_precision(
            log.first(k, log.relevant), actual
        ),
        "recommender_recall": lambda k: peer.recommender_recall(log.first(k, log.relevant), actual),
    }
    yield from at_cutoffs(" ".join(calls), lambda name, k: calls[name](k))


def rs_metrics(log: Log) -> Calls:
    from rs_metrics import metrics as peer

    aspects = [{i for i, row in log.items.items() if genre in row["genres"]} for genre in GENRES]
    train = frame(log.train, "user_id", "item_id")
    of = {"coverage": list(log.items), "popularity": train, "surprisal": train}
    yield from at_cutoffs(
        "coverage popularity surprisal", lambda name, k: getattr(peer, name)(of[name], log.shown, k)
    )
    yield from at_cutoffs(
        "hitrate mapr mrr ndcg precision recall",
        lambda name, k: getattr(peer, name)(log.relevant, log.shown, k),
    )
    everyone = dict.fromkeys(log.relevant, aspects)
    yield from at_cutoffs(
        "a_ndcg", lambda _, k: peer.a_ndcg(log.relevant, log.shown, everyone, k=k)
    )


def rexmex(log: Log) -> Calls:
    import numpy as np
    from rexmex.metrics import coverage
    from rexmex.metrics import ranking as peer

    def call(name: str, k: int) -> Any:
        if name in ("user_coverage", "item_coverage"):
            pairs = [(user, item) for user, row in log.shown.items() for item in row[:k]]
            return getattr(coverage, name)((list(log.truth), list(log.items)), pairs)
        function = getattr(peer, name)
        if name.startswith("mean"):
            return function(list(log.relevant.values()), log.first(99, log.relevant), k)
        if name.endswith("_at_k"):
            own = {
                u: (np.array(r), np.array(log.shown.get(u, []))) for u, r in log.relevant.items()
            }
            return {user: float(function(*rows, k)) for user, rows in own.items()}
        more: dict[str, Any] = {
            "intra_list_similarity": [np.array([[0.0] * 4, *log.vectors.values()])],
            "novelty": [{item: log.popular[item] for item in log.items}, len(log.train), k],
        }
        return function(log.first(k), *more.get(name, ()))

    yield from at_cutoffs(
        """average_precision_at_k average_recall_at_k hits_at_k mean_average_precision_at_k
        mean_average_recall_at_k user_coverage item_coverage intra_list_similarity personalization
        novelty""",
        call,
    )


def recpack(log: Log) -> Calls:
    import numpy as np
    import recpack.metrics as peer
    from scipy.sparse import csr_matrix

    names = sorted({*log.truth, *log.run})

    def matrix(rows: dict[int, list[tuple[int, float]]]) -> Any:
        cells = [(names.index(u), i, x) for u, row in rows.items() for i, x in row]
        users, items, values = zip(*cells, strict=True)
        return csr_matrix((values, (users, items)), shape=(len(names), 31))

    def call(name: str, k: int) -> Any:
        metric = getattr(peer, name)(k)
        if name == "IntraListDiversityK":
            metric.fit(csr_matrix(np.array([[False] * len(GENRES), *log.genres.values()])))
        true = {user: [(item, 1.0) for item in row] for user, row in log.relevant.items()}
        metric.calculate(matrix(true), matrix(log.run))
        return float(metric.value)

    yield from at_cutoffs(
        """CalibratedRecallK CoverageK DCGK DiscountedGainK HitK IntraListDiversityK NDCGK
        PrecisionK RecallK ReciprocalRankK""",
        call,
    )


def jurity(log: Log) -> Calls:
    import pandas as pd
    from jurity.recommenders import DiversityRecoMetrics as peer

    shown = scored(log, "user_id", "item_id", "clicks")
    rows = [(item, *row) for item, row in log.vectors.items()]
    vectors = pd.DataFrame(rows, columns=["item_id", *"abcd"])

    def call(name: str, k: int) -> Any:
        more: dict[str, Any] = {"item_features": vectors} if name.startswith("Intra") else {}
        more |= {"click_column": "clicks", "user_sample_size": None, "num_runs": 1}
        return float(getattr(peer, name)(k=k, **more).get_score(shown, shown))

    yield from at_cutoffs("InterListDiversity IntraListDiversity", call)


def beir(log: Log) -> Calls:
    """Its file of metrics alone; the package imports PyTorch."""
    (place,) = Path(sys.prefix).glob("lib/*/site-packages/beir/retrieval")
    sys.path.insert(0, str(place))
    import custom_metrics as peer  # type: ignore[import-not-found]

    def call(name: str, k: int) -> Any:
        (value,) = getattr(peer, name)(log.qrels, log.scores, [k]).values()
        return value

    yield from at_cutoffs("mrr recall_cap top_k_accuracy", call)


def spark(log: Log) -> Calls:
    from pyspark import SparkContext
    from pyspark.mllib.evaluation import RankingMetrics

    context = SparkContext.getOrCreate()
    context.setLogLevel("OFF")
    pairs = [(log.shown.get(u, []), own) for u, own in log.relevant.items()]
    metrics = RankingMetrics(context.parallelize(pairs, 1))
    yield from whole("meanAveragePrecision", partial(getattr, metrics))
    yield from at_cutoffs(
        "meanAveragePrecisionAt ndcgAt precisionAt recallAt",
        lambda name, k: getattr(metrics, name)(k),
    )


def recbole(log: Log) -> Calls:
    """Its evaluator's classes; lists are a rectangle, short ones padded with misses."""
    import numpy
    import torch
    from recbole.evaluator import metrics as peer

    vars(numpy)["float"] = float  # which it asks NumPy for
    width, of_lists = max(CUTOFFS), "AveragePopularity GiniIndex ItemCoverage ShannonEntropy"
    hits = [[int(i in own) for i in log.shown.get(u, [])] for u, own in log.relevant.items()]
    sizes = [len(own) for own in log.relevant.values()]
    rows = [[*(row + [0] * width)[:width], n] for row, n in zip(hits, sizes, strict=True)]
    given = {"data.num_items": len(log.items) + 1, "data.count_items": log.popular}

    def call(name: str, k: int) -> Any:
        is_of_lists = name in of_lists or name == "TailPercentage"
        part = {"rec.items": log.first(width)} if is_of_lists else {"rec.topk": rows}
        (key, cells), *_ = part.items()
        config = {"topk": [k, width], "metric_decimal_place": 16, "tail_ratio": 0.1}
        data = {**given, key: torch.tensor(cells)}
        return float(getattr(peer, name)(config).calculate_metric(data)[f"{name.lower()}@{k}"])

    yield from at_cutoffs(f"Hit MAP MRR NDCG Precision Recall TailPercentage {of_lists}", call)


def elliot(log: Log) -> Calls:
    """Its metric classes, with what they ask of its data set."""
    import numpy as np

    quiet: Any = types.ModuleType("elliot.utils")  # its own imports recommenders
    quiet.logging = types.SimpleNamespace(get_logger=lambda *_: logging.getLogger())
    sys.modules["elliot.utils"] = quiet
    from elliot.evaluation import metrics as peer
    from elliot.evaluation.popularity_utils.popularity import Popularity
    from elliot.evaluation.relevance.relevance import Relevance

    order = list(log.popular)
    cells = np.array([[i in row for i in order] for row in log.train.values()], float)
    data = types.SimpleNamespace(
        train_dict={user: dict.fromkeys(row, 1) for user, row in log.train.items()},
        items=order,
        private_items=dict(enumerate(order)),
        sp_i_train=np.asmatrix(cells),
        transactions=int(cells.sum()),
    )
    (SOURCE / "genres").write_text(
        "".join(
            "\t".join([str(i), *map(str, np.flatnonzero(row))]) + "\n"
            for i, row in log.genres.items()
        )
    )
    (SOURCE / "groups").write_text(
        "".join(f"{i}\t{row['provider'][1:]}\n" for i, row in log.items.items())
    )
    names = {"clustering_name": "p", "item_clustering_name": "p", "feature_data": SOURCE / "genres"}
    more = {
        **names,
        "clustering_file": SOURCE / "groups",
        "item_clustering_file": SOURCE / "groups",
    }
    shown = {user: row for user, row in log.run.items() if log.truth.get(user)}
    config = types.SimpleNamespace(config_test=True)

    def call(name: str, k: int) -> Any:
        about = {"relevance": Relevance(log.truth, 1), "pop": Popularity(data), "data": data}
        given = types.SimpleNamespace(num_items=len(order), cutoff=k, **about)
        kind = peer.parse_metric(name)
        wants = len(inspect.signature(kind.__init__).parameters) > 5
        found = kind(shown, config, None, given, *([more] if wants else [])).get()
        metric = next((each for each in found if "ToBeRanked" not in each.name()), found[0])
        users = metric.eval_user_metric() if hasattr(metric, "eval_user_metric") else {}
        return float(metric.eval()), users

    yield from at_cutoffs(
        """ACLT APLT ARP DSC EFD EPC ExtendedEFD ExtendedEPC ExtendedPopREO ExtendedPopRSP F1
        Gini HR ItemCoverage ItemMADranking LAUC MAP MAR MRR NumRetrieved PopREO PopRSP Precision
        REO RSP Recall SEntropy SRecall UserCoverage UserCoverageAtN nDCG nDCGRendle2020""",
        call,
    )
    yield from whole("GAUC", call, 1000)
    form = "{}(by='provider', group='p0')@{}"
    yield from at_cutoffs("BiasDisparityBD BiasDisparityBR BiasDisparityBS", call, form)


def evidently(log: Log) -> Calls:
    """Its current metrics, which wrap the older ones."""
    from evidently import DataDefinition, Dataset, Recsys, Report
    from evidently import metrics as peer

    shown = scored(log, "user_id", "item_id", "prediction")
    pairs = zip(shown["user_id"], shown["item_id"], strict=True)
    shown = shown.assign(target=[log.truth.get(user, {}).get(item, 0) for user, item in pairs])
    train = frame(log.train, "user_id", "item_id").assign(prediction=1.0, target=1)
    for place, name in enumerate("abcd"):
        for table in (shown, train):
            table[name] = [log.vectors[item][place] for item in table["item_id"]]
    definition = DataDefinition(ranking=[Recsys()], numerical_columns=[*"abcd"])

    def call(name: str, k: int) -> Any:
        wraps = {"HitRateKMetric": "HitRate", "MAPKMetric": "MAP", "MRRKMetric": "MRR"}
        asked = {**wraps, "NDCGKMetric": "NDCG"}.get(name, name.removesuffix("Metric"))
        given = {"item_features": [*"abcd"]} if asked == "Diversity" else {}
        run = Report([getattr(peer, asked)(k=k, **given)]).run(
            Dataset.from_pandas(shown, data_definition=definition),
            additional_data={"current_train_data": train},
        )
        value = run.dict()["metrics"][0]["value"]
        if isinstance(value, dict):
            is_late = asked in ("MRR", "NDCG")  # whose table of ranks begins at 2
            found = dict(zip(value["rank"].values(), value["value"].values(), strict=True))
            value = found[k + is_late]
        return float(value)

    yield from at_cutoffs(
        """Diversity DiversityMetric FBetaTopK FBetaTopKMetric HitRate HitRateKMetric MAP
        MAPKMetric MRR MRRKMetric NDCG NDCGKMetric Novelty NoveltyMetric Personalization
        PersonalizationMetric PrecisionTopK PrecisionTopKMetric RecallTopK RecallTopKMetric""",
        call,
    )


def informfully(log: Log) -> Calls:
    import numpy as np

    sys.path.insert(0, str(SOURCE / "cornac" / "metrics"))
    import diversity as peer  # type: ignore[import-not-found]

    genres = {item: np.array(row, float) for item, row in log.genres.items()}
    vectors = {item: np.array(row) for item, row in log.vectors.items()}
    providers = {item: row["provider"] for item, row in log.items.items()}
    given: dict[str, list[Any]] = {
        "Alpha_NDCG": [genres],
        "ILD": [vectors],
        "Calibration": [providers, "category"],
    }

    def call(name: str, k: int) -> Any:
        metric, found = getattr(peer, name)(*given[name], k=k), {}
        for user, row in log.shown.items():
            history = np.array(log.train.get(user, []))
            found[user] = metric.compute(pd_rank=np.array(row), user_history=history)
        return {user: value for user, value in found.items() if value is not None}

    yield from at_cutoffs("Alpha_NDCG ILD Calibration", call)


def lenskit(log: Log) -> Calls:
    import lenskit.metrics as peer
    from lenskit.data import DatasetBuilder, ItemList
    from lenskit.metrics import ranking, reranking

    builder = DatasetBuilder()
    builder.add_entities("item", list(log.items))
    builder.add_interactions(
        "rating",
        frame(log.train, "user_id", "item_id"),
        entities=["user", "item"],
        missing="insert",
    )
    names = {item: row["genres"] for item, row in log.items.items()}
    builder.add_list_attribute("item", "genre", list(names), list(names.values()))
    data = builder.build()
    lists = {user: ItemList(row, ordered=True) for user, row in log.shown.items()}

    def call(name: str, k: int) -> Any:
        modules = peer, ranking, reranking
        kind = next(getattr(each, name) for each in modules if hasattr(each, name))
        if name in ("rank_biased_overlap", "least_item_promoted"):
            others = {u: ItemList(row, ordered=True) for u, row in log.other.items()}
            return {u: float(kind(others[u], own, n=k)) for u, own in lists.items()}
        given: dict[str, list[Any]] = {"MeanPopRank": [data]}
        given |= {key: [data, "genre"] for key in ("Entropy", "RankBiasedEntropy")}
        more = {"items": data} if "Gini" in name else {}
        metric = kind(*given.get(name, ()), n=k, **more) if k else kind()
        tests = {user: ItemList(log.relevant.get(user, [])) for user in lists}
        found = {user: metric.measure_list(own, tests[user]) for user, own in lists.items()}
        if "Gini" in name:
            total = metric.create_accumulator()
            for value in found.values():
                total.add(value)
            return float(total.accumulate())
        return {user: value for user, value in found.items() if value == value}

    yield from at_cutoffs(
        """AveragePrecision DCG Entropy ExposureGini Hit ListGini MeanPopRank NDCG
        Precision RBP RankBiasedEntropy Recall RecipRank least_item_promoted rank_biased_overlap""",
        call,
    )
    yield from whole("ListLength", call, 0)


def answer(call: Call) -> dict[str, Any]:
    """What a call gives, as mean and values of users."""
    try:
        given = call()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    if isinstance(given, dict):
        given = math.fsum(given.values()) / max(1, len(given)), given
    mean, users = given if isinstance(given, tuple) else (given, {})
    return {"mean": float(mean), "users": {str(u): float(x) for u, x in users.items()}}


if __name__ == "__main__":
    library, folder, SOURCE = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    sys.path.insert(0, str(SOURCE))
    warnings.simplefilter("ignore")
    answers = []
    for file in sorted(folder.iterdir()):
        for name, asked, call in globals()[library](Log(json.loads(file.read_text()))):
            answers.append({"name": name, "asked": asked, "log": file.name, **answer(call)})
    print(json.dumps(answers))
