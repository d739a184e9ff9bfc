"""Splits of one log beside reading and writing the same columns again with Arrow.

    python bench/split.py --rows 5e7

CPU seconds of whole processes, in turns; the floor reads and writes all columns, same codec.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GOALS = {  # kind -> options of evalkit split, at most so many times the floor
    "one moment": (["--test", "7d"], 1.2),
    "last two rows of a user": (["--by", "user", "--test", "1", "--validation", "1"], 1.6),
    "share of a user's rows": (["--by", "user", "--test", "0.2"], 1.9),
    "one byte a row": (["--by", "user", "--test", "1", "--write", "assignment"], 0.9),
}
FLOOR = """
import sys, pyarrow.parquet as pq
log = pq.ParquetFile(sys.argv[1])
with pq.ParquetWriter(sys.argv[2], log.schema_arrow, compression="zstd") as out:
    for batch in log.iter_batches(1 << 20):
        out.write_batch(batch)
"""


def write_log(path: Path, n_rows: int) -> None:
    """Rows of 50 a user in time order: int64 user, int32 item, int64 seconds, float32 value."""
    draw = np.random.default_rng(1)
    n_users, now, left = max(1000, n_rows // 50), 1_500_000_000, n_rows
    writer = None
    while left:
        n = min(1 << 20, left)
        times = now + np.cumsum(draw.integers(0, 2, n)).astype(np.int64)
        now, left = int(times[-1]), left - n
        table = pa.table(
            {
                "user": (n_users * draw.random(n) ** 1.5).astype(np.int64),
                "item": (n_users / 10 * draw.random(n) ** 2).astype(np.int32),
                "time": times,
                "value": draw.integers(1, 6, n).astype(np.float32),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def measured(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MiB of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, after.ru_maxrss / 1024


def main() -> None:
    """Print a table of ratios, and what was to be reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=5e6)
    n_rows = int(parser.parse_args().rows)
    with tempfile.TemporaryDirectory() as folder:
        log, out = Path(folder, "log.parquet"), Path(folder, "out")
        write_log(log, n_rows)
        floor, _ = measured([sys.executable, "-c", FLOOR, str(log), str(Path(folder, "again"))])
        print(f"{n_rows:,} rows; floor {floor:.2f} CPU s\n")
        print("| split | CPU s | x floor | goal | peak MiB |\n| --- | ---: | ---: | ---: | ---: |")
        for name, (options, goal) in GOALS.items():
            command = [sys.executable, "-m", "evalkit", "split", str(log), *options]
            for _ in range(2):  # the first may compile kernels
                shutil.rmtree(out, ignore_errors=True)
                cpu, peak = measured([*command, "--out", str(out), "-q"])
            ratio = cpu / floor
            print(f"| {name} | {cpu:.2f} | {ratio:.2f} | {goal} | {peak:,.0f} |")


if __name__ == "__main__":
    main()
