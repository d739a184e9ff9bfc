"""Other libraries beside evalkit on the same logs: every mean and every user's value.

    python bench/peers.py                          # once: the libraries, each in its environment
    python bench/agree.py --data FOLDER            # MovieLens 100K as FOLDER/ml-100k has it
    python bench/agree.py --only ranx --users 200  # invented logs alone

Each library runs in its own environment and prints what it gives; evalkit measures the same tables
under that library's profile. Invented logs have equal scores, for the libraries that have a rule
for them, users without a ranking and rankings without a truth. Exit status 1: a number differs.
"""

import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

import evalkit
from harness import BENCH, make_parser
from peers import interpreter, is_installed, list_peers

PROFILES = {"pytrec_eval": "trec_eval"}
TOLERANCES = {"torchmetrics": 2e-6}
UNRULED = ("torchmetrics",)  # no rule for equal scores


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--only", default=",".join(list_peers()), help="Some of the libraries.")
    parser.add_argument("--data", type=Path, help="Folder with ml-100k.")
    parser.add_argument("--users", type=int, default=200, help="Of invented logs.")
    given = parser.parse_args()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        logs = invent_logs(Path(folder), given.users, given.seed)
        if given.data is not None:
            logs |= real_logs(Path(folder), given.data)
        for library in given.only.split(","):
            if not is_installed(library, given.out):
                print(f"{library}: not installed; python bench/peers.py --only {library}")
                continue
            for name, log in logs.items():
                if library in UNRULED and "equal" in name:
                    continue
                n_wrong += compare(library, name, log, given.out)
    return 1 if n_wrong else 0


def compare(library: str, name: str, log: Path, out: Path) -> int:
    """Run both, print a line, and tell the first differences; how many there are."""
    command = [str(interpreter(library, out)), str(BENCH / "agree_worker.py"), library, str(log)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{library} on {name}: it fails: {done.stderr.strip().splitlines()[-1][:200]}")
        return 1
    theirs = json.loads(done.stdout.splitlines()[-1])
    truth, run = pl.read_parquet(log / "truth.parquet"), pl.read_parquet(log / "run.parquet")
    report = evalkit.evaluate(
        truth,
        {"run": run},
        metrics=list(theirs),
        profile=PROFILES.get(library, library),
        columns={"user": "user", "item": "item", "score": "score", "relevance": "relevance"},
        per_user=True,
    )
    tolerance = TOLERANCES.get(library, 1e-12)
    wrong, n_values, largest = [], 0, 0.0
    for metric, found in theirs.items():
        pairs = [("mean", found["mean"], report.value(metric))]
        if "per_user" in found:
            frame = report.per_user(metric)
            users = frame["user"].cast(pl.String)
            ours = dict(zip(users, frame[frame.columns[-1]], strict=True))
            pairs += [
                (user, value, ours.get(user, math.nan)) for user, value in found["per_user"].items()
            ]
        for who, value, mine in pairs:
            n_values += 1
            if math.isnan(value) and math.isnan(mine):
                continue
            gap = abs(value - mine)
            largest = max(largest, gap)
            if not gap <= tolerance * max(1.0, abs(value)):
                wrong.append(f"{metric} {who}: {library} {value!r}, evalkit {mine!r}")
    told = f"{n_values:,} values, largest difference {largest:.1e}, {len(wrong)} differ"
    print(f"{library} on {name}: {told}")
    for line in wrong[:5]:
        print(f"    {line}")
    return len(wrong)


def invent_logs(folder: Path, n_users: int, seed: int) -> dict[str, Path]:
    """Logs that no test has: plain ones, and ones full of holes and of equal scores."""
    found = {}
    for name, digits, holes in (
        ("plain logs", 12, False),
        ("logs with holes", 12, True),
        ("logs with equal scores", 1, True),
    ):
        draw = random.Random(f"{seed} {name}")
        truth, run = [], []
        for user in range(1, n_users + 1):
            if not holes or draw.random() < 0.9:
                judged = draw.sample(range(1, 121), draw.randint(1, 20))
                truth += [(user, item, draw.randint(1, 4)) for item in judged]
            if not holes or draw.random() < 0.9:
                shown = draw.sample(range(1, 121), draw.randint(2, 60))
                scores = sorted((round(draw.uniform(0.1, 3), digits) for _ in shown), reverse=True)
                run += [(user, item, score) for item, score in zip(shown, scores, strict=True)]
        found[name] = write(folder / name.replace(" ", "-"), truth, run)
    return found


def real_logs(folder: Path, data: Path) -> dict[str, Path]:
    """MovieLens 100K: test ratings as they are, and the lists of each model."""
    rows = pl.read_parquet(data / "ml-100k" / "interactions.parquet").filter(
        pl.col("split") == "test"
    )
    truth = rows.select(user="user_id", item="item_id", relevance=pl.col("rating").cast(pl.Int64))
    found = {}
    for file in sorted((data / "ml-100k" / "rankings").glob("*.parquet")):
        ranked = pl.read_parquet(file).sort("user_id", "rank")
        run = ranked.select(user="user_id", item="item_id", score=pl.col("score").cast(pl.Float64))
        target = folder / f"ml-100k-{file.stem}"
        target.mkdir()
        truth.write_parquet(target / "truth.parquet")
        run.write_parquet(target / "run.parquet")
        ties = run.select("user", "score").is_duplicated().any()
        found[f"ml-100k {file.stem}{', equal scores' if ties else ''}"] = target
    return found


def write(
    folder: Path, truth: list[tuple[int, int, int]], run: list[tuple[int, int, float]]
) -> Path:
    folder.mkdir()
    schema = ["user", "item", "relevance"]
    pl.DataFrame(truth, schema=schema, orient="row").write_parquet(folder / "truth.parquet")
    pl.DataFrame(run, schema=["user", "item", "score"], orient="row").write_parquet(
        folder / "run.parquet"
    )
    return folder


if __name__ == "__main__":
    sys.exit(main())
