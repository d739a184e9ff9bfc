"""Metrics of lists beside the libraries that have some of them: one log, numbers before times.

    python bench/peers.py --only rectools,recommenders,replay
    python bench/lists_peers.py                 # 100,000 users x 50 ranks, as many rows of train

Bias: evalkit's authors wrote this. Each library gives what it has of novelty, popularity, coverage
and entropy at 10, evalkit the same under that library's profile, with intervals. Timed is all of
one call in a warm process, from the files to the numbers. No time is shown before the numbers agree
to 1e-9. Train lacks what the rankings show its users, which recommenders asks for.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from harness import (
    BENCH,
    MODEL,
    ROOT,
    Shape,
    count,
    environment,
    make_parser,
    prepare_logs,
    run_process,
    table,
    tell,
)

SHARED = {  # of each library the numbers that it gives, by our names under its profile
    "rectools": ("novelty@10", "avg_popularity@10", "item_coverage@10"),
    "recommenders": ("novelty@10", "item_coverage@10", "entropy@10"),
    "replay": ("surprisal@10", "unseen_share@10", "item_coverage@10"),
}


def main() -> int:
    """Exit status: 0, or 1 where numbers differ or nobody is installed."""
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(time_calls(*sys.argv[2:])))
        return 0
    from peers import interpreter, is_installed

    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=100_000, help="Users, 50 ranks each.")
    parser.add_argument("--rounds", type=int, default=3, help="Of each, after one that warms up.")
    given = parser.parse_args()
    out = given.out.resolve()
    shapes = [Shape(given.users, form="rank", seed=given.seed + more) for more in (0, 1_000)]
    log, train = prepare_logs(shapes, out)
    folder = out / "lists" / f"peers-{given.users}-s{given.seed}"
    rows = []
    for name in SHARED:
        if not is_installed(name, given.out):
            tell(f"{name} is left out: it is not installed")
            continue
        answers = []
        for who, python in (("evalkit", sys.executable), (name, interpreter(name, given.out))):
            told = [who, name, log.path, train.path, folder, given.rounds]
            command = [python, __file__, "--worker", *map(str, told)]
            ended = run_process(command, environment([BENCH, ROOT], given.threads))
            if ended.status != 0:
                raise SystemExit(ended.status)
            answers.append(json.loads(ended.output))
        ours, theirs = answers
        for label, own in zip(SHARED[name], ours["values"], strict=True):
            other = theirs["values"][SHARED[name].index(label)]
            if not abs(own - other) <= 1e-9 * max(1.0, abs(own)):
                tell(f"{name}: {label} is {other!r}, and here {own!r}")
                return 1
        times = theirs["cpu"] / ours["cpu"], theirs["wall"] / ours["wall"]
        seconds = [f"{each['cpu']:.2f}" for each in answers]
        rows.append([name, ", ".join(SHARED[name]), *seconds, *(f"{each:.1f}" for each in times)])
    header = ["library", "numbers", "evalkit CPU s", "its CPU s", "times CPU", "times wall"]
    print(table(header, rows, [float(each[4]) for each in rows]))
    return 0 if rows else 1


def time_calls(who: str, name: str, log: str, train: str, to: str, rounds: str) -> dict[str, Any]:
    """Medians of one contestant, and its numbers."""
    folder = Path(to)
    prepare(Path(log), Path(train), folder)
    call: Callable[[], list[float]]
    call = partial(call_evalkit, name, folder) if who == "evalkit" else CALLS[name](folder)
    spent: list[tuple[float, float]] = []
    values: list[float] = []
    for _ in range(int(rounds) + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        values = call()
        spent.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = (median(each) for each in zip(*spent[1:], strict=True))
    return {"values": values, "cpu": cpu, "wall": wall}


def prepare(log: Path, train: Path, folder: Path) -> None:
    """The tables, once: rankings, train without what they show, and all items."""
    import polars as pl

    if (folder / "items.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    shown = pl.read_parquet(log / "rankings" / MODEL / "*.parquet").select("user", "item", "rank")
    seen = pl.read_parquet(train / "rankings" / MODEL / "*.parquet").select("user", "item")
    seen = seen.join(shown, on=["user", "item"], how="anti", maintain_order="left")
    shown.write_parquet(folder / "rankings.parquet")
    seen.write_parquet(folder / "train.parquet")
    items = pl.concat([shown.select("item"), seen.select("item")]).unique().sort("item")
    items.write_parquet(folder / "items.parquet")


def call_evalkit(name: str, folder: Path) -> list[float]:
    """The numbers under a library's profile."""
    from evalkit import evaluate

    report = evaluate(
        None,
        rankings={"m": str(folder / "rankings.parquet")},
        train=str(folder / "train.parquet"),
        items=str(folder / "items.parquet"),
        metrics=list(SHARED[name]),
        profile=name,
    )
    return [report.value(each) for each in SHARED[name]]


def read(folder: Path, name: str, **columns: str) -> Any:
    """A table in pandas, read by Polars."""
    import polars as pl

    from contestants._tables import to_pandas

    return to_pandas(pl.read_parquet(folder / f"{name}.parquet").select(**columns))


def of_rectools(folder: Path) -> Callable[[], list[float]]:
    """RecTools, all metrics in one call."""
    from rectools.metrics import AvgRecPopularity, CatalogCoverage, MeanInvUserFreq, calc_metrics

    metrics = {"a": MeanInvUserFreq(k=10), "b": AvgRecPopularity(k=10), "c": CatalogCoverage(k=10)}

    def call() -> list[float]:
        ids = {"user_id": "user", "item_id": "item"}
        shown, seen = read(folder, "rankings", **ids, rank="rank"), read(folder, "train", **ids)
        items = read(folder, "items", item="item")["item"].to_numpy()
        values = calc_metrics(metrics, reco=shown, prev_interactions=seen, catalog=items)
        return [float(values[each]) for each in "abc"]

    return call


def of_recommenders(folder: Path) -> Callable[[], list[float]]:
    """recommenders, a function each; the first ten rows of each list are what it is given."""
    from recommenders.evaluation import python_evaluation as functions

    wanted = functions.novelty, functions.catalog_coverage, functions.distributional_coverage

    def call() -> list[float]:
        ids = {"userID": "user", "itemID": "item"}
        shown, seen = read(folder, "rankings", **ids, rank="rank"), read(folder, "train", **ids)
        shown = shown[shown["rank"] <= 10]
        return [float(each(seen, shown)) for each in wanted]

    return call


def of_replay(folder: Path) -> Callable[[], list[float]]:
    """RePlay on Polars frames, all metrics in one call."""
    import polars as pl
    from replay.metrics import Coverage, Novelty, OfflineMetrics, Surprisal

    def call() -> list[float]:
        ids = {"query_id": "user", "item_id": "item"}
        shown = pl.read_parquet(folder / "rankings.parquet")
        shown = shown.select(**ids, rating=-pl.col("rank").cast(pl.Float64))
        seen = pl.read_parquet(folder / "train.parquet").select(**ids)
        found = OfflineMetrics([Surprisal(10), Novelty(10), Coverage(10)])(shown, shown, seen)
        return [float(found[f"{each}@10"]) for each in ("Surprisal", "Novelty", "Coverage")]

    return call


CALLS = {"rectools": of_rectools, "recommenders": of_recommenders, "replay": of_replay}


if __name__ == "__main__":
    sys.exit(main())
