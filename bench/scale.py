"""Time and memory against the number of rows: a million, ten, a hundred, a billion.

    python bench/scale.py --most 1e8
    python bench/scale.py --memory-limit 1e9          # and every size again below a limit
    python bench/scale.py --sizes 1e6,3e6 --depth 50

Bias: evalkit's authors wrote this, and the logs come from evalkit's own generator: grouped by
user, one relevant row in twenty. Every run is the whole command in a fresh process with a warm
kernel cache and, as far as the machine's memory goes, a warm file cache. Its evaluation is what
the report says of itself (`meta.seconds`: first read to finished numbers); wall, CPU and peak
memory are what the operating system says of the process when it has ended (`os.wait4`). The floor
is Polars summing the same columns.

No time is shown before the counts are those of the generator, every number agrees to 1e-9 with
the hand-written Polars query (for logs up to --check rows), and all reports on one log are byte
for byte the same, those below a memory limit included.
"""

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from contestants import CONTESTANTS
from contestants.evalkit_command import compose
from harness import (
    BENCH,
    LABELS,
    MODEL,
    ROOT,
    TOLERANCE,
    Ended,
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
    make_parser,
    play,
    prepare_logs,
    read_references,
    refuse,
    run_process,
    spell_stages,
    start,
    table,
    tell,
    write,
)

SIZES = (10**6, 10**7, 10**8, 10**9)
ROWS_PER_FILE = 25_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """The runs of one size, without a memory limit or below one; medians of the rounds."""

    rows: int
    users: int
    pairs: int
    megabytes: float
    files: int
    memory_limit: int | None
    is_checked: bool  # against the hand-written query; counts always are
    floor: float
    floor_cpu: float
    seconds: float  # of the evaluation
    wall: float  # of the process
    cpu: float
    peak_bytes: int
    stages: dict[str, float]
    rounds: list[Round]

    @property
    def ns_per_row(self) -> float:
        """Nanoseconds of the evaluation for each ranked row."""
        return self.seconds / self.rows * 1e9


@dataclass(frozen=True, slots=True)
class Record:
    """All sizes."""

    machine: Machine
    depth: int
    threads: int
    seed: int
    runs: list[Run]


def main() -> int:
    """Exit status: 0, or 1 when an answer is wrong."""
    given = parse_arguments()
    machine = describe_machine()
    warm_kernels(given)
    runs: list[Run] = []
    for rows in given.sizes:
        (log,) = prepare_logs([shape_of(rows, given)], given.out)
        found = list(measure(log, given))
        for run in found:
            tell(f"{run.rows:,} rows: {run.seconds:.2f} s, {run.peak_bytes >> 20:,} MiB")
        runs.extend(found)
    record = Record(machine, given.depth, given.threads, given.seed, runs)
    write(given.out, f"scale-{runs[-1].rows}-{machine.commit}", record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """Options, with the sizes as whole numbers of users times depth."""
    parser = make_parser(__doc__)
    parser.add_argument("--most", type=count, default=SIZES[-1], help="The last size in rows.")
    parser.add_argument("--sizes", help="Rows, as 1e6,1e7; default: up to --most.")
    parser.add_argument("--depth", type=count, default=100, help="Ranks of each user.")
    parser.add_argument("--rounds", type=int, default=3, help="Of sizes up to 1e8; above, one.")
    parser.add_argument("--check", type=count, default=10**9, help="Check numbers up to here.")
    parser.add_argument(
        "--memory-limit", type=count, action="append", default=[], help="Bytes; may be repeated."
    )
    given = parser.parse_args()
    sizes = given.sizes.split(",") if given.sizes else SIZES
    given.sizes = [count(str(rows)) for rows in sizes if count(str(rows)) <= given.most]
    if not given.sizes:
        parser.error(f"no size is at most {given.most:,}")
    return given


def shape_of(rows: int, given: Namespace) -> Shape:
    """A log of about so many ranked rows."""
    files = max(2, -(-rows // ROWS_PER_FILE))
    return Shape(max(files, rows // given.depth), given.depth, files=files, seed=given.seed)


def warm_kernels(given: Namespace) -> None:
    """Two runs on a small log: kernels are compiled, libraries are in the file cache."""
    users = min(20_000, shape_of(given.sizes[-1], given).users)
    (log,) = prepare_logs([Shape(users, 5, files=2, seed=given.seed)], given.out)
    for _ in range(2):
        evaluate(log, given, None)


def measure(log: Log, given: Namespace) -> Iterator[Run]:
    """The runs of one size: without a limit, then below each limit."""
    rounds = given.rounds if log.rows <= SIZES[2] else 1
    limits = [None, *given.memory_limit]
    is_checked = log.rows <= given.check
    reference = read_references([log])[log.path] if is_checked else {}
    floors: list[Round] = []
    ended: dict[int | None, list[Ended]] = {limit: [] for limit in limits}
    task = Task("floor", CONTESTANTS["floor"].title, "floor", log.path, LABELS, given.threads)
    with start([task]) as (floor,):
        play(floor)  # fills the file cache
        for _ in range(rounds):
            play(floor)
            for limit in limits:
                ended[limit].append(evaluate(log, given, limit))
        floors = floor.timed
    refuse(find_problems(log, reference, [each for runs in ended.values() for each in runs]))
    for limit, runs in ended.items():
        reports = [json.loads(each.output) for each in runs]
        told = [report["meta"] for report in reports]
        yield Run(
            rows=log.rows,
            users=log.users,
            pairs=log.pairs,
            megabytes=log.megabytes,
            files=log.shape.files,
            memory_limit=limit,
            is_checked=is_checked,
            floor=median(each.wall for each in floors),
            floor_cpu=median(each.cpu for each in floors),
            seconds=median(meta["seconds"] for meta in told),
            wall=median(each.round.wall for each in runs),
            cpu=median(each.round.cpu for each in runs),
            peak_bytes=max(each.round.peak_bytes for each in runs),
            stages={
                stage: median(meta["stages"][stage] for meta in told) for stage in told[0]["stages"]
            },
            rounds=[each.round for each in runs],
        )


def evaluate(log: Log, given: Namespace, memory_limit: int | None) -> Ended:
    """One `evalkit run` in a fresh process.

    Raises:
        SystemExit: it ended with an error, which has been told.
    """
    with tempfile.TemporaryDirectory() as runs:
        command = compose(log.path, LABELS, given.threads, Path(runs))
        if memory_limit is not None:
            command += ["--memory-limit", str(memory_limit)]
        ended = run_process(command, environment([BENCH, ROOT], given.threads))
    if ended.status != 0:
        raise SystemExit(f"evalkit ended with exit status {ended.status}")
    return ended


def find_problems(log: Log, reference: dict[str, float], runs: Sequence[Ended]) -> Iterator[str]:
    """What the reports on one log have wrong."""
    report: dict[str, Any] = json.loads(runs[0].output)
    truth, ranked = report["counts"]["truth"], report["counts"]["models"][MODEL]
    wanted = {"truth rows": log.pairs, "truth users": log.users, "pairs": log.pairs}
    wanted |= {"ranked rows": log.rows, "ranked rows used": log.rows, "ranked users": log.users}
    found = {"truth rows": truth["rows"], "truth users": truth["users"], "pairs": truth["pairs"]}
    found |= {"ranked rows": ranked["rows"], "ranked rows used": ranked["rows_used"]}
    found |= {"ranked users": ranked["users"]}
    yield from differences("the generator", wanted, "the report", found, tolerance=0)
    values = {each["metric"]: each["value"] for each in report["metrics"]}
    yield from differences("the Polars query", reference, "the report", values)
    digests = {digest_report(each.output) for each in runs}
    if len(digests) > 1:
        yield f"{len(runs)} runs on {log.path.name} gave {len(digests)} different reports"


def render(record: Record) -> str:
    """The record as Markdown; bars show nanoseconds a row, which stay level if time is linear."""
    header = ["ranked rows", "truth pairs", "limit MB", "evaluation s", "wall s", "CPU s"]
    header += ["rows/s", "ns/row", "x floor", "peak MiB", "bytes/pair"]
    rows = []
    for run in record.runs:
        limit = "" if run.memory_limit is None else f"{run.memory_limit / 1e6:,.0f}"
        rows.append(
            [
                f"{run.rows:,}",
                f"{run.pairs:,}",
                limit,
                f"{run.seconds:.2f}",
                f"{run.wall:.2f}",
                f"{run.cpu:.2f}",
                f"{run.rows / run.seconds:,.0f}",
                f"{run.ns_per_row:.1f}",
                f"{run.seconds / run.floor:.1f}",
                f"{run.peak_bytes >> 20:,}",
                f"{run.peak_bytes / run.pairs:.0f}",
            ]
        )
    unlimited = [run for run in record.runs if run.memory_limit is None]
    lines = [
        f"**{len(LABELS)} numbers from {record.depth} ranks a user**, {record.threads} threads, "
        "each in a fresh process; bars: ns/row",
        "",
        table(header, rows, [run.ns_per_row for run in record.runs]),
        "",
        *(render_growth(one, other) for one, other in pairwise(unlimited)),
        *(
            f"- {run.rows:,} rows: floor {run.floor:.2f} s, CPU {run.floor_cpu:.2f}; stages: "
            f"{spell_stages(run.stages)}."
            for run in unlimited
        ),
        "",
        render_checks(record),
        "",
        f"{record.machine}.",
    ]
    return "\n".join(lines) + "\n"


def render_growth(one: Run, other: Run) -> str:
    """What one more truth pair and one more row cost between two sizes."""
    pairs = other.pairs - one.pairs
    more_bytes = (other.peak_bytes - one.peak_bytes) / pairs if pairs else 0.0
    more_ns = (other.seconds - one.seconds) / (other.rows - one.rows) * 1e9
    return (
        f"- {one.rows:,} to {other.rows:,} rows: {more_ns:.1f} ns for each further row, "
        f"{more_bytes:.0f} bytes for each further pair."
    )


def render_checks(record: Record) -> str:
    """Which answers were checked against what."""
    checked = list(dict.fromkeys(f"{run.rows:,}" for run in record.runs if run.is_checked))
    numbers = f"numbers equal to the Polars query's to {TOLERANCE:g} ({', '.join(checked)} rows)"
    return (
        "Checked: counts are the generator's; "
        f"{numbers if checked else 'numbers not checked'}; "
        "all reports on one log have the same bytes."
    )


if __name__ == "__main__":
    sys.exit(main())
