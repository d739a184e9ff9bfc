"""What more threads bring: one, all cores, more than cores, and what the machine itself gives.

    python bench/threads.py                          # 1,000,000 users x 50 ranks
    python bench/threads.py --users 2e5 --rounds 9

Bias: evalkit's authors wrote this. Threads of one process share memory, caches and, on rented
machines, often one core's units. So beside evalkit stand two things that do not depend on how it
shares its work: Polars decoding the columns with one thread and with all, and as many evalkits as
there are cores, of one thread each, at the same time. What these do not gain, threads cannot.

The serial share is looked at from outside: processor time that passes while one thread alone of the
process can run, over all of it. A thread that waits for a core can run, so other load on the
machine moves it little. Amdahl's law makes of it the most that more cores can gain.

No time is shown before all reports are the same bytes and agree to 1e-9 with the hand-written
Polars query.
"""

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Thread

from harness import (
    LABELS,
    TOLERANCE,
    Entry,
    Log,
    Machine,
    Round,
    Shape,
    Task,
    count,
    describe_machine,
    differences,
    list_versions,
    make_parser,
    play,
    play_together,
    prepare_logs,
    read_references,
    refuse,
    spell_versions,
    start,
    table,
    write,
)

MORE_THAN_CORES = 4  # times as many
MANY_CORES = 16  # that Amdahl's law is asked for
LOOK_EVERY = 0.0007  # seconds
TITLES = {"evalkit_call": "evalkit, threads: {}", "floor": "floor: Polars decodes, threads: {}"}
TWINS = "evalkit, one thread for each core, all at once"


@dataclass(frozen=True, slots=True)
class Line:
    """Medians in seconds; `gain` is the work done in the same time, against one thread's."""

    title: str
    wall: float
    cpu: float | None
    gain: float
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that was measured."""

    machine: Machine
    users: int
    depth: int
    seed: int
    threads: int
    rounds: int
    versions: dict[str, str]
    lines: list[Line]
    serial_share: float  # median; NaN where nobody can look


def main() -> int:
    """Exit status: 0, or 1 when two answers differ."""
    given = parse_arguments()
    machine = describe_machine()
    (log,) = prepare_logs([Shape(given.users, given.depth, seed=given.seed)], given.out)
    reference = read_references([log])[log.path]
    in_turns, at_once = list_tasks(log, given), list_twins(log, given)
    with start([*in_turns, *at_once]) as entries:
        turns, twins = entries[: len(in_turns)], entries[len(in_turns) :]
        together = play_rounds(turns, twins, given.rounds, reference)
        (all_cores,) = (each for each in turns if each.task.name == f"evalkit_call-{given.threads}")
        shares = [measure_serial_share(all_cores) for _ in range(given.rounds)]
        versions = list_versions(entries)
    record = summarize(machine, given, versions, turns, together, median(shares))
    stem = f"threads-{given.users}x{given.depth}-{machine.commit}"
    write(given.out, stem, record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """Options."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=1_000_000)
    parser.add_argument("--depth", type=count, default=50, help="Ranks of each user.")
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


def list_tasks(log: Log, given: Namespace) -> list[Task]:
    """What plays in turns, each alone."""
    numbers = {
        "evalkit_call": (1, given.threads, MORE_THAN_CORES * given.threads),
        "floor": (1, given.threads),
    }
    return [
        Task(f"{name}-{n}", TITLES[name].format(n), name, log.path, LABELS, n)
        for name, threads in numbers.items()
        for n in dict.fromkeys(threads)
    ]


def list_twins(log: Log, given: Namespace) -> list[Task]:
    """An evalkit of one thread for each core."""
    cores = sorted(os.sched_getaffinity(0))[: given.threads]
    return [
        Task(f"core-{core}", TWINS, "evalkit_call", log.path, LABELS, 1, cores=[core])
        for core in cores
    ]


def play_rounds(
    turns: Sequence[Entry],
    twins: Sequence[Entry],
    rounds: int,
    reference: Mapping[str, float],
) -> float:
    """Interleaved rounds, after one that warms up and is checked.

    Returns:
        Median wall seconds in which all twins ended.
    """
    walls = []
    for number in range(rounds + 1):
        first = number % len(turns)
        for entry in [*turns[first:], *turns[:first]]:
            play(entry)
        walls.append(play_together(twins))
        if number == 0:
            refuse(disagreements([*turns, *twins], reference))
    return median(walls[1:])


def disagreements(entries: Sequence[Entry], reference: Mapping[str, float]) -> Iterator[str]:
    """Where evalkit gives another report, or other numbers than the query."""
    ours = [entry for entry in entries if entry.task.contestant == "evalkit_call"]
    for entry in ours:
        if entry.digest != ours[0].digest:
            yield f"{entry.task.title} gives another report than {ours[0].task.title}"
    yield from differences("the Polars query", reference, ours[0].task.title, ours[0].values)


def summarize(
    machine: Machine,
    given: Namespace,
    versions: dict[str, str],
    turns: Sequence[Entry],
    together: float,
    serial_share: float,
) -> Record:
    """Medians, and what each has gained against one thread of its kind."""
    one = {entry.task.contestant: entry.wall for entry in reversed(turns) if is_single(entry)}
    lines = [
        Line(
            entry.task.title,
            entry.wall,
            entry.cpu,
            one[entry.task.contestant] / entry.wall,
            entry.rounds,
        )
        for entry in turns
    ]
    gain = given.threads * one["evalkit_call"] / together
    lines.append(Line(TWINS, together, None, gain, []))
    return Record(
        machine,
        given.users,
        given.depth,
        given.seed,
        given.threads,
        given.rounds,
        versions,
        lines,
        serial_share,
    )


def measure_serial_share(entry: Entry) -> float:
    """Share of the processor time of one more round in which one thread alone can run; NaN where
    the system has no `/proc`."""
    tasks = Path(f"/proc/{entry.process.pid}/task")
    if not tasks.exists():
        return float("nan")
    n_timed = len(entry.rounds)
    clock = (~entry.process.pid << 3) | 2  # of all threads of a process, as Linux numbers clocks
    begin = last = time.clock_gettime(clock)
    alone = 0.0
    playing = Thread(target=play, args=[entry])
    playing.start()
    while playing.is_alive():
        n_runnable = count_runnable(tasks)
        now = time.clock_gettime(clock)
        alone += (now - last) * (n_runnable <= 1)
        last = now
        time.sleep(LOOK_EVERY)
    del entry.rounds[n_timed:]  # it was looked at, which takes time
    return alone / (last - begin)


def count_runnable(tasks: Path) -> int:
    """Threads that have work, be it on a core or waiting for one."""
    n_runnable = 0
    for name in os.listdir(tasks):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            stat = (tasks / name / "stat").read_bytes()
            n_runnable += stat.rpartition(b") ")[2].startswith(b"R")
    return n_runnable


def is_single(entry: Entry) -> bool:
    """Whether one thread played."""
    return entry.task.threads == 1


def render(record: Record) -> str:
    """The record as Markdown; bars show how much work is done in the same time."""
    rows = [
        [
            line.title,
            f"{line.wall:.3f}",
            "" if line.cpu is None else f"{line.cpu:.3f}",
            f"{line.gain:.2f}",
        ]
        for line in record.lines
    ]
    share = record.serial_share
    most = [f"{1 / (share + (1 - share) / n):.2f} on {n}" for n in (record.threads, MANY_CORES)]
    lines = [
        f"**{record.users:,} users x {record.depth} ranks**, {len(LABELS)} numbers; how much is "
        "done in the same time, against one thread",
        "",
        table(["", "wall s", "CPU s", "x one thread"], rows, [line.gain for line in record.lines]),
        "",
        f"While one thread alone has work, {share:.1%} of the processor time pass: by Amdahl's law "
        f"cores gain at most {' and '.join(most)}.",
        "",
        f"Medians of {record.rounds} interleaved rounds after one that warms up. Reports are the "
        f"same bytes; numbers equal those of the Polars query to {TOLERANCE:g}. "
        f"{spell_versions(record.versions)}.",
        "",
        f"{record.machine}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
