"""Splits of one log beside the floor and DuckDB: CPU, wall and memory of whole processes.

    python bench/split.py
    python bench/split.py --rows 5e7 --rounds 3
    python bench/split.py --rows 1e7 --shuffled --text

The log has four columns (user, item, time, value), zstd, in the order of time, 50 rows a user. The
floor reads all columns and writes them again with Arrow, same codec, on one core; DuckDB, in a
virtual environment of its own, answers the same question with as many threads. Each is one process
from start to end, in turns, after one that warms up; medians are shown. Before any time is
shown, DuckDB has to find as many rows, with the same sum of hashes, in every part that evalkit
wrote as its own query gives. `core` and `check` are held against reading two columns and the floor.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
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

LOG = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
path, n_rows, shuffled, text = sys.argv[1], *map(int, sys.argv[2:])
draw, n_users, now, left = np.random.default_rng(1), max(1000, n_rows // 50), 1_500_000_000, n_rows
order, writer = draw.permutation(-(-n_rows // (1 << 20))), None
for turn in order if shuffled else range(order.size):
    n = min(1 << 20, n_rows - (int(turn) << 20))
    rows = np.random.default_rng(2 + int(turn))
    times = now + (int(turn) << 20) + np.cumsum(rows.integers(0, 2, n)).astype(np.int64)
    users = (n_users * rows.random(n) ** 1.5).astype(np.int64)
    items = (max(100, n_users // 10) * rows.random(n) ** 2).astype(np.int32)
    columns = {"user": users, "item": items, "time": times}
    columns["value"] = rows.integers(1, 6, n).astype(np.float32)
    columns = {name: pa.array(each) for name, each in columns.items()}
    if text:
        columns["user"] = columns["user"].cast(pa.string())
        columns["item"] = columns["item"].cast(pa.string())
    made = pa.table(columns)
    if shuffled:
        made = made.take(pa.array(rows.permutation(n)))
    writer = writer or pq.ParquetWriter(path, made.schema, compression="zstd")
    writer.write_table(made)
writer.close()
"""
FLOOR = """
import sys, pyarrow as pa, pyarrow.parquet as pq
pa.set_cpu_count(1)
log = pq.ParquetFile(sys.argv[1])
with pq.ParquetWriter(sys.argv[2], log.schema_arrow, compression="zstd") as out:
    for group in range(log.num_row_groups):
        out.write_table(log.read_row_group(group, use_threads=False))
"""
TWO_COLUMNS = """
import sys, pyarrow.parquet as pq
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(1 << 20, columns=["user", "item"]):
    pass
"""
DUCKDB = """
import json, sys, duckdb
told = json.loads(sys.argv[1])
db = duckdb.connect()
db.execute("set enable_progress_bar = false")
db.execute(f"set threads = {told['threads']}")
for each in told["sql"]:
    found = db.execute(each).fetchall()
    if told.get("until") and each == told["sql"][-1]:
        while found[0][0]:
            for again in told["sql"][told["until"]:]:
                found = db.execute(again).fetchall()
print(json.dumps(found))
"""
HASH = "count(*), sum(hash(user, item, time) % 1000000007)"
LAST = "row_number() over (partition by user order by time desc, file_row_number desc)"
ROWS = "read_parquet('{log}', file_row_number = true)"
TO = "to '{out}' (format parquet, compression zstd)"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is done.

    Args:
        options: of evalkit split, behind the log.
        goal: times the floor that its CPU may be.
        sql: what DuckDB does; the last one's answer is not looked at.
        letters: SQL that says 1, 2 or 3 of each row of `log`, to check by; empty: no check.
        until: place of the statements that DuckDB repeats until the last gives 0.
    """

    name: str
    options: tuple[str, ...]
    goal: float
    sql: tuple[str, ...]
    letters: str = ""
    until: int = 0
    floor: str = "floor"


CORE = ("--set", "split.core={ user = 5, item = 5 }")
PARTS = ("train", "validation", "test")
CHECK = ("--check", *(text for part in PARTS for text in (f"--{part}", f"{{parts}}/{part}")))
OF_TRAIN = "'{parts}/train/*.parquet'"
MOMENT = "(select (max(time) // 86400 + 1) * 86400 - 604800 from '{log}')"
SHARE = (
    f"with ranked as (select *, {LAST} as r, count(*) over (partition by user) as n from {ROWS}) "
    "select * exclude (r, n, file_row_number), "
    "if(r <= if(n > 1 and n < 5, 1, n // 5), 3, 1) as part from ranked"
)
TWO = (
    f"with ranked as (select *, {LAST} as r, count(*) over (partition by user) as n from {ROWS}) "
    "select * exclude (r, n, file_row_number), "
    "if(r = 1 and n > 1, 3, if(r = 2 and n > 2, 2, 1)) as part from ranked"
)
CASES = (
    Case(
        "one moment",
        ("--test", "7d"),
        1.2,
        tuple(
            f"copy (select * from '{{log}}' where time {sign} {MOMENT}) "
            f"to '{{out}}-{name}' (format parquet, compression zstd)"
            for sign, name in (("<", "train"), (">=", "test"))
        ),
        f"select *, if(time >= {MOMENT}, 3, 1) as part from '{{log}}'",
    ),
    Case(
        "last two rows of a user",
        ("--by", "user", "--test", "1", "--validation", "1"),
        1.6,
        (f"copy ({TWO}) {TO}",),
        TWO,
    ),
    Case(
        "share of a user's rows",
        ("--by", "user", "--test", "0.2"), 1.9, (f"copy ({SHARE}) {TO}",), SHARE,
    ),
    Case(
        "one byte a row",
        ("--by", "user", "--test", "1", "--validation", "1", "--write", "assignment"),
        0.9,
        (f"copy (select part from ({TWO})) {TO}",),
    ),
    Case(
        "5-core",
        ("--by", "user", "--test", "1", "--write", "assignment", *CORE),
        4,
        (
            "create table core as select user, item from '{log}'",
            "delete from core where user in (select user from core group by 1 having count(*) < 5)",
            "delete from core where item in (select item from core group by 1 having count(*) < 5)",
        ),
        until=1,
        floor="two columns",
    ),
    Case(
        "leakage report",
        CHECK,
        1.0,
        tuple(
            text.replace("PART", f"'{{parts}}/{part}/*.parquet'").replace("TRAIN", OF_TRAIN)
            for part in ("validation", "test")
            for text in (
                "select count(*) from TRAIN where time >= "
                "(select min(time) from PART)",
                "select count(*) from TRAIN t join (select user, min(time) as first "
                "from PART group by 1) h on t.user = h.user and t.time > h.first",
                "select count(*) from PART semi join TRAIN "
                "using (user, item)",
                "select count(distinct item) from PART anti join TRAIN "
                "using (item)",
                "select count(distinct user) from PART anti join TRAIN "
                "using (user)",
            )
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of one thing."""

    name: str
    cpu: float
    wall: float
    peak_mib: float
    floor: float
    goal: float
    duckdb_cpu: float
    duckdb_wall: float
    duckdb_mib: float

    @property
    def ratio(self) -> float:
        """CPU in floors."""
        return self.cpu / self.floor


@dataclass(frozen=True, slots=True)
class Record:
    """What was found."""

    machine: Machine
    rows: int
    shuffled: bool
    text: bool
    floor_cpu: float
    floor_wall: float
    two_columns_cpu: float
    measured: tuple[Measured, ...]


@dataclass(slots=True)
class Bench:
    """One log, and who reads it."""

    folder: Path
    log: Path
    threads: int
    duckdb: Path

    def python(self, text: str, *arguments: object) -> Round:
        """A script in a process of its own."""
        command = [sys.executable, "-c", text, *map(str, arguments)]
        return self._run(command)

    def _run(self, command: Sequence[str | Path]) -> Round:
        ended = run_process(command, environment([BENCH, ROOT], self.threads))
        if ended.status:
            raise SystemExit(f"{' '.join(map(str, command))[:300]} ended with {ended.status}")
        return ended.round

    def spelled(self, text: str, out: str = "") -> str:
        """With the names of files."""
        names = {"{log}": self.log, "{out}": self.folder / (out or "duckdb"),
                 "{parts}": self.folder / "parts"}  # fmt: skip
        for name, path in names.items():
            text = text.replace(name, str(path))
        return text

    def evalkit(self, case: Case, out: Path) -> Round:
        """Split, into a new folder."""
        shutil.rmtree(out, ignore_errors=True)
        options = [self.spelled(each) for each in case.options]
        log = [] if "--check" in options else [str(self.log)]
        command = [sys.executable, "-m", "evalkit", "split", *log, *options]
        return self._run([*command, "--out", str(out), "-q"])

    def ask_duckdb(self, sql: Sequence[str], until: int = 0) -> tuple[Round, str]:
        """Statements in one process; what it took, and the last answer."""
        told = {"threads": self.threads, "sql": list(map(self.spelled, sql)), "until": until}
        ended = run_process(
            [self.duckdb, "-c", DUCKDB, json.dumps(told)], environment([], self.threads)
        )
        if ended.status:
            raise SystemExit(f"DuckDB ended with {ended.status}")
        return ended.round, ended.output

    def check(self, case: Case, out: Path) -> None:
        """Refuse parts that are not those that DuckDB finds."""
        if not case.letters:
            return
        wanted = f"select part, {HASH} from ({case.letters}) group by 1 order by 1"
        parts = " union all ".join(
            f"select {letter}, {HASH} from '{out}/{name}/*.parquet'"
            for letter, name in ((1, "train"), (2, "validation"), (3, "test"))
            if (out / name).exists()
        )
        one, two = (self.ask_duckdb([each])[1] for each in (wanted, parts))
        if one != two:
            raise SystemExit(f"{case.name}: DuckDB finds {one}, evalkit wrote {two}")


def find_duckdb(out: Path) -> Path:
    """A Python that has DuckDB, in an environment of its own."""
    home = out / "venvs" / "duckdb"
    python = home / "bin" / "python"
    if not python.exists():
        tell("installing DuckDB")
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "duckdb"], check=True)
    return python


def main() -> None:
    """Print a table of ratios, and what was to be reached."""
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=count, default=count("5e6"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shuffled", action="store_true", help="Rows in no order.")
    parser.add_argument("--text", action="store_true", help="Ids of users and items are text.")
    parser.add_argument("--only", default="", help="Cases whose name begins so.")
    given = parser.parse_args()
    kind = f"{given.rows}{'-shuffled' * given.shuffled}{'-text' * given.text}"
    folder = given.out / f"split-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bench = Bench(folder, folder / "log.parquet", given.threads, find_duckdb(given.out))
    bench.python(LOG, bench.log, given.rows, int(given.shuffled), int(given.text))
    cases = [case for case in CASES if case.name.startswith(given.only)]
    floors: dict[str, list[Round]] = {"floor": [], "two columns": []}
    ours: dict[str, list[Round]] = {case.name: [] for case in cases}
    theirs: dict[str, list[Round]] = {case.name: [] for case in cases}
    bench.evalkit(CASES[1], folder / "parts")
    for case in cases:
        tell(f"checking {case.name}")
        bench.evalkit(case, folder / "out")
        bench.check(case, folder / "out")
    for number in range(given.rounds):
        tell(f"round {number + 1} of {given.rounds}")
        floors["floor"].append(bench.python(FLOOR, bench.log, folder / "again"))
        floors["two columns"].append(bench.python(TWO_COLUMNS, bench.log))
        for case in cases:
            ours[case.name].append(bench.evalkit(case, folder / "out"))
            theirs[case.name].append(bench.ask_duckdb(case.sql, case.until)[0])
    floor = {name: median(each.cpu for each in rounds) for name, rounds in floors.items()}
    measured = tuple(
        Measured(
            case.name,
            *of_rounds(ours[case.name]),
            floor[case.floor],
            case.goal,
            *of_rounds(theirs[case.name]),
        )
        for case in cases
    )
    wall = median(each.wall for each in floors["floor"])
    record = Record(
        *(describe_machine(), given.rows, given.shuffled, given.text, floor["floor"], wall),
        *(floor["two columns"], measured),
    )
    write(given.out, f"split-{kind}", record, shown(record))
    shutil.rmtree(folder)


def of_rounds(rounds: Sequence[Round]) -> tuple[float, float, float]:
    """CPU, wall and peak."""
    return (
        median(each.cpu for each in rounds),
        median(each.wall for each in rounds),
        max(each.peak_bytes for each in rounds) / 2**20,
    )


def shown(record: Record) -> str:
    """The table."""
    kind = "shuffled" if record.shuffled else "in time order"
    ids = "text" if record.text else "integers"
    lines = [
        f"{record.rows:,} rows {kind}, ids are {ids}; floor {record.floor_cpu:.2f} CPU s, "
        f"{record.floor_wall:.2f} s; two columns {record.two_columns_cpu:.2f} CPU s",
    ]
    head = ("split", "CPU s", "x floor", "goal", "wall", "MiB", "DuckDB CPU", "wall", "MiB")
    rows = [
        (each.name, f"{each.cpu:.2f}", f"{each.ratio:.2f}", f"{each.goal:g}", f"{each.wall:.2f}",
         f"{each.peak_mib:,.0f}", f"{each.duckdb_cpu:.2f}", f"{each.duckdb_wall:.2f}",
         f"{each.duckdb_mib:,.0f}")
        for each in record.measured
    ]  # fmt: skip
    return "\n".join([*lines, "", table(head, rows, [each.ratio for each in record.measured])])


if __name__ == "__main__":
    main()
