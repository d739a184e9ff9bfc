"""Ratings, scored rows and areas of lists against what other libraries printed, under profiles.

vectors/README.md says where the records are from. Where a library scores rows, each user's list is
a log of rows, each item's label 1 where it is relevant.
"""

import gzip
import json
import math
from collections import Counter, defaultdict
from functools import cache
from itertools import islice

import polars as pl
import pytest

import evalkit
from peers import (
    TIED,
    TORCH_TIES,
    VECTORS,
    WAYS,
    Reason,
    Way,
    differences,
    evaluate,
    fixture,
    number,
)

PARTS = 3  # of the logs of lists: one in every run, all in campaigns
FLOAT32 = {"recbole": 2e-6, "torchmetrics": 2e-6}
RATINGS = {
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
    "rsquared": "R2",
    "exp_var": "explained-variance",
}
LEFT_OUT = "undefined='undefined'"  # the records leave users without a value out themselves
SCORED = {
    ("sklearn", "auc"): "AUC(over='users')",
    ("sklearn", "auc_global"): "AUC",
    ("sklearn", "ap_pr"): f"PR-AUC(over='users', {LEFT_OUT})",
    ("sklearn", "ap_pr_global"): "PR-AUC",
    ("sklearn", "lrap"): "LRAP",
    ("sklearn", "pr_auc_trapezoid"): f"PR-AUC(over='users', integration='trapezoid', {LEFT_OUT})",
    ("sklearn", "ranking_loss"): "AUC(over='users', ties='lost', undefined='one')",  # less 1
    ("cornac", "auc"): "AUC",
    ("recbole", "gauc"): "GAUC",
    ("recbole", "auc_global"): "AUC",
    ("recommenders", "auc_global"): "AUC",
}
POOLED = dict.fromkeys(["AUC", "GAUC"], "AUC(over='users')") | {
    "PR-AUC": f"PR-AUC(over='users', {LEFT_OUT})"
}  # of one user's rows
RANKED = {
    ("rectools", "partial_auc"),
    ("rectools", "pap"),
    ("replay", "auc_within_list"),
    ("torchmetrics", "auc_within_list"),
    ("elliot", "gauc"),
    ("elliot", "lauc"),
}
NO_METRIC = Reason("a depth of lists, not a metric of rows")
POOLED_ITEMS = Reason("a mean over relevant items, compared below by users' weights")
NAN_MEAN = "a mean that is NaN for one user's sake; the users' values are compared"


def reason_for(record: dict) -> Reason | None:
    library, metric = record["library"], record["metric"]
    if "error" in record:
        return Reason("the library raised")
    if metric == "coverage_error":
        return NO_METRIC
    if (library, metric) == ("elliot", "auc"):
        return POOLED_ITEMS
    if library == "torchmetrics" and record["fixture"] in TIED:
        return TORCH_TIES
    return None


@cache
def records() -> list[dict]:
    with gzip.open(VECTORS / "rows" / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [*map(json.loads, lines)]


def test_every_record_is_compared_or_exempt_for_a_reason(record_property):
    counts: Counter[str] = Counter()
    for record in records():
        key = (record["library"], record["metric"])
        why = reason_for(record)
        is_known = record["metric"] in RATINGS or key in SCORED or key in RANKED
        if why is not None:
            counts[f"exempt, {key[0]} {key[1]}: {why.why}"] += 1
        else:
            counts["compared" if is_known else "missing"] += 1

    for what, n_records in sorted(counts.items()):
        print(f"ratings, labels, areas: {n_records:,} {what}")
        record_property("summary", f"ratings, labels, areas: {n_records:,} {what}")
    assert counts["missing"] == 0
    assert counts["compared"] >= 1000


def test_ratings_are_those_of_every_library():
    asked: dict[tuple[str, str], dict[str, dict]] = defaultdict(dict)
    for record in records():
        if record["metric"] in RATINGS:
            over = "(over='users')" if record["variant"] == "user_mean" else ""
            name = RATINGS[record["metric"]] + over
            asked[record["library"], record["fixture"]][name] = record
    for (library, log), expected in asked.items():
        rows = [(str(u), i, r, p) for u, i, r, p in fixture(log)["ratings"]]
        frame = pl.DataFrame(rows, schema=["user", "item", "rating", "prediction"], orient="row")

        report = evalkit.evaluate_ratings(
            frame.drop("prediction"), frame.drop("rating"), metrics=[*expected], profile=library
        )

        for name, record in expected.items():
            compare(record["mean"], report.value(name), record, "mean")


def rows_of(name: str, *, catalogue: bool, copies: bool) -> pl.DataFrame:
    """User, score, label of every listed item, or of every item of the catalogue."""
    log = fixture(name)
    truth = {row["user"]: dict(zip(row["items"], row["rels"], strict=True)) for row in log["qrels"]}
    users, scores, labels = [], [], []
    for row in log["run"]:
        if row["user"] not in truth:
            continue
        listed = list(zip(row["items"], row["scores"], strict=True))
        if not copies:
            listed = list(dict(listed).items())
        if catalogue:
            lowest = min(row["scores"], default=0.0) - 1.0
            rest = (set(log["catalog"]) | set(truth[row["user"]])) - set(row["items"])
            listed += [(item, lowest) for item in rest]
        for item, score in listed:
            users.append(str(row["user"]))
            scores.append(score)
            labels.append(int(truth[row["user"]].get(item, 0) >= log["threshold"]))
    return pl.DataFrame({"user": users, "score": scores, "label": labels})


def test_scored_rows_are_those_of_every_library():
    groups: dict[tuple[str, str, str], list[dict]] = defaultdict(list)
    for record in records():
        key = (record["library"], record["metric"])
        if key in SCORED and reason_for(record) is None:
            groups[record["library"], record["fixture"], record["variant"]].append(record)
    n_means = 0
    for (library, log, variant), asked in groups.items():
        rows = rows_of(log, catalogue=variant == "catalog", copies=library == "cornac")
        names = {SCORED[library, record["metric"]] for record in asked}
        of_users = {name: POOLED.get(name, name) for name in names}
        report = evalkit.evaluate_labels(
            rows, metrics=sorted({*names, *of_users.values()}), profile=library, per_user=True
        )
        values = {each: dict(report.per_user(each).iter_rows()) for each in {*of_users.values()}}
        for record in asked:
            name = SCORED[library, record["metric"]]
            for user, theirs in (record.get("per_user") or {}).items():
                ours = values[of_users[name]].get(user, math.nan)
                compare(theirs, turned(record, ours), record, user)
            if not math.isnan(number(record["mean"])):
                n_means += 1
                compare(record["mean"], turned(record, report.value(name)), record, "mean")

    print(f"scored rows: {n_means} means; the others are exempt, {NAN_MEAN}")
    assert n_means >= 230


def turned(record: dict, value: float) -> float:
    """A ranking loss counts what is lost, and is 0 where an area is undefined."""
    return 1.0 - value if record["metric"] == "ranking_loss" else value


def compare(theirs: float | str, ours: float, record: dict, whom: str) -> None:
    tolerance = FLOAT32.get(record["library"], 1e-12)
    assert ours == pytest.approx(number(theirs), abs=tolerance, nan_ok=True), (whom, record)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_areas_of_lists_are_those_of_every_library(part):
    wrong: list[str] = []
    groups: dict[tuple[str, str, str], list[dict]] = defaultdict(list)
    for record in records():
        key = (record["library"], record["metric"])
        if key in RANKED and reason_for(record) is None:
            groups[record["library"], record["fixture"], record["variant"]].append(record)
    for (library, log, variant), asked in islice(groups.items(), part, None, PARTS):
        way = WAYS[library, variant]
        assert isinstance(way, Way)
        wanted = [(record["metric"], record["k"]) for record in asked]
        report = evaluate(library, fixture(log), wanted, way)
        for record in asked:
            for whom, theirs, ours in differences(library, record, report, way):
                wrong.append(
                    f"{library} {variant} {record['metric']}@{record['k']} on {log}, {whom}: "
                    f"{theirs!r}, evalkit {ours!r}"
                )

    assert wrong == []


def test_elliots_auc_weighs_users_by_their_relevant_items():
    for record in records():
        if (record["library"], record["metric"]) != ("elliot", "auc"):
            continue
        log = fixture(record["fixture"])
        rows = [
            (row["user"], item, rel, sum(each >= log["threshold"] for each in row["rels"]))
            for row in log["qrels"]
            for item, rel in zip(row["items"], row["rels"], strict=True)
        ]
        listed = [
            (row["user"], item, score)
            for row in log["run"]
            for item, score in zip(row["items"], row["scores"], strict=True)
        ]

        report = evalkit.evaluate(
            pl.DataFrame(rows, schema=["user", "item", "relevance", "n"], orient="row"),
            pl.DataFrame(listed, schema=["user", "item", "score"], orient="row"),
            metrics=["GAUC"],
            profile="elliot",
            threshold=float(log["threshold"]),
            statistics={"weight": {"by": "n"}},
        )

        assert report.value("GAUC") == pytest.approx(record["mean"], abs=1e-12)
