"""Numbers of all lists together: counters, errors by influence, segments, pairs, shares."""

import itertools
import json
import math

import numpy as np
import polars as pl
import pytest

from evalkit import evaluate
from evalkit.config import build_config
from evalkit.looks import shown
from evalkit.partials import open_partials
from evalkit.rankings import _run as run
from evalkit.street import conclude_partials, measure_partial, run_config

METRICS = [
    "nDCG@3", "novelty@3", "gini@{2,5}", "entropy@5", "hhi@5", "item_coverage@5",
    "personalization@5", "gini_exposure@5",
]  # fmt: skip


def make_tables(n_users=300, seed=0):
    """Lists that repeat and lack items; some users are in one model, or in the truth, alone."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, 61)
    models = {}
    for name in "ab":
        rows = []
        for user in np.flatnonzero(rng.random(n_users) < 0.9):
            items = rng.choice(60, rng.integers(1, 8), p=weight / weight.sum(), replace=True)
            rows += [(user, item, rank) for rank, item in enumerate(items, 1)]
        models[name] = pl.DataFrame(rows, schema=["user_id", "item_id", "rank"], orient="row")
    pairs = [(u, 10 + u % 7) for u in range(0, n_users, 2)]
    truth = pl.DataFrame(pairs, schema=["user_id", "item_id"], orient="row")
    train = pl.DataFrame(
        {"user_id": rng.integers(0, n_users, 900), "item_id": rng.integers(0, 50, 900)}
    )
    items = pl.DataFrame({"item_id": rng.permutation(55)})
    users = pl.DataFrame(
        {"user_id": range(n_users), "group": ["xyz"[u % 3] for u in range(n_users)]}
    )
    return {"truth": truth, "train": train, "items": items, "users": users, **models}


def lists_of(frame, users=None):
    lists = {}
    for user, item, rank in frame.rows():
        if users is None or user in users:
            lists.setdefault(user, []).append((rank, item))
    return {user: [item for _, item in sorted(rows)] for user, rows in lists.items()}


def numbers_of(lists, catalogue, k):
    """Every metric by its definition, over sets."""
    cut = [items[:k] for items in lists.values()]
    c = {item: sum(item in each for each in cut) for item in catalogue}
    total, m = sum(c.values()), len(catalogue)
    p = [n / total for n in c.values() if n]
    e = {
        item: sum(1 / math.log2(r + 1) for each in cut for r, i in enumerate(each, 1) if i == item)
        for item in catalogue
    }
    similar = [
        len({*a} & {*b}) / math.sqrt(len({*a}) * len({*b}))
        for a, b in itertools.combinations(cut, 2)
    ]

    def gini(numbers):
        ordered = sorted(numbers)
        above = sum((2 * j - m - 1) * x for j, x in enumerate(ordered, 1))
        return above / (m * sum(ordered))

    return {
        "gini": gini(c.values()),
        "gini_exposure": gini(e.values()),
        "entropy": -sum(x * math.log2(x) for x in p),
        "hhi": sum(x * x for x in p),
        "item_coverage": len(p) / m,
        "personalization": 1 - sum(similar) / len(similar),
    }


@pytest.fixture(scope="module")
def tables():
    return make_tables()


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    return folder


def config_of(folder, names=METRICS, statistics=None):
    ids = {"user": "user_id", "item": "item_id"}
    tree = {
        "truth": {"path": str(folder / "truth.parquet"), "columns": ids},
        "train": {"path": str(folder / "train.parquet"), "columns": ids},
        "items": {"path": str(folder / "items.parquet"), "columns": {"item": "item_id"}},
        "rankings": [
            {
                "path": str(folder / f"{name}.parquet"),
                "model": name,
                "columns": {**ids, "rank": "rank"},
            }
            for name in "ab"
        ],
        "metrics": {"names": names},
        "statistics": {"baseline": "a"} if statistics is None else statistics,
        "segments": {
            "group": {"path": str(folder / "users.parquet"), "user": "user_id", "by": "group"}
        },
    }
    return build_config(tree, name="lists")


def told(report):
    document = json.loads(report.to_json())
    own = ("meta", "run_id", "run_key", "inputs")
    return {key: each for key, each in document.items() if key not in own}


def test_numbers_are_those_of_sets_in_segments_and_pairs_too(tables, folder):
    report = run_config(config_of(folder))

    catalogue = tables["items"]["item_id"].to_list()
    groups = dict(tables["users"].rows())
    lists = {name: lists_of(tables[name]) for name in "ab"}
    checked = 0
    for each in report.estimates:
        if each.name in ("nDCG", "novelty"):
            continue
        own = {u: i for u, i in lists[each.model].items() if each.segment in (None, groups[u])}
        wanted = numbers_of(own, catalogue, each.cutoff)[each.name]
        assert each.value == pytest.approx(wanted, rel=1e-12), each
        assert each.n_users == len(own)
        checked += 1
    assert checked == 2 * 4 * 7
    both = lists["a"].keys() & lists["b"].keys()
    for each in report.comparisons:
        if each.metric in ("nDCG@3", "novelty@3"):
            continue
        users = {u for u in both if each.segment in (None, groups[u])}
        old, new = (
            numbers_of({u: lists[m][u] for u in sorted(users)}, catalogue, int(each.metric[-1]))
            for m in "ab"
        )
        name = each.metric.partition("@")[0]
        assert each.delta == pytest.approx(new[name] - old[name], abs=1e-12), each
        assert (each.n_users, each.wins) == (len(users), None)


def test_errors_are_those_of_the_users_influence(tables, folder):
    report = run_config(config_of(folder))
    lists, catalogue = lists_of(tables["a"]), tables["items"]["item_id"].to_list()
    names = {
        e.name: e for e in report.estimates if (e.model, e.segment, e.cutoff) == ("a", None, 5)
    }
    counts = {i: sum(i in items[:5] for items in lists.values()) for i in catalogue}
    total = sum(counts.values())
    hhi = names["hhi"].value
    n = len(lists)
    influences = [
        n * sum(2 * (counts[i] / total - hhi) / total for i in {*items[:5]} if i in counts)
        for items in lists.values()
    ]

    assert names["hhi"].std_error == pytest.approx(np.std(influences, ddof=1) / math.sqrt(n))


def test_passes_and_shares_give_the_bytes_of_the_whole(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "SAMPLED", 70)  # so that most users' lists are not kept
    config = config_of(folder)
    whole = told(run_config(config))
    paths = []
    for share in (2, 3, 1):
        paths.append(tmp_path / f"share-{share}")
        measure_partial(config, (share, 3)).write(paths[-1])

    assert told(conclude_partials(open_partials(paths))) == whole
    monkeypatch.setattr(run, "count_shares", lambda *_: 3)
    assert told(run_config(config)) == whole


def test_models_apart_give_the_numbers_of_models_together(folder):
    apart = run_config(config_of(folder, statistics={}))
    together = run_config(config_of(folder))

    values = {(e.model, e.metric, e.segment): e.value for e in together.estimates}
    assert {(e.model, e.metric, e.segment): e.value for e in apart.estimates} == values


def test_the_order_of_the_table_of_items_and_the_threads_change_no_digit(tables):
    def numbers(items, threads):
        rankings = {name: tables[name] for name in "ab"}
        given = {"train": tables["train"], "items": items, "threads": threads}
        return evaluate(tables["truth"], rankings, metrics=METRICS, **given).estimates

    assert numbers(tables["items"], 1) == numbers(tables["items"].reverse(), 2)
