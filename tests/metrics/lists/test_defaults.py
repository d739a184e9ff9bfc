"""Metrics of lists give back what plain formulas gave, users' values too."""

import json
import math

import pytest
from list_worlds import build, load, measure

from evalkit.metrics import registry_of

NAMES = {
    ("ild", "cosine"): ("ild", {}),
    ("ild", "jaccard"): ("ild", {"distance": "jaccard"}),
    ("ild", "hamming"): ("ild", {"distance": "hamming"}),
    ("calibration", "kl"): ("calibration", {}),
    ("calibration", "js"): ("calibration", {"divergence": "js"}),
    ("calibration", "rank"): ("calibration", {"weighting": "rank"}),
    ("serendipity", "content"): ("serendipity", {"of": "content"}),
    ("aggregate_diversity", "default"): ("item_coverage", {"scale": "count"}),
}
BY = {"awrf", "exposure_parity", "exposure_equity"}


def asked(record, world):
    """Name and parameters of a record."""
    name, variant = record["metric"], record["variant"]
    name, parameters = NAMES.get((name, variant), (name, {}))
    if variant == "at_half_the_users":
        return name, {"at_users": int((world.lists.lengths > 0).sum()) // 2}
    if name in BY:
        return name, {"by": "provider"}
    return name, parameters


@pytest.mark.parametrize("fixture", ["small", "short", "unknown", "medium"])
def test_defaults_are_met(shared, fixture):
    folder = shared / "conformance" / "lists"
    world = build(load(folder, fixture), seed=4)
    wrong, missing, n = [], set(), 0
    for line in (folder / "defaults.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        if record["fixture"] != fixture or record["metric"] == "unknown_rows":
            continue
        name, parameters = asked(record, world)
        if name not in registry_of("lists"):
            missing.add(name)
            continue
        cutoff = record["k"]
        some = world
        if record["metric"] == "popularity_lift":
            some = of_group(world, int(record["variant"]))
        values = measure(name, some, [cutoff], **parameters)
        n += 1
        users = {}
        if values.ndim == 2:
            users = dict(zip(map(str, some.users), values[:, 0].tolist(), strict=True))
            kept = [value for value in users.values() if not math.isnan(value)]
            mean = math.fsum(kept) / len(kept) if kept else math.nan
        else:
            mean = float(values[0])
        pairs = [("mean", float(record["mean"]), mean)]
        if "n" in record and users:
            pairs.append(("n", record["n"], len(kept)))
        pairs += [
            (user, float(theirs), users.get(user, math.nan))
            for user, theirs in record.get("per_user", {}).items()
        ]
        wrong += [
            f"{name}{parameters}@{cutoff} {whom}: {theirs} and not {ours}"
            for whom, theirs, ours in pairs
            if not is_same(theirs, ours)
        ]
    print(n, "records", sorted(missing))
    assert wrong == []


def is_same(theirs, ours):
    if math.isnan(theirs):
        return math.isnan(ours)
    return abs(theirs - ours) <= 1e-12 * max(1.0, abs(theirs))


def of_group(world, group):
    users = {row["user"] for row in world.raw["users"] if row["group"] == group}
    raw = dict(world.raw)
    raw["run"] = [row for row in raw["run"] if row["user"] in users]
    return build(raw, seed=3)
