"""Lists of two models beside train, items and users; numbers of all lists by their definition."""

import itertools
import json
import math
from collections import Counter

import numpy as np
import polars as pl

from evalkit.config import build_config
from evalkit.pipeline import conclude_partials, measure_partial
from evalkit.planning.partials import open_partials

METRICS = [
    "nDCG@3", "novelty@3", "gini@{2,5}", "entropy@5", "hhi@5", "item_coverage@5",
    "personalization@5", "gini_exposure@5",
]  # fmt: skip


def make_tables(n_users=300, seed=0, *, repeats=True):
    """Lists that repeat and lack items; some users are in one model, or in the truth, alone."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, 61)
    models = {}
    for name in "ab":
        rows = []
        for user in np.flatnonzero(rng.random(n_users) < 0.9):
            items = rng.choice(60, rng.integers(1, 8), p=weight / weight.sum(), replace=repeats)
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
    sets = [{*each} for each in cut]
    times = Counter(item for each in sets for item in each)
    c = {item: times[item] for item in catalogue}
    total, m = sum(c.values()), len(catalogue)
    p = [n / total for n in c.values() if n]
    e = dict.fromkeys(catalogue, 0.0)
    for rank, item in (row for each in cut for row in enumerate(each, 1)):
        if item in e:
            e[item] += 1 / math.log2(rank + 1)
    similar = [len(a & b) / math.sqrt(len(a) * len(b)) for a, b in itertools.combinations(sets, 2)]

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


def config_of(folder, *given, **more):
    return build_config(tree_of(folder, *given, **more), name="lists")


def tree_of(folder, names=METRICS, statistics=None, combined=None, gates=(), of_items=()):
    ids = {"user": "user_id", "item": "item_id"}
    return {
        "truth": {"path": str(folder / "truth.parquet"), "columns": ids},
        "train": {"path": str(folder / "train.parquet"), "columns": ids},
        "items": {
            "path": str(folder / "items.parquet"),
            "columns": {"item": "item_id", **dict(of_items)},
        },
        "rankings": [
            {
                "path": str(folder / f"{name}.parquet"),
                "model": name,
                "columns": {**ids, "rank": "rank"},
            }
            for name in "ab"
        ],
        "metrics": {"names": names, "combined": combined or {}},
        "policies": {"duplicates": "count"},  # lists repeat items
        "gates": list(gates),
        "statistics": {"baseline": "a"} if statistics is None else statistics,
        "segments": {
            "group": {"path": str(folder / "users.parquet"), "user": "user_id", "by": "group"}
        },
    }


def told(report):
    document = json.loads(report.to_json())
    own = ("meta", "run_id", "run_key", "inputs")
    return {key: each for key, each in document.items() if key not in own}


def merged(config, folder):
    """The report of three shares, measured, written and merged in another order."""
    paths = []
    for share in (2, 3, 1):
        paths.append(folder / f"share-{share}")
        measure_partial(config, (share, 3)).write(paths[-1])
    return conclude_partials(open_partials(paths))
