"""evalkit on Spark beside Spark's own RankingMetrics, RePlay and one process: CPU seconds.

    python bench/spark.py --users 2e5
    python bench/spark.py --users 2e4 --rounds 1 --only files,text,many

Needs the extra spark, psutil and Java. Makes users x 50 ranked rows and nine interactions a user,
checks that all ways agree, then times them in turns within one warm session: CPU seconds of the
process and all its children, those of Java apart, and the largest Python process. Prints one JSON
record. The metrics
are nDCG@10, recall@10 and AP of integer ids, but for:

    frames  the same rows as DataFrames of Spark
    text    ids that are text
    sql     ids and `where` made by SQL
    two     two models, compared
    many    20 metrics at 5 cutoffs with 50 segments
    lists   six metrics of the lists themselves beside the three

RankingMetrics are Spark's own. RePlay needs more, and pins other versions of what evalkit needs:

    pip install pandas scikit-learn tqdm && pip install --no-deps replay-rec==0.22.0
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import psutil  # type: ignore[import-untyped]

from harness import count, make_parser, tell

METRICS = ["nDCG@10", "recall@10", "AP"]
MANY = [
    *("nDCG", "nDCG(gain='exp2')", "nDCG(gain='binary')", "DCG", "DCG(gain='exp2')", "CG"),
    *("recall", "precision", "hit", "hits", "AP", "AP(over='relevant')", "RR", "F(beta=1)"),
    *("F(beta=2)", "first_hit_rank", "RBP", "RBP(patience=0.5)", "RBP(patience=0.9)"),
    "partial-AUC",
]
LISTS = ["gini", "entropy", "hhi", "effective_items", "list_length", "item_coverage"]
N_ITEMS = 50_021


def main() -> int:
    """The record of one size, on stdout."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=200_000, help="Users, 50 ranks each.")
    parser.add_argument("--rounds", type=int, default=3, help="Of each, in turns.")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--only", default="", help="Ways, by commas; default: " + FIRST)
    asked = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # of the workers; one process asks for its threads itself
    folder = asked.out / "logs" / f"spark-{asked.users}-s{asked.seed}"
    n_rows = make_logs(folder, asked.users, asked.seed)
    from evalkit.engines._spark import new_session

    lap = Lap()
    options = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "8"}  # for the peers
    session = new_session(_session_class(), master=asked.master, options=options)
    start = lap.took()
    here = Way(folder, asked.threads)
    spark = replace(here, engine={"kind": "spark"})
    all_ways: dict[str, Callable[[], list[float]]] = {
        "files": spark.measure,
        "frames": replace(spark, session=session).measure,
        "process": here.measure,
        "RankingMetrics": lambda: by_ranking_metrics(session, folder),
        "RePlay": lambda: by_replay(session, folder),
        "text": replace(spark, of="text").measure,
        "sql": replace(spark, by_sql=True).measure,
        "two": replace(spark, two=True).measure,
        "many": replace(spark, many=True).measure,
        "lists": replace(spark, lists=True).measure,
    }
    ways = {way: all_ways[way] for way in (asked.only or FIRST).split(",")}
    if "text" in ways:
        spell_ids(folder)
    if "lists" in ways:
        pl.DataFrame({"item": range(N_ITEMS)}).write_parquet(folder / "items.parquet")
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    wanted: list[float] = []
    for number in range(asked.rounds + 1):  # the first one is cold
        for way, measure in ways.items():
            tell(f"round {number}: {way}")
            lap = Lap()
            found = measure()
            wanted = wanted or found
            if not np.allclose(found, wanted, rtol=0, atol=1e-12):
                raise SystemExit(f"{way} finds {found}, not {wanted}")
            rounds[way].append(lap.took() | {"python_mib": largest_worker()})
    session.stop()
    warm, java = (
        {way: median(each[name] for each in rounds[way][1:] or rounds[way]) for way in ways}
        for name in ("cpu_seconds", "java_cpu_seconds")
    )
    record = {
        "rows": n_rows,
        "values": dict(zip(METRICS, wanted, strict=True)),
        "session": start,
        "cold": {way: each[0] for way, each in rounds.items()},
        "cpu_seconds": warm,
        "cpu_seconds_of_a_million_rows": {way: each / n_rows * 1e6 for way, each in warm.items()},
        "of_which_java": {way: each / n_rows * 1e6 for way, each in java.items()},
        "times_first": {way: each / next(iter(warm.values())) for way, each in warm.items()},
        "rounds": rounds,
    }
    print(json.dumps(record, indent=1))
    return 0


def make_logs(folder: Path, n_users: int, seed: int) -> int:
    """Eight files each of rankings and truth, whose rows stand in no order; how many rows."""
    if not (folder / "truth").exists():
        tell(f"making {folder}")
        rng = np.random.default_rng(seed)
        users = np.repeat(np.arange(n_users, dtype=np.int32), 50)  # half as wide as the files
        first, step = rng.integers(1, N_ITEMS, (2, n_users), dtype=np.int32)
        ranks = np.tile(np.arange(1, 51, dtype=np.int32), n_users)
        items = (first[users] + step[users] * ranks) % N_ITEMS
        shown = pl.DataFrame({"user": users, "item": items, "rank": ranks})
        hits = shown.filter(pl.Series(rng.random(users.size, np.float32) < 3.0 / (ranks + 30)))
        others = pl.DataFrame({"user": np.arange(n_users, dtype=np.int32).repeat(6)})
        drawn = rng.integers(0, N_ITEMS, others.height, dtype=np.int32)
        others = others.with_columns(item=pl.Series(drawn))
        truth = pl.concat([hits.select("user", "item"), others]).unique()
        for name, frame in {"rankings": shown, "truth": truth}.items():
            (folder / name).mkdir(parents=True)
            frame = frame.sample(fraction=1.0, shuffle=True, seed=seed)
            size = -(-frame.height // 8)
            for number, part in enumerate(frame.iter_slices(size)):
                part.cast(pl.Int64).write_parquet(folder / name / f"part-{number}.parquet")
    return sum(pl.scan_parquet(folder / each).select(pl.len()).collect().item() for each in LOGS)


LOGS = ("rankings", "truth")
FIRST = "files,frames,process,RankingMetrics"


def _session_class() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession


@dataclass(frozen=True)
class Way:
    """How evalkit is asked for the means.

    Args:
        engine: as under `[engine]` of a config.
        session: of Spark, which opens the tables.
        of: `text`: ids are text.
        by_sql, two, many, lists: as the first lines of this file say.
    """

    folder: Path
    threads: int
    engine: Mapping[str, object] = field(default_factory=dict)
    session: Any = None
    of: str = ""
    by_sql: bool = False
    two: bool = False
    many: bool = False
    lists: bool = False

    def measure(self) -> list[float]:
        """The means of the three metrics."""
        import evalkit

        kind = f"{self.of}-" if self.of else ""
        tables = [self.folder / f"{kind}{each}" for each in ("truth", "rankings")]
        truth, shown = (str(each / "*.parquet") for each in tables)
        given: list[Any] = [truth, {"a": shown, "b": shown} if self.two else {"a": shown}]
        asked: dict[str, Any] = {"metrics": list(METRICS)}
        if self.session is not None:
            read = self.session.read.parquet
            given = [read(str(self.folder / "truth")), {"a": read(str(self.folder / "rankings"))}]
        if self.by_sql:
            ids = {"user": "user + 0", "item": "item * 1"}
            asked["columns"] = {"truth": ids, "rankings": ids | {"rank": "rank + 0"}}
            asked["where"] = {"rankings": "rank < 1000 AND item >= 0"}
        if self.many:
            asked["metrics"] += [f"{each}@{{1,5,10,20,50}}" for each in MANY]
            asked["segments"] = {"group": {"by": "user % 50"}}
        if self.lists:
            asked["metrics"] += [f"{each}@10" for each in LISTS]
            asked["items"] = str(self.folder / "items.parquet")
        if self.two:
            asked["statistics"] = {"baseline": "a"}
        report = evalkit.evaluate(*given, engine=self.engine, threads=self.threads, **asked)
        return [report.value(each, model="a") for each in METRICS]


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


def by_replay(session: Any, folder: Path) -> list[float]:
    """The means that RePlay finds on Spark's DataFrames; a user has 50 ranks."""
    from pyspark.sql.functions import col
    from replay.metrics import MAP, NDCG, OfflineMetrics, Recall

    shown, truth = (
        session.read.parquet(str(folder / each)).withColumnsRenamed(
            {"user": "query_id", "item": "item_id"}
        )
        for each in LOGS
    )
    shown = shown.withColumn("rating", -col("rank").cast("double"))
    found = OfflineMetrics([NDCG(10), Recall(10), MAP(50)])(shown, truth)
    return [float(found[name]) for name in ("NDCG@10", "Recall@10", "MAP@50")]


def spell_ids(folder: Path) -> None:
    """The same logs with ids that are text."""
    for name in LOGS:
        for path in sorted((folder / name).glob("*.parquet")):
            target = folder / f"text-{name}" / path.name
            target.parent.mkdir(exist_ok=True)
            spelled = [pl.format(each + "-{}", each).alias(each) for each in ("user", "item")]
            if not target.exists():
                pl.read_parquet(path).with_columns(spelled).write_parquet(target)


def largest_worker() -> int:
    """MiB that the largest Python worker ever took."""
    peaks = [0]
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):
            if "python" in child.name():
                (line,) = re.findall(
                    r"VmHWM:\s*(\d+)", Path(f"/proc/{child.pid}/status").read_text()
                )
                peaks.append(int(line) >> 10)
    return max(peaks)


def spent() -> tuple[float, float]:
    """CPU seconds of this process and of all that it started, and those of Java alone."""
    mine = psutil.Process()
    whole, java = 0.0, 0.0
    for process in [mine, *mine.children(recursive=True)]:
        with suppress(psutil.Error):
            own = float(sum(process.cpu_times()))
            whole += own
            java += own if process.name() == "java" else 0
    return whole, java


class Lap:
    """Time since it was made."""

    def __init__(self) -> None:
        self._begin, self._spent = time.perf_counter(), spent()

    def took(self) -> dict[str, float]:
        """Wall and CPU seconds, those of Java apart."""
        whole, java = (now - before for now, before in zip(spent(), self._spent, strict=True))
        seconds = time.perf_counter() - self._begin
        return {"seconds": seconds, "cpu_seconds": whole, "java_cpu_seconds": java}


if __name__ == "__main__":
    sys.exit(main())
