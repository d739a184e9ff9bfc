"""Splits by RecTools, RePlay and recommenders beside evalkit: ml-latest-small in a hundred copies.

    python bench/peers.py --only rectools,replay,recommenders
    python bench/split_peers.py
    python bench/split_peers.py --copies 10 --rounds 1

Users and items are renamed in each copy; the rows are those of `evalkit demo`, in the order of
time. Each is one process from start to end, in turns: it reads a Parquet file (libraries by
Polars), splits it, and writes both parts with zstd; evalkit's also writes its leakage report.
Before any time is shown, the parts of a library have to hold the rows of evalkit's, by counts and
sums.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness import (
    BENCH,
    ROOT,
    Machine,
    Round,
    count,
    describe_machine,
    environment,
    make_parser,
    run_process,
    table,
    tell,
    write,
)
from peers import interpreter

LOG = """
import sys
from pathlib import Path
import evalkit, polars as pl
path, copies = sys.argv[1], int(sys.argv[2])
parts = [Path(evalkit.__file__).parent / "demo" / f"{name}.parquet" for name in ("train", "test")]
time = pl.col("timestamp").dt.epoch("s")
rows = pl.read_parquet(parts).select("user", "item", time=time, value="rating")
step = rows.select(pl.max("user", "item") + 1).row(0)
renamed = [
    rows.with_columns(pl.col("user") + copy * step[0], pl.col("item") + copy * step[1])
    for copy in range(copies)
]
pl.concat(renamed).sort("time", maintain_order=True).write_parquet(path, compression="zstd")
"""
SUMS = """
import sys, polars as pl
for name in sys.argv[1:]:
    columns = pl.col("user", "item", "time").cast(pl.Int64)
    print(pl.scan_parquet(name).select(pl.len(), columns.sum()).collect().row(0))
"""
RECTOOLS = """
import sys
import pandas as pd
import polars as pl
from rectools.dataset import Interactions
from rectools.model_selection import LastNSplitter, TimeRangeSplitter
log, train_path, test_path = sys.argv[1:]
rows = pl.read_parquet(log)
kept = {f"filter_{name}": False for name in ("cold_users", "cold_items", "already_seen")}
ours = {"user_id": rows["user"], "item_id": rows["item"], "weight": rows["value"]}
ours = {name: each.to_numpy() for name, each in ours.items()}
ours["datetime"] = pd.to_datetime(rows["time"].to_numpy(), unit="s")
splitter = SPLITTER
((train, test, _),) = splitter.split(Interactions(pd.DataFrame(ours)))
rows[train].write_parquet(train_path, compression="zstd")
rows[test].write_parquet(test_path, compression="zstd")
"""
REPLAY = """
import sys
import polars as pl
from replay.splitters import LastNSplitter, TimeSplitter
log, train_path, test_path = sys.argv[1:]
rows = pl.read_parquet(log)
names = {"query_column": "user", "item_column": "item", "timestamp_column": "time"}
names |= {"drop_cold_users": False, "drop_cold_items": False}
moment = int((rows["time"].max() // 86400 + 1) * 86400 - 7 * 86400)
train, test = SPLITTER.split(rows)
train.write_parquet(train_path, compression="zstd")
test.write_parquet(test_path, compression="zstd")
"""
RECOMMENDERS = """
import sys
import pandas as pd
import polars as pl
from recommenders.datasets.python_splitters import python_chrono_split
log, train_path, test_path = sys.argv[1:]
names = {"col_user": "user", "col_item": "item", "col_timestamp": "time"}
rows = pl.read_parquet(log)
frame = pd.DataFrame({name: rows[name].to_numpy() for name in rows.columns})
for part, path in zip(python_chrono_split(frame, ratio=0.8, **names), (train_path, test_path)):
    kept = {name: part[name].to_numpy() for name in rows.columns}
    pl.DataFrame(kept).write_parquet(path, compression="zstd")
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One split: options of evalkit, and what libraries do, by the names of their environments."""

    name: str
    options: tuple[str, ...]
    scripts: dict[str, str]


CASES = (
    Case(
        "last row of a user",
        ("--by", "user", "--test", "1"),
        {
            "rectools": RECTOOLS.replace("SPLITTER", "LastNSplitter(n=1, n_splits=1, **kept)"),
            "replay": REPLAY.replace(
                "SPLITTER",
                "LastNSplitter(N=1, divide_column='user', strategy='interactions', **names)",
            ),
        },
    ),
    Case(
        "one moment",
        ("--test", "7d"),
        {
            "rectools": RECTOOLS.replace("SPLITTER", "TimeRangeSplitter('7D', **kept)"),
            "replay": REPLAY.replace("SPLITTER", "TimeSplitter(time_threshold=moment, **names)"),
        },
    ),
    Case(
        "share of a user's rows",
        ("--by", "user", "--test", "0.2", "--like", "recommenders"),
        {"recommenders": RECOMMENDERS},
    ),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of one split by one library; ratios are to evalkit's."""

    case: str
    library: str
    cpu: float
    wall: float
    peak_mib: float
    cpu_ratio: float
    wall_ratio: float


@dataclass(frozen=True, slots=True)
class Record:
    """What was found."""

    machine: Machine
    rows: str
    measured: tuple[Measured, ...]


def play(command: list[str | Path], threads: int) -> tuple[Round, str]:
    """One process from start to end; what it took, and what it said."""
    ended = run_process(command, environment([BENCH, ROOT], threads))
    if ended.status:
        raise SystemExit(f"{' '.join(map(str, command))[:200]} ended with {ended.status}")
    return ended.round, ended.output


def measure(case: Case, log: Path, rounds: int, out: Path, threads: int) -> list[Measured]:
    """All of one split, in turns, after one round that warms up and is checked."""
    ours: list[str | Path] = [
        sys.executable,
        "-m",
        "evalkit",
        "split",
        log,
        *case.options,
        "-q",
        "--out",
    ]
    found: dict[str, list[Round]] = {name: [] for name in ("evalkit", *case.scripts)}
    sums = {}
    for number in range(rounds + 1):
        tell(f"{case.name}: round {number} of {rounds}")
        for name, rounds_of in found.items():
            folder = log.parent / name
            shutil.rmtree(folder, ignore_errors=True)
            files = [folder / part for part in ("train", "test")]
            if name == "evalkit":
                took, _ = play([*ours, folder], threads)
            else:
                folder.mkdir()
                python = interpreter(name, out)
                took, _ = play([python, "-c", case.scripts[name], log, *files], threads)
            if number:
                rounds_of.append(took)
            else:
                _, sums[name] = play([sys.executable, "-c", SUMS, *files], threads)
    if len(set(sums.values())) > 1:
        raise SystemExit(f"{case.name}: no time is shown, the parts differ: {sums}")
    middles = {
        name: (median(each.cpu for each in all_of), median(each.wall for each in all_of))
        for name, all_of in found.items()
    }
    return [
        Measured(
            *(case.name, name, cpu, wall),
            max(each.peak_bytes for each in found[name]) / 2**20,
            *(cpu / middles["evalkit"][0], wall / middles["evalkit"][1]),
        )
        for name, (cpu, wall) in middles.items()
    ]


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--copies", type=count, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    folder = given.out / "split-peers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / "log.parquet"
    play([sys.executable, "-c", LOG, log, str(given.copies)], given.threads)
    measured = [
        each
        for case in CASES
        for each in measure(case, log, given.rounds, given.out, given.threads)
    ]
    rows = f"{100_004 * given.copies:,} rows"
    head = ("split", "library", "CPU s", "x evalkit", "wall s", "x evalkit", "MiB")
    lines = [
        (each.case, each.library, f"{each.cpu:.2f}", f"{each.cpu_ratio:.1f}", f"{each.wall:.2f}",
         f"{each.wall_ratio:.1f}", f"{each.peak_mib:,.0f}")
        for each in measured
    ]  # fmt: skip
    text = f"{rows}, {given.threads} threads\n\n" + table(
        head, lines, [each.cpu_ratio for each in measured]
    )
    write(given.out, "split-peers", Record(describe_machine(), rows, tuple(measured)), text)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
