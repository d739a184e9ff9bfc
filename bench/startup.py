"""What it costs to start: CPU seconds of whole processes, before and after kernels are compiled.

    python bench/startup.py
    python bench/startup.py --only version,help,tiny --rounds 15
    python bench/startup.py --users 1e7 --only whole

Bias: evalkit's authors wrote this. Every row is a command in a fresh process, with Python's own
compiled files and the system's file cache warm; CPU seconds and peak memory are the operating
system's (`os.wait4`), of the process and of those that it waited for. The kernel cache is a
temporary folder: full, or empty before each round where the row says so. Rounds are interleaved,
medians are shown.

No time is shown before every command has ended well, all reports on one log are byte for byte the
same, and the numbers agree to 1e-9 with the hand-written Polars query.
"""

import json
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from contestants.evalkit_command import compose
from harness import (
    BENCH,
    KERNELS,
    LABELS,
    ROOT,
    TOLERANCE,
    Ended,
    Entry,
    Log,
    Machine,
    Round,
    Shape,
    Task,
    count,
    describe_machine,
    differences,
    digest_report,
    environment,
    list_versions,
    make_parser,
    play,
    prepare_logs,
    read_references,
    refuse,
    run_process,
    spell_versions,
    start,
    table,
    write,
)

TITLES = {
    "version": "evalkit --version",
    "help": "evalkit --help",
    "tiny": "evalkit run, tiny log",
    "first": "evalkit run, tiny log, nothing compiled",
    "warm": "evalkit warm, nothing compiled",
    "again": "evalkit warm, all compiled",
    "whole": "evalkit run, large log",
}
EMPTY_FIRST = ("first", "warm")
CALL = "evalkit.evaluate, large log, warm process"


@dataclass(slots=True)
class Command:
    """A command and what its processes have cost."""

    name: str
    command: list[str]
    log: Log | None = None
    ended: list[Ended] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of one command."""

    name: str
    title: str
    cpu: float
    wall: float
    peak_mib: int
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """All commands, and the call in a warm process that the last one is compared with."""

    machine: Machine
    threads: int
    users: int
    depth: int
    seed: int
    versions: dict[str, str]
    results: list[Result]
    call: Result | None


def main() -> int:
    """Exit status: 0, or 1 when a command goes wrong."""
    given = parse_arguments()
    machine = describe_machine()
    shapes = [Shape(1000, 10, seed=given.seed)]
    if "whole" in given.only:
        shapes.append(Shape(given.users, given.depth, seed=given.seed))
    made = prepare_logs(shapes, given.out)
    logs = {"tiny": made[0], "first": made[0], "whole": made[-1]}
    references = read_references(made)
    with tempfile.TemporaryDirectory() as folder:
        commands = list(list_commands(given, logs, Path(folder) / "runs"))
        tasks = [
            Task("call", CALL, "evalkit_call", each.log.path, threads=given.threads)
            for each in commands
            if each.name == "whole" and each.log is not None
        ]
        with start(tasks) as entries:
            play_rounds(given, commands, entries, Path(folder))
        refuse(find_problems(commands, entries, references))
    record = Record(
        machine,
        given.threads,
        given.users,
        given.depth,
        given.seed,
        list_versions(entries),
        [summarize(each) for each in commands],
        summarize_call(entries[0]) if entries else None,
    )
    write(given.out, f"startup-{machine.commit}", record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """Options; counts such as 1e6 made whole."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=1_000_000, help="Of the large log.")
    parser.add_argument("--depth", type=count, default=50, help="Ranks of each user.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold-rounds", type=int, default=3, help="Of what compiles kernels.")
    parser.add_argument("--only", default=",".join(TITLES), help=", ".join(TITLES))
    given = parser.parse_args()
    given.only = given.only.split(",")
    if unknown := set(given.only) - set(TITLES):
        parser.error(f"nothing is called {', '.join(sorted(unknown))}")
    return given


def list_commands(given: Namespace, logs: dict[str, Log], runs: Path) -> Iterator[Command]:
    """The command lines that were asked for."""
    evalkit = [sys.executable, "-m", "evalkit"]
    plain = {
        "version": [*evalkit, "--version"],
        "help": [*evalkit, "--help"],
        "warm": [*evalkit, "warm", "--quiet"],
        "again": [*evalkit, "warm", "--quiet"],
    }
    for name in TITLES:
        if name in given.only:
            log = logs.get(name)
            if log is None:
                yield Command(name, plain[name])
            else:
                yield Command(name, compose(log.path, LABELS, given.threads, runs), log)


def play_rounds(
    given: Namespace, commands: list[Command], entries: list[Entry], folder: Path
) -> None:
    """Interleaved rounds after one that is not counted; it fills the cache and is not cold."""
    full, empty = folder / "full", folder / "empty"
    for number in range(given.rounds + 1):
        for measured in commands:
            is_cold = measured.name in EMPTY_FIRST
            if (is_cold and number > given.cold_rounds) or (number == 0 and is_cold):
                continue
            if is_cold:
                shutil.rmtree(empty, ignore_errors=True)
            kernels = empty if is_cold else full
            kernels.mkdir(exist_ok=True)
            variables = environment([BENCH, ROOT], given.threads, **{KERNELS: kernels})
            ended = run_process(measured.command, variables)
            if ended.status != 0:
                command = " ".join(measured.command)
                raise SystemExit(f"exit status {ended.status} of {command}")
            if number > 0:
                measured.ended.append(ended)
        for entry in entries:
            play(entry)


def find_problems(
    commands: list[Command], entries: list[Entry], references: Mapping[Path, Mapping[str, float]]
) -> Iterator[str]:
    """What the commands said that they should not have said."""
    digests: dict[Path, set[str]] = {}
    for command in commands:
        outputs = [ended.output for ended in command.ended]
        if command.log is not None:
            digests.setdefault(command.log.path, set()).update(map(digest_report, outputs))
            values = {row["metric"]: row["value"] for row in json.loads(outputs[0])["metrics"]}
            reference = references[command.log.path]
            yield from differences("the Polars query", reference, TITLES[command.name], values)
            for entry in entries if command.name == "whole" else []:
                yield from differences(CALL, entry.values, TITLES[command.name], values, 0)
        elif len(set(outputs)) > 1 and command.name not in EMPTY_FIRST:
            yield f"{TITLES[command.name]} says something else from time to time"
        elif not outputs[0].strip():
            yield f"{TITLES[command.name]} says nothing"
    for path, found in digests.items():
        if len(found) > 1:
            yield f"runs on {path.name} gave {len(found)} different reports"


def summarize(command: Command) -> Result:
    """Medians of a command."""
    rounds = [each.round for each in command.ended]
    return Result(
        name=command.name,
        title=TITLES[command.name],
        cpu=median(each.cpu for each in rounds),
        wall=median(each.wall for each in rounds),
        peak_mib=max(each.peak_bytes for each in rounds) >> 20,
        rounds=rounds,
    )


def summarize_call(entry: Entry) -> Result:
    """Medians of the call in a warm process."""
    return Result("call", CALL, entry.cpu, entry.wall, entry.peak_mib, entry.timed)


def render(record: Record) -> str:
    """The record as Markdown; bars show CPU seconds."""
    results = [*record.results, *([record.call] if record.call else [])]
    rows = [
        [each.title, f"{each.cpu:.3f}", f"{each.wall:.3f}", f"{each.peak_mib:,}"]
        for each in results
    ]
    lines = [
        f"**What starting costs**, {record.threads} threads; the large log has "
        f"{record.users:,} users x {record.depth} ranks",
        "",
        table(["", "CPU s", "wall s", "peak MiB"], rows, [each.cpu for each in results]),
        "",
    ]
    whole = [each for each in record.results if each.name == "whole"]
    if whole and record.call is not None:
        lines += [
            f"The whole command takes {whole[0].wall - record.call.wall:.2f} s more wall time than "
            f"the call in a warm process, and {whole[0].cpu - record.call.cpu:.2f} s more CPU.",
            "",
        ]
    spread = ", ".join(f"{each.title} {len(each.rounds)}" for each in results)
    lines += [
        f"Medians of interleaved rounds ({spread}). Reports on one log are the same bytes; their "
        f"numbers equal those of the Polars query to {TOLERANCE:g}. "
        f"{spell_versions(record.versions)}.",
        "",
        f"{record.machine}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
