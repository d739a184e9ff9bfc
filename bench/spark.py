"""evalkit on Spark beside Spark's own RankingMetrics and beside one process: CPU seconds.

    python bench/spark.py --users 2e5
    python bench/spark.py --users 2e4 --rounds 1

Needs the extra spark, psutil and Java. Makes users x 50 ranked rows and two million interactions
or less, checks that all three agree, then times them in turns within one warm session: CPU seconds
of the process and all its children. Prints one JSON record. Ids are integers; the metrics are
nDCG@10, recall@10 and AP.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import psutil  # type: ignore[import-untyped]

from harness import count, make_parser, tell

METRICS = ["nDCG@10", "recall@10", "AP"]
N_ITEMS = 50_021


def main() -> int:
    """The record of one size, on stdout."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=200_000, help="Users, 50 ranks each.")
    parser.add_argument("--rounds", type=int, default=3, help="Of each, in turns.")
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # of the workers; one process asks for its threads itself
    folder = asked.out / "logs" / f"spark-{asked.users}-s{asked.seed}"
    n_rows = make_logs(folder, asked.users, asked.seed)
    from evalkit.engines._spark import new_session

    begin, cpu = time.perf_counter(), spent()
    session = new_session(_session_class(), master=asked.master, options={"spark.log.level": "OFF"})
    start = {"seconds": time.perf_counter() - begin, "cpu_seconds": spent() - cpu}
    ways: dict[str, Callable[[], list[float]]] = {
        "spark": lambda: by_evalkit(folder, asked.threads, {"kind": "spark"}),
        "process": lambda: by_evalkit(folder, asked.threads, {}),
        "RankingMetrics": lambda: by_ranking_metrics(session, folder),
    }
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    wanted: list[float] = []
    for number in range(asked.rounds + 1):  # the first one is cold
        for way, measure in ways.items():
            tell(f"round {number}: {way}")
            begin, cpu = time.perf_counter(), spent()
            found = measure()
            wanted = wanted or found
            if not np.allclose(found, wanted, rtol=0, atol=1e-12):
                raise SystemExit(f"{way} finds {found}, not {wanted}")
            took = {"seconds": time.perf_counter() - begin, "cpu_seconds": spent() - cpu}
            rounds[way].append(took)
    session.stop()
    warm = {way: median(each["cpu_seconds"] for each in rounds[way][1:]) for way in ways}
    record = {
        "rows": n_rows,
        "values": dict(zip(METRICS, wanted, strict=True)),
        "session": start,
        "cold": {way: each[0] for way, each in rounds.items()},
        "cpu_seconds": warm,
        "cpu_seconds_of_a_million_rows": {way: each / n_rows * 1e6 for way, each in warm.items()},
        "times_RankingMetrics": warm["spark"] / warm["RankingMetrics"],
        "rounds": rounds,
    }
    print(json.dumps(record, indent=1))
    return 0


def make_logs(folder: Path, n_users: int, seed: int) -> int:
    """Eight files each of rankings and truth, whose rows stand in no order; how many rows."""
    if not (folder / "truth").exists():
        tell(f"making {folder}")
        rng = np.random.default_rng(seed)
        users = np.repeat(np.arange(n_users), 50)
        first, step = rng.integers(1, N_ITEMS, (2, n_users))
        ranks = np.tile(np.arange(1, 51), n_users)
        items = (first[users] + step[users] * ranks) % N_ITEMS
        shown = pl.DataFrame({"user": users, "item": items, "rank": ranks})
        hits = shown.filter(pl.Series(rng.random(users.size) < 3.0 / (ranks + 30)))
        others = pl.DataFrame({"user": np.arange(n_users).repeat(6)})
        others = others.with_columns(item=pl.Series(rng.integers(0, N_ITEMS, others.height)))
        truth = pl.concat([hits.select("user", "item"), others]).unique()
        for name, frame in {"rankings": shown, "truth": truth}.items():
            (folder / name).mkdir(parents=True)
            frame = frame.sample(fraction=1.0, shuffle=True, seed=seed)
            size = -(-frame.height // 8)
            for number, part in enumerate(frame.iter_slices(size)):
                part.write_parquet(folder / name / f"part-{number}.parquet")
    return sum(pl.scan_parquet(folder / each).select(pl.len()).collect().item() for each in LOGS)


LOGS = ("rankings", "truth")


def _session_class() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession


def by_evalkit(folder: Path, threads: int, engine: dict[str, object]) -> list[float]:
    """The means that evalkit finds."""
    import evalkit

    truth, rankings = (str(folder / each / "*.parquet") for each in ("truth", "rankings"))
    report = evalkit.evaluate(truth, rankings, metrics=METRICS, engine=engine, threads=threads)
    return [report.value(each) for each in METRICS]


def by_ranking_metrics(session: Any, folder: Path) -> list[float]:
    """The means that Spark's own metrics find."""
    from pyspark.mllib.evaluation import RankingMetrics
    from pyspark.sql import functions as f

    shown, truth = (session.read.parquet(str(folder / each)) for each in LOGS)
    lists = shown.groupBy("user").agg(f.sort_array(f.collect_list(f.struct("rank", "item"))))
    lists = lists.toDF("user", "shown").select("user", f.col("shown.item").alias("shown"))
    right = truth.groupBy("user").agg(f.collect_set("item").alias("right"))
    pairs = lists.join(right, "user").select("shown", "right").rdd
    pairs = pairs.map(lambda row: (row.shown, row.right)).cache()
    metrics = RankingMetrics(pairs)
    found = [metrics.ndcgAt(10), metrics.recallAt(10), metrics.meanAveragePrecision]
    pairs.unpersist()
    return found


def spent() -> float:
    """CPU seconds of this process and of all that it started."""
    mine = psutil.Process()
    return float(sum(sum(each.cpu_times()) for each in [mine, *mine.children(recursive=True)]))


if __name__ == "__main__":
    sys.exit(main())
