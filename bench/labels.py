"""Scored impressions: evalkit's metrics of labels against the floor of decoding their columns.

    python bench/labels.py --rows 1e7
    python bench/labels.py --rows 1e8 --rounds 3
    python bench/labels.py --rows 1e8 --rounds 1 --memory-limit 1024

Makes a log (user, item, score, label), checks evalkit's numbers against NumPy's, and then times
both in turns, each in a process of its own. Prints one JSON record: seconds, ratio to the floor,
peak memory.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from harness import BENCH, ROOT, count, environment, make_parser, run_process, tell

METRICS = [
    "AUC", "GAUC", "AUC(over='users')", "AP", "PR-AUC(integration='trapezoid')", "partial-AUC",
    "log-loss", "NE", "Brier", "ECE", "ECE(binning='mass')", "calibration", "base-rate", "accuracy",
    "precision", "recall", "specificity", "F1", "balanced-accuracy", "MCC", "F1(at='best')",
    "MCC(at='best')", "log-loss(over='users')", "AP(over='users')",
]  # fmt: skip
CHUNK = 5_000_000
TOLERANCE = 1e-11


def main() -> int:
    """The record of one size, on stdout."""
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=count, default=10_000_000, help="Impressions.")
    parser.add_argument("--rounds", type=count, default=3, help="Of each, in turns.")
    parser.add_argument("--scores", choices=("float32", "float64"), default="float32")
    parser.add_argument("--memory-limit", type=count, default=0, help="MiB; none by default.")
    asked = parser.parse_args()
    log = asked.out / "logs" / f"labels-{asked.rows}-{asked.scores}-s{asked.seed}.parquet"
    log.parent.mkdir(parents=True, exist_ok=True)
    if not log.exists():
        tell(f"making {log}")
        call("make", log, asked.threads, str(asked.rows), asked.scores, str(asked.seed))
    tell("checking")
    known = call("check", log, asked.threads)
    rounds: dict[str, list[dict[str, float]]] = {"floor": [], "evalkit": []}
    for number in range(asked.rounds):
        for name, found in rounds.items():
            tell(f"round {number + 1}: {name}")
            limit = [str(asked.memory_limit)] if name == "evalkit" else []
            found.append(call(name, log, asked.threads, *limit))
    for round_ in rounds["evalkit"]:
        for metric, value in known.items():
            if abs(round_["values"][metric] - value) > TOLERANCE:  # type: ignore[index]
                raise SystemExit(f"{metric} is {round_['values'][metric]!r}, not {value!r}")  # type: ignore[index]
    floor = median(each["wall"] for each in rounds["floor"])
    wall = median(each["wall"] for each in rounds["evalkit"])
    floor_cpu = median(each["cpu"] for each in rounds["floor"])
    cpu = median(each["cpu"] for each in rounds["evalkit"])
    record = {
        "rows": asked.rows,
        "scores": asked.scores,
        "threads": asked.threads,
        "memory_limit_mib": asked.memory_limit or None,
        "metrics": len(METRICS),
        "checked": sorted(known),
        "floor_seconds": floor,
        "seconds": wall,
        "times_floor": wall / floor,
        "floor_cpu_seconds": floor_cpu,
        "cpu_seconds": cpu,
        "times_floor_cpu": cpu / floor_cpu,
        "stages": rounds["evalkit"][-1]["stages"],
        "peak_mib": max(int(each["peak_mib"]) for each in rounds["evalkit"]),
        "megabytes": log.stat().st_size / 1e6,
    }
    print(json.dumps(record, indent=2))
    return 0


def call(step: str, log: Path, threads: int, *more: str) -> dict[str, float]:
    """What a step, run in a process of its own, says; with its peak of memory."""
    env = environment([BENCH, ROOT], threads)
    ended = run_process([sys.executable, __file__, f"--step={step}", log, str(threads), *more], env)
    if ended.status != 0:
        raise SystemExit(f"{step} ended with exit status {ended.status}")
    said: dict[str, float] = json.loads(ended.output) if ended.output.strip() else {}
    return said if step == "check" else {**said, "peak_mib": ended.round.peak_bytes >> 20}


# ---------------------------------------------------------------- steps


def make(log: Path, threads: int, rows: str, scores: str, seed: str) -> None:
    """Write the log, a few million rows at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(int(seed))
    n_users = max(2, int(rows) // 50)
    fresh = log.with_suffix(".part")
    writer = None
    for first in range(0, int(rows), CHUNK):
        n = min(CHUNK, int(rows) - first)
        chance = 1.0 / (1.0 + np.exp(2.5 - rng.normal(size=n)))
        table = pa.table(
            {
                "user": rng.integers(0, n_users, n),
                "item": rng.integers(0, 1_000_000, n),
                "score": chance.astype(scores),
                "label": rng.random(n) < chance,
            }
        )
        writer = writer or pq.ParquetWriter(fresh, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=1 << 18)
    if writer is not None:
        writer.close()
    fresh.rename(log)


def check(log: Path, threads: int) -> None:
    """Some of the numbers, by NumPy's sort over all rows."""
    import numpy as np
    import polars as pl

    columns = pl.scan_parquet(log).select("score", "label").collect()
    scores, labels = columns["score"].to_numpy(), columns["label"].to_numpy()
    wide = scores.astype(np.float64)
    n, positives = labels.size, int(labels.sum())
    loss = -np.where(labels, np.log(wide), np.log1p(-wide)).mean()
    brier = ((wide - labels) ** 2).mean()
    order = np.argsort(scores, kind="stable")
    ordered, good = scores[order], labels[order]
    ends = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1], [True]]))
    rows = np.diff(np.concatenate([[-1], ends]))
    hits = np.diff(np.concatenate([[0], np.cumsum(good)[ends]]))
    below = np.cumsum(rows - hits) - (rows - hits)
    won = float((hits * (2 * below + rows - hits)).astype(np.float64).sum())
    auc = won / (2.0 * positives * (n - positives))
    found = {"AUC": auc, "log-loss": loss, "Brier": brier, "base-rate": positives / n}
    print(json.dumps({name: float(value) for name, value in found.items()}))


def floor(log: Path, threads: int) -> None:
    """Decode the columns, batch by batch."""
    import polars as pl

    def decode() -> dict[str, object]:
        for _ in pl.scan_parquet(log).collect_batches(engine="streaming"):
            pass
        return {}

    _time(decode)


def evalkit(log: Path, threads: int, memory_limit: str) -> None:
    """All metrics in one run; kernels are loaded before the clock starts."""
    import polars as pl

    from evalkit import evaluate_labels

    small = pl.scan_parquet(log).head(1000).collect()
    limit = int(memory_limit) << 20 or None
    evaluate_labels(small.lazy(), metrics=METRICS, threads=threads, memory_limit=limit)

    def measure() -> dict[str, object]:
        report = evaluate_labels(str(log), metrics=METRICS, threads=threads, memory_limit=limit)
        values = {each.metric: each.value for each in report.estimates}
        return {"values": values, "stages": report.meta.stages}

    _time(measure)


def _time(work: Callable[[], dict[str, object]]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    said = work()
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({**took, **said}))


STEPS: dict[str, Callable[..., None]] = {
    "make": make,
    "check": check,
    "floor": floor,
    "evalkit": evalkit,
}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("--step="):
        STEPS[sys.argv[1].removeprefix("--step=")](
            Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
        )
        sys.exit(0)
    sys.exit(main())
