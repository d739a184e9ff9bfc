"""Ratings and scored rows against what other libraries printed: vectors/README.md says where from.

Each user's list is a log of scored rows, each item's label 1 where it is relevant. Users become
models for their own values, which every library gives that has any.
"""

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from measure import measure as metric_values

import evalkit

VECTORS = Path(__file__).parent / "vectors"
FLOAT32 = {"recbole": 2e-6, "torchmetrics": 2e-6}
RATINGS = {
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
    "rsquared": "R2",
    "exp_var": "explained-variance",
}
BY_USER = {  # value of one user's rows -> name of the same over users
    "auc": ("AUC", "AUC(over='users')"),
    "ap_pr": ("PR-AUC", "PR-AUC(over='users')"),
    "lrap": ("PR-AUC", None),  # a tie is one step in both; 1 where labels are of one kind
    "pr_auc_trapezoid": (
        "PR-AUC(integration='trapezoid')",
        "PR-AUC(over='users', integration='trapezoid')",
    ),
    "ranking_loss": ("AUC(ties='lost')", None),  # less 1
}
POOLED = {"auc_global": "AUC", "ap_pr_global": "PR-AUC"}
EXEMPT = {
    ("elliot", "gauc"): "takes the order of the list for ties, and one candidate too many",
    ("elliot", "auc"): "takes the order of the list for ties, and one candidate too many",
    ("elliot", "lauc"): "takes the order of the list for ties, and one candidate too many",
    ("sklearn", "coverage_error"): "a depth, which first_hit_rank's kin would be",
}


def records(*metrics: str) -> Iterator[tuple[str, dict]]:
    with gzip.open(VECTORS / "rows" / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["metric"] in metrics:
                yield record["library"], record


def fixture(name: str) -> dict:
    return json.loads((VECTORS / "fixtures" / f"{name}.json").read_text())


def number(value: object) -> float:
    return float(value)  # "nan" and "inf" are texts


def rows_of(name: str, variant: str) -> pl.DataFrame:
    """User, score, label of every listed item, or of every item of the catalogue."""
    log = fixture(name)
    truth = {row["user"]: dict(zip(row["items"], row["rels"], strict=True)) for row in log["qrels"]}
    users, scores, labels = [], [], []
    for row in log["run"]:
        listed = dict(zip(row["items"], row["scores"], strict=True))
        if row["user"] not in truth:
            continue
        items = list(listed)
        if variant == "catalog":
            rest = set(log["catalog"]) | set(truth[row["user"]])
            items += [item for item in rest if item not in listed]
        lowest = min(listed.values(), default=0.0) - 1.0
        for item in items:
            users.append(str(row["user"]))
            scores.append(listed.get(item, lowest))
            labels.append(int(truth[row["user"]].get(item, 0) >= log["threshold"]))
    return pl.DataFrame({"user": users, "score": scores, "label": labels})


def test_ratings_are_those_of_every_library():
    found = list(records(*RATINGS))
    for library, record in found:
        rows = [
            (str(user), rating, guess)
            for user, _, rating, guess in fixture(record["fixture"])["ratings"]
        ]
        frame = pl.DataFrame(rows, schema=["user", "rating", "prediction"], orient="row")
        over = "(over='users')" if record["variant"] == "user_mean" else ""

        report = evalkit.evaluate_ratings(frame, metrics=[RATINGS[record["metric"]] + over])

        tolerance = FLOAT32.get(library, 1e-12)
        assert report.estimates[0].value == pytest.approx(record["mean"], abs=tolerance), record

    print(f"ratings: {len(found)} records compared, 0 exempt")
    assert len(found) >= 30


SCORED = {*BY_USER, *POOLED, "gauc", "lauc", "coverage_error"}
RANKED = ("partial_auc", "pap", "auc_within_list")


def test_every_record_belongs_to_one_of_these_tests():
    with gzip.open(VECTORS / "rows" / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        metrics = Counter(json.loads(line)["metric"] for line in lines)

    missing = set(metrics) - {*RATINGS, *SCORED, *RANKED}
    assert missing == set(), f"{len(missing)} metrics are compared by none"


def test_scored_rows_are_those_of_every_library():
    counts: Counter[str] = Counter()
    logs: dict[tuple[str, str], tuple[pl.DataFrame, dict[str, dict[str, float]], dict]] = {}
    for library, record in records(*SCORED):
        if (library, record["metric"]) in EXEMPT:
            counts["exempt"] += 1
            continue
        if library == "cornac" and not record["fixture"].startswith("full"):
            counts["exempt"] += 1  # its lists alone say nothing of what is unlisted
            continue
        variant = record["variant"] if library == "sklearn" else "list"
        key = (record["fixture"], variant)
        if key not in logs:
            logs[key] = measure(rows_of(*key))
        _, by_user, pooled = logs[key]
        if record["metric"] in POOLED:
            compare(record["mean"], pooled[POOLED[record["metric"]]], library, record)
        elif record["metric"] == "gauc":
            ours = pooled["AUC(over='users', weighting='positives')"]
            compare(record["mean"], ours, library, record)
        else:
            compare_users(library, record, by_user, pooled)
        counts["compared"] += 1

    print(f"scored rows: {counts['compared']} records compared, {counts['exempt']} exempt")
    assert counts["compared"] >= 250


NAMES = sorted(
    {
        *(name for pair in BY_USER.values() for name in pair if name is not None),
        *POOLED.values(),
        "AUC(over='users', weighting='positives')",
        "AUC(over='users', ties='lost')",
    }
)


def test_ranked_lists_are_those_of_every_library():
    """Partial AUC of RecTools; AUC within the list of RePlay and torchmetrics."""
    counts: Counter[str] = Counter()
    for library, record in records(*RANKED):
        log = fixture(record["fixture"])
        if record["fixture"] in UNORDERED.get(library, ()):
            counts["exempt"] += 1
            continue
        truth = {str(row["user"]): row for row in log["qrels"]}
        run = {str(row["user"]): row for row in log["run"]}
        name, parameters = LISTED[library, record["metric"]]
        for user, theirs in record.get("per_user", {}).items():
            row = truth.get(user, {"items": [], "rels": []})
            judged = zip(row["items"], row["rels"], strict=True)
            relevant = {item for item, gain in judged if gain >= log["threshold"]}
            ranked = [float(item in relevant) for item in listed(run.get(user), library, record)]
            ours = metric_values(
                name, [ranked], [[1.0] * len(relevant)], [record["k"]], **parameters
            )
            ours = float(ours[0, 0])
            compare(theirs, 0.0 if math.isnan(ours) and not relevant else ours, library, record)
        counts["compared"] += 1

    print(f"ranked lists: {counts['compared']} compared, {counts['exempt']} exempt")
    assert counts["compared"] >= 600


LISTED = {
    ("rectools", "partial_auc"): ("partial-AUC", {}),
    ("rectools", "pap"): ("partial-AUC", {"positives": "min_k"}),
    ("replay", "auc_within_list"): ("AUC", {"one_kind": "zero_or_one"}),
    ("torchmetrics", "auc_within_list"): ("AUC", {"one_kind": "zero"}),
}
UNORDERED = {
    "rectools": ("duplicates",),  # counts a relevant item as often as it is listed
    "torchmetrics": ("ties", "ties_text", "float32_ties", "full_ties"),  # no rule for their order
}


def listed(row: dict | None, library: str, record: dict) -> list:
    """A user's items as the library orders them: RePlay by item where scores are equal."""
    if row is None:
        return []
    items, scores = row["items"], row["scores"]
    if library != "replay" or record["variant"].startswith("dict"):
        return items
    return [item for _, item in sorted(zip(scores, items, strict=True), reverse=True)]


def measure(rows):
    """The values of each user, and those over all rows and users."""
    own = rows.with_columns(model=pl.col("user"))
    alone = evalkit.evaluate_labels(
        own, metrics=[name for name, _ in BY_USER.values()], columns={"model": "model"}
    )
    by_user: dict[str, dict[str, float]] = {}
    for each in alone.estimates:
        by_user.setdefault(each.model, {})[each.metric] = each.value
    report = evalkit.evaluate_labels(rows, metrics=NAMES)
    return rows, by_user, {each.metric: each.value for each in report.estimates}


def compare_users(library, record, by_user, pooled):
    name, over_users = BY_USER[record["metric"]]
    if library == "cornac":  # ties lose
        name, over_users = "AUC(ties='lost')", "AUC(over='users', ties='lost')"
    for user, theirs in record.get("per_user", {}).items():
        ours = by_user[user][name] if user in by_user else math.nan
        if record["metric"] == "ranking_loss":
            ours = 0.0 if math.isnan(ours) else 1.0 - ours
        if record["metric"] == "lrap" and (math.isnan(ours) or math.isnan(auc_of(by_user, user))):
            ours = 1.0
        if record["metric"] in ("ap_pr", "pr_auc_trapezoid") and math.isnan(ours):
            ours = number(theirs)  # without a positive scikit-learn warns and says 0
        compare(theirs, ours, library, {**record, "user": user})
    defined = not any(math.isnan(number(each)) for each in record.get("per_user", {}).values())
    undefined = any(math.isnan(auc_of(by_user, user)) for user in record.get("per_user", {}))
    if over_users is not None and defined and not undefined and record["n"] == len(by_user):
        compare(record["mean"], pooled[over_users], library, record)


def auc_of(by_user, user):
    return by_user[user]["AUC"] if user in by_user else math.nan


def compare(theirs, ours, library, record):
    expected = pytest.approx(number(theirs), abs=FLOAT32.get(library, 1e-12), nan_ok=True)
    assert ours == expected, record
