"""Mutated files of every format at every table: each ends in an answer or in one error of the data.

    python bench/fuzz.py                            # 20,000 files, half an hour of one core
    python bench/fuzz.py --files 500 --formats ipc,stream
    python bench/fuzz.py --only 1234 --keep damaged # one file again, and its tables

A small evaluation reads truth, rankings, train, users and items; one of these files is damaged as
disks, networks and strangers do it: bits, bytes, cuts, holes, footers, numbers of eight bytes. All
is done in one process whose memory is bounded. A finding is a process that ends or hangs, an error
that is not of the data (exit status 3), a peak of memory, and rows that the file's own footer has
and the report lacks. Then the exit status is 1. Its number and the seed make its file again.
"""

import json
import random
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness import (
    BENCH,
    ROOT,
    Machine,
    count,
    describe_machine,
    environment,
    make_parser,
    table,
    tell,
    write,
)

if TYPE_CHECKING:
    import polars as pl

FORMATS = ("parquet", "arrow-parquet", "ipc", "feather", "stream", "csv", "ndjson")
SUFFIXES = {"parquet": "parquet", "arrow-parquet": "parquet", "csv": "csv", "ndjson": "ndjson"}
TABLES = ("truth", "rankings", "train", "users", "items")
ADDRESSES = 12 << 30  # bytes of addresses that the process may have
MOST_SECONDS = 60.0  # of one file
MOST_TO_START = 600.0  # a machine that has other things to do may compile kernels first
MOST_GROWTH = 600 << 10  # KiB of resident memory for files of some 10 kB
USERS, DEPTH = 60, 12


@dataclass(slots=True)
class Finding:
    """What a damaged file led to and may not lead to."""

    number: int
    what: str
    format: str = ""
    table: str = ""
    how: str = ""


@dataclass
class Record:
    """A whole campaign."""

    machine: Machine
    files: int
    seed: int
    seconds: float
    ends: dict[str, dict[str, int]]  # by format: fine, or the error's code
    findings: list[Finding] = field(default_factory=list)


# ---------------------------------------------------------------- the files


def make_tables(*, has_text_ids: bool) -> dict[str, "pl.DataFrame"]:
    """The five tables, undamaged."""
    import polars as pl

    def user(number: int) -> Any:
        return f"user-{number}" if has_text_ids else number

    def item(number: int) -> Any:
        return f"item-{number % 50}" if has_text_ids else number % 50

    ranked = [(one, rank) for one in range(USERS) for rank in range(DEPTH)]
    rankings = {
        "user": [user(one) for one, _ in ranked],
        "item": [item(one * 7 + rank * 3) for one, rank in ranked],
        "rank": [rank + 1 for _, rank in ranked],
        "score": [1 / (rank + 1) for _, rank in ranked],
    }
    truth = {
        "user": [user(one) for one in range(USERS) for _ in range(3)],
        "item": [item(one * 7 + each * 9) for one in range(USERS) for each in range(3)],
        "relevance": [float(each + 1) for _ in range(USERS) for each in range(3)],
    }
    train = {
        "user": [user(one) for one in range(USERS)],
        "item": [item(one * 5 + 1) for one in range(USERS)],
    }
    users = {"user": train["user"], "group": ["ab"[one % 2] for one in range(USERS)]}
    items = {"item": [item(one) for one in range(50)], "genre": ["xyz"[n % 3] for n in range(50)]}
    columns: tuple[dict[str, list[Any]], ...] = (truth, rankings, train, users, items)
    return {name: pl.DataFrame(each) for name, each in zip(TABLES, columns, strict=True)}


def write_table(frame: "pl.DataFrame", path: Path, format: str, rng: random.Random) -> None:
    """A table in a format, in one of the ways that its writers know."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    if format == "parquet":
        codec: Any = rng.choice(["zstd", "snappy", "lz4", "uncompressed", "gzip"])
        frame.write_parquet(path, compression=codec, row_group_size=rng.choice([100, 10_000]))
    elif format == "arrow-parquet":
        pq.write_table(
            frame.to_arrow(),
            path,
            compression=rng.choice(["zstd", "snappy", "none"]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            use_dictionary=rng.random() < 0.5,
        )
    elif format == "feather":
        codec = rng.choice(["lz4", "zstd", "uncompressed"])
        feather.write_feather(frame.to_arrow(), str(path), compression=codec, chunksize=200)
    elif format in ("ipc", "stream"):
        codec = rng.choice(["uncompressed", "lz4", "zstd"])
        if rng.random() < 0.3:
            frame = frame.with_columns(pl.col(pl.String).cast(pl.Categorical))
        if format == "ipc" and rng.random() < 0.5:
            frame.write_ipc(path, compression=codec)
        elif format == "stream" and rng.random() < 0.5:
            frame.write_ipc_stream(path, compression=codec)
        else:
            options = pa.ipc.IpcWriteOptions(compression=None if codec == "uncompressed" else codec)
            new = pa.ipc.new_file if format == "ipc" else pa.ipc.new_stream
            arrow = frame.to_arrow()
            with new(str(path), arrow.schema, options=options) as sink:
                sink.write_table(arrow, max_chunksize=250)
    elif format == "csv":
        frame.write_csv(path)
    else:
        frame.write_ndjson(path)


def mutate(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Damaged content, and how it was damaged."""
    damaged, size = bytearray(content), len(content)
    how = rng.choice(
        ["bytes", "bit", "cut", "blank", "hole", "more", "tail", "head", *["word"] * 3]
    )
    place = rng.randrange(size)
    if how == "bytes":
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            damaged[rng.randrange(size)] = rng.randrange(256)
    elif how == "bit":
        damaged[place] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del damaged[place:]
    elif how == "blank":
        end = min(size, place + rng.randrange(1, 40))
        damaged[place:end] = bytes([rng.choice([0, 255])]) * (end - place)
    elif how == "hole":
        del damaged[place : place + rng.randrange(1, 20)]
    elif how == "more":
        damaged[place:place] = rng.randbytes(rng.randrange(1, 20))
    elif how in ("tail", "head"):
        for _ in range(rng.choice([1, 2, 4])):
            near = min(size - 1, int(rng.expovariate(1 / 300)))
            value = rng.choice([0, 255, 127, 128, rng.randrange(256)])
            damaged[near if how == "head" else size - 1 - near] = value
    else:
        width = rng.choice([4, 8])
        place = rng.randrange(max(1, size - width)) // width * width
        value = rng.choice([1 << 61, 1 << 40, 1 << 34, 1 << 31, (1 << 31) - 1, -1, 3 * size, 0])
        damaged[place : place + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(damaged), how


# ---------------------------------------------------------------- the process that reads them


class Reader:
    """Evaluates with one damaged file after another."""

    def __init__(self, folder: Path, seed: int, formats: list[str]) -> None:
        self.folder, self.seed, self.formats = folder, seed, formats
        self.sources = {
            True: make_tables(has_text_ids=True),
            False: make_tables(has_text_ids=False),
        }

    def read(self, number: int) -> dict[str, Any]:
        """What became of one file."""
        for old in self.folder.glob("*.*"):
            old.unlink()
        rng = random.Random(f"{self.seed} {number}")
        format, name = rng.choice(self.formats), rng.choice([*TABLES, "truth", "rankings"])
        tables = self.sources[rng.random() < 0.5]
        paths = {}
        for table_name, frame in tables.items():
            paths[table_name] = self.folder / f"{table_name}.parquet"
            if table_name != name:
                frame.write_parquet(paths[table_name], compression="uncompressed")
        paths[name] = self.folder / f"{name}.{SUFFIXES.get(format, 'arrow')}"
        write_table(tables[name], paths[name], format, rng)
        content, how = mutate(paths[name].read_bytes(), rng)
        paths[name].write_bytes(content)
        about = {"number": number, "format": format, "table": name, "how": how}
        print(json.dumps({"begun": about}), flush=True)
        began, peak = time.monotonic(), peak_kib()
        end, what = evaluate(paths, name, rng)
        if not what and peak_kib() - peak > MOST_GROWTH:
            what = f"{(peak_kib() - peak) >> 10} MiB more"
        if not what and time.monotonic() - began > MOST_SECONDS / 4:
            what = f"{time.monotonic() - began:.0f} s"
        return about | {"end": end, "what": what}


def peak_kib() -> int:
    """Resident memory that the process had at most."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def evaluate(paths: dict[str, Path], name: str, rng: random.Random) -> tuple[str, str]:
    """How an evaluation ended, and what is wrong with that."""
    import evalkit

    try:
        report = evalkit.evaluate(
            str(paths["truth"]),
            {"m": str(paths["rankings"])},
            metrics=["nDCG@10", "recall@5"],
            policies={"duplicates": "best", "bad_ranks": "keep"} if rng.random() < 0.5 else None,
            train=str(paths["train"]),
            drop_seen=rng.random() < 0.5,
            segments={
                "group": {"path": str(paths["users"]), "by": "group"},
                "genre": {"path": str(paths["items"]), "item": "item", "by": "genre"},
            },
        )
    except evalkit.EvalkitError as error:
        is_fine = error.exit_status == 3
        return error.code, "" if is_fine else f"status {error.exit_status}: {error}"
    except BaseException as error:
        return "raised", f"{type(error).__name__}: {error}"
    told = {"truth": report.counts.truth.rows, "rankings": report.counts.models["m"].rows}
    has = rows_by_footer(paths[name])
    if name in told and has is not None and told[name] != has:
        return "fine", f"the report has {told[name]} rows, the file {has}"
    return "fine", ""


def rows_by_footer(path: Path) -> int | None:
    """Rows as another reader finds them claimed; None where it does not say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        if path.suffix == ".arrow":
            return sum(int(batch.num_rows) for batch in _batches(pa, path))
    except (pa.ArrowException, OSError):
        pass
    return None


def _batches(pa: Any, path: Path) -> Iterator[Any]:
    with pa.OSFile(str(path)) as file:
        if path.read_bytes()[:6] != b"ARROW1":
            yield from pa.ipc.open_stream(file)
            return
        opened = pa.ipc.open_file(file)
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number)


def read_all(folder: Path, seed: int, formats: list[str], first: int, last: int) -> None:
    """Read damaged files, and say of each what became of it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    reader = Reader(folder, seed, formats)
    paths = {name: folder / f"{name}.parquet" for name in TABLES}
    for name, frame in reader.sources[False].items():
        frame.write_parquet(paths[name])
    if evaluate(paths, "truth", random.Random(0)) != ("fine", ""):
        raise SystemExit("undamaged files are not read")
    print(json.dumps({"begun": {}}), flush=True)
    for number in range(first, last):
        print(json.dumps(reader.read(number)), flush=True)


# ---------------------------------------------------------------- the campaign


def campaign(
    seed: int, formats: list[str], first: int, last: int, keep: Path | None
) -> tuple[dict[str, Counter[str]], list[Finding]]:
    """Ends by format, and findings; the process is started again wherever it ended."""
    ends: dict[str, Counter[str]] = {}
    findings: list[Finding] = []
    while first < last:
        with TemporaryDirectory(prefix="evalkit-fuzz-") as name:
            for about in hear(keep or Path(name), seed, formats, first, last):
                first = about["number"] + 1
                ends.setdefault(about["format"], Counter())[about.pop("end")] += 1
                if about["what"]:
                    findings.append(Finding(**about))
                    tell(f"{findings[-1]}")
                if first % 1000 == 0:
                    tell(f"{first} files, {len(findings)} findings")
    return ends, findings


def hear(
    folder: Path, seed: int, formats: list[str], first: int, last: int
) -> Iterator[dict[str, Any]]:
    """What a process says of files; of the last one also where the process ended."""
    options = ["--files", str(last), "--first", str(first), "--formats", ",".join(formats)]
    command = [sys.executable, __file__, "--read", str(folder), "--seed", str(seed), *options]
    with open(folder / "stderr", "wb") as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment([ROOT, BENCH], 2)
        )
    assert child.stdout is not None
    begun: dict[str, Any] = {}
    wait = MOST_TO_START
    while True:
        is_late = not select.select([child.stdout], [], [], wait)[0]
        wait = MOST_SECONDS
        line = b"" if is_late else child.stdout.readline()
        if is_late:
            child.kill()
        if not line:
            status = child.wait()
            child.stdout.close()
            if begun:
                words = (folder / "stderr").read_text(errors="replace")[-300:]
                what = "took too long" if is_late else f"the process ended, {status}: {words}"
                yield begun | {"end": "ended", "what": what}
            elif status != 0:
                raise SystemExit((folder / "stderr").read_text(errors="replace"))
            return
        said = json.loads(line)
        begun = said.get("begun", {})
        if "begun" not in said:
            yield said


def main() -> int:
    """Exit status: 0, or 1 where there are findings."""
    parser = make_parser(__doc__)
    parser.add_argument("--files", type=count, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="Number of the first file.")
    parser.add_argument("--only", type=int, help="This file alone.")
    parser.add_argument("--keep", type=Path, help="Folder that the last file is kept in.")
    parser.add_argument("--formats", default=",".join(FORMATS), help="Default: all.")
    parser.add_argument("--read", type=Path, help="Used by the script itself.")
    asked = parser.parse_args()
    formats = asked.formats.split(",")
    first, last = asked.first, asked.files
    if asked.only is not None:
        first, last = asked.only, asked.only + 1
    if asked.read:
        read_all(asked.read, asked.seed, formats, first, last)
        return 0
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    machine, began = describe_machine(), time.monotonic()
    stem = f"fuzz-{machine.when.replace(':', '').replace('-', '')}"
    ends, findings = campaign(asked.seed, formats, first, last, asked.keep)
    seconds = time.monotonic() - began
    told = {name: dict(each.most_common()) for name, each in sorted(ends.items())}
    record = Record(machine, last - first, asked.seed, seconds, told, findings)
    found = Counter(each.format for each in findings)
    cells = [
        [name, sum(each.values()), each.get("fine", 0), found[name]] for name, each in told.items()
    ]
    head = ["format", "files", "read as fine", "findings"]
    rows = [list(map(str, each)) for each in cells]
    write(asked.out, stem, record, table(head, rows, [float(row[1]) for row in rows]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
