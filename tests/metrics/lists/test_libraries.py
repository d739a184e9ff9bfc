"""What libraries printed of lists is given back by whole runs under their profiles.

Every record in the folder is asked for by the name that it has there; `options` of the profile
say what the library's own option, the record's variant, is here.
"""

import json
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.metrics import known_metrics, parse_metrics
from evalkit.metrics.profiles import find_profile
from evalkit.pipeline import run_config

LIBRARIES = (
    "elliot", "evidently", "fair_trec", "informfully", "ir_measures", "jurity", "lenskit",
    "overlap", "recbole", "recmetrics", "recommenders", "recpack", "rectools", "replay", "rexmex",
    "rs_metrics",
)  # fmt: skip
PARTS = 2  # of the fixtures: one in every run, both in campaigns
FLOAT32 = {("lenskit", "genre_entropy"), ("lenskit", "ils")}
OTHERS = "another metric than any here"
NOT_ASKED = {  # (library, metric, variant), patterns: why nothing gives it back
    r"overlap (rho|group_attention|group_exposure) .*": OTHERS,
    r"informfully (binomial|genre_gini) .*": OTHERS,
    r"informfully ild euclidean:.*": OTHERS,
    r"recommenders .* cooccurrence.*": OTHERS,
    r"evidently serendipity .*": OTHERS,
    r"elliot (item|user)_mad_rating .*": "means of scores",
    r"informfully eild .*": "relevance is ignored, and the next item is discounted twice",
    r"fair_trec .*:normalized": "divides by upper - lower without subtracting lower",
}
ERRORS = {  # metrics of libraries: where they go wrong, and how
    ("ir_measures", "alpha_dcg"): ("at rank 1", "is not normalised at rank 1"),
    ("ir_measures", "err_ia"): ("at rank 1", "is not normalised at rank 1"),
    ("rexmex", "ils"): ("short lists", "reads past the end of short lists"),
}
NAN_MEANS = {("rs_metrics", "alpha_ndcg")}  # one user without a list makes it so; others hold


@cache
def fixture_of(folder, name):
    return json.loads((folder / "fixtures" / f"{name}.json").read_text())


def trait_of(raw, k):
    """What is odd about a fixture at a cutoff."""
    known = {row["item"] for row in raw["items"]}
    shown = [row["items"][:k] for row in raw["run"]]
    users = {row["user"] for row in raw["qrels"]}
    return {
        "at rank 1": k == 1,
        "unknown items": any(item not in known for row in shown for item in row),
        "short lists": any(len(row) < (k or 0) for row in shown),
        "users without a list": not users <= {row["user"] for row in raw["run"]},
    }


def exempt(library, record, raw):
    """Why a record is not asked for; nothing for one that is."""
    if record.get("error") or record["mean"] is None:
        return "nothing to give back"
    text = f"{library} {record['metric']} {record['variant']}"
    why = next((why for pattern, why in NOT_ASKED.items() if re.fullmatch(pattern, text)), "")
    trait, fault = ERRORS.get((library, record["metric"]), ("", ""))
    return why or (fault if trait_of(raw, record["k"]).get(trait) else "")


def fold(name):
    return name.lower().replace("_", "")


@cache
def metric_of(library, name):
    named = find_profile(library).named
    (request,) = parse_metrics([name], metrics=known_metrics("rankings"), named=named)
    return request.metric.name


def asked_of(profile, record):
    """The metric as it is asked for, and the group of users that it is about."""
    metric, variant, group = record["metric"], record["variant"], None
    values = {}
    if found := re.fullmatch(r"\w+-ProbToBeRanked_items:p-(\d+)", variant):
        values = {"group": found[1]}
    if found := re.fullmatch(r"BiasDisparity\w\w_users:g-(\d+)_items:p-(\d+)", variant):
        values, group = {"group": found[2]}, found[1]
    for key, options in profile.options.items():
        if fold(key) in (fold(metric), fold(metric_of(profile.name, metric))):
            own = [name for name in options if variant == name or variant.startswith(f"{name}:")]
            values |= options[max(own, key=len)] if own else {}
    inside = ", ".join(f"{name}={value!r}" for name, value in values.items())
    cutoff = "" if record["k"] is None else f"@{record['k']}"
    return f"{metric}({inside}){cutoff}", group


@pytest.fixture(scope="module")
def written(shared, tmp_path_factory):
    """A fixture's tables as files; the folder."""
    folder = tmp_path_factory.mktemp("lists")

    @cache
    def write(name):
        raw, home = fixture_of(shared / "conformance" / "lists", name), folder / name
        home.mkdir()
        for table in ("train", "qrels", "run", "run_b", "run_before"):
            rows = [
                (row["user"], item, rank, row.get("rels", row["items"])[rank - 1])
                for row in raw[table]
                for rank, item in enumerate(row["items"], 1)
            ]
            frame = pl.DataFrame(rows, schema=["user", "item", "rank", "relevance"], orient="row")
            dropped = {"train": ["rank", "relevance"], "qrels": ["rank"]}
            frame.drop(dropped.get(table, ["relevance"])).write_parquet(home / f"{table}.parquet")
        pl.DataFrame(raw["items"]).write_parquet(home / "items.parquet")
        pl.DataFrame(raw["users"]).write_parquet(home / "users.parquet")
        return home

    return write


def run_of(home: Path, raw, library, names):
    """The report of all metrics of a fixture under a library's profile, and its config."""

    def path(name):
        return str(home / f"{name}.parquet")

    earlier = [path("run_b"), path("run_before")]
    tree = {
        "truth": {"path": path("qrels"), "threshold": raw["threshold"]},
        "train": {"path": path("train")},
        "items": {"path": path("items")},
        "users": {"path": path("users")},
        "rankings": [{"path": path("run"), "model": "run", "earlier": earlier}],
        "metrics": {"names": names, "profile": library, "reference": path("run_b")},
        "segments": {"group": {"path": path("users"), "by": "group"}},
        "policies": {"truth_in_train": "count"},
    }
    if library != "elliot":
        del tree["segments"]
    config = build_config(tree, name=library)
    return config, run_config(config, per_user=True, threads=1)


def differs(one, other, tolerance):
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) != math.isnan(other)
    return abs(one - other) > tolerance * max(1.0, abs(one))


def differences(library, part, folder, written):
    """What a run gives otherwise than the library printed; how many records there are of each."""
    profile, by_fixture, counts = find_profile(library), {}, Counter()
    lines = (folder / f"{library}.jsonl").read_text().splitlines()[1:]
    every = [json.loads(line) for line in lines]
    names = sorted({record["fixture"] for record in every})
    for record in every:
        if names.index(record["fixture"]) % PARTS != part:
            continue
        why = exempt(library, record, fixture_of(folder, record["fixture"]))
        counts[why] += 1
        if not why:
            asked = asked_of(profile, record)
            by_fixture.setdefault(record["fixture"], []).append((record, *asked))
    wrong = []
    for name, records in by_fixture.items():
        raw = fixture_of(folder, name)
        asked = list(dict.fromkeys(text for _, text, _ in records))
        config, report = run_of(written(name), raw, library, asked)
        labels = {text: config.read_metrics([text])[0].label for text in asked}
        users = report.per_user_values.scan("run").collect().to_dict(as_series=False)
        estimates = {(each.metric, each.segment): each.value for each in report.estimates}
        for record, text, group in records:
            tolerance = 5e-7 if (library, record["metric"]) in FLOAT32 else 1e-12
            pairs = [("mean", float(record["mean"]), estimates[labels[text], group])]
            if (library, record["metric"]) in NAN_MEANS and math.isnan(pairs[0][1]):
                pairs = []
            if theirs := record.get("per_user"):
                mine = zip(users["user"], users[labels[text]], strict=True)
                mine = {str(user): math.nan if v is None else v for user, v in mine}
                pairs += [(u, float(v), mine.get(u, math.nan)) for u, v in theirs.items()]
            assert pairs
            bad = [pair for pair in pairs if differs(*pair[1:], tolerance)]
            wrong += [f"{name} {text} {record['variant']} {bad[0]}"] if bad else []
    return wrong, counts


@pytest.mark.some_cases(len(LIBRARIES))
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_library_printed_is_given_back(shared, written, library, part, record_property):
    wrong, counts = differences(library, part, shared / "conformance" / "lists", written)

    exempted = [f"{n} {why}" for why, n in sorted(counts.items()) if why]
    record_property("summary", f"{library}: {counts['']:,} records; {'; '.join(exempted)}")
    assert wrong == []
    assert counts[""]
