"""Logged feedback of any size: invented, read by evalkit, and by hand in Polars.

    python bench/logged.py --rows 1000000 --folder FOLDER
    python bench/logged.py --rows 100000000 --ids string --folder FOLDER
    python bench/logged.py --rows 1000000 --actions 1000 --folder FOLDER [--obp CHECKOUT]

Prints one line of JSON: CPU seconds of each beside those of decoding the columns alone, and the
peak. It checks before that both say the same SNIPS of every target.

With `--actions`: beside obp's rule, which holds the target's probability of every action in every
round, float64[n_rounds, n_actions, 1], by NumPy, and by obp itself where its source is at hand
(a Python with what it imports: `--python`). Each is measured in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import evalkit

ROWS_A_FILE = 5_000_000
ROWS_A_USER = 20


def make(folder: Path, rows: int, targets: int, ids: str) -> Path:
    """Files of a log in the order of time, unless they are there already."""
    own = folder / f"logged-{rows}-{targets}-{ids}"
    if own.exists():
        return own
    own.mkdir(parents=True)
    for number, first in enumerate(range(0, rows, ROWS_A_FILE)):
        draw, n = np.random.default_rng(number), min(ROWS_A_FILE, rows - first)
        users = draw.integers(0, max(1, rows // ROWS_A_USER), n)
        propensity = 0.02 + 0.9 * draw.random(n)
        columns = {
            "user": users if ids == "int" else pl.Series(users).cast(pl.String),
            "reward": (draw.random(n) < 0.1).astype(np.float64),
            "p": propensity,
        }
        for place in range(targets):
            columns[f"t{place}"] = np.clip(propensity * (0.5 + draw.random(n)), 0.0, 1.0)
        pl.DataFrame(columns).write_parquet(own / f"{number:03}.parquet")
    return own


def cpu(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `work` gives, its CPU seconds and its wall seconds."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    found = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return found, used, time.perf_counter() - begin


def decode(paths: str) -> int:
    """Every column once, as floats are added up; texts by their lengths."""
    texts = pl.selectors.string().str.len_bytes().sum()
    found = pl.scan_parquet(paths).select(texts, pl.selectors.numeric().sum())
    return found.collect(engine="streaming").height


def by_evalkit(paths: str, targets: int) -> list[float]:
    report = evalkit.evaluate_logged(
        paths,
        {f"t{place}": {"probability": f"t{place}"} for place in range(targets)},
        columns={"user": "user", "propensity": "p"},
        metrics=["SNIPS"],
    )
    return [report.value("SNIPS", model=f"t{place}") for place in range(targets)]


def by_hand(paths: str, targets: int) -> list[float]:
    weights = [pl.col(f"t{place}") / pl.col("p") for place in range(targets)]
    sums = [((each * pl.col("reward")).sum() / each.sum()) for each in weights]
    named = [each.alias(f"t{place}") for place, each in enumerate(sums)]
    return list(pl.scan_parquet(paths).select(named).collect(engine="streaming").row(0))


OF_ALL_ACTIONS = """
import json, resource, sys, time
import numpy as np
rounds, actions, path, checkout = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
log = np.load(path)
action, reward, pscore, p = log["action"], log["reward"], log["propensity"], log["target"]
begin = time.process_time()
dist = np.empty((rounds, actions, 1))
dist[:, :, 0] = ((1.0 - p) / (actions - 1))[:, None]
dist[np.arange(rounds), action, 0] = p
filled = time.process_time()
if checkout:
    sys.path[:0] = checkout
    from obp.ope import SelfNormalizedInverseProbabilityWeighting as Estimator
    filled = time.process_time()
    value = Estimator().estimate_policy_value(
        reward=reward, action=action, pscore=pscore, action_dist=dist,
        position=np.zeros(rounds, int))
else:
    weights = dist[np.arange(rounds), action, 0] / pscore
    value = (weights * reward).sum() / weights.sum()
used = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps({"value": float(value), "fill_cpu": filled - begin, "cpu": used - filled,
                  "peak_mb": peak}))
"""
OF_COLUMNS = """
import json, resource, sys, time
import evalkit
def run():
    return evalkit.evaluate_logged(sys.argv[1], {"t": {"probability": "target"}})
run()
begin = time.process_time()
value = run().value("SNIPS", model="t")
used = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps({"value": value, "cpu": used, "peak_mb": peak}))
"""


def beside_obp(asked: argparse.Namespace) -> dict[str, dict[str, float]]:
    """CPU seconds and peaks of obp's rule and of ours, on one log."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    draw, n = np.random.default_rng(0), asked.rows
    log = {
        "action": draw.integers(0, asked.actions, n),
        "reward": (draw.random(n) < 0.1).astype(np.float64),
        "propensity": 0.02 + 0.9 * draw.random(n),
        "target": draw.random(n),
    }
    arrays, table = asked.folder / "rounds.npz", asked.folder / "rounds.parquet"
    np.savez(arrays, **log)
    pl.DataFrame(log).write_parquet(table)
    all_actions = ["-c", OF_ALL_ACTIONS, str(n), str(asked.actions), str(arrays)]
    ways = {
        "evalkit": [sys.executable, "-c", OF_COLUMNS, str(table)],
        "numpy": [sys.executable, *all_actions],
    }
    if asked.obp:
        ways["obp"] = [asked.python, *all_actions, *asked.obp]
    found: dict[str, dict[str, float]] = {}
    for name, words in ways.items():
        ran = subprocess.run(words, check=True, capture_output=True, text=True)
        found[name] = json.loads(ran.stdout)
    values = [each["value"] for each in found.values()]
    assert np.allclose(values, values[0], rtol=1e-9, atol=0.0), values
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ids", choices=["int", "string"], default="int")
    parser.add_argument("--actions", type=int)
    parser.add_argument("--obp", nargs="+", default=[], help="folders of its source")
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    if asked.actions:
        print(json.dumps({"rows": asked.rows, "actions": asked.actions, **beside_obp(asked)}))
        return
    paths = str(make(asked.folder, asked.rows, asked.targets, asked.ids) / "*.parquet")
    by_evalkit(paths, asked.targets)  # what is loaded and compiled is loaded and compiled
    ways: dict[str, Callable[[], Any]] = {
        "decoding": lambda: decode(paths),
        "evalkit": lambda: by_evalkit(paths, asked.targets),
        "by_hand": lambda: by_hand(paths, asked.targets),
    }
    said = {name: cpu(work) for name, work in ways.items()}
    ours, theirs = said["evalkit"][0], said["by_hand"][0]
    assert np.allclose(ours, theirs, rtol=1e-9, atol=0.0), (ours, theirs)
    floor = said["decoding"][1]
    found: dict[str, object] = {"rows": asked.rows, "targets": asked.targets, "ids": asked.ids}
    for name, (_, used, wall) in said.items():
        found[name] = {"cpu": round(used, 3), "wall": round(wall, 3)}
    found["times_decoding"] = round(said["evalkit"][1] / floor, 2)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps(found))


if __name__ == "__main__":
    main()
