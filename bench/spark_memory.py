"""Memory of Spark's Python workers: bytes a row of their partition, and a user with very many rows.

    python bench/spark_memory.py --users 2e5
    python bench/spark_memory.py --users 7e4 --one-user 1e7

Needs the extra spark, psutil and Java. Measures nDCG@10, recall@10 and AP of the logs of
`spark.py`, in partitions of about 1.5, 3 and 6 million rows; each task has a worker of its own,
whose largest memory (VmHWM) is read until it ends. Those that began last measured, the others cut.
The bytes a row are the slope between the smallest partition and the largest. With `--one-user` one
user has so many rows more. Checks that each run finds the means of one process, and prints one JSON
record: MiB, seconds, rows.
"""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil  # type: ignore[import-untyped]
from spark import Way, make_logs

from harness import count, make_parser, tell

ROWS = (1.5e6, 3e6, 6e6)  # of a partition
LOOK_SECONDS = 0.02
ITEMS = 1_000_000  # that the user with very many rows is shown, at most


def main() -> int:
    """The record of one log, on stdout."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=200_000, help="Users, 50 ranks each.")
    parser.add_argument("--one-user", type=count, default=0, help="Rows of one user more.")
    asked = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # of the workers
    folder = asked.out / "logs" / f"spark-{asked.users}-s{asked.seed}"
    n_rows = make_logs(folder, asked.users, asked.seed)
    if asked.one_user:
        folder = with_one_user(folder, asked.one_user)
        n_rows += asked.one_user
    from pyspark.sql import SparkSession

    from evalkit.engines._spark import new_session

    options = {"spark.log.level": "OFF", "spark.python.worker.reuse": "false"}
    session = new_session(SparkSession, master="local[2]", options=options)
    here = Way(folder, asked.threads)
    wanted, runs = here.measure(), list[dict[str, Any]]()
    for size in ROWS if not asked.one_user else ROWS[:1]:
        n_partitions = max(round(n_rows / size), 1)
        tell(f"{n_partitions} partitions")
        engine = {"kind": "spark", "partitions": n_partitions}
        begin = time.perf_counter()
        with watching() as peaks:
            found = replace(here, engine=engine).measure()
        seconds = time.perf_counter() - begin
        if not np.array_equal(found, wanted):
            raise SystemExit(f"Spark finds {found}, not {wanted}")
        of_workers = [peaks[each] for each in sorted(peaks)]
        runs.append(
            {
                "partitions": n_partitions,
                "rows_of_a_partition": round(n_rows / n_partitions),
                "seconds": round(seconds, 1),
                "mib_measuring": max(of_workers[-n_partitions:]),
                "mib_cutting": max(of_workers[:-n_partitions]),
            }
        )
    session.stop()
    record: dict[str, Any] = {"rows": n_rows, "one_user": asked.one_user, "runs": runs}
    if asked.one_user:
        peak = runs[0]["mib_measuring"]
        record["bytes_a_row_of_the_user"] = round(peak * 2**20 / asked.one_user)
    else:
        (least, most) = (runs[0], runs[-1])
        n_more = most["rows_of_a_partition"] - least["rows_of_a_partition"]
        slope = (most["mib_measuring"] - least["mib_measuring"]) * 2**20 / n_more
        record["bytes_a_row_of_a_partition"] = round(slope)
        own = least["mib_measuring"] - slope * least["rows_of_a_partition"] / 2**20
        record["mib_without_rows"] = round(own)
    print(json.dumps(record, indent=1))
    return 0


def with_one_user(folder: Path, n_rows: int) -> Path:
    """The same logs, and one more user with a ranking of so many rows."""
    found = folder.with_name(f"{folder.name}-one-{n_rows}")
    if not found.exists():
        user = -1
        shown = pl.DataFrame(
            {"user": user, "item": np.arange(n_rows), "rank": np.arange(n_rows) + 1}
        )
        right = pl.DataFrame({"user": user, "item": np.arange(0, min(n_rows, ITEMS), 1009)})
        for name, more in {"rankings": shown, "truth": right}.items():
            (found / name).mkdir(parents=True)
            for path in (folder / name).glob("*.parquet"):
                (found / name / path.name).symlink_to(path.resolve())
            types = pl.read_parquet_schema(next((folder / name).glob("*.parquet")))
            more.select(pl.col(each).cast(types[each]) for each in types).write_parquet(
                found / name / "one-user.parquet"
            )
    return found


@contextmanager
def watching() -> Iterator[dict[tuple[float, int], int]]:
    """MiB that each Python worker took at most, by when it began and its number."""
    peaks: dict[tuple[float, int], int] = {}
    ended = threading.Event()

    def look() -> None:
        me = psutil.Process()
        while not ended.wait(LOOK_SECONDS):
            for child in me.children(recursive=True):
                with suppress(psutil.Error, OSError, AttributeError, ValueError):
                    is_daemon = "pyspark.daemon" in " ".join(child.cmdline())
                    of_daemon = "pyspark.daemon" in " ".join(child.parent().cmdline())
                    if is_daemon and of_daemon:
                        text = Path(f"/proc/{child.pid}/status").read_text()
                        (peak,) = re.findall(r"VmHWM:\s*(\d+)", text)
                        peaks[child.create_time(), child.pid] = int(peak) >> 10

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
