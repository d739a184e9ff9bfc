"""What libraries printed of lists is given back by metrics with parameters."""

import json
import math
import re

import pytest
from list_worlds import build, load, measure

LIBRARIES = (
    "elliot", "evidently", "fair_trec", "informfully", "ir_measures", "jurity", "lenskit",
    "overlap", "recbole", "recmetrics", "recommenders", "recpack", "rectools", "replay", "rexmex",
    "rs_metrics",
)  # fmt: skip
FLOAT32 = {("lenskit", "genre_entropy"), ("lenskit", "ils")}
NOT_ASKED = {
    "ap_ia", "precision_ia", "nrbp", "nnrbp", "rho", "binomial", "genre_gini",
    "least_item_promoted", "group_attention", "group_exposure",
}  # fmt: skip
COSINE = {"cosine:vector": "cosine", "cosine:genres": "cosine_genres", "vector": "cosine"}

MISSING = {"ir_measures": 0.0, ("recpack", "ild"): 0.0, ("replay", "unseen_share"): 1.0}  # no list
LEFT = {  # what is not given back: library, metric, fixtures, cutoffs, why
    ("elliot", "bias_source", ("short",), None): "users without a list are in train's share too",
    ("elliot", "bias_disparity", ("short",), None): "users without a list are in train's share too",
    ("elliot", "entropy", ("short",), None): "the mean over users of the mean over their items",
    ("evidently", "personalization", ("short",), None): "divides by k, however short a list is",
    ("informfully", "alpha_ndcg", ("unknown",), None): "items without a genre have no value",
    ("ir_measures", "alpha_dcg", None, 1): "is not normalised at rank 1",
    ("ir_measures", "err_ia", None, 1): "is not normalised at rank 1",
    ("recpack", "item_coverage", ("unknown",), None): "unknown items take no rank",
    ("rexmex", "ils", ("short",), None): "reads past the end of short lists",
    ("rs_metrics", "alpha_ndcg", ("short",), None): "one user without a list makes the mean nan",
}

# (library, metric, variant or None for any): name and parameters; a text says why there is none
WAYS = {
    ("elliot", "item_coverage", None): (
        "item_coverage",
        {"scale": "count", "catalogue": "train_open"},
    ),
    ("elliot", "list_length", None): ("list_length", {}),
    ("elliot", "user_coverage", "count"): ("user_count", {}),
    ("elliot", "user_coverage", "at_n"): ("user_count", {"full": "k"}),
    ("elliot", "gini", None): ("evenness", {"items": "train", "over": "m-1"}),
    ("elliot", "subtopic_recall", None): ("subtopic_recall", {"aspects": "train"}),
    ("elliot", "aclt", None): ("tail_count", {"head": "first"}),
    ("elliot", "aplt", None): ("tail_share", {"head": "first"}),
    ("elliot", "avg_popularity", None): ("avg_popularity", {}),
    ("elliot", "pop_rsp", "default"): ("pop_rsp", {"head": "first", "items": "train"}),
    ("elliot", "pop_reo", "default"): ("pop_reo", {"head": "first", "items": "train"}),
    ("elliot", "pop_rsp", "pop_ratio=0.5"): (
        "pop_rsp",
        {"head": "first", "ratio": 0.5, "items": "train"},
    ),
    ("elliot", "pop_reo", "pop_ratio=0.5"): (
        "pop_reo",
        {"head": "first", "ratio": 0.5, "items": "train"},
    ),
    ("elliot", "efd", None): ("EFD", {"cold": "least"}),
    ("elliot", "epc", None): ("expected_popularity_complement", {}),
    ("evidently", "ild", None): ("ild", {"pairs_den": "n", "single": "zero"}),
    ("evidently", "novelty", None): ("novelty", {"cold": "left_out"}),
    ("evidently", "personalization", None): ("personalization", {}),
    ("evidently", "avg_popularity", "default"): ("avg_popularity", {"cold": "left_out"}),
    ("evidently", "avg_popularity", "normalize_arp=True"): (
        "avg_popularity",
        {"cold": "left_out", "scale": "most"},
    ),
    ("evidently", "item_coverage", None): ("item_coverage", {"catalogue": "train"}),
    ("evidently", "gini", None): ("gini", {"items": "shown", "over": "m-1"}),
    ("informfully", "alpha_ndcg", None): ("alpha_ndcg", {"aspects": "history", "ideal": "own"}),
    ("informfully", "ild", "cosine:vector"): ("ild", {"zero_vector": "nan", "single": "zero"}),
    ("informfully", "ild", "jaccard:genres"): ("ild", {"distance": "jaccard", "single": "zero"}),
    ("informfully", "ild", "euclidean:vector"): "not asked",
    ("informfully", "eild", None): "relevance is ignored, and the next item is discounted twice",
    ("ir_measures", "alpha_ndcg", "default"): ("alpha_ndcg", {}),
    ("ir_measures", "alpha_ndcg", "alpha=0.9"): ("alpha_ndcg", {"alpha": 0.9}),
    ("ir_measures", "alpha_ndcg", "pyndeval"): ("alpha_ndcg", {}),
    ("ir_measures", "alpha_dcg", None): ("alpha_ndcg", {"ideal": "every"}),
    ("ir_measures", "err_ia", None): ("err_ia", {"norm": "every"}),
    ("ir_measures", "nerr_ia", None): ("nerr_ia", {}),
    ("ir_measures", "subtopic_recall", None): ("subtopic_recall", {}),
    ("jurity", "personalization", None): ("personalization", {}),
    ("jurity", "ild", "cosine:vector"): ("ild", {}),
    ("jurity", "ild", "cosine:genres"): ("ild", {"distance": "cosine_genres"}),
    ("lenskit", "ils", "genres"): ("ils", {"distance": "cosine_genres", "single": "zero"}),
    ("lenskit", "ils", "vector"): ("ils", {"single": "zero"}),
    ("lenskit", "genre_entropy", "default"): ("genre_entropy", {"smoothing": 1e-6}),
    ("lenskit", "genre_entropy", "rank_biased"): (
        "genre_entropy",
        {"weighting": "geometric", "smoothing": 1e-6},
    ),
    ("lenskit", "genre_entropy", "rank_biased:log"): (
        "genre_entropy",
        {"weighting": "log2", "smoothing": 1e-6},
    ),
    ("lenskit", "popularity_quantile", None): ("popularity_quantile", {}),
    ("lenskit", "gini", None): ("gini", {}),
    ("lenskit", "gini_exposure", "geometric=0.85"): ("gini_exposure", {"attention": "geometric"}),
    ("lenskit", "gini_exposure", "geometric=0.5"): (
        "gini_exposure",
        {"attention": "geometric", "patience": 0.5},
    ),
    ("lenskit", "gini_exposure", "log2(i+1)"): ("gini_exposure", {}),
    ("lenskit", "rbo", "p=0.85"): ("rbo", {"p": 0.85, "tail": "normalized"}),
    ("lenskit", "rbo", "p=0.5"): ("rbo", {"p": 0.5, "tail": "normalized"}),
    ("overlap", "rbo", "rbo:p=0.9"): ("rbo", {"tail": "prefix"}),
    ("overlap", "rbo", "rbo_ext:p=0.9"): ("rbo", {}),
    ("overlap", "rbo", "rbo:p=0.5"): ("rbo", {"tail": "prefix", "p": 0.5}),
    ("overlap", "rbo", "rbo_ext:p=0.5"): ("rbo", {"p": 0.5}),
    ("overlap", "rbo", "average_overlap"): ("rbo", {"tail": "average"}),
    ("overlap", "tau", None): ("kendall_tau", {}),
    ("recbole", "item_coverage", None): ("item_coverage", {"catalogue": "items_and_one"}),
    ("recbole", "avg_popularity", None): ("avg_popularity", {}),
    ("recbole", "entropy", None): (
        "entropy",
        {"log_base": "e", "scale": "per_item", "items": "shown"},
    ),
    ("recbole", "gini", None): ("gini", {"items": "catalogue_and_one"}),
    ("recbole", "tail_share", "tail_ratio=0.1"): ("tail_share", {"head": "items", "ratio": 0.1}),
    ("recbole", "tail_share", "tail_ratio=0.2"): ("tail_share", {"head": "items", "ratio": 0.2}),
    ("recbole", "tail_share", "tail_ratio=3"): ("tail_share", {"head": "count", "ratio": 3.0}),
    ("recmetrics", "novelty", "default"): ("novelty", {"den": "k"}),
    ("recmetrics", "novelty", "warm"): ("novelty", {"den": "k", "cold": "zero"}),
    ("recmetrics", "item_coverage", None): (
        "item_coverage",
        {"catalogue": "items_open", "scale": "percent", "decimals": 2.0},
    ),
    ("recmetrics", "personalization", None): ("personalization", {}),
    ("recmetrics", "ils", "vector"): ("ils", {}),
    ("recmetrics", "ils", "genres"): ("ils", {"distance": "cosine_genres"}),
    ("recommenders", "item_coverage", None): ("item_coverage", {"catalogue": "train_open"}),
    ("recommenders", "entropy", None): ("entropy", {"items": "shown"}),
    ("recommenders", "novelty", None): (
        "novelty_of_rows",
        {"pop_of": "interactions", "cold": "zero"},
    ),
    ("recommenders", "ild", "cooccurrence"): "not asked",
    ("recommenders", "serendipity", "cooccurrence"): "not asked",
    ("recommenders", "serendipity", "cooccurrence:relevance"): "not asked",
    ("recommenders", "ild", "cosine:vector"): ("ild", {"unknown": "unlike"}),
    ("recommenders", "ild", "cosine:genres"): (
        "ild",
        {"unknown": "unlike", "distance": "cosine_genres"},
    ),
    ("recommenders", "serendipity", "cosine:vector:relevance"): ("serendipity", {"of": "content"}),
    ("recommenders", "serendipity", "cosine:genres:relevance"): (
        "serendipity",
        {"of": "content", "features": "genres"},
    ),
    ("elliot", "entropy", None): ("entropy", {"items": "shown"}),
    ("recpack", "item_coverage", None): ("item_coverage", {"catalogue": "items_and_one"}),
    ("recpack", "ild", None): (
        "ild",
        {"distance": "jaccard", "unknown": "no_rank", "single": "zero"},
    ),
    ("rectools", "item_coverage", "count"): (
        "item_coverage",
        {"catalogue": "items_open", "scale": "count"},
    ),
    ("rectools", "item_coverage", "normalize=True"): ("item_coverage", {"catalogue": "items_open"}),
    ("rectools", "novelty", None): ("novelty", {}),
    ("rectools", "avg_popularity", "default"): ("avg_popularity", {}),
    ("rectools", "avg_popularity", "normalize=True"): ("avg_popularity", {"scale": "interactions"}),
    ("rectools", "serendipity", None): "not asked",
    ("rectools", "list_fill", "default"): ("list_fill", {}),
    ("rectools", "list_fill", "deep=True"): ("list_fill", {"of": "items"}),
    ("rectools", "unrepeated", None): ("unrepeated", {}),
    ("rectools", "user_coverage", None): ("user_coverage", {}),
    ("rectools", "overlap", "default"): ("overlap", {"den": "n"}),
    ("rectools", "overlap", "ref_k=3"): ("overlap", {"den": "n", "ref_k": 3.0}),
    ("rectools", "ild", "hamming:vector"): ("ild", {"distance": "columns", "single": "empty"}),
    ("rectools", "ild", "hamming:genres"): (
        "ild",
        {"distance": "columns_genres", "single": "empty"},
    ),
    ("replay", "item_coverage", None): ("item_coverage", {"catalogue": "train"}),
    ("replay", "unseen_share", None): ("unseen_share", {}),
    ("replay", "novelty", None): ("novelty", {"pop_of": "scaled", "den": "k"}),
    ("replay", "unexpectedness", None): ("unexpectedness", {"reference": "model", "den": "k"}),
    ("replay", "category_count", None): (
        "category_count",
        {"by": "provider", "scale": "share", "unknown": "category"},
    ),
    ("rexmex", "user_coverage", None): ("user_coverage", {}),
    ("rexmex", "item_coverage", None): ("item_coverage", {"decimals": 3.0}),
    ("rexmex", "personalization", None): ("personalization", {}),
    ("rexmex", "ils", None): ("ils", {}),
    ("rexmex", "novelty", None): ("novelty", {"cold": "tiny", "den": "k"}),
    ("rs_metrics", "item_coverage", None): ("item_coverage", {}),
    ("rs_metrics", "novelty", None): ("novelty", {}),
    ("rs_metrics", "avg_popularity", None): ("avg_popularity", {"scale": "share"}),
    ("rs_metrics", "alpha_ndcg", "alpha=0.5"): (
        "alpha_ndcg",
        {"ideal": "ones", "penalty": "shown"},
    ),
    ("rs_metrics", "alpha_ndcg", "alpha=0.9"): (
        "alpha_ndcg",
        {"ideal": "ones", "penalty": "shown", "alpha": 0.9},
    ),
}


def way_of(library, record):
    metric, variant = record["metric"], record["variant"]
    if metric in NOT_ASKED:
        return "not asked"
    for key in ((library, metric, variant), (library, metric, None)):
        if key in WAYS:
            return WAYS[key]
    if library == "evidently" and metric == "serendipity":
        return "not asked"
    if library == "fair_trec":
        if variant.endswith("normalized"):
            return "divides by upper - lower without subtracting lower"
        stop = 0.5 if variant.startswith("gerr") else 0.0
        return metric, {"attention": "geometric", "patience": 0.5, "stop": stop}
    if library == "informfully" and metric == "calibration":
        return "the divergence and the shares are rounded"
    if library == "elliot":
        if "_mad_" in metric:
            return "groups of metrics of rankings, or of scores"
        of_group = re.fullmatch(r"(?:RSP|REO)-ProbToBeRanked_items:p-(\d+)", variant)
        if metric in ("rsp", "reo"):
            return metric, {"by": "provider", "group": of_group[1] if of_group else ""}
        of_bias = re.fullmatch(r"BiasDisparityB[RSD]_(?:users:g-(\d+))_items:p-(\d+)", variant)
        if of_bias:
            part = {
                "bias_recommendation": "list",
                "bias_source": "train",
                "bias_disparity": "disparity",
            }[metric]
            return "bias_disparity", {
                "by": "provider",
                "group": of_bias[2],
                "part": part,
                "in": int(of_bias[1]),
            }
    return None


def left(library, record):
    for (whose, metric, fixtures, cutoff), why in LEFT.items():
        is_it = (whose, metric) == (library, record["metric"])
        is_it = is_it and (fixtures is None or record["fixture"] in fixtures)
        if is_it and cutoff in (None, record["k"]):
            return why
    return None


def world_of(worlds, fixture, raw, group):
    if (fixture, group) not in worlds:
        some = dict(raw)
        if group is not None:
            users = {row["user"] for row in raw["users"] if row["group"] == group}
            some["run"] = [row for row in raw["run"] if row["user"] in users]
        worlds[fixture, group] = build(some, seed=2)
    return worlds[fixture, group]


def differences(library, folder, raws, worlds):
    wrong, counts = [], {"same": 0, "left": {}}
    for line in (folder / f"{library}.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        if "error" in record or record["mean"] is None:
            continue
        way = way_of(library, record)
        if way is None or isinstance(way, str):
            why = f"{record['metric']}|{record['variant']}: {way}"
            counts["left"][why] = counts["left"].get(why, 0) + 1
            continue
        why = left(library, record)
        if why:
            counts["left"][why] = counts["left"].get(why, 0) + 1
            continue
        name, parameters = way
        parameters = dict(parameters)
        fixture = record["fixture"]
        world = world_of(worlds, fixture, raws[fixture], parameters.pop("in", None))
        try:
            values = measure(name, world, [record["k"]], **parameters)
        except Exception as error:
            wrong.append(f"{record['metric']}|{record['variant']} {type(error).__name__} {error}")
            continue
        tolerance = 5e-7 if (library, record["metric"]) in FLOAT32 else 1e-12
        pairs = []
        theirs = record.get("per_user", {})
        if values.ndim == 2:
            users = dict(zip(map(str, world.users), values[:, 0].tolist(), strict=True))
            absent = MISSING.get(library, MISSING.get((library, record["metric"])))
            if absent is not None and record["variant"] != "pyndeval":
                lengths = zip(map(str, world.users), world.lists.lengths, strict=True)
                users.update({user: absent for user, length in lengths if length == 0})
            kept = [value for value in users.values() if not math.isnan(value)]
            mean = math.fsum(kept) / len(kept) if kept else math.nan
            pairs += [(u, float(v), users.get(u, math.nan)) for u, v in theirs.items()]
        else:
            mean = float(values[0])
        if library == "rexmex" and name == "user_coverage":
            mean = round(mean, 3)
        pairs.append(("mean", float(record["mean"]), mean))
        bad = [
            (whom, one, other)
            for whom, one, other in pairs
            if not (math.isnan(one) and math.isnan(other))
            and not abs(one - other) <= tolerance * max(1.0, abs(one))
        ]
        counts["same"] += not bad
        if bad:
            wrong.append(
                f"{record['metric']}|{record['variant']}@{record['k']} {fixture}: {bad[:1]}"
            )
    return wrong, counts


@pytest.fixture(scope="module")
def raws(shared):
    folder = shared / "conformance" / "lists"
    return {name: load(folder, name) for name in ("small", "short", "unknown", "medium")}


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_library_printed_is_given_back(shared, raws, library):
    wrong, counts = differences(library, shared / "conformance" / "lists", raws, {})

    assert wrong == []
    assert not [why for why in counts["left"] if why.endswith("None")]
