"""What more costs: more models over one truth, more metrics and cutoffs of one model.

    python bench/more.py                          # 200,000 users x 50 ranks
    python bench/more.py --users 1e6 --only models

Whole commands (`evalkit run`), CPU seconds by the operating system (`os.wait4`), in turn. Ten
models in one command stand beside ten commands of one model each. Metrics times cutoffs stand
beside one metric at one cutoff; what they cost more is told by the number.

Bias: evalkit against itself, on logs of its own generator. No time is shown before each model of
ten has the numbers that it has alone, every number of a narrow run is that of the widest, and those
of the usual metrics are, to 1e-9, those of the hand-written Polars query.
"""

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from contestants import CUTOFFS, METRICS
from harness import (
    ROOT,
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

FORTY = (
    *METRICS,
    *(
        f"{metric}(gain='{gain}')"
        for metric in ("nDCG", "DCG", "CG")
        for gain in ("exp2", "binary")
    ),
    *("DCG", "CG", "hits", "first_hit_rank", "partial-AUC", "nDCG(log_base=10)"),
    *("DCG(log_base=10)", "precision(over='length')"),
    *(f"RBP(patience={number / 20})" for number in range(10, 19)),
    *(f"F(beta={beta})" for beta in (0.25, 0.5, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)),
)
HUNDRED = tuple(range(1, 101))
WIDTHS = {  # metrics and cutoffs
    "one": (METRICS[:1], CUTOFFS[:1]),
    "usual": (METRICS, CUTOFFS),
    "metrics": (FORTY, CUTOFFS),
    "cutoffs": (METRICS, HUNDRED),
    "both": (FORTY, HUNDRED),
}
LOG = """
name = "{name}"
[truth]
path = "{log}/truth/*.parquet"
[metrics]
names = {labels}
"""
RANKINGS = """
[[rankings]]
model = "{model}"
path = "{log}/rankings/{model}/*.parquet"
"""


@dataclass(slots=True)
class Job:
    """A config, what it says and what its processes have cost."""

    name: str
    log: Log
    models: Sequence[str]
    labels: Sequence[str]
    values: dict[str, float] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    @property
    def timed(self) -> list[Round]:
        """The rounds after the first, which warms up; where there is no other, the first."""
        return self.rounds[1:] or self.rounds

    @property
    def cpu(self) -> float:
        """Median of the timed rounds."""
        return median(each.cpu for each in self.timed)

    def run(self, folder: Path, threads: int) -> None:
        """One process, to its end.

        Raises:
            SystemExit: it ended with an error, which has been told.
        """
        config = folder / f"{self.name}.toml"
        tables = [
            LOG.format(name=self.name, log=self.log.path, labels=json.dumps(list(self.labels))),
            *(RANKINGS.format(model=each, log=self.log.path) for each in self.models),
        ]
        config.write_text("".join(tables))
        command = [sys.executable, "-m", "evalkit", "run", str(config), "--json", "--quiet"]
        command += ["--out", str(folder / "runs"), "--threads", str(threads)]
        ended = run_process(command, environment([ROOT], threads))
        if ended.status:
            raise SystemExit(ended.status)
        self.rounds.append(ended.round)
        self.values = {
            f"{each['model']}: {each['metric']}": each["value"]
            for each in json.loads(ended.output)["metrics"]
        }


@dataclass(frozen=True, slots=True)
class Width:
    """Medians of one width; a further number is one beyond those of the narrowest."""

    name: str
    n_metrics: int
    n_cutoffs: int
    cpu: float
    wall: float
    peak_mib: int
    ms_a_number: float | None
    rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Models:
    """Median CPU seconds of all models in one command, of one after another, and of the ratio."""

    n_models: int
    together: float
    alone: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that was measured."""

    machine: Machine
    threads: int
    users: int
    depth: int
    models: Models | None
    widths: list[Width]


def main() -> int:
    """Exit status 0, or 1 when two answers differ."""
    given = parse_arguments()
    machine = describe_machine()
    (log,) = prepare_logs(
        [Shape(given.users, given.depth, models=given.models, seed=given.seed)], given.out
    )
    names = [f"model-{number + 1}" for number in range(given.models)]
    labels = labels_of("usual")
    together = Job("together", log, names, labels)
    alone = [Job(each, log, [each], labels) for each in names]
    widths = [Job(each, log, names[:1], labels_of(each)) for each in WIDTHS]
    jobs = [together, *alone] if given.only != "numbers" else []
    jobs += widths if given.only != "models" else []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds + 1):
            tell(f"round {number} of {given.rounds}")
            for job in jobs[:: 1 - number % 2 * 2]:
                job.run(Path(folder), given.threads)
            if number == 0:
                refuse(disagreements(together, alone, widths, read_references([log])[log.path]))
    record = Record(
        machine,
        given.threads,
        given.users,
        given.depth,
        compare_models(together, alone) if together.rounds else None,
        list(compare_widths(widths)) if widths[0].rounds else [],
    )
    write(given.out, f"more-{given.users}x{given.depth}-{machine.commit}", record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """Options."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=200_000)
    parser.add_argument("--depth", type=count, default=50, help="Ranks of each user.")
    parser.add_argument("--models", type=count, default=10)
    parser.add_argument("--rounds", type=int, default=3, help="Timed ones; 0: the first is timed.")
    parser.add_argument("--only", choices=("models", "numbers"), help="One of the two.")
    return parser.parse_args()


def labels_of(width: str) -> list[str]:
    """Every metric at every cutoff."""
    metrics, cutoffs = WIDTHS[width]
    return [f"{metric}@{cutoff}" for metric in metrics for cutoff in cutoffs]


def disagreements(
    together: Job,
    alone: Sequence[Job],
    widths: Sequence[Job],
    reference: dict[str, float],
) -> Iterator[str]:
    """What a job says otherwise than another one, or than the query."""
    for job in alone if together.rounds else ():
        yield from differences(job.name, job.values, together.name, together.values, 0)
    for job in widths if widths[0].rounds else ():
        yield from differences(job.name, job.values, widths[-1].name, widths[-1].values, 0)
    for job in (alone[0], widths[1]):
        own = {label.split(": ")[1]: value for label, value in job.values.items()}
        if job.rounds:
            yield from differences("the Polars query", reference, job.name, own)


def compare_models(together: Job, alone: Sequence[Job]) -> Models:
    """One command against many, round by round."""
    each_round = zip(*(job.timed for job in alone), strict=True)
    of_alone = [sum(each.cpu for each in rounds) for rounds in each_round]
    ratios = [each.cpu / total for each, total in zip(together.timed, of_alone, strict=True)]
    return Models(len(alone), together.cpu, median(of_alone), median(ratios))


def compare_widths(widths: Sequence[Job]) -> Iterator[Width]:
    """What a further number costs is the difference to the narrowest of each round."""
    one = widths[0]
    for job in widths:
        n_more = len(job.labels) - len(one.labels)
        more = [each.cpu - base.cpu for each, base in zip(job.timed, one.timed, strict=True)]
        metrics, cutoffs = WIDTHS[job.name]
        yield Width(
            job.name,
            len(metrics),
            len(cutoffs),
            job.cpu,
            median(each.wall for each in job.timed),
            max(each.peak_bytes for each in job.rounds) >> 20,
            median(more) / n_more * 1e3 if n_more else None,
            job.rounds,
        )


def render(record: Record) -> str:
    """The record as Markdown; bars show CPU seconds."""
    header = ["metrics x cutoffs", "numbers", "CPU s", "wall s", "peak MiB"]
    header += ["CPU ms a further number", "ns a number and user"]
    rows = [
        [
            f"{each.n_metrics} x {each.n_cutoffs}",
            f"{each.n_metrics * each.n_cutoffs:,}",
            *(f"{each.cpu:.2f}", f"{each.wall:.2f}", f"{each.peak_mib:,}"),
            *(
                ("", "")
                if each.ms_a_number is None
                else (f"{each.ms_a_number:.1f}", f"{each.ms_a_number / record.users * 1e6:.1f}")
            ),
        ]
        for each in record.widths
    ]
    title = f"**{record.users:,} users x {record.depth} ranks**, whole commands, {record.threads} "
    lines = [title + "threads", ""]
    if (models := record.models) is not None:
        lines += [
            f"{models.n_models} models over one truth, {len(labels_of('usual'))} numbers each: one "
            f"command {models.together:.2f} CPU s, {models.n_models} commands {models.alone:.2f}: "
            f"{models.ratio:.2f}.",
            "",
        ]
    if record.widths:
        lines += [table(header, rows, [each.cpu for each in record.widths]), ""]
    lines += [f"{record.machine}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
