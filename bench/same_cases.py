"""Configs and logs that two commits are held to each other by; written for same.py.

    python same_cases.py FOLDER LOGS SEED [--quick]

Random choices may contradict each other: then both commits have to refuse in the same words.
"""

import json
import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import polars as pl

from harness import ROOT

DAY = "2026-11-20"
OPTIONS: Sequence[dict[str, Any]] = ({"threads": 1}, {"threads": 2}, {"threads": 8})
Tree = dict[str, Any]


def main() -> None:
    """Write cases.json and what it names."""
    folder, n_logs, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    is_quick = "--quick" in sys.argv
    cases = [] if is_quick else [*examples(folder), *fixtures(folder)]
    for kind, make in (("rankings", rankings), ("ratings", ratings), ("labels", labels)):
        for number in range(n_logs):
            draw = random.Random(f"{kind} {seed} {number}")
            place = folder / kind / str(number)
            place.mkdir(parents=True)
            tree = make(draw, place)
            options = dict(draw.choice(OPTIONS))
            if draw.random() < 0.2:
                options["memory_limit"] = 1 << 30
            if draw.random() < 0.1:
                options["sample"] = 0.5
            cases.append(case(folder, place / "config.toml", tree, options))
    (folder / "cases.json").write_text(json.dumps(cases))


def case(folder: Path, path: Path, tree: Tree | None, options: Mapping[str, Any]) -> Tree:
    """A case; its config is written unless it is there."""
    if tree is not None:
        path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in tree.items()))
    name = str(path.relative_to(folder))
    return {
        "name": f"{name} {json.dumps(dict(options), sort_keys=True)}",
        "config": name,
        "variables": [f"day={DAY}"] if "{day}" in path.read_text() else [],
        "per_user": tree is not None and "rankings" in tree and not draws(tree),
        "options": dict(options),
    }


def draws(tree: Tree) -> bool:
    """Whether errors are those of clusters, for which no values of users are kept."""
    return "cluster" in tree.get("statistics", {})


def toml(value: object) -> str:
    """A value as TOML has it, on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


# ---------------------------------------------------------------- what comes with the project


def examples(folder: Path) -> list[Tree]:
    """The demo, and every config of configs/ that needs no store."""
    module("example_logs.py").write_example_logs(folder, [DAY])
    shutil.copytree(ROOT / "configs", folder / "configs")
    (folder / "evalkit").mkdir()
    shutil.copytree(ROOT / "evalkit" / "demo", folder / "evalkit" / "demo")
    configs = [folder / "evalkit" / "demo" / "demo.toml", *(folder / "configs").glob("*.toml")]
    local = [each for each in sorted(configs) if "s3://" not in each.read_text()]
    return [case(folder, path, None, options) for path in local for options in OPTIONS[:2]]


def module(name: str) -> Any:
    """A module of the tests, whatever else has its name here."""
    sys.path.insert(0, str(ROOT))
    spec = spec_from_file_location(Path(name).stem, ROOT / "tests" / name)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def fixtures(folder: Path) -> list[Tree]:
    """The conformance fixtures, each under every profile."""
    peers = module("conformance/peers.py")
    found = []
    profiles = sorted(
        path.stem for path in (ROOT / "evalkit" / "metrics" / "profiles").glob("*.toml")
    )
    names = sorted(path.stem for path in (peers.VECTORS / "fixtures").glob("*.json"))
    for name in names:
        data = peers.fixture(name)
        if "qrels" not in data or "run" not in data:
            continue
        place = folder / "fixtures" / name
        place.mkdir(parents=True)
        peers.truth_of(data).write_parquet(place / "truth.parquet")
        peers.rankings_of(data, "rows").write_parquet(place / "run.parquet")
        for profile in profiles:
            ids = {"user": "user", "item": "item"}
            tree = {
                "truth": {
                    "path": "truth.parquet",
                    "columns": {**ids, "relevance": "relevance"},
                    "threshold": float(data["threshold"]),
                },
                "rankings": [
                    {"model": "run", "path": "run.parquet", "columns": {**ids, "score": "score"}}
                ],
                "metrics": {"names": METRICS, "profile": profile},
            }
            found.append(case(folder, place / f"{profile}.toml", tree, {"threads": 1}))
    return found


# ---------------------------------------------------------------- random logs


METRICS = [
    "nDCG@{1,3,10}", "nDCG(gain='exp2')", "DCG@3", "recall@{1,5}", "precision@3", "F1@5", "AP",
    "AP@3", "RR", "RR@2", "hit@3", "hits@3", "R-precision", "RBP", "first_hit_rank", "AUC",
    "partial-AUC@3", "CG@5",
]  # fmt: skip
ROW_METRICS = {
    "ratings": [
        "RMSE", "MAE", "bias", "R2", "MSE", "MAPE", "explained-variance",
        "RMSE(over='users')", "MAE(over='users')", "R2(over='users')",
    ],
    "labels": [
        "AUC", "GAUC", "AP", "log-loss", "NE", "Brier", "ECE(bins=5)", "calibration", "MCC",
        "F1(at='best')", "precision(threshold=0.4)", "recall(threshold=0.4)", "AUC(over='users')",
        "PR-AUC(integration='trapezoid')", "log-loss(over='users')",
    ],
}  # fmt: skip
POLICIES: dict[str, list[Any]] = {
    "missing_ranking": ["zero", "skip", "nan"],
    "empty_ranking": ["zero", "skip", "nan"],
    "no_relevant": ["skip", "zero", "one", "nan"],
    "zeros": ["count", "skip", "nan"],
    "unknown_users": ["skip", "count", "error"],
    "seen": ["all", "shown"],
    "duplicates": ["error", "best", "first", "last", "once", "count", "multiply"],
    "rel_size": ["items", "rows"],
    "truth_duplicates": ["max", "error", "sum", "last"],
    "ties": ["item", "item-desc", "item-text", "input", "numba", "mean-rank", "expected", "worst"],
    "score_type": ["float64", "float32"],
    "nonpositive_scores": ["hit", "miss"],
    "fractional_relevance": ["keep", "binary"],
    "round_users": [17, 4],
    "round_mean": [17, 5],
    "bad_scores": ["error", "last", "drop"],
    "null_ids": ["error", "drop"],
    "bad_ranks": ["error", "keep", "compress"],
    "negative_relevance": ["ignore", "error", "subtract"],
    "beyond_depth": ["warn", "error"],
    "no_common_user": ["error", "warn"],
    "empty_input": ["error", "warn"],
    "unpredicted": ["skip", "error"],
    "unrated": ["skip", "error"],
    "bad_labels": ["error", "drop"],
}
OF_ROWS = {
    "ratings": ("truth_duplicates", "unpredicted", "unrated"),
    "labels": ("bad_labels", "bad_scores"),
}
OF_RANKINGS = [name for name in POLICIES if name not in ("unpredicted", "unrated", "bad_labels")]


def some(draw: random.Random, among: Sequence[Any], at_least: int, at_most: int) -> list[Any]:
    """A few of a list, in its order."""
    chosen = set(draw.sample(range(len(among)), min(len(among), draw.randint(at_least, at_most))))
    return [each for number, each in enumerate(among) if number in chosen]


def policies(draw: random.Random, names: Sequence[str]) -> Tree:
    """A few policies; often none, often those that let bad rows pass."""
    chosen = some(draw, names, 0, draw.choice([0, 2, 4]))
    return {name: draw.choice(POLICIES[name]) for name in chosen}


def identifier(draw: random.Random) -> Callable[[int], Any]:
    """How ids are written."""
    by_kind: dict[str, Callable[[int], Any]] = {
        "small": lambda number: number,
        "negative": lambda number: number * 7 - 40,
        "wide": lambda number: (number * 2654435761) << 20,
        "text": lambda number: f"u{number}",
        "long text": lambda number: f"someone with a long name {number:05d}",
    }
    return by_kind[draw.choice(list(by_kind))]


def rankings(draw: random.Random, place: Path) -> Tree:
    """A log of up to forty users, its segments and comparisons."""
    n_users, n_items = draw.choice([1, 3, 12, 40, 120]), draw.choice([4, 12, 40])
    user, item = identifier(draw), identifier(draw)
    wanted = some(draw, METRICS, 1, 8)
    grades = draw.choice([[1.0], [0.0, 1.0], [0.0, 1.0, 2.0, 3.0], [-1.0, 0.0, 0.5, 4.0]])
    truth = [
        (user(number), item(draw.randrange(n_items)), draw.choice(grades), draw.choice("ab"))
        for number in range(n_users)
        for _ in range(draw.choice([0, 1, 2, 5]))
    ] or [(user(0), item(0), 1.0, "a")]
    rows_of(draw, truth, ["user", "item", "relevance", "kind"]).write_parquet(
        place / "truth.parquet"
    )
    form = draw.choice(["rank", "score", "rank", "order", "list", "both"])
    n_models = draw.choice([1, 1, 2, 3])
    listed = []
    ids = {"user": "user", "item": "item"}
    for model in range(n_models):
        frame = lists(draw, user, item, n_users, n_items, form)
        frame.write_parquet(place / f"model-{model}.parquet")
        named = [name for name in ("rank", "score") if name in frame.columns]
        columns = ids | dict(zip(named, named, strict=True))
        listed.append({"model": f"m{model}", "path": f"model-{model}.parquet", "columns": columns})
    tree: Tree = {
        "truth": {"path": "truth.parquet", "columns": {**ids, "relevance": "relevance"}},
        "rankings": listed,
        "metrics": {"names": wanted},
        "policies": policies(draw, OF_RANKINGS),
    }
    if draw.random() < 0.3:
        tree["truth"]["threshold"] = draw.choice([0.5, 1.0, 2.0])
    if draw.random() < 0.2:
        profiles = sorted(
            path.stem for path in (ROOT / "evalkit" / "metrics" / "profiles").glob("*.toml")
        )
        tree["metrics"]["profile"] = draw.choice(profiles)
    if draw.random() < 0.3:
        seen = [(user(draw.randrange(n_users)), item(draw.randrange(n_items))) for _ in range(30)]
        rows_of(draw, seen, ["user", "item"]).write_parquet(place / "train.parquet")
        tree["train"] = {"path": "train.parquet", "columns": ids, "drop_seen": draw.random() < 0.5}
    if draw.random() < 0.5:
        tree["segments"] = segments(draw, place, [user(n) for n in range(n_users)])
        if draw.random() < 0.4:
            kinds = [(item(n), draw.choice(["x", "y"])) for n in range(n_items)]
            rows_of(draw, kinds, ["item", "kind"]).write_parquet(place / "items.parquet")
            tree["segments"]["genre"] = {"path": "items.parquet", "item": "item", "by": "kind"}
    if draw.random() < 0.5:
        names = [f"m{model}" for model in range(n_models)]
        tests = ["t", "t", "wilcoxon", "permutation", "bootstrap"]
        tree["statistics"] = statistics(draw, names, tests)
        if draw.random() < 0.2:
            tree["statistics"]["cluster"] = "user" if draw.random() < 0.3 else "kind"
        if draw.random() < 0.3:
            tree["statistics"] |= {"curves": True, "distributions": True}
    return tree


def rows_of(draw: random.Random, rows: Sequence[tuple[Any, ...]], names: list[str]) -> pl.DataFrame:
    """Rows as a table, in their order or in any."""
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.sample(fraction=1.0, shuffle=True, seed=7) if draw.random() < 0.4 else frame


def lists(
    draw: random.Random,
    user: Callable[[int], Any],
    item: Callable[[int], Any],
    n_users: int,
    n_items: int,
    form: str,
) -> pl.DataFrame:
    """One model's rankings of most users, and of some that the truth lacks."""
    rows = []
    copies, ties = draw.random() < 0.15, draw.random() < 0.4
    for number in range(n_users + 2):
        if draw.random() < 0.12:
            continue
        depth = draw.randint(1, min(n_items, 12))
        shown = [draw.randrange(n_items) for _ in range(depth)] if copies else None
        shown = shown or draw.sample(range(n_items), depth)
        for rank, item_id in enumerate(shown, 1):
            score = float(draw.randrange(-1, 4)) if ties else 1.0 / rank
            rows.append((user(number), item(item_id), rank, score))
    rows = rows or [(user(0), item(0), 1, 1.0)]
    frame = pl.DataFrame(rows, schema=["user", "item", "rank", "score"], orient="row")
    if form == "list":
        return frame.group_by("user", maintain_order=True).agg("item")
    frame = frame if form == "order" or draw.random() < 0.6 else frame.sample(
        fraction=1.0, shuffle=True, seed=3
    )  # fmt: skip
    kept = {"rank": ["rank"], "score": ["score"], "order": [], "both": ["rank", "score"]}[form]
    return frame.select("user", "item", *kept)


def segments(draw: random.Random, place: Path, users: Sequence[Any]) -> Tree:
    """Users in groups: by what the truth says, by a table, by quantiles, crossed."""
    columns: dict[str, list[Any]] = {
        "user": list(users),
        "country": [draw.choice(["fr", "de", "it", None]) for _ in users],
        "age": [draw.randint(18, 80) for _ in users],
    }
    pl.DataFrame(columns, schema_overrides={"country": pl.String}).write_parquet(
        place / "users.parquet"
    )
    table = {"path": "users.parquet", "user": "user"}
    tree: Tree = {
        "country": {**table, "by": "country"},
        "age": {**table, "by": "age", "quantiles": 3},
        "min_users": draw.choice([1, 1, 3]),
    }
    if draw.random() < 0.5:
        tree["cross"] = [["country", "age"]]
    return tree


def statistics(draw: random.Random, models: Sequence[str], tests: Sequence[str]) -> Tree:
    """Intervals and comparisons."""
    tree: Tree = {"level": draw.choice([0.9, 0.95])}
    if len(models) > 1:
        tree["baseline"] = draw.choice(list(models))
        tree["pairs"] = draw.choice(["baseline", "all"])
        tree["correction"] = draw.choice(["holm", "bh", "none"])
        tree["test"] = draw.choice(tests)
        tree["search"] = draw.random() < 0.3
        if draw.random() < 0.3:
            tree["margin"] = 0.01
    if draw.random() < 0.25:
        tree |= {"method": "bootstrap", "replicates": 100}
        tree["limits"] = draw.choice(["percentile", "bca", "studentised"])
    return tree


def ratings(draw: random.Random, place: Path) -> Tree:
    """True and predicted ratings, in one table or two."""
    n_users = draw.choice([1, 5, 40])
    user, item = identifier(draw), identifier(draw)
    pairs = [(user(u), item(i)) for u in range(n_users) for i in range(20) if draw.random() < 0.4]
    pairs = pairs or [(user(0), item(0))]
    rows = [(*pair, float(draw.randint(1, 5))) for pair in pairs]
    rows_of(draw, rows, ["user", "item", "rating"]).write_parquet(place / "ratings.parquet")
    ids = {"user": "user", "item": "item"}
    models = some(draw, ["a", "b"], 1, 2)
    for model in models:
        guesses = [
            (*pair, draw.choice([3.0, draw.uniform(1, 5)])) for pair in pairs if draw.random() < 0.9
        ] or [(*pairs[0], 3.0)]
        rows_of(draw, guesses, ["user", "item", "prediction"]).write_parquet(
            place / f"{model}.parquet"
        )
    tree: Tree = {
        "ratings": {"path": "ratings.parquet", "columns": {**ids, "rating": "rating"}},
        "predictions": [
            {
                "model": model,
                "path": f"{model}.parquet",
                "columns": {**ids, "prediction": "prediction"},
            }
            for model in models
        ],
    }
    return rows_tree(draw, place, tree, "ratings", models, [user(n) for n in range(n_users)])


def labels(draw: random.Random, place: Path) -> Tree:
    """Scored rows with labels."""
    n_users = draw.choice([1, 5, 40])
    user = identifier(draw)
    models = some(draw, ["a", "b"], 1, 2)
    coarse = draw.random() < 0.4
    for model in models:
        rows = []
        for _ in range(draw.choice([1, 30, 400])):
            score = draw.random()
            label = int(draw.random() < score)
            rows.append(
                (user(draw.randrange(n_users)), round(score, 1) if coarse else score, label)
            )
        rows_of(draw, rows, ["user", "score", "label"]).write_parquet(place / f"{model}.parquet")
    columns = {name: name for name in ("user", "score", "label")}
    tree: Tree = {
        "labels": [
            {"model": model, "path": f"{model}.parquet", "columns": columns} for model in models
        ]
    }
    return rows_tree(draw, place, tree, "labels", models, [user(n) for n in range(n_users)])


def rows_tree(
    draw: random.Random,
    place: Path,
    tree: Tree,
    kind: str,
    models: Sequence[str],
    users: Sequence[Any],
) -> Tree:
    """What ratings and labels have in common."""
    is_of_users = draw.random() < 0.4  # those alone can be resampled
    names = [each for each in ROW_METRICS[kind] if not is_of_users or "users" in each]
    tree["metrics"] = {"names": some(draw, names, 1, 6)}
    tree["policies"] = policies(draw, OF_ROWS[kind])
    if draw.random() < 0.4:
        tree["segments"] = segments(draw, place, users)
    if draw.random() < 0.5:
        tests = ["t", "wilcoxon", "permutation", "bootstrap"] if is_of_users else ["t"]
        tree["statistics"] = statistics(draw, models, tests)
        if not is_of_users:
            for key in ("method", "search", "replicates", "limits"):
                tree["statistics"].pop(key, None)
    return tree


if __name__ == "__main__":
    main()
