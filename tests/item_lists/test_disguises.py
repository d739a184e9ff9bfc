"""One log in many forms: what is said of its lists has one sha256."""

import hashlib
import json

import numpy as np
import polars as pl
import pytest
from shown_lists import make_tables, merged, told, tree_of

from evalkit import evaluate
from evalkit.aggregate.accumulators import shown
from evalkit.config import build_config
from evalkit.item_lists import _popularity
from evalkit.kinds.rankings import measure as run
from evalkit.metrics import registry_of
from evalkit.pipeline import run_config
from evalkit.ranks import _scan

WRITTEN = {  # metrics whose defaults ask for what no table here has, or that have no cutoff
    "bias_disparity": "bias_disparity(group='p1')@4",
    "mad": "mad(of='novelty')@4",
    "prediction_coverage": "prediction_coverage",
}
OF_EVERY_KIND = ["nDCG@3", "ild(distance='jaccard')@4", "gini@2"]
OF_EVERY_KIND += [WRITTEN.get(name, f"{name}@4") for name in registry_of("lists")]
IDS = {"user": "user_id", "item": "item_id"}
FORMS = ("rank", "scattered rank", "score", "scattered score", "order", "list")
FEW = ("rank", "scattered score", "list")  # in every run; all in campaigns
CUT = ("scattered rank", "scattered score", "list")  # into shares and passes, too


def in_form(ranked, form):
    """The same lists in another form, and the columns that order them."""
    scattered = ranked.sample(fraction=1, shuffle=True, seed=3)
    score = (-pl.col("rank") / 3).alias("score")
    return {
        "rank": (ranked, {"rank": "rank"}),
        "scattered rank": (scattered, {"rank": "rank"}),
        "score": (ranked.select(*IDS.values(), score).reverse(), {"score": "score"}),
        "scattered score": (scattered.select(*IDS.values(), score), {"score": "score"}),
        "order": (ranked.select(*IDS.values()), {}),
        "list": (ranked.group_by("user_id", maintain_order=True).agg("item_id"), {}),
    }[form]


def write(folder, form="rank", *, files=1, as_text=False, last_item_first=False):
    """Tables in a form, each in some files; the config that reads them."""
    tables, rng, columns = make_tables(120, repeats=False), np.random.default_rng(7), {}
    if as_text:
        ids = pl.col("^(user|item)_id$").cast(pl.String)
        tables = {name: table.with_columns(ids) for name, table in tables.items()}
    n = tables["items"].height
    tables["items"] = tables["items"].with_columns(
        genres=pl.Series([f"g{k % 5}|g{k % 3}" for k in range(n)]),
        provider=pl.Series([f"p{k % 4}" for k in range(n)]),
        vector=pl.Series(rng.normal(size=(n, 3)).tolist()),
        published=pl.date(2026, 1, 1) + pl.duration(days=pl.int_range(n)),
    )
    if last_item_first:
        tables["items"] = tables["items"].reverse()
    if "scattered" not in form:
        tables["train"] = tables["train"].sort("user_id", maintain_order=True)
    tables |= {"monday": tables["b"], "tuesday": tables["a"].filter(pl.col("rank") > 1)}
    tables["tuesday"] = tables["tuesday"].with_columns(pl.col("rank") - 1)
    for name in ("a", "b", "monday", "tuesday"):
        tables[name], columns = in_form(tables[name], form)
    folder.mkdir()
    for name, table in tables.items():
        own = folder / f"{name}.parquet"
        if name in ("items", "users"):
            table.write_parquet(own)
            continue
        own.mkdir()
        ends = [each * table.height // files for each in range(files + 1)]
        for number in range(files):
            part = table[ends[number] : ends[number + 1]]
            part.write_parquet(own / f"{number}.parquet")
    tree = tree_of(folder, OF_EVERY_KIND)
    tree["metrics"]["reference"] = "a"
    tree["items"] |= {"separator": "|", "now": "2026-06-01"}
    tree["items"]["columns"] |= {name: name for name in ("genres", "vector", "published")}
    tree["users"] = {"path": str(folder / "users.parquet"), "columns": {"user": "user_id"}}
    for section in tree["rankings"]:
        section["columns"] = {**IDS, **columns}
        section["earlier"] = [str(folder / f"{day}.parquet") for day in ("monday", "tuesday")]
    return build_config(tree, name="lists")


def sha256_of(report):
    return hashlib.sha256(json.dumps(told(report)).encode()).hexdigest()


@pytest.mark.parametrize("as_text", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_disguises_of_a_log_have_one_sha256(as_text, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "SAMPLED", 40)  # so that most users' lists are not kept
    monkeypatch.setattr(_popularity, "LEAST_REPEATS", 64)
    monkeypatch.setattr(_popularity, "BATCH_ROWS", 100)
    found = {}
    for number, form in enumerate(FORMS if as_text else FEW):
        given = {"files": 1 + number % 3, "last_item_first": number % 2 == 1}
        config = write(tmp_path / form, form, as_text=as_text, **given)
        found[form] = sha256_of(run_config(config, threads=1 + number % 2))
        if form in (CUT if as_text else CUT[1:2]):
            found[form, "shares"] = sha256_of(merged(config, tmp_path))
            with monkeypatch.context() as patch:
                patch.setattr(run, "count_shares", lambda *_: 3)
                found[form, "passes"] = sha256_of(run_config(config))

    assert len(set(found.values())) == 1, found


@pytest.mark.some_cases(6)
@pytest.mark.parametrize("ties", ["item", "item-desc", "item-text", "item-text-desc", "input"])
@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("scattered", [False, True])
def test_equal_scores_order_lists_as_when_they_are_held_whole(
    ties, as_text, scattered, monkeypatch
):
    monkeypatch.setattr(_scan, "BATCH_ROWS", 50)
    tables = make_tables(80, repeats=False)
    ranked = tables["a"].sample(fraction=1, shuffle=True, seed=1)
    ranked = ranked.with_columns(score=(pl.col("rank") // 3).cast(pl.Float64)).drop("rank")
    ranked = ranked if scattered else ranked.sort("user_id", maintain_order=True)
    if as_text:
        ranked = ranked.with_columns(pl.col(*IDS.values()).cast(pl.String))

    def numbers():
        metrics = ["list_fill@3", "personalization@{1,2,3}", "user_count@1"]
        report = evaluate(None, {"a": ranked}, metrics=metrics, policies={"ties": ties})
        return told(report)

    selected = numbers()
    monkeypatch.setattr(_scan, "are_held_whole", lambda *_, **__: True)
    assert selected == numbers()
