"""Sixteen partials of a log laid out by user, and their merge, against one run of all of it.

    python bench/partials.py --users 2e6
    python bench/partials.py --users 2e5 --rounds 1 --shares 4

Makes a log in so many folders by user, checks that the shares together give the bytes of one run,
and then times both in turns: in a warm process each, and as the whole commands. Prints one JSON
record: CPU seconds, their ratio, the size of the partials, seconds and peak memory of the merge.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from harness import BENCH, ROOT, count, environment, make_parser, tell

METRICS = '["nDCG@{5,10,20,50}", "recall@{5,10,20,50}", "precision@{5,10}", "AP@{10,50}", "RR"]'
CONFIG = f"""
[truth]
path = "truth/bucket=PLACE/*.parquet"
[[rankings]]
model = "model-1"
path = "rankings/bucket=PLACE/*.parquet"
[metrics]
names = {METRICS}
[segments]
activity = {{ by = "n_relevant", edges = [2, 5, 10, 20] }}
"""


def main() -> int:
    """The record of one size, on stdout."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=1_000_000, help="Users, 50 ranks each.")
    parser.add_argument("--shares", type=int, default=16, help="Folders of the log.")
    parser.add_argument("--rounds", type=int, default=5, help="Of each, in turns.")
    asked = parser.parse_args()
    log = asked.out / "logs" / f"shares-{asked.users}-{asked.shares}-s{asked.seed}"
    if not (log / "whole.toml").exists():
        tell(f"making {log}")
        call("make", log, asked.shares, asked.threads, str(asked.users), str(asked.seed))
    ways = ("run", "shares", "run-command", "shares-commands")
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for number in range(asked.rounds):
        for way, found in rounds.items():
            tell(f"round {number + 1}: {way}")
            found.append(call(way, log, asked.shares, asked.threads))
    if any(each["values"] != rounds["run"][0]["values"] for way in ways for each in rounds[way]):
        raise SystemExit("shares give other numbers than one run")
    cpu = {way: median(each["cpu"] for each in found) for way, found in rounds.items()}
    shares = rounds["shares"][0]
    record = {
        "users": asked.users,
        "shares": asked.shares,
        "threads": asked.threads,
        "cpu_seconds": cpu,
        "times_run": cpu["shares"] / cpu["run"],
        "commands_times_run": cpu["shares-commands"] / cpu["run-command"],
        "partial_bytes": shares["bytes"],
        "merge_cpu_seconds": median(each["merge"] for each in rounds["shares"]),
        "merge_peak_mib": rounds["shares-commands"][0]["merge_peak_mib"],
    }
    print(json.dumps(record, indent=1))
    return 0


def call(way: str, log: Path, n_shares: int, threads: int, *more: str) -> Any:
    """What a process of its own finds."""
    given = ["--worker", way, str(log), str(n_shares), str(threads), *more]
    command = [sys.executable, __file__, *given]
    known = environment([ROOT, BENCH], threads)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=known)
    return json.loads(done.stdout)


# ---------------------------------------------------------------- in a process of its own


def work(way: str, log: Path, n_shares: int, threads: int, *more: str) -> dict[str, Any]:
    """One thing done, and what it took."""
    if way == "make":
        make(log, n_shares, *map(int, more))
        return {}
    os.chdir(log)
    if way.endswith(("command", "commands")):
        return by_commands(n_shares if way.startswith("shares") else 0, threads)
    import evalkit
    from evalkit.config import load_config
    from evalkit.pipeline import run_config

    evalkit.evaluate("truth/bucket=0", "rankings/bucket=0", metrics=["RR"], threads=threads)
    whole = load_config("whole.toml")
    if n_shares > 1:  # kernels of either way are loaded before the clock starts
        run_config(load_config("warm.toml"), threads=threads)
    files = [Path(f"part-{share}") for share in range(1, n_shares + 1)]
    begin = time.process_time()
    merging = begin
    if way == "run":
        report = run_config(whole, threads=threads, keep_parts=True)
    else:
        for share, path in enumerate(files, 1):
            evalkit.partial("shares.toml", share=(share, n_shares), out=path, threads=threads)
        merging = time.process_time()
        report = evalkit.merge(files)
    end = time.process_time()
    n_bytes = sum(path.stat().st_size for path in files if path.exists())
    return {
        "cpu": end - begin,
        "merge": end - merging,
        "bytes": n_bytes,
        "values": values_of(report),
    }


def by_commands(n_shares: int, threads: int) -> dict[str, Any]:
    """The whole commands: one run, or the shares and their merge."""
    program = [sys.executable, "-P", "-m", "evalkit"]
    limit = ["--threads", str(threads), "--quiet"]
    commands = [["run", "whole.toml", "--json", "--out", "runs", *limit]]
    if n_shares:
        commands = [
            ["partial", "shares.toml", "--share", f"{i}/{n_shares}", "--out", f"part-{i}", *limit]
            for i in range(1, n_shares + 1)
        ]
        files = [f"part-{i}" for i in range(1, n_shares + 1)]
        commands.append(["merge", *files, "--json", "--out", "runs", *limit])
    cpu = 0.0
    for command in commands:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*program, *command], stdout=subprocess.PIPE, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    document = json.loads(done.stdout)
    peak = document["meta"]["peak_bytes"] / 2**20
    return {"cpu": cpu, "merge_peak_mib": peak, "values": document["metrics"]}


def values_of(report: Any) -> Any:
    """The numbers of a report as its JSON has them."""
    return json.loads(report.to_json())["metrics"]


def make(log: Path, n_shares: int, n_users: int, seed: int) -> None:
    """A log of so many users in folders by user, and the configs of both ways."""
    import numpy as np
    import polars as pl

    draw = np.random.default_rng(seed)
    for number in range(n_shares):
        users = np.arange(number, n_users, n_shares)
        n_relevant = draw.geometric(1 / 7.6, users.size)
        truth = {
            "user": np.repeat(users, n_relevant),
            "item": draw.zipf(1.2, n_relevant.sum()) % 20_000,
        }
        first = draw.zipf(1.2, (users.size, 50)) % 20_000
        items = (first + np.arange(50) * 20_011) % 1_000_003  # no item twice, most of them known
        rankings = {
            "user": np.repeat(users, 50),
            "item": items.ravel() % 400_000 + np.tile(np.arange(50), users.size) * 400_000,
            "rank": np.tile(np.arange(1, 51), users.size),
        }
        rankings["item"] = np.where(rankings["rank"] < 8, first.ravel(), rankings["item"])
        for name, table in (("truth", truth), ("rankings", rankings)):
            frame = pl.DataFrame(table).unique(["user", "item"], maintain_order=True)
            if name == "rankings":
                frame = frame.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
            path = log / name / f"bucket={number}" / "part.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.write_parquet(path)
    for name, place in (("shares", "{share0}"), ("warm", "0"), ("whole", "*")):
        (log / f"{name}.toml").write_text(CONFIG.replace("PLACE", place))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _, _, asked_way, folder, n, most, *rest = sys.argv
        print(json.dumps(work(asked_way, Path(folder), int(n), int(most), *rest)))
        sys.exit(0)
    sys.exit(main())
