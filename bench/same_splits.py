"""The same splits as another commit: random logs cut by every rule, by both.

    python bench/same_splits.py main
    python bench/same_splits.py v0.1.0 HEAD --logs 200

Compared are `split.json` less the bytes of files, `leakage.json`, the rows of each part in their
order, and the text of errors. The exit status is 1 where something differs.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from compare import WORKING_TREE, check_out
from same import differences

from harness import BENCH, make_parser

SIZES: list[dict[str, Any]] = [
    {"test": 1},
    {"test": 2, "validation": 1},
    {"test": 0.2},
    {"test": 0.3, "validation": 0.2},
    {"ratios": [0.7, 0.2, 0.1]},
]
LIBRARIES = (
    *("recbole", "replay", "replay-polars", "rectools", "lenskit", "elliot", "daisyrec"),
    *("recpack", "datarec", "cornac", "recommenders", "surprise"),
)


def draw_rule(draw: random.Random) -> dict[str, Any]:
    """Keys of [split] that mostly go together."""
    by = draw.choice(("user", "user", "user", "item", "time", "time", "other", "other"))
    rule: dict[str, Any] = {"by": by, "empty": "keep", "time_unit": "s"}
    if by in ("user", "item"):
        rule |= draw.choice(SIZES)
        rule["ties"] = draw.choice(("input", "input", "first", "item"))
        rule["order"] = draw.choice(("time", "time", "time", "input", "reversed", "hash"))
        rule["min_train"] = draw.choice((0, 1, 1, 2))
        rule["min_rows"] = draw.choice((0, 0, 0, 3))
        rule["below_min"] = draw.choice(("train", "drop"))
        if isinstance(rule.get("test"), int):
            rule["folds"] = draw.choice((None, None, 2, 3))
            rule["left_out"] = draw.choice(("drop", "train"))
    elif by == "time":
        rule |= draw.choice(
            (
                {"test": "1d"},
                {"test": "6h", "validation": "5h"},
                {"test": "3h", "folds": 3, "train": draw.choice(("expanding", "sliding"))},
                {"test": 0.2, "ties": draw.choice((None, "input"))},
                {"test": 0.2, "validation": 0.1, "ties": draw.choice((None, "input"))},
                {
                    "test": 500_000,
                    "validation": 400_000,
                    "boundary": draw.choice(("from", "after")),
                },
                {"ratios": [0.8, 0.1, 0.1]},
                {"test": "1d", "write": "where"},
            )
        )
    else:
        rule |= draw.choice(
            (
                {"by": "users", "test": 0.3, "validation": 0.2},
                {"by": "users", "test": 5, "validation": 2},
                {"by": "users", "folds": 3},
                {"by": "rows", "test": 0.3},
                {"by": "rows", "test": 20, "validation": 10},
                {"by": "rows", "folds": 3},
                {"by": "new-users", "test": 0.3},
                {"by": "time-quantile", "test": 0.2, "validation": 0.3},
                {"by": "percentile-user", "ratios": [0.8, 0.1, 0.1]},
                {"by": "user-span", "test": "1h", "validation": "2h"},
                {"by": "round-robin", "folds": 3},
                {"by": "blocks", "folds": 3},
            )
        )
    rare: dict[str, tuple[Any, ...]] = {
        "cold_users": ("drop", "error"),
        "cold_items": ("drop",),
        "seen": ("drop", "error"),
        "dedupe": ("first", "last", "max"),
        "part_duplicates": ("first", "first by time"),
        "core": ({"user": 2, "item": 2}, {"user": 3, "item": 2, "count": "pairs"}),
        "threshold": (3.0,),
        "threshold_in": ("test",),
        "write": ("assignment", "assignment"),
        "mark_cold": (False,),
    }
    for key, choices in rare.items():
        if draw.random() < 0.12 and key not in rule:
            rule[key] = draw.choice(choices)
    if "threshold" not in rule:
        rule.pop("threshold_in", None)
    if draw.random() < 0.1 and by in ("user", "time"):
        rule["like"] = draw.choice(LIBRARIES)
        for key in ("ties", "order", "min_train", "min_rows", "below_min"):
            rule.pop(key, None)
    rule["bad_times"] = draw.choice(("drop", "train", "error"))
    rule["null_ids"] = draw.choice(("drop", "drop", "error"))
    return {key: each for key, each in rule.items() if each is not None}


def write_cases(folder: Path, n_logs: int, seed: int) -> None:
    """Logs, and for each some rules."""
    import numpy as np
    import polars as pl

    cases = []
    for number in range(n_logs):
        draw, values = random.Random(seed * 10_000 + number), np.random.default_rng(seed + number)
        n_rows = draw.choice((1, 3, 40, 300, 300, 3000))
        span = draw.choice((5, 100, 100_000, 1_000_000))
        times = values.integers(0, span, n_rows)
        if draw.random() < 0.5:
            times = np.sort(times)
        users = (n_rows / draw.choice((2, 8)) * values.random(n_rows) ** 2).astype(np.int64)
        if draw.random() < 0.1:
            users[:] = 7
        items = values.integers(0, max(2, n_rows // 6), n_rows)
        log = pl.DataFrame(
            {
                "user": users,
                "item": items,
                "time": times,
                "relevance": values.integers(1, 6, n_rows),
            }
        )
        kind = draw.randrange(4)
        if kind == 1:
            log = log.with_columns(pl.format("u{}", "user").alias("user"), pl.col("item") * 10**13)
        elif kind == 2:
            log = log.with_columns(pl.format("i{}", "item").alias("item"), pl.col("user") - 3)
        if draw.random() < 0.3:
            where = pl.Series(values.random(n_rows) < 0.05)
            name = draw.choice(("user", "item", "time"))
            log = log.with_columns(pl.when(~where).then(name).alias(name))
        path = folder / f"log-{number}"
        path.mkdir()
        n_files = draw.choice((1, 1, 4))
        for part, frame in enumerate(log.iter_slices(max(1, -(-n_rows // n_files)))):
            frame.write_parquet(path / f"{part}.parquet", row_group_size=draw.choice((7, 1000)))
        cases += [
            {"name": f"{number}.{each}", "log": path.name, "rule": draw_rule(draw)}
            for each in range(6)
        ]
    (folder / "cases.json").write_text(json.dumps(cases))


def answer_cases(folder: Path, tree: str, options: dict[str, Any]) -> None:
    """A line of JSON for each case: what the code in a tree makes of it."""
    sys.path.insert(0, tree)
    import os
    import warnings

    import polars as pl

    import evalkit
    from evalkit.errors import EvalkitError

    warnings.simplefilter("ignore")
    os.chdir(folder)
    for case in json.loads(Path("cases.json").read_text()):
        answer: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "split")
            try:
                made = evalkit.split(case["log"], out=out, **case["rule"], **options)
                told = json.loads((out / "split.json").read_text())
                rows = []
                for part in told["parts"]:
                    for file in part["files"]:
                        frame = pl.read_parquet(out / file["path"])
                        rows.append([file["path"], frame.hash_rows(1).implode().hash()[0]])
                        del file["sha256"], file["bytes"]
                for file in told["files"]:
                    rows.append(
                        [file["path"], pl.read_parquet(out / file["path"]).hash_rows().sum()]
                    )
                    del file["sha256"], file["bytes"]
                letters = [each.to_list() for each in made.assignment]
                leaks = json.loads((out / "leakage.json").read_text())
                answer = {"split": told, "leaks": leaks, "rows": rows, "letters": letters}
            except EvalkitError as error:
                answer = {"error": [str(each) for each in getattr(error, "errors", (error,))]}
            except Exception as crash:  # a fault of the code
                answer = {"crash": f"{type(crash).__name__}: {crash}"}
        print(json.dumps({"case": case["name"], "rule": case["rule"], "answer": answer}))


def answers_of(tree: Path, folder: Path, options: str) -> dict[str, Any]:
    """What a commit's files say of every case."""
    command = [sys.executable, "-P", __file__, "--answer", str(folder), str(tree), options]
    paths = {"PYTHONPATH": str(BENCH)}
    import os

    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | paths
    )
    lines = (json.loads(line) for line in done.stdout.splitlines())
    return {line["case"]: (line["rule"], line["answer"]) for line in lines}


def main() -> int:
    """Exit status: 0, or 1 where the two differ."""
    if sys.argv[1:2] == ["--answer"]:
        answer_cases(Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
        return 0
    parser = make_parser(__doc__)
    parser.add_argument("commit", help="What git knows: a hash, a branch, a tag.")
    parser.add_argument("other", nargs="?", default=WORKING_TREE, help="Default: working tree.")
    parser.add_argument("--logs", type=int, default=60, help="Random logs.")
    parser.add_argument("--options", default="{}", help="JSON of keys that the second one adds.")
    given = parser.parse_args()
    wrong = crashes = errors = 0
    with tempfile.TemporaryDirectory(prefix="evalkit-same-") as scratch:
        folder = Path(scratch)
        write_cases(folder, given.logs, given.seed)
        with check_out(given.commit) as tree:
            before = answers_of(tree, folder, "{}")
        with check_out(given.other) as tree:
            after = answers_of(tree, folder, given.options)
    for case, (rule, one) in before.items():
        found = list(differences(one, after[case][1]))
        if "crash" in after[case][1]:
            print(f"{case} {rule}: {after[case][1]['crash']}")
            crashes += 1
        errors += "error" in after[case][1]
        wrong += bool(found)
        for path, before_, after_ in found[:3]:
            print(f"{case} {rule}: {path}: {str(before_)[:200]} -> {str(after_)[:200]}")
    print(f"{len(before):,} cases, {errors:,} errors, {crashes:,} crashes, {wrong:,} differ")
    return 1 if wrong or crashes or not before else 0


if __name__ == "__main__":
    sys.exit(main())
