"""How long seven metrics at five cutoffs take, against reading the file and against good queries.

    python bench/run.py                    # 1,000,000 users x 50 ranks
    python bench/run.py --quick            # 100,000 users, three rounds
    python bench/run.py --users 1e7 --depth 100 --only floor,evalkit_call

Bias: evalkit's authors wrote this, the logs and the queries. The logs come from evalkit's own
generator; their shape (grouped by user, one relevant row in twenty) suits the way evalkit works,
and --order scattered does not. The queries are as good as we could make them, and give the means
alone: no check for duplicates, gaps or lost users, which evalkit does in the same time. Every
contestant has a process of its own, the same cores and a warm file cache; one round warms each
up, the others are interleaved, and the medians are shown. No time is shown before all numbers of
all contestants agree to 1e-9.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent)]

from contestants import CONTESTANTS, METRICS, labels  # noqa: E402

from evalkit import synth  # noqa: E402

OUT = BENCH / "out"
CUTOFFS = (1, 5, 10, 20, 50)
TOLERANCE = 1e-9
BAR = 40


@dataclass(frozen=True, slots=True)
class Round:
    """What one call took."""

    wall: float
    cpu: float
    peak_bytes: int
    notes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A contestant's medians, and the rounds behind them."""

    name: str
    title: str
    versions: dict[str, str]
    wall: float
    cpu: float
    floor_ratio: float | None
    peak_mib: int
    values: dict[str, float]
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """One run of the benchmark: what was measured, on what, and what came out."""

    commit: str
    when: str
    processor: str
    cores: int
    memory_mib: int
    system: str
    python: str
    users: int
    depth: int
    rows: int
    pairs: int
    megabytes: float
    ids: str
    order: str
    files: int
    seed: int
    cutoffs: list[int]
    threads: int
    rounds: int
    skipped: dict[str, str]
    results: list[Result]


@dataclass(slots=True)
class Entry:
    """A contestant's process and what it has said so far."""

    name: str
    process: "subprocess.Popen[str]"
    versions: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    values: dict[str, float] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    @property
    def title(self) -> str:
        """How tables call it."""
        return CONTESTANTS[self.name][0]

    @property
    def wall(self) -> float:
        """Median of the rounds after the first, which warms up."""
        return median(each.wall for each in self.rounds[1:])

    def result(self, floor: float | None) -> Result:
        """What is written down of this contestant."""
        return Result(
            name=self.name,
            title=self.title,
            versions=self.versions,
            wall=self.wall,
            cpu=median(each.cpu for each in self.rounds[1:]),
            floor_ratio=self.wall / floor if floor else None,
            peak_mib=max(each.peak_bytes for each in self.rounds) >> 20,
            values=self.values,
            rounds=self.rounds,
        )


def main() -> int:
    """Exit status: 0, or 1 when two contestants disagree."""
    given = parse_arguments()
    log = prepare_log(given)
    cutoffs = [cutoff for cutoff in CUTOFFS if cutoff <= given.depth]
    entries = [start(name, log, cutoffs, given.threads) for name in given.only]
    try:
        for entry in entries:
            greet(entry)
        running = [entry for entry in entries if not entry.skipped]
        for number in range(given.rounds + 1):
            for entry in running[number % len(running) :] + running[: number % len(running)]:
                play(entry)
            if number == 0 and (problems := list(compare(running, labels(cutoffs)))):
                print("\n".join(problems), file=sys.stderr)
                return 1
    finally:
        for entry in entries:
            stop(entry)
    record = describe(given, log, cutoffs, entries)
    text = render(record)
    stem = f"{log.name}-{record.commit}"
    (OUT / f"{stem}.json").write_text(json.dumps(asdict(record), indent=1) + "\n")
    (OUT / f"{stem}.md").write_text(text)
    print(text)
    return 0


def parse_arguments() -> argparse.Namespace:
    """Options, with counts such as 1e6 made whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=float, help="Default: 1e6, with --quick 1e5.")
    parser.add_argument("--depth", type=float, default=50, help="Ranks of each user.")
    parser.add_argument("--ids", choices=["int", "string"], default="int")
    parser.add_argument("--order", choices=["grouped", "scattered"], default="grouped")
    parser.add_argument("--files", type=int, default=1, help="Parquet files of each table.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, help="Default: 7, with --quick 3.")
    parser.add_argument("--threads", type=int, default=count_cores(), help="Default: all cores.")
    parser.add_argument("--quick", action="store_true", help="Smaller, below two minutes.")
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="Some of the contestants.")
    given = parser.parse_args()
    given.users = int(given.users or (1e5 if given.quick else 1e6))
    given.depth = int(given.depth)
    given.rounds = given.rounds or (3 if given.quick else 7)
    given.only = given.only.split(",")
    if unknown := set(given.only) - set(CONTESTANTS):
        parser.error(f"no contestant is called {', '.join(sorted(unknown))}")
    return given


def count_cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prepare_log(given: argparse.Namespace) -> Path:
    """The folder of the logs; made once, and again when the generator has changed."""
    maker = hashlib.sha256(Path(synth.__file__).read_bytes()).hexdigest()[:8]
    shape = f"{given.users}x{given.depth}-{given.ids}-{given.order}-{given.files}-{given.seed}"
    log = OUT / "logs" / f"{shape}-{maker}"
    if not log.exists():
        for old in log.parent.glob(f"{shape}-*"):
            shutil.rmtree(old)
        print(f"generating {given.users * given.depth:,} rows", file=sys.stderr)
        synth.generate(
            log,
            users=given.users,
            depth=given.depth,
            ids=given.ids,
            order=given.order,
            files=given.files,
            form="rank",
            seed=given.seed,
        )
    return log


def start(name: str, log: Path, cutoffs: Sequence[int], threads: int) -> Entry:
    """A contestant's process, which then waits for its first round."""
    limits = dict.fromkeys(("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    paths = os.pathsep.join([str(BENCH), str(BENCH.parent)])
    process = subprocess.Popen(
        [sys.executable, BENCH / "worker.py", name, log, json.dumps(list(cutoffs)), str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **limits, "PYTHONPATH": paths},
    )
    return Entry(name, process)


def hear(entry: Entry) -> dict[str, Any]:
    """The next line of a contestant."""
    assert entry.process.stdout is not None
    line = entry.process.stdout.readline()
    if not line:
        raise SystemExit(f"{entry.title} stopped, exit status {entry.process.wait()}")
    heard: dict[str, Any] = json.loads(line)
    return heard


def greet(entry: Entry) -> None:
    """Hear whether a contestant can be run at all."""
    first = hear(entry)
    entry.skipped = first.get("skipped", "")
    entry.versions = first.get("versions", {})
    if entry.skipped:
        print(f"left out: {entry.title}: {entry.skipped}", file=sys.stderr)


def play(entry: Entry) -> None:
    """One round of one contestant, alone on the machine as far as this script can tell."""
    assert entry.process.stdin is not None
    entry.process.stdin.write("go\n")
    entry.process.stdin.flush()
    heard = hear(entry)
    entry.values = heard.pop("values")
    entry.rounds.append(Round(**heard))


def stop(entry: Entry) -> None:
    """End a contestant's process."""
    assert entry.process.stdin is not None
    entry.process.stdin.close()
    entry.process.wait()


def compare(entries: Sequence[Entry], names: Sequence[str]) -> Iterator[str]:
    """What two contestants see differently."""
    answering = [entry for entry in entries if entry.name != "floor"]
    for entry in answering:
        if missing := [name for name in names if name not in entry.values]:
            yield f"{entry.title} lacks {', '.join(missing)}"
            continue
        for name in names:
            one, other = answering[0].values[name], entry.values[name]
            if not abs(one - other) <= TOLERANCE:
                yield f"{name}: {answering[0].title} says {one!r}, {entry.title} says {other!r}"


def describe(
    given: argparse.Namespace, log: Path, cutoffs: list[int], entries: Sequence[Entry]
) -> Record:
    """Everything that was measured, and on what."""
    running = [entry for entry in entries if not entry.skipped]
    floor = next((entry.wall for entry in running if entry.name == "floor"), None)
    return Record(
        commit=read_commit(),
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        processor=read_processor(),
        cores=count_cores(),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        system=platform.platform(terse=True),
        python=platform.python_version(),
        users=given.users,
        depth=given.depth,
        rows=given.users * given.depth,
        pairs=count_rows(log / "truth"),
        megabytes=sum(path.stat().st_size for path in log.rglob("*.parquet")) / 1e6,
        ids=given.ids,
        order=given.order,
        files=given.files,
        seed=given.seed,
        cutoffs=cutoffs,
        threads=given.threads,
        rounds=given.rounds,
        skipped={entry.title: entry.skipped for entry in entries if entry.skipped},
        results=[entry.result(floor) for entry in running],
    )


def read_commit() -> str:
    """The short commit, with a plus when files differ from it."""
    git = ["git", "-C", str(BENCH.parent)]
    found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if found.returncode != 0:
        return "unknown"
    status = [*git, "status", "--porcelain", "--untracked-files=no"]
    changed = subprocess.run(status, capture_output=True, text=True).stdout.strip()
    return found.stdout.strip() + ("+" if changed else "")


def read_processor() -> str:
    """The processor's own name where the system tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def count_rows(folder: Path) -> int:
    """Rows by the metadata of the Parquet files."""
    import polars as pl

    return int(pl.scan_parquet(folder / "*.parquet").select(pl.len()).collect().item())


def render(record: Record) -> str:
    """The record as Markdown, with bars."""
    longest = max(each.wall for each in record.results)
    lines = [
        f"**{record.rows:,} ranked rows** ({record.users:,} users x {record.depth} ranks, "
        f"{record.ids} ids, {record.order}), {record.pairs:,} relevant pairs, "
        f"{record.megabytes:,.0f} MB of Parquet, {len(METRICS)} metrics x "
        f"{len(record.cutoffs)} cutoffs, {record.threads} threads",
        "",
        "| | wall s | CPU s | x floor | peak MiB | |",
        "| --- | ---: | ---: | ---: | ---: | :--- |",
    ]
    for each in record.results:
        ratio = "" if each.floor_ratio is None else f"{each.floor_ratio:.1f}"
        bar = "█" * max(1, round(BAR * each.wall / longest))
        numbers = f"{each.wall:.2f} | {each.cpu:.2f} | {ratio} | {each.peak_mib:,}"
        lines.append(f"| {each.title} | {numbers} | `{bar}` |")
    lines += [f"\nLeft out: {title}: {why}" for title, why in record.skipped.items()]
    lines += [f"\n{line}" for each in record.results for line in render_stages(each)]
    versions = {name: each.versions[name] for each in record.results for name in each.versions}
    lines += [
        "",
        f"Medians of {record.rounds} interleaved rounds after one that warms up, warm file cache; "
        f"all numbers equal to {TOLERANCE:g}. Commit {record.commit}, {record.when}, "
        f"{record.processor}, {record.cores} cores, {record.system}, Python {record.python}, "
        f"{', '.join(f'{name} {number}' for name, number in sorted(versions.items()))}.",
    ]
    return "\n".join(lines) + "\n"


def render_stages(result: Result) -> Iterator[str]:
    """Where the time of the last round went, if the contestant says so."""
    stages: dict[str, float] = result.rounds[-1].notes.get("stages", {})
    if stages:
        spent = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.items())
        yield f"Stages of {result.title}, seconds: {spent}."


if __name__ == "__main__":
    sys.exit(main())
