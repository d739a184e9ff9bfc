"""What libraries compute, in plain Python, from the values of the axes on which they differ.

Written from the axes, not from evalkit: one user after the other, rows as tuples, nothing shared.
`vectors/axes.json` has the axis values that were found to reproduce each library's records.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numba.misc.quicksort import make_py_quicksort

NAN = math.nan
AXES = json.loads((Path(__file__).parent / "vectors" / "axes.json").read_text(encoding="utf-8"))

# what the file of axes leaves to the reader, by library and metric
BESIDES: dict[tuple[str, str], dict[str, Any]] = {
    ("lenskit", "rbp"): {"patience": 0.85},
    ("ranx", "rbp"): {"grades": True},  # a hit counts by its relevance
    ("lenskit", "precision"): {"empty_list": "skip"},
    ("recmetrics", "precision"): {"empty_list": "nan"},  # it raises
    ("torchmetrics", "ndcg"): {"signed": "unless the sum is 0"},
    ("evidently", "ndcg"): {"signed": True},
    ("sklearn", "dcg"): {"signed": True},
    ("sklearn", "ndcg"): {"rel_size": "rows", "signed": True},
}

Judged = Mapping[object, float]
Listed = tuple[tuple[Any, ...], tuple[float, ...]]

_SORT = make_py_quicksort(is_argsort=True).run_quicksort


def axes_of(library: str, metric: str, cutoff: int | None) -> dict[str, Any]:
    """The axis values of a library's metric."""
    said = AXES["profiles"]["pytrec_eval" if library.startswith("trec_eval") else library]
    found = {**AXES["base"], **said["all_metrics"], **said["per_metric"].get(metric, {})}
    if cutoff is not None:
        found.update(said["per_metric"].get(f"{metric}@k", {}))
    found.update(BESIDES.get((library, metric), {}))
    if library == "trec_eval_10":
        found["score_dtype"] = "f64"  # scores are double there
    return found


@dataclass(frozen=True)
class Row:
    """One row of a list that has been put in order."""

    rank: int
    item: object
    score: float
    first: int
    last: int
    place: int  # in the log


@lru_cache(1000)
def ordered(
    items: Sequence[Any], scores: Sequence[float], duplicates: str, score_dtype: str, order: str
) -> list[Row]:
    if duplicates == "last":
        kept = dict(zip(items, scores, strict=True))
        items, scores = list(kept), list(kept.values())
    compared = [float(np.float32(each)) if score_dtype == "f32" else each for each in scores]
    rows = list(range(len(items)))
    if order in ("item_desc_text", "item_asc_text"):
        rows.sort(key=lambda row: str(items[row]).encode(), reverse=order == "item_desc_text")
    elif order == "item_desc":
        rows.sort(key=lambda row: items[row], reverse=True)
    if order == "numba_twice":
        for _ in range(2):
            rows = [rows[int(at)] for at in _SORT(np.array([-compared[row] for row in rows]))]
    else:
        rows.sort(key=lambda row: -compared[row])
    found: list[Row] = []
    begin = 0
    while begin < len(rows):
        end = begin
        while end < len(rows) and compared[rows[end]] == compared[rows[begin]]:
            end += 1
        for place in range(begin, end):
            rank = (begin + 1 + end) // 2 if order == "average_floor" else place + 1
            row = rows[place]
            found.append(Row(rank, items[row], scores[row], begin + 1, end, row))
        begin = end
    return found


def discount(rank: int, axes: Mapping[str, Any]) -> float:
    if axes["discount"] == "max(log2 i,1)":
        return 1 / max(math.log2(rank), 1)
    return 1 / math.log2(rank + 1)


def gain(relevance: float, threshold: float, axes: Mapping[str, Any]) -> float:
    if not axes.get("any_gain") and relevance < threshold:
        return 0.0
    kind = axes["gain"]
    if kind == "binary":
        return float(relevance >= threshold)
    if kind == "linear":
        return relevance if axes.get("signed") else max(relevance, 0.0)
    return 2.0 ** (relevance - (threshold - 1 if kind == "exp2_shifted" else 0)) - 1


def user_value(
    metric: str, cutoff: int | None, judged: Judged, listed: Listed, threshold: float, axes: Any
) -> float:
    """The value of one user who has a list; NaN where the metric does not exist."""
    if metric == "f1":
        p = user_value("precision", cutoff, judged, listed, threshold, axes)
        r = user_value("recall", cutoff, judged, listed, threshold, axes)
        return NAN if math.isnan(p + r) else (2 * p * r / (p + r) if p + r else 0.0)
    rows = ordered(*listed, axes["duplicates"], axes["score_dtype"], axes["order"])
    whole = len(rows)
    last = whole if cutoff is None else cutoff
    shown = Counter(row.item for row in rows)
    within = Counter(row.item for row in rows if row.rank <= last)

    def sought(items: list[object]) -> list[object]:
        if axes["seen"] == "shown":
            items = [item for item in items if item in shown]
        if axes["duplicates"] == "multiply":
            return [each for each in items for _ in range(max(1, within[each] * shown[each]))]
        if axes["rel_size"] == "rows":
            return [each for each in items for _ in range(max(1, shown[each]))]
        return items

    n_relevant = len(sought([item for item, grade in judged.items() if grade >= threshold]))
    hits: list[tuple[int, int, Row]] = []  # rank, how often it hits, row
    met: set[object] = set()
    for row in rows:
        often = int(judged.get(row.item, -math.inf) >= threshold)
        if axes["drop_nonpositive_scores"] and row.score <= 0:
            often = 0
        if axes["duplicates"] == "once" and row.item in met:
            often = 0
        met.add(row.item)
        hits.append((row.rank, often, row))
    inside = [hit for hit in hits if hit[0] <= last]
    n_hits = sum(often for _, often, _ in inside)
    if metric == "hits":
        return float(n_hits)
    if metric == "hit_rate":
        return float(n_hits > 0)
    if metric == "precision":
        length = axes["precision_den"] == "length" or cutoff is None
        return n_hits / (min(last, whole) if length else last)
    if metric == "rr":
        return next((1 / rank for rank, often, _ in inside if often), 0.0)
    if metric == "rbp":
        p = axes.get("patience", 0.8)
        worth = {
            row.item: judged.get(row.item, 0.0) if axes.get("grades") else 1.0
            for _, _, row in inside
        }
        return float(
            (1 - p) * sum(often * worth[row.item] * p ** (rank - 1) for rank, often, row in inside)
        )
    if metric in ("dcg", "dcg_exp", "ndcg", "ndcg_exp", "ndcg_binary"):
        return _discounted(metric, last, cutoff, judged, hits, threshold, axes, sought)
    if n_relevant == 0:
        return NAN
    if metric == "recall":
        min_k = axes["recall_den"] == "min_k" and cutoff is not None
        return n_hits / (min(last, n_relevant) if min_k else n_relevant)
    if metric == "r_precision":
        if axes.get("r_precision") == "min(k, rel)":
            return n_hits / min(last, n_relevant)
        top = min(n_relevant, last)
        return sum(often for rank, often, _ in hits if rank <= top) / n_relevant
    assert metric == "ap"
    return _average_precision(last, cutoff, n_relevant, n_hits, hits, inside, whole, axes)


def _discounted(
    metric: str,
    last: int,
    cutoff: int | None,
    judged: Judged,
    hits: list[tuple[int, int, Row]],
    threshold: float,
    axes: Mapping[str, Any],
    sought: Any,
) -> float:
    if metric == "ndcg_binary":
        axes = {**axes, "gain": "binary"}
    shown = Counter(row.item for _, _, row in hits)
    total = 0.0
    for rank, _, row in hits:
        if row.item not in judged:
            continue
        worth = gain(judged[row.item], threshold, axes)
        if axes["order"] == "average":
            ranks = range(row.first, min(row.last, last) + 1)
            total += worth * sum(discount(at, axes) for at in ranks) / (row.last - row.first + 1)
        elif rank <= last:
            copies = shown[row.item] if axes["duplicates"] == "multiply" else 1
            total += copies * worth * discount(rank, axes)
    if metric.startswith("dcg"):
        return total
    ideal = [gain(judged[item], threshold, axes) for item in sought(list(judged))]
    if axes.get("signed") and axes["seen"] == "shown":
        ideal += [0.0] * (len(hits) - len(ideal))
    else:
        ideal = [worth for worth in ideal if worth > 0]
    ideal.sort(reverse=True)
    if axes["idcg"] == "full_k":
        ideal = [1.0] * last
    whole = ideal
    if cutoff is not None:
        ideal = ideal[:cutoff]
    best = sum(worth * discount(rank, axes) for rank, worth in enumerate(ideal, 1))
    if axes.get("signed"):
        is_empty = axes["signed"] == "unless the sum is 0" and sum(whole) == 0
        return 0.0 if best == 0 or is_empty else total / best
    has_any = any(gain(grade, threshold, axes) > 0 for grade in judged.values())
    return total / best if best > 0 and has_any else NAN


def _average_precision(
    last: int,
    cutoff: int | None,
    n_relevant: int,
    n_hits: int,
    hits: list[tuple[int, int, Row]],
    inside: list[tuple[int, int, Row]],
    whole: int,
    axes: Mapping[str, Any],
) -> float:
    if n_hits == 0:
        return NAN if axes.get("no_hit") == "nan" else 0.0
    total = 0.0
    if axes["order"] == "average_floor":
        for rank in range(1, last + 1):
            above = [hit for hit in hits if hit[0] <= rank]
            if above and max(above, key=lambda hit: hit[2].place)[1]:
                total += sum(often for _, often, _ in above) / min(rank, whole)
    elif axes["ap_terms"] == "every_rank":
        for rank in range(1, last + 1):
            total += sum(often for at, often, _ in hits if at <= rank) / rank
    else:
        found = 0
        for rank, often, _ in inside:
            if often:
                found += 1
                total += found / rank
    divisor = {
        "rel": n_relevant,
        "min_k": n_relevant if cutoff is None else min(last, n_relevant),
        "min_len": min(len(inside), n_relevant),
        "hits": n_hits,
        "k": last,
    }[axes["ap_den"]]
    return total / divisor


@dataclass(frozen=True)
class Logs:
    """Truth and run: user -> item -> relevance, user -> items and scores as they stand."""

    truth: Mapping[object, Judged]
    run: Mapping[object, Listed]
    threshold: float


def measure(
    library: str, metric: str, cutoff: int | None, logs: Logs
) -> tuple[float, dict[object, float]]:
    """The library's mean, and the values of the users whom it averages."""
    axes = axes_of(library, metric, cutoff)
    truth, threshold = _relevances(logs, axes)
    run = logs.run
    has = {u: any(grade >= threshold for grade in judged.values()) for u, judged in truth.items()}
    shows = {
        u: u in run and any(truth[u].get(item, -1e9) >= threshold for item in run[u][0])
        for u in truth
    }
    users = {
        "truth_nonempty": [u for u in truth if has[u]],
        "truth_all": list(truth),
        "both": [u for u in truth if u in run],
        "both_nonempty": [u for u in truth if u in run and has[u]],
        "run": list(run),
        "run_nonempty": [u for u in run if has.get(u)],
        "shown": [u for u in truth if shows[u]],
    }[axes["users"]]
    values: dict[object, float] = {}
    for user in users:
        judged, listed = truth.get(user, {}), run.get(user, ((), ()))
        if not listed[0]:
            value = NAN if axes["empty_list"] == "nan" else float(axes["empty_list"])
        else:
            value = user_value(metric, cutoff, judged, listed, threshold, axes)
            if math.isnan(value) and axes.get("no_hit") != "nan":
                value = float(axes["empty_truth"])
        values[user] = float(np.round(value, axes["round"])) if "round" in axes else value
    averaged = [value for value in values.values() if value or not axes["survivors_only"]]
    mean = math.fsum(averaged) / len(averaged) if averaged else NAN
    if axes.get("f1") == "of_means" and metric == "f1":
        p = measure(library, "precision", cutoff, logs)[0]
        r = measure(library, "recall", cutoff, logs)[0]
        mean = 2 * p * r / (p + r) if p + r else NAN
    return mean, values


def _relevances(logs: Logs, axes: Mapping[str, Any]) -> tuple[Mapping[object, Judged], float]:
    threshold, rule = logs.threshold, axes["float_relevance"]
    grades = [grade for judged in logs.truth.values() for grade in judged.values()]
    if rule == "as given" or all(grade == int(grade) for grade in grades):
        return logs.truth, threshold
    cut = math.floor(threshold) if rule == "binary_floor" else threshold
    return {
        user: {item: float(grade >= cut) for item, grade in judged.items()}
        for user, judged in logs.truth.items()
    }, 1.0
