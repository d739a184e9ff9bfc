"""This commit against another one: the same call on the same logs, turn by turn.

    python bench/compare.py main                    # the working tree against main
    python bench/compare.py v0.1.0 HEAD --users 1e5 --order scattered
    python bench/compare.py HEAD                    # changes that are not committed yet
    python bench/compare.py main --models 10 --users 1e5
    python bench/compare.py main --models 2 --work segments
    python bench/compare.py main --work labels --users 2e5     # 1e7 impressions

Bias: both are evalkit, so nobody is favoured but by the choice of the log, which comes from the
generator of the working tree. Commits are checked out into temporary git worktrees; `evaluate` of
each runs in a process of its own on the same cores. Kernels of both are compiled by processes that
end before, into a temporary folder; one round more warms up. In the others the two take turns in
going first; the ratio is taken in each round, so that a slow minute of the machine hits both sides.

No time is shown before both give the same numbers, to the last digit or else to 1e-9, which is
then said.
"""

import contextlib
import signal
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from harness import (
    ROOT,
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
    make_parser,
    play,
    play_rounds,
    prepare_logs,
    read_commit,
    spell_stages,
    spell_versions,
    start,
    table,
    write,
)

WORKING_TREE = "the working tree"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two commits: medians, and the rounds behind them."""

    asked: str
    commit: str
    versions: dict[str, str]
    wall: float
    cpu: float
    peak_mib: int
    stages: dict[str, float]
    values: dict[str, float]
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """Both commits and what the second one takes of the first one's time."""

    machine: Machine
    shape: Shape
    pairs: int
    threads: int
    rounds: int
    are_same_digits: bool
    before: Side
    after: Side
    ratio: float
    ratios: list[float]  # of wall time, round by round
    cpu_ratio: float
    cpu_ratios: list[float]


def main() -> int:
    """Exit status: 0, or 1 when the two commits disagree."""
    given = parse_arguments()
    shape = Shape(
        given.users,
        given.depth,
        given.ids,
        given.order,
        form="labels" if given.work == "labels" else given.form,
        models=given.models,
        seed=given.seed,
    )
    (log,) = prepare_logs([shape], given.out)
    asked = (given.commit, given.other)
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(check_out(each)) for each in asked]
        kernels = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evalkit-kernels-")))
        tasks = [
            Task(
                name,
                name,
                f"evalkit_{given.work}",
                log.path,
                threads=given.threads,
                tree=tree,
                kernels=kernels / side,
            )
            for name, tree, side in zip(asked, trees, ("first", "second"), strict=True)
        ]
        with start(tasks) as entries:
            for entry in entries:
                play(entry)
        with start(tasks) as entries:
            play_rounds(entries, given.rounds, lambda: disagreements(entries))
        commits = [read_commit(tree) for tree in trees]
    record = compare(given, log, entries, commits)
    stem = f"compare-{commits[0]}-{commits[1]}-{given.work}-{log.shape.name}"
    write(given.out, stem, record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """Two commits and the log."""
    parser = make_parser(__doc__)
    parser.add_argument("commit", help="What git knows: a hash, a branch, a tag.")
    parser.add_argument("other", nargs="?", default=WORKING_TREE, help="Default: working tree.")
    parser.add_argument("--users", type=count, default=1_000_000)
    parser.add_argument("--depth", type=count, default=50, help="Ranks of each user.")
    parser.add_argument("--ids", choices=["int", "string"], default="int")
    parser.add_argument("--order", choices=["grouped", "scattered"], default="grouped")
    parser.add_argument("--form", choices=["rank", "score", "both", "list"], default="rank")
    parser.add_argument("--models", type=count, default=1)
    parser.add_argument("--work", choices=["call", "segments", "labels"], default="call")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    if given.rounds < 2:
        parser.error("a spread needs two rounds")
    return given


@contextlib.contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit; of the working tree, its own.

    Raises:
        SystemExit: git cannot check it out.
    """
    if commit == WORKING_TREE:
        yield ROOT
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds the stack
    with tempfile.TemporaryDirectory(prefix="evalkit-bench-") as folder:
        tree = Path(folder) / "tree"
        add = [*git, "add", "--quiet", "--detach", str(tree), commit]
        done = subprocess.run(add, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"git cannot check out {commit!r}: {done.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
            signal.signal(signal.SIGTERM, before)


def disagreements(entries: list[Entry]) -> Iterator[str]:
    """Where the two give different numbers, or code that nobody asked for was run."""
    one, other = entries
    yield from differences(one.task.title, one.values, other.task.title, other.values)
    for entry in entries:
        source = Path(entry.rounds[0].notes["source"])
        if not source.is_relative_to(entry.task.tree):
            yield f"{entry.task.title} has run {source}"


def compare(given: Namespace, log: Log, entries: list[Entry], commits: list[str]) -> Record:
    """What was measured."""
    before, after = (
        Side(
            asked=entry.task.title,
            commit=commit,
            versions=entry.versions,
            wall=entry.wall,
            cpu=entry.cpu,
            peak_mib=entry.peak_mib,
            stages=entry.stages,
            values=entry.values,
            rounds=entry.rounds,
        )
        for entry, commit in zip(entries, commits, strict=True)
    )
    turns = list(zip(entries[0].timed, entries[1].timed, strict=True))
    ratios = [two.wall / one.wall for one, two in turns]
    cpu_ratios = [two.cpu / one.cpu for one, two in turns]
    return Record(
        machine=describe_machine(),
        shape=log.shape,
        pairs=log.pairs,
        threads=given.threads,
        rounds=given.rounds,
        are_same_digits=before.values == after.values,
        before=before,
        after=after,
        ratio=median(ratios),
        ratios=ratios,
        cpu_ratio=median(cpu_ratios),
        cpu_ratios=cpu_ratios,
    )


def render(record: Record) -> str:
    """The record as Markdown, with a bar for each side."""
    sides = [record.before, record.after]
    rows = [
        [
            f"{each.asked} ({each.commit})" if each.asked != each.commit else each.asked,
            f"{each.wall:.3f}",
            f"{each.cpu:.3f}",
            f"{each.peak_mib:,}",
        ]
        for each in sides
    ]
    shape = record.shape
    same = "to the last digit" if record.are_same_digits else f"to {TOLERANCE:g}, digits differ"
    versions = [spell_versions(each.versions) for each in sides]
    lines = [
        f"**{shape.rows:,} rows** ({shape.models} x {shape.users:,} users x {shape.depth}, "
        f"{shape.ids} ids, {shape.order}, {shape.form}), {record.pairs:,} relevant pairs, "
        f"{len(record.after.values)} numbers, {record.threads} threads",
        "",
        table(["", "wall s", "CPU s", "peak MiB"], rows, [each.wall for each in sides]),
        "",
        f"- Wall time of the second over the first: {spell_ratios(record.ratios)}.",
        f"- CPU time of the second over the first: {spell_ratios(record.cpu_ratios)}.",
        *(f"- Stages of {each.asked}: {spell_stages(each.stages)} s." for each in sides),
        "",
        f"Medians of {record.rounds} rounds in turns after one that warms up; numbers are equal "
        f"{same}. {' / '.join(dict.fromkeys(versions))}.",
        "",
        f"{record.machine}.",
    ]
    return "\n".join(lines) + "\n"


def spell_ratios(ratios: list[float]) -> str:
    """The median of the rounds' ratios, and where the middle half and all of them lie."""
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return (
        f"{middle:.3f} in the median round, half of the rounds between {low:.3f} and {high:.3f}, "
        f"all between {min(ratios):.3f} and {max(ratios):.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
