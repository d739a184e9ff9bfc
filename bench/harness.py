"""What the scripts of the benchmark share: logs, processes, rounds, records, tables.

Only the standard library is imported here: the operating system's peak of a process begins with
the memory of the one that started it, so the one that starts all others has to stay small.
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from contestants import CUTOFFS, METRICS

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
TOLERANCE = 1e-9
BAR = 30
MODEL = "model-1"
KERNELS = "NUMBA_CACHE_DIR"  # names the folder of compiled kernels
LABELS = tuple(f"{metric}@{cutoff}" for metric in METRICS for cutoff in CUTOFFS)


# ---------------------------------------------------------------- options


def make_parser(description: str | None) -> ArgumentParser:
    """Options that every script has."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    out = BENCH / "out"
    parser.add_argument("--out", type=Path, default=out, help="Folder of logs and results.")
    parser.add_argument("--seed", type=int, default=1, help="Of the logs.")
    parser.add_argument("--threads", type=int, default=count_cores(), help="Default: all cores.")
    return parser


def count(text: str) -> int:
    """A whole number that may be written as 1e6."""
    return int(float(text))


def count_cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---------------------------------------------------------------- logs


@dataclass(frozen=True, slots=True)
class Shape:
    """What a log looks like; `log_files.py` makes it."""

    users: int
    depth: int = 50
    ids: str = "int"
    order: str = "grouped"
    truth: str = "user"  # or "time": its rows in no order
    form: str = "rank"
    files: int = 1
    models: int = 1
    relevant: float = 7.6
    heavy_rows: int = 0  # ranked rows of one more user
    heavy_relevant: int = 0
    seed: int = 1

    @property
    def name(self) -> str:
        """A short text that no other shape has."""
        parts = [f"{self.users}x{self.depth}", self.ids, self.order, self.form, f"f{self.files}"]
        if self.truth != "user":
            parts.append(self.truth)
        if self.models > 1:
            parts.append(f"m{self.models}")
        if self.relevant != 7.6:
            parts.append(f"r{self.relevant:g}")
        if self.heavy_rows:
            parts.append(f"h{self.heavy_rows}-{self.heavy_relevant}")
        return "-".join([*parts, f"s{self.seed}"])

    @property
    def rows(self) -> int:
        """Ranked rows, of all models."""
        return self.models * (self.users * self.depth + self.heavy_rows)


@dataclass(frozen=True, slots=True)
class Log:
    """A log on disk."""

    path: Path
    shape: Shape
    pairs: int  # rows of the truth, all of them relevant
    megabytes: float

    @property
    def users(self) -> int:
        """Users of the truth; each of them has a ranking."""
        return self.shape.users + (1 if self.shape.heavy_rows else 0)

    @property
    def rows(self) -> int:
        """Ranked rows, of all models."""
        return self.shape.rows


def prepare_logs(shapes: Iterable[Shape], out: Path) -> list[Log]:
    """The logs of these shapes: made once, and again when what makes them has changed."""
    maker = hash_files(ROOT / "evalkit" / "cli" / "synth_logs.py", BENCH / "log_files.py")
    wanted = {out / "logs" / f"{shape.name}-{maker}": shape for shape in shapes}
    orders = []
    for folder, shape in wanted.items():
        if not folder.exists():
            for old in folder.parent.glob(f"{shape.name}-{'?' * len(maker)}"):
                shutil.rmtree(old)
            orders.append({"make": str(folder), "shape": asdict(shape)})
    call_log_files(orders)
    return [
        Log(folder, shape, **json.loads((folder / "facts.json").read_text()))
        for folder, shape in wanted.items()
    ]


def read_references(logs: Iterable[Log]) -> dict[Path, dict[str, float]]:
    """The numbers of each log by the hand-written Polars query, file by file; kept beside it."""
    maker = hash_files(BENCH / "log_files.py", BENCH / "contestants" / "polars_query.py")
    kept = {log.path: log.path / f"reference-{maker}.json" for log in logs}
    orders = [
        {"check": str(log), "to": str(file)} for log, file in kept.items() if not file.exists()
    ]
    call_log_files(orders)
    return {log: json.loads(file.read_text()) for log, file in kept.items()}


def hash_files(*files: Path) -> str:
    """A short text that changes with the files."""
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:8]


def call_log_files(orders: Sequence[Mapping[str, object]]) -> None:
    """Run `log_files.py`, which needs evalkit and Polars, in a process that ends.

    Raises:
        SystemExit: it ended with an error, which it has told.
    """
    if not orders:
        return
    done = subprocess.run(
        [sys.executable, BENCH / "log_files.py"],
        env=environment([BENCH, ROOT]),
        input="".join(json.dumps(order) + "\n" for order in orders),
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"log_files.py ended with exit status {done.returncode}")


def tell(message: str) -> None:
    """A line on stderr: results alone go to stdout."""
    print(message, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- processes


def environment(
    paths: Sequence[Path], threads: int | None = None, **more: str | Path
) -> dict[str, str]:
    """This process's variables, with these paths to import from and this many threads.

    Python keeps compiled sources, as it does of whatever is installed.
    """
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    known = {name: value for name, value in os.environ.items() if name not in left_out}
    known["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    if threads is not None:
        limits = ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
        known |= dict.fromkeys(limits, str(threads))
    return known | {name: str(value) for name, value in more.items()}


@dataclass(frozen=True, slots=True)
class Round:
    """What one call took."""

    wall: float
    cpu: float
    peak_bytes: int
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended: what it cost by `os.wait4`, and what it wrote."""

    round: Round
    status: int
    output: str
    errors: str = ""


def run_process(command: Sequence[str | Path], env: Mapping[str, str]) -> Ended:
    """Run a command to its end; its CPU seconds are with those of the processes it waited for."""
    began = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda pipe: errors.append(pipe.read()), args=[process.stderr])
    reader.start()
    output = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    process.stdout.close()
    process.stderr.close()
    if process.returncode != 0:
        sys.stderr.write(b"".join(errors).decode(errors="replace"))
    unit = 1 if sys.platform == "darwin" else 1024
    spent = Round(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)
    return Ended(spent, process.returncode, output, b"".join(errors).decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker process has to do, again and again."""

    name: str
    title: str
    contestant: str  # a module of contestants/
    log: Path
    labels: Sequence[str] = LABELS
    threads: int = 1
    tree: Path = ROOT  # where evalkit is imported from
    python: Path = Path(sys.executable)
    needs_evalkit: bool = True
    kernels: Path | None = None  # folder of compiled kernels; default: the user's
    cores: Sequence[int] = ()  # that it may use; default: as many as it has threads


@dataclass(slots=True)
class Entry:
    """A worker's process and what it has said so far."""

    task: Task
    process: "subprocess.Popen[str]"
    versions: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    values: dict[str, float] = field(default_factory=dict)
    digest: str = ""
    rounds: list[Round] = field(default_factory=list)

    @property
    def timed(self) -> list[Round]:
        """The rounds after the first, which warms up; where there is no other, the first."""
        return self.rounds[1:] or self.rounds

    @property
    def wall(self) -> float:
        """Median of the timed rounds."""
        return median(each.wall for each in self.timed)

    @property
    def cpu(self) -> float:
        """Median of the timed rounds."""
        return median(each.cpu for each in self.timed)

    @property
    def peak_mib(self) -> int:
        """The largest resident memory of the process in any round."""
        return max(each.peak_bytes for each in self.rounds) >> 20

    @property
    def stages(self) -> dict[str, float]:
        """Median seconds of each stage in the timed rounds, if the contestant tells them."""
        told = [each.notes.get("stages", {}) for each in self.timed]
        return {stage: median(each[stage] for each in told) for stage in told[0]} if told else {}


class WorkerStopped(SystemExit):
    """A worker's process has ended by itself; left alone, it ends the script."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.reason = f"stopped with exit status {entry.process.wait()}"
        super().__init__(f"{entry.task.title} {self.reason}")


@contextlib.contextmanager
def start(tasks: Sequence[Task]) -> Iterator[list[Entry]]:
    """A waiting process for each task; all are ended at the end."""
    entries: list[Entry] = []
    try:
        entries.extend(launch(task) for task in tasks)
        for entry in entries:
            greet(entry)
        yield entries
    finally:
        for entry in entries:
            stop(entry)


def launch(task: Task) -> Entry:
    """The process of one task."""
    told = {
        "contestant": task.contestant,
        "log": str(task.log),
        "labels": list(task.labels),
        "threads": task.threads,
        "cores": list(task.cores),
    }
    paths = [BENCH, task.tree] if task.needs_evalkit else [BENCH]
    kernels = {} if task.kernels is None else {KERNELS: task.kernels}
    process = subprocess.Popen(
        [task.python, "-W", "ignore", BENCH / "worker.py", json.dumps(told)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(paths, task.threads, **kernels),
    )
    return Entry(task, process)


def hear(entry: Entry) -> dict[str, Any]:
    """The next line of a worker.

    Raises:
        WorkerStopped: there is none.
    """
    assert entry.process.stdout is not None
    line = entry.process.stdout.readline()
    if not line:
        raise WorkerStopped(entry)
    heard: dict[str, Any] = json.loads(line)
    return heard


def greet(entry: Entry) -> None:
    """Hear whether a contestant can be run at all."""
    first = hear(entry)
    entry.skipped = first.get("skipped", "")
    entry.versions = first.get("versions", {})
    if entry.skipped:
        tell(f"left out: {entry.task.title}: {entry.skipped}")


def play(entry: Entry) -> None:
    """One round of one contestant, alone on the machine as far as this script can tell."""
    play_together([entry])


def play_together(entries: Sequence[Entry]) -> float:
    """One round of several contestants at the same time; wall seconds until the last has ended."""
    begin = time.perf_counter()
    for entry in entries:
        assert entry.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has stopped, which is heard next
            entry.process.stdin.write("go\n")
            entry.process.stdin.flush()
    for entry in entries:
        take_round(entry)
    return time.perf_counter() - begin


def take_round(entry: Entry) -> None:
    """Hear how the round ended that a contestant has begun.

    Raises:
        SystemExit: it gave another report than before.
    """
    heard = hear(entry)
    values, digest = heard.pop("values"), heard.pop("digest")
    if entry.rounds and digest != entry.digest:
        raise SystemExit(f"{entry.task.title} gave another report on the same logs")
    entry.values, entry.digest = values, digest
    entry.rounds.append(Round(**heard))


def stop(entry: Entry) -> None:
    """End a worker's process."""
    assert entry.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        entry.process.stdin.close()
    entry.process.wait()


def play_rounds(
    entries: Sequence[Entry], rounds: int, find_problems: Callable[[], Iterator[str]]
) -> None:
    """One round that warms up, and is checked, then `rounds` interleaved ones.

    Raises:
        SystemExit: the answers have a problem; exit status 1.
    """
    for number in range(rounds + 1):
        first = number % len(entries)
        for entry in [*entries[first:], *entries[:first]]:
            play(entry)
        if number == 0:
            refuse(find_problems())


def refuse(problems: Iterator[str]) -> None:
    """End the script if the answers have a problem."""
    told = list(problems)
    if told:
        tell("\n".join(["no time is shown, the answers differ:", *told]))
        raise SystemExit(1)


# ---------------------------------------------------------------- answers


def differences(
    one: str,
    wanted: Mapping[str, float],
    other: str,
    found: Mapping[str, float],
    tolerance: float = TOLERANCE,
) -> Iterator[str]:
    """Where two answers are further apart than the tolerance, or one lacks a number."""
    for name, value in wanted.items():
        if name not in found:
            yield f"{other} lacks {name}"
        elif not abs(value - found[name]) <= tolerance:
            yield f"{name}: {one} says {value!r}, {other} says {found[name]!r}"


def digest_report(text: str) -> str:
    """A hash of what has to be the same bytes in every report on the same rows."""
    report = json.loads(text)
    for key in ("meta", "run_id", "run_key", "inputs"):
        del report[key]
    return hashlib.sha256(json.dumps(report).encode()).hexdigest()


# ---------------------------------------------------------------- records and tables


@dataclass(frozen=True, slots=True)
class Machine:
    """On what was measured, when, and with which commit."""

    commit: str
    when: str
    processor: str
    cores: int
    memory_mib: int
    system: str
    python: str

    def __str__(self) -> str:
        return (
            f"Commit {self.commit}, {self.when}, {self.processor}, {self.cores} cores, "
            f"{self.memory_mib:,} MiB, {self.system}, Python {self.python}"
        )


def describe_machine() -> Machine:
    """This machine and this commit, now."""
    return Machine(
        commit=read_commit(ROOT),
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        processor=read_processor(),
        cores=count_cores(),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        system=platform.platform(terse=True),
        python=platform.python_version(),
    )


def read_commit(tree: Path) -> str:
    """The short commit, with a plus when files differ from it."""
    git = ["git", "-C", str(tree)]
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


def list_versions(entries: Sequence[Entry]) -> dict[str, str]:
    """Libraries and their versions over all contestants; different ones side by side."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        for library, number in entry.versions.items():
            found.setdefault(library, set()).add(number)
    return {library: " and ".join(sorted(found[library])) for library in sorted(found)}


def spell_versions(versions: Mapping[str, str]) -> str:
    """`duckdb 2.0.0, polars 2.1.0`."""
    return ", ".join(f"{library} {number}" for library, number in versions.items())


def spell_stages(stages: Mapping[str, float]) -> str:
    """`probe 0.41, measure 0.10`, in seconds."""
    return ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.items())


def table(header: Sequence[str], rows: Sequence[Sequence[str]], sizes: Sequence[float]) -> str:
    """A Markdown table whose last column has a bar for the size of each row."""
    longest = max(sizes, default=0.0) or 1.0
    lines = [
        "| " + " | ".join([*header, ""]) + " |",
        "| " + " | ".join(["---", *["---:"] * (len(header) - 1), ":---"]) + " |",
    ]
    for row, size in zip(rows, sizes, strict=True):
        bar = "█" * max(1, round(BAR * size / longest))
        lines.append("| " + " | ".join([*row, f"`{bar}`"]) + " |")
    return "\n".join(lines)


def write(out: Path, stem: str, record: Any, text: str) -> None:
    """JSON and Markdown of one run below `out`; the Markdown goes to stdout too."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{stem}.json").write_text(json.dumps(asdict(record), indent=1) + "\n")
    (out / f"{stem}.md").write_text(text)
    print(text)
