"""How long seven metrics at five cutoffs take, against reading the file and against good queries;
and how long four metrics at ten take the libraries that people use.

    python bench/peers.py                  # once: the libraries, each in its own environment
    python bench/run.py                    # 1,000,000 users x 50 ranks; libraries: 100,000 users
    python bench/run.py --quick            # 100,000 users, libraries 10,000; below two minutes
    python bench/run.py --users 1e7 --depth 100 --only floor,evalkit_call

Bias: evalkit's authors wrote this, the logs and the queries. The logs come from evalkit's own
generator; their shape (grouped by user, one relevant row in twenty) suits the way evalkit works,
and --order scattered does not. The queries are as good as we could make them, and give the means
alone: no check for duplicates, gaps or lost users, which evalkit does in the same time. The
libraries get the fastest form of input that we found, read by Polars; what that costs is a column
of its own. Every contestant has a process of its own, the same cores and a warm file cache; one
round warms each up, the others are interleaved (of a library: with evalkit), and the medians are
shown. No time is shown before all numbers of all contestants agree to 1e-9.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from contestants import CONTESTANTS, CUTOFFS, FOUR, METRICS
from harness import (
    TOLERANCE,
    Entry,
    Log,
    Machine,
    Round,
    Shape,
    Task,
    WorkerStopped,
    count,
    describe_machine,
    differences,
    list_versions,
    make_parser,
    play,
    play_rounds,
    prepare_logs,
    spell_stages,
    spell_versions,
    start,
    table,
    tell,
    write,
)
from peers import interpreter, is_installed

ENGINES = ("floor", "evalkit_call", "evalkit_command", "duckdb_query", "polars_query")
PEERS = tuple(name for name, each in CONTESTANTS.items() if each.environment)


@dataclass(frozen=True, slots=True)
class Result:
    """A contestant's medians, and the rounds behind them."""

    name: str
    title: str
    versions: dict[str, str]
    wall: float
    cpu: float
    ratio: float | None  # of the wall time to the floor's, or to evalkit's on the same metrics
    peak_mib: int
    stages: dict[str, float]
    values: dict[str, float]
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contestants on one log."""

    users: int
    depth: int
    rows: int
    pairs: int
    megabytes: float
    ids: str
    order: str
    files: int
    seed: int
    threads: int
    rounds: int
    skipped: dict[str, str]
    versions: dict[str, str]
    results: list[Result]


@dataclass(frozen=True, slots=True)
class Record:
    """One run of the benchmark: what was measured, on what, and what came out."""

    machine: Machine
    engines: Comparison | None
    peers: Comparison | None


def main() -> int:
    """Exit status: 0, or 1 when two contestants disagree."""
    given = parse_arguments()
    machine = describe_machine()
    engines = peers = None
    texts = []
    if names := [name for name in given.only if name in ENGINES]:
        shape = shape_of(given, given.users, given.ids, given.order)
        (log,) = prepare_logs([shape], given.out)
        engines = compare_engines(given, log, names)
        texts.append(render_engines(engines))
    if names := [name for name in given.only if name in PEERS]:
        (log,) = prepare_logs([shape_of(given, given.peer_users)], given.out)
        peers = compare_peers(given, log, names)
        texts.append(render_peers(peers))
    record = Record(machine, engines, peers)
    stem = f"run-{given.users}x{given.depth}-{given.ids}-{given.order}-{machine.commit}"
    write(given.out, stem, record, "\n\n".join([*texts, f"{machine}."]) + "\n")
    return 0


def parse_arguments() -> Namespace:
    """Options, with counts such as 1e6 made whole."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, help="Default: 1e6, with --quick 1e5.")
    parser.add_argument("--depth", type=count, default=50, help="Ranks of each user.")
    parser.add_argument("--ids", choices=["int", "string"], default="int")
    parser.add_argument("--order", choices=["grouped", "scattered"], default="grouped")
    parser.add_argument("--files", type=count, default=1, help="Parquet files of each table.")
    parser.add_argument("--rounds", type=int, help="Default: 7, with --quick 3.")
    parser.add_argument("--peer-users", type=count, help="Default: 1e5, with --quick 1e4.")
    parser.add_argument("--peer-rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="Smaller, below two minutes.")
    everyone = (*ENGINES, *PEERS)
    parser.add_argument("--only", default=",".join(everyone), help=", ".join(everyone))
    given = parser.parse_args()
    given.users = given.users or (100_000 if given.quick else 1_000_000)
    given.rounds = given.rounds or (3 if given.quick else 7)
    given.peer_users = given.peer_users or (10_000 if given.quick else 100_000)
    given.only = given.only.split(",")
    if unknown := set(given.only) - set(everyone):
        parser.error(f"no contestant is called {', '.join(sorted(unknown))}")
    return given


def shape_of(given: Namespace, users: int, ids: str = "int", order: str = "grouped") -> Shape:
    """The log that the options ask for."""
    return Shape(users, given.depth, ids, order, files=given.files, seed=given.seed)


# ---------------------------------------------------------------- engines


def compare_engines(given: Namespace, log: Log, names: Sequence[str]) -> Comparison:
    """Seven metrics at all cutoffs that the lists reach."""
    labels = [f"{name}@{each}" for name in METRICS for each in CUTOFFS if each <= given.depth]
    tasks = [
        Task(name, CONTESTANTS[name].title, name, log.path, labels, given.threads) for name in names
    ]
    with start(tasks) as entries:
        running = [entry for entry in entries if not entry.skipped]
        play_rounds(running, given.rounds, lambda: disagreements(running))
    floor = next((entry.wall for entry in running if entry.task.name == "floor"), None)
    return summarize(given, log, given.rounds, entries, floor)


def disagreements(entries: Sequence[Entry]) -> Iterator[str]:
    """What two of the contestants see differently; every one has all labels."""
    answering = [entry for entry in entries if entry.task.name != "floor"]
    for entry in answering:
        if missing := [label for label in entry.task.labels if label not in entry.values]:
            yield f"{entry.task.title} lacks {', '.join(missing)}"
    for one, other in combinations(answering, 2):
        shared = {label: one.values[label] for label in one.task.labels if label in other.values}
        yield from differences(one.task.title, shared, other.task.title, other.values)


def render_engines(engines: Comparison) -> str:
    """The comparison as Markdown, with bars."""
    results = engines.results
    labels = next((each.values for each in results if each.values), {})
    rows = []
    for result in results:
        ratio = "" if result.ratio is None else f"{result.ratio:.1f}"
        rows.append(
            [result.title, f"{result.wall:.2f}", f"{result.cpu:.2f}", ratio, f"{result.peak_mib:,}"]
        )
    lines = [
        f"{describe_log(engines)}, {len(labels)} numbers of {len(METRICS)} metrics",
        "",
        table(
            ["", "wall s", "CPU s", "x floor", "peak MiB"], rows, [each.wall for each in results]
        ),
        *render_notes(engines),
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------- peers


def compare_peers(given: Namespace, log: Log, names: Sequence[str]) -> Comparison:
    """Four metrics at ten, each checked against evalkit with the parameters that it follows.

    The libraries come one after the other, each in turns with evalkit, since some of them hold
    gigabytes as long as their process lives.
    """
    missing = {
        CONTESTANTS[name].title: "not installed"
        for name in names
        if not is_installed(CONTESTANTS[name].environment, given.out)
    }
    for title, why in missing.items():
        tell(f"left out: {title}: {why}")
    numbers = f"evalkit, {len(METRICS)} metrics x {len(CUTOFFS)} cutoffs"
    threads = given.threads
    ours = [
        Task("evalkit_four", "evalkit, the same four", "evalkit_call", log.path, FOUR, threads),
        Task("evalkit_call", numbers, "evalkit_call", log.path, threads=threads),
    ]
    theirs = [
        Task(
            name,
            CONTESTANTS[name].title,
            name,
            log.path,
            CONTESTANTS[name].labels,
            threads,
            python=interpreter(CONTESTANTS[name].environment, given.out),
            needs_evalkit=False,
        )
        for name in names
        if CONTESTANTS[name].title not in missing
    ]
    wanted = ask_for_conventions([*ours, *theirs], log.path, threads)
    with start(ours) as entries:
        peers = [meet(task, entries, wanted, given.peer_rounds) for task in theirs]
        if not any(peer.rounds for peer in peers):
            play_rounds(entries, given.peer_rounds, lambda: misses(entries, wanted))
    everyone = [*entries, *peers]
    return summarize(given, log, given.peer_rounds, everyone, entries[0].wall, missing)


def meet(task: Task, ours: Sequence[Entry], wanted: dict[str, float], rounds: int) -> Entry:
    """One library in turns with evalkit; skipped if it cannot be started or does not survive."""
    with start([task]) as (peer,):
        if not peer.skipped:
            running = [*ours, peer]
            try:
                play_rounds(running, rounds, lambda: misses(running, wanted))
            except WorkerStopped as stopped:
                if stopped.entry is not peer:
                    raise
                peer.skipped = stopped.reason
                tell(f"left out: {stopped}")
    return peer


def ask_for_conventions(tasks: Sequence[Task], log: Path, threads: int) -> dict[str, float]:
    """evalkit's numbers under every convention that a task follows."""
    labels = list(dict.fromkeys(label for task in tasks for label in task.labels))
    with start([Task("conventions", "evalkit", "evalkit_call", log, labels, threads)]) as entries:
        play(entries[0])
    return entries[0].values


def misses(entries: Sequence[Entry], wanted: dict[str, float]) -> Iterator[str]:
    """Where a contestant differs from evalkit with the same conventions."""
    for entry in entries:
        expected = {label: wanted[label] for label in entry.task.labels}
        yield from differences("evalkit", expected, entry.task.title, entry.values)


def render_peers(peers: Comparison) -> str:
    """The comparison as Markdown, with bars."""
    rows = []
    for result in peers.results:
        split = ["", ""]
        if "metrics" in result.stages:
            reading = sum(result.stages.get(stage, 0.0) for stage in ("load", "convert"))
            split = [f"{reading:.2f}", f"{result.stages['metrics']:.2f}"]
        numbers = [f"{result.wall:.3f}", *split, f"{result.cpu:.2f}", f"{result.ratio:.1f}"]
        rows.append([result.title, *numbers, f"{result.peak_mib:,}"])
    header = ["", "wall s", "read, convert", "metrics", "CPU s", "x evalkit", "peak MiB"]
    four = ", ".join(label.partition("@")[0] for label in FOUR)
    lines = [
        f"{describe_log(peers)}; of libraries {four} at 10, each by its own convention",
        "",
        table(header, rows, [each.wall for each in peers.results]),
        *render_notes(peers),
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------- both


def summarize(
    given: Namespace,
    log: Log,
    rounds: int,
    entries: Sequence[Entry],
    unit: float | None,
    missing: dict[str, str] | None = None,
) -> Comparison:
    """Everything that was measured on one log; ratios are to `unit` seconds."""
    running = [entry for entry in entries if not entry.skipped]
    return Comparison(
        users=log.users,
        depth=log.shape.depth,
        rows=log.rows,
        pairs=log.pairs,
        megabytes=log.megabytes,
        ids=log.shape.ids,
        order=log.shape.order,
        files=log.shape.files,
        seed=log.shape.seed,
        threads=given.threads,
        rounds=rounds,
        skipped={
            **(missing or {}),
            **{entry.task.title: entry.skipped for entry in entries if entry.skipped},
        },
        versions=list_versions(running),
        results=[
            Result(
                name=entry.task.name,
                title=entry.task.title,
                versions=entry.versions,
                wall=entry.wall,
                cpu=entry.cpu,
                ratio=entry.wall / unit if unit else None,
                peak_mib=entry.peak_mib,
                stages=entry.stages,
                values=entry.values,
                rounds=entry.rounds,
            )
            for entry in running
        ],
    )


def describe_log(found: Comparison) -> str:
    """The first line above a table."""
    return (
        f"**{found.rows:,} ranked rows** ({found.users:,} users x {found.depth} ranks, "
        f"{found.ids} ids, {found.order}), {found.pairs:,} relevant pairs, "
        f"{found.megabytes:,.0f} MB of Parquet, {found.threads} threads"
    )


def render_notes(found: Comparison) -> Iterator[str]:
    """What stands below a table."""
    for title, why in found.skipped.items():
        yield f"\nLeft out: {title}: {why}."
    for result in found.results:
        if result.stages and "metrics" not in result.stages:
            slowest = max(one.wall for one in result.rounds[1:])
            yield (
                f"\nStages of {result.title}, seconds: {spell_stages(result.stages)}; "
                f"the slowest round took {slowest / result.wall:.2f} times the median."
            )
    yield (
        f"\nMedians of {found.rounds} interleaved rounds after one that warms up, warm file cache; "
        f"all numbers equal to {TOLERANCE:g}. {spell_versions(found.versions)}."
    )


if __name__ == "__main__":
    sys.exit(main())
