"""Small logs that tests of Spark share, and the sections of a config that read them."""

import json

import numpy as np
import polars as pl

TABLES = """
[truth]
path = "truth.parquet"
[[rankings]]
model = "a"
path = "a.parquet"
[[rankings]]
model = "b"
path = "b.parquet"
"""
BESIDE = """
[train]
path = "train.parquet"
[items]
path = "items.parquet"
separator = "|"
now = "2026-01-31"
columns = { item = "item", genres = "genres", published = "published", vector = "vector" }
"""
ON_TRAIN = ["nDCG@5", "novelty@5", "avg_popularity@5", "gini@5", "item_coverage@5", "entropy@5"]
QUANTILES = """
[segments]
n = { by = "n_relevant", quantiles = 3 }
age = { path = "users.parquet", by = "age / 2", user = "who", quantiles = 4 }
"""


USERS = """
[segments]
country = { by = "country" }
age = { path = "users.parquet", by = "age", user = "who", quantiles = 3 }
"""
LABELS = """
[[labels]]
model = "a"
path = "a.parquet"
[[labels]]
model = "b"
path = "b.parquet"
columns = { score = "score / 2", item = "item", time = "at" }
where = "item <> 3"
[policies]
duplicates = "count"
[metrics]
names = ["AUC", "GAUC", "AUC(over='users')", "log-loss", "F1(threshold=0.3)", "ECE"]
[statistics]
baseline = "a"
"""


LISTED = "".join(f'[[rankings]]\nmodel = "{m}"\npath = "{m}.parquet"\n' for m in "ab")
PLAIN = f"""
truth.path = "truth.parquet"
{LISTED}
[metrics]
names = ["nDCG@5", "recall@{{1,5}}", "AP", "RR"]
"""
ALL = f"""
[truth]
path = "truth.parquet"
{LISTED}
[train]
path = "train.parquet"
drop_seen = true
[metrics]
names = ["nDCG@{{2,5}}", "recall@5", "AP", "RR"]
[segments]
country = {{ by = "country" }}
kind = {{ path = "users.parquet", by = "upper(kind)", user = "who" }}
age = {{ path = "users.parquet", by = "age", user = "who", edges = [30, 50] }}
n = {{ by = "n_relevant", edges = [2, 4] }}
genre = {{ path = "items.parquet", item = "item", by = "genre" }}
cross = [["country", "kind"]]
[statistics]
baseline = "a"
curves = true
distributions = true
"""


def make_logs(folder, *, user=None, item=None, as_lists=False, n_users=120):
    """A truth, two models with scores and ranks, train, users and items; shuffled, some skewed."""
    rng = np.random.default_rng(3)
    user, item = user or (lambda ids: ids), item or (lambda ids: ids)
    users = np.concatenate([np.repeat(np.arange(n_users), 4), np.full(25, n_users)])
    truth = pl.DataFrame({"user": users, "item": rng.integers(0, 40, users.size)}).unique()
    truth = truth.sample(fraction=1.0, shuffle=True, seed=1)
    country = pl.Series(["de", "fr", "jp", None]).gather(truth["user"] % 4)
    truth = truth.with_columns(country=country, relevance=truth["item"] % 3 * 1.0)
    frames = {"truth": truth}
    for model in "ab":
        lists = [rng.permutation(40)[:8] for _ in range(n_users)]
        frame = pl.DataFrame(
            {
                "user": np.repeat(np.arange(10, n_users + 10), 8),
                "item": np.concatenate(lists),
                "rank": np.tile(np.arange(1, 9), n_users),
            }
        ).with_columns(score=(9 - pl.col("rank")) // 2 * 0.5)
        frames[model] = frame.sample(fraction=1.0, shuffle=True, seed=2)
    frames["train"] = truth.sample(40, seed=4).select("user", "item")
    for name, frame in frames.items():
        ids = [frame["user"].to_numpy(), frame["item"].to_numpy()]
        frame = frame.with_columns(user=user(ids[0]), item=item(ids[1]))
        if as_lists and name in "ab":
            frame = frame.sort("rank").group_by("user").agg("item")
        frame.write_parquet(folder / f"{name}.parquet")
    people = pl.DataFrame({"who": user(np.arange(n_users - 5)), "age": rng.integers(18, 80, 115)})
    people = people.with_columns(kind=pl.Series(rng.choice(["new", "old"], 115)))
    people.write_parquet(folder / "users.parquet")
    shelf = pl.DataFrame({"item": item(np.arange(40)), "genre": [f"g{n % 3}" for n in range(40)]})
    shelf.write_parquet(folder / "items.parquet")


ORDERS = {  # policies that look at the order of rows, and which columns rankings lack
    "ties": ('ties = "input"', ["rank"]),
    "numba": ('ties = "numba"', ["rank"]),
    "first": ('duplicates = "first"\nbad_ranks = "keep"', []),
    "last": ('duplicates = "last"', ["rank"]),
    "truth": ('truth_duplicates = "last"', []),
    "rows": ('duplicates = "first"', ["rank", "score"]),
}


def make_copies(folder, name):
    """Logs as `make_logs` makes them, with copies and `place`, a row's number; and their config."""
    make_logs(folder)
    policy, lacks = ORDERS[name]
    for table in ("truth", "a", "b"):
        rows = pl.read_parquet(folder / f"{table}.parquet")
        if table in {"ties": "", "numba": "", "truth": ["truth"]}.get(name, "ab"):
            again = rows.with_columns(pl.col("^relevance|score|rank$") + 20).sample(99, seed=1)
            rows = pl.concat([rows, again])
        rows = rows.drop(lacks if table != "truth" else [])
        rows.with_columns(place=pl.int_range(pl.len())).write_parquet(folder / f"{table}.parquet")
    return f"{PLAIN}\n[policies]\n{policy}\n"


def make_lists(folder, user=lambda ids: pl.Series(ids), item=lambda ids: pl.Series(ids)):
    """Truth, train, two models, their lists of other days, items and users."""
    rng = np.random.default_rng(11)

    def write(name, **columns):
        frame = pl.DataFrame(columns)
        for key, make in {"user": user, "who": user, "item": item}.items():
            if key in columns:
                frame = frame.with_columns(make(frame[key].to_numpy()).alias(key))
        frame.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(folder / f"{name}.parquet")

    n, n_items = 90, 50
    users = np.repeat(np.arange(n), 5)
    write(
        "truth", user=users, item=np.concatenate([rng.permutation(n_items)[:5] for _ in range(n)])
    )
    write("train", user=rng.integers(5, n + 20, 900), item=rng.zipf(1.5, 900) % n_items)
    for name in ("a", "b", "before", "other"):
        lists = [rng.permutation(n_items + 3)[:8] for _ in range(n)]
        ranks = np.tile(np.arange(1, 9), n)
        write(name, user=np.repeat(np.arange(8, n + 8), 8), item=np.concatenate(lists), rank=ranks)
    vectors = rng.normal(size=(n_items, 3)).tolist()
    genres = [f"g{k % 3}|g{k % 4}" for k in range(n_items)]
    days = [f"2026-01-{1 + k % 28:02}" for k in range(n_items)]
    write("items", item=np.arange(n_items), genres=genres, published=days, vector=vectors)
    write("users", who=np.arange(n - 5), age=rng.integers(18, 80, n - 5))
    write("wanted", user=np.arange(20, 60))


def spell(names):
    return f"\n[metrics]\nnames = {json.dumps(names)}\n"


def make_rows(folder, user=lambda ids: pl.Series(ids), n_users=60):
    """A table of ratings, two with predictions, scores and labels, and one of users."""
    rng = np.random.default_rng(5)
    pairs = pl.DataFrame({"user": np.repeat(np.arange(n_users), 9), "item": np.tile(range(9), 60)})
    n_rows = pairs.height
    rated = pairs.with_columns(rating=pl.Series(rng.integers(1, 6, n_rows) * 1.0))
    frames = {"ratings": rated}
    for model in "ab":
        frames[model] = rated.with_columns(
            country=pl.Series(["de", "fr", None]).gather(pl.Series(pairs["user"] % 3)),
            prediction=pl.col("rating") + pl.Series(rng.normal(size=n_rows)).round(1),
            score=pl.Series(rng.random(n_rows).round(2)),
            label=pl.Series(rng.integers(0, 2, n_rows)),
            at=pl.Series(rng.integers(1, 10**6, n_rows)),
        )
    for seed, (name, frame) in enumerate(frames.items()):
        frame = frame.sample(fraction=0.95, shuffle=True, seed=seed)
        frame = frame.with_columns(user(frame["user"].to_numpy()).alias("user"))
        frame.write_parquet(folder / f"{name}.parquet")
    people = pl.DataFrame({"who": user(np.arange(50)), "age": rng.integers(18, 80, 50)})
    people.write_parquet(folder / "users.parquet")
