"""The job of every night beside a plain run of the same logs: whole processes, step by step.

    python bench/nightly.py
    python bench/nightly.py --users 2e5 --rounds 3 --only plain,compared,nightly

Two models, seven metrics at five cutoffs. Every step adds to the one before: a baseline; three
segmentations and a cross (about 240 segments); search; two gates, against a model and against the
last run; curves and distributions. CPU seconds are the operating system's (`os.wait4`); the steps
take turns, and ratios to the plain run are taken in each round.

Bias: evalkit against itself. No time is shown before the numbers of all users are the same in every
step and, to 1e-9, those of the hand-written Polars query.
"""

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from contestants import CUTOFFS, METRICS
from harness import (
    MODEL,
    ROOT,
    TOLERANCE,
    Log,
    Machine,
    Round,
    Shape,
    count,
    describe_machine,
    differences,
    environment,
    make_parser,
    prepare_logs,
    read_references,
    refuse,
    run_process,
    table,
    tell,
    write,
)

OTHER = "model-2"
PLAIN = """
name = "{name}"
[truth]
path = "{log}/truth/*.parquet"
[[rankings]]
model = "{model}"
path = "{log}/rankings/{model}/*.parquet"
[[rankings]]
model = "{other}"
path = "{log}/rankings/{other}/*.parquet"
[metrics]
names = {metrics}
"""
SEGMENTS = """
[segments]
region = {{ path = "{users}", by = "region" }}
age = {{ path = "{users}", by = "age" }}
plan = {{ path = "{users}", by = "plan" }}
cross = [["region", "age"]]
"""
GATES = """
[[gates]]
metric = "nDCG@10"
model = "{other}"
max_drop = 1.0
baseline = "{model}"
[[gates]]
metric = "nDCG@10"
model = "{model}"
max_drop = 1.0
baseline = "last"
unclear = "pass"
[output]
formats = ["json", "parquet", "markdown", "html", "csv", "latex"]
"""
STEPS = {  # what each adds: tables, and lines of [statistics]
    "plain": ("", ""),
    "compared": ("", 'baseline = "{model}"\n'),
    "segments": (SEGMENTS, ""),
    "search": ("", "search = true\n"),
    "nightly": (GATES, ""),
    "graphs": ("", "curves = true\ndistributions = true\n"),
}


@dataclass(slots=True)
class Step:
    """A config and what its processes have cost."""

    name: str
    config: Path
    runs: Path
    rounds: list[Round] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of one step; ratios are to the plain run of the same round."""

    name: str
    cpu: float
    wall: float
    peak_mib: int
    cpu_ratio: float
    wall_ratio: float
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """A whole benchmark."""

    machine: Machine
    threads: int
    users: int
    depth: int
    results: list[Result]


def main() -> int:
    """Exit status 0, or 1 when a command goes wrong."""
    given = parse_arguments()
    machine = describe_machine()
    (log,) = prepare_logs([Shape(given.users, given.depth, models=2, seed=given.seed)], given.out)
    reference = read_references([log])[log.path]
    env = environment([ROOT], given.threads)
    with tempfile.TemporaryDirectory() as folder:
        make_users(Path(folder) / "users.parquet", log)
        steps = list(list_steps(given, log, Path(folder)))
        for number in range(given.rounds + 1):  # the first warms up, and is the last run of gates
            tell(f"round {number} of {given.rounds}")
            for step in steps[number % 2 * (len(steps) - 1) :: 1 - number % 2 * 2]:
                ended = run_process(
                    [sys.executable, "-m", "evalkit", "run", step.config, "--out", step.runs,
                     "--quiet", "--summary"],
                    env,
                )  # fmt: skip
                if ended.status:
                    return 1
                step.rounds.append(ended.round)
        refuse(disagreements(steps, reference))
    results = [summarize(step, steps[0]) for step in steps]
    record = Record(machine, given.threads, given.users, given.depth, results)
    stamp = machine.when.replace(":", "").replace("-", "")
    write(given.out, f"nightly-{stamp}", record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """The options."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=1_000_000)
    parser.add_argument("--depth", type=count, default=50)
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--only", default=",".join(STEPS), help="Steps, with commas; plain always.")
    given = parser.parse_args()
    given.only = {"plain", *given.only.split(",")}
    if unknown := given.only - set(STEPS):
        parser.error(f"no steps: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    return given


def make_users(path: Path, log: Log) -> None:
    """A users table with three columns whose labels hang on nothing but the user's id."""
    import polars as pl

    user = pl.col("user")
    users = pl.scan_parquet(f"{log.path}/truth/*.parquet").select(user.unique().sort())
    labels = {"region": user % 20, "age": user // 20 % 10, "plan": user // 200 % 5}
    users.with_columns(
        **{name: pl.lit(name) + label.cast(pl.String) for name, label in labels.items()}
    ).sink_parquet(path)


def list_steps(given: Namespace, log: Log, folder: Path) -> Iterator[Step]:
    """The asked steps, each with its config in the folder."""
    names = [f"{metric}@{cutoff}" for metric in METRICS for cutoff in CUTOFFS]
    tables, lines = PLAIN, "[statistics]\n"
    for name, (more_tables, more_lines) in STEPS.items():
        tables, lines = tables + more_tables, lines + more_lines
        if name not in given.only:
            continue
        config = folder / f"{name}.toml"
        config.write_text(
            (tables + lines).format(
                name=name, log=log.path, model=MODEL, other=OTHER, metrics=json.dumps(names),
                users=folder / "users.parquet",
            )
        )  # fmt: skip
        yield Step(name, config, folder / "runs" / name)


def disagreements(steps: list[Step], reference: dict[str, float]) -> Iterator[str]:
    """What the last run of a step says otherwise than the query or the plain run."""
    first: dict[tuple[str, str], float] | None = None
    for step in steps:
        report = json.loads((step.runs / "latest" / "report.json").read_text())
        found = {
            (each["model"], each["metric"]): each["value"]
            for each in report["metrics"]
            if each["segment"] is None
        }
        ours = {label: value for (model, label), value in found.items() if model == MODEL}
        yield from differences(step.name, ours, "the query", reference, TOLERANCE)
        first = first or found
        if found != first:
            yield f"{step.name}: other numbers than the plain run"


def summarize(step: Step, plain: Step) -> Result:
    """Medians of the timed rounds."""
    pairs = list(zip(step.rounds[1:], plain.rounds[1:], strict=True))
    return Result(
        step.name,
        median(each.cpu for each, _ in pairs),
        median(each.wall for each, _ in pairs),
        max(each.peak_bytes for each in step.rounds) >> 20,
        median(each.cpu / base.cpu for each, base in pairs),
        median(each.wall / base.wall for each, base in pairs),
        step.rounds,
    )


def render(record: Record) -> str:
    """The record as a table."""
    head = ["step", "CPU s", "wall s", "peak MiB", "CPU / plain", "wall / plain"]
    cells = [
        [
            each.name, f"{each.cpu:.2f}", f"{each.wall:.2f}", str(each.peak_mib),
            f"{each.cpu_ratio:.2f}", f"{each.wall_ratio:.2f}",
        ]
        for each in record.results
    ]  # fmt: skip
    title = f"{record.users:,} users x {record.depth}, two models, {record.threads} threads"
    return f"{title}\n\n" + table(head, cells, [each.cpu for each in record.results])


if __name__ == "__main__":
    sys.exit(main())
